package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gorun/hostfile"
	"gorun/launcher"
	"gorun/preflight"
	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

// surveyOf is what hosts have told that offer so many slots, in a form like "a:8 b:8 c:?":
// ? only the host knows; ! after it: it cannot be reached; * after it: it is unfit.
func surveyOf(t *testing.T, text string) launcher.Survey {
	t.Helper()
	var s launcher.Survey
	for i, field := range strings.Fields(text) {
		name, slots, _ := strings.Cut(field, ":")
		h := launcher.Surveyed{Name: name, Offer: launcher.Offer{Name: name, Slots: -1, Limit: -1, Origin: "test"}}
		slots, lost := strings.CutSuffix(slots, "!")
		slots, unfit := strings.CutSuffix(slots, "*")
		if n := 0; slots != "?" {
			if _, err := fmt.Sscan(slots, &n); err != nil {
				t.Fatal(err)
			}
			h.Offer.Slots, h.Offer.Limit = n, n
		}
		if lost {
			h.Err = errors.New("no route to host")
		} else {
			f := factstest.Plain(name, i+1)
			for k := range f.Disks {
				if f.Disks[k].Use == facts.DiskShm && unfit {
					f.Disks[k].Size, f.Disks[k].Free = 4096, 0
				}
			}
			h.Facts, _ = json.Marshal(f)
			if h.Offer.Slots < 0 {
				h.Offer.Slots, h.Offer.Limit = 4, 4
			}
		}
		s.Hosts = append(s.Hosts, h)
	}
	return s
}

// surveyorOf is one for the options that a command line asks for, which has no hosts; the job
// is that of the survey's hosts.
func surveyorOf(t *testing.T, survey launcher.Survey, args ...string) *surveyor {
	t.Helper()
	c := &command{env: environment{"HOME=" + t.TempDir(), "PATH=/bin"}}
	o, err := c.options(args)
	if err != nil {
		t.Fatal(err)
	}
	job, err := c.newJob(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(job.Hosts) == 0 {
		for _, h := range survey.Hosts {
			job.Hosts = append(job.Hosts, hostfile.Host{Name: h.Name, Slots: h.Offer.Slots})
		}
	}
	return &surveyor{o: o, job: job, now: time.Now}
}

// outcome is what a judge says, in a line.
func outcome(s *surveyor, survey launcher.Survey, r launcher.Ruling, err error) string {
	if e, ok := errors.AsType[*verdictError](err); ok {
		return fmt.Sprintf("%d %s", e.code(), e.page.decision.Headline())
	} else if err != nil {
		return fmt.Sprintf("%d %v", errorCode(err), err)
	}
	job, offers := s.job, assumed(survey)
	if r.NP != nil {
		job.Apps = slices.Clone(job.Apps)
		for i, n := range r.NP {
			job.Apps[i].NP = n
		}
	}
	var chosen []launcher.Offer
	for k, i := range r.Use {
		o := offers[i]
		if n := r.Slots[k]; n > 0 { // as the launcher does it
			o.Slots, o.Limit = min(o.Slots, n), min(o.Limit, n)
		}
		chosen = append(chosen, o)
	}
	layout, err := job.Place(chosen)
	if err != nil {
		return "the ruling cannot be carried out: " + err.Error()
	}
	var out []string
	for k, n := range layout.Count {
		out = append(out, fmt.Sprintf("%s=%d", chosen[k].Name, n))
	}
	return strings.Join(out, " ")
}

func TestJudge(t *testing.T) {
	const app = "--preflight quick ./app"
	tests := []struct{ name, hosts, args, want string }{
		{"all-good", "a:4 b:4", app, "a=4 b=4"},
		{"np", "a:4 b:4", "-np 6 " + app, "a=4 b=2"},
		{"bad", "a:4 b:4*", app, "125 no-go unless b is left out: then 1 host, 4 ranks instead of 8 (--drop-bad allows that)"},
		{"bad-by-default", "a:4 b:4*", "./app", "125 no-go unless b is left out: then 1 host, 4 ranks instead of 8 (--drop-bad allows that)"},
		{"lost", "a:4 b:4!", app, "125 no-go unless b is left out: then 1 host, 4 ranks instead of 8 (--drop-bad allows that)"},
		{"all-bad", "a:4* b:4*", "--drop-bad " + app, "125 no-go: no host is left that could be used"},
		{"all-bad-only", "a:4* b:4*", "--preflight-only", "3 no-go: no host is left that could be used"},
		{"unneeded-steps-in", "a:4* b:4", "-np 4 " + app, "b=4"},
		{"bad-only", "a:4 b:4!", "--preflight-only", "4 no-go unless b is left out: then 1 host, 4 ranks instead of 8 (--drop-bad allows that)"},
		{"drop", "a:4 b:4! c:4", "--drop-bad " + app, "a=4 c=4"},
		{"drop-with-np", "a:4 b:4! c:4", "--drop-bad -np 12 " + app, "a=4 c=4"},
		{"drop-with-room", "a:4 b:4! c:8", "--drop-bad -np 12 " + app, "a=4 c=8"},
		{"drop-unneeded", "a:4 b:4 c:4!", "--drop-bad -np 8 " + app, "a=4 b=4"},
		{"drop-all", "a:4! b:4!", "--drop-bad " + app, "125 could not check: no host could be reached"},
		{"none-reached", "a:?! b:?!", "--preflight-only -np 2", "125 could not check: no host could be reached"},
		{"none-reached-no-np", "a:?! b:?!", "--preflight-only", "125 could not check: no host could be reached"},
		{"slots-not-known", "a:? b:?!", "--drop-bad " + app, "a=4"},
		{"without-slots", "a:4 b:0 c:4", app, "a=4 c=4"},
		{"without-slots-bad", "a:4 b:0!", "--drop-bad " + app, "a=4"},
		{"min-hosts", "a:4 b:4! c:4", "--min-hosts 2 " + app, "a=4 c=4"},
		{"min-hosts-not-met", "a:4 b:4! c:4", "--min-hosts 3 " + app, "125 no-go: 2 good hosts would be used, and --min-hosts asks for 3"},
		{"spare-idle", "a:4 b:4 c:4", "--spares 1 " + app, "a=4 b=4"},
		{"spare-stands-in", "a:4 b:4! c:4", "--spares 1 " + app, "a=4 c=4"},
		{"spare-larger", "a:4 b:4! c:8", "--spares 1 " + app, "a=4 c=4"},
		{"spare-larger-with-np", "a:4 b:4! c:8", "--spares 1 -np 8 " + app, "a=4 c=4"},
		{"spare-only", "a:4 b:4! c:4", "--spares 1 --preflight-only", "0 go without b: 2 hosts, 8 ranks, c stands in"},
		{"spares-and-drop", "a:4! b:4! c:4", "--spares 1 --drop-bad " + app, "c=4"},
		{"per-host", "a:4 b:4! c:4", "--drop-bad -ppn 2 " + app, "a=2 c=2"},
		{"per-host-spare", "a:4 b:4! c:4", "--spares 1 -ppn 2 " + app, "a=2 c=2"},
		{"per-host-np", "a:4 b:4! c:4 d:4", "--spares 1 -ppn 2 -np 6 " + app, "a=2 d=2 c=2"},
		{"per-host-too-many", "a:4 b:4", "-ppn 5 " + app, "2 need 10 slots, hosts offer 8"},
		{"oversubscribed", "a:4 b:4! c:4", "--drop-bad --oversubscribe -np 12 " + app, "a=6 c=6"},
		{"by-node", "a:4 b:4! c:4", "--drop-bad --map-by node -np 3 " + app, "a=2 c=1"},
		{"too-many-ranks", "a:4 b:4", "-np 9 " + app, "2 need 9 slots, hosts offer 8"},
		{"too-many-without-spare", "a:4 b:4", "--spares 1 -np 8 " + app, "2 need 8 slots, hosts offer 4"},
		{"programs", "a:4 b:4", "--preflight quick -np 2 ./x : -np 4 ./y", "a=4 b=2"},
		{"programs-fewer", "a:4 b:4! c:4", "--drop-bad -np 2 ./x : -np 4 ./y", "a=4 c=2"},
		{"programs-too-few", "a:4 b:4!", "--drop-bad -np 2 ./x : -np 4 ./y", "125 no-go: the job has 6 ranks, and the good hosts offer 4 slots"},
		{"programs-own-hosts", "a:4 b:4! c:8", "--drop-bad -np 4 -H a:4 ./x : -np 4 -H b:4,c:8 ./y", "a=4 c=4"},
		{"programs-own-hosts-too-few", "a:4 b:4! c:8", "--drop-bad -np 4 -H b:4 ./x : -np 4 -H a:4,c:8 ./y",
			"125 no-go: ./x cannot run without b: need 4 slots, hosts offer 0"},
		{"programs-own-hosts-only", "a:4 b:4! c:8", "--preflight-only -np 4 -H b:4 ./x : -np 4 -H a:4,c:8 ./y",
			"3 no-go: ./x cannot run without b: need 4 slots, hosts offer 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			survey := surveyOf(t, tt.hosts)
			s := surveyorOf(t, survey, strings.Fields(tt.args)...)
			r, err := s.judge(context.Background(), survey)
			if got := outcome(s, survey, r, err); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A host that does not stand in for another is limited by what it offers only.
func TestRulingSlots(t *testing.T) {
	survey := surveyOf(t, "a:8 b:4! c:8")
	r, err := surveyorOf(t, survey, strings.Fields("--spares 1 ./app")...).judge(context.Background(), survey)
	if err != nil || !slices.Equal(r.Use, []int{0, 2}) || !slices.Equal(r.Slots, []int{0, 4}) {
		t.Errorf("got %+v, %v; want hosts 0 and 2, the last with 4 slots", r, err)
	}
}

// What is well is told with -v only.
func TestJudgeSays(t *testing.T) {
	survey := surveyOf(t, "a:4 b:4")
	for _, verbose := range []bool{false, true} {
		args := []string{"--preflight", "quick", "./app"}
		if verbose {
			args = slices.Insert(args, 0, "-v")
		}
		r, err := surveyorOf(t, survey, args...).judge(context.Background(), survey)
		told := slices.ContainsFunc(r.Notes, func(line string) bool { return line == "preflight: go: 2 hosts, 8 ranks" })
		if err != nil || r.Warnings != nil || told != verbose {
			t.Errorf("-v %v: got %q, warnings %q, %v", verbose, r.Notes, r.Warnings, err)
		}
	}
}

// Each host is asked for what the programs need that may run there.
func TestOrders(t *testing.T) {
	s := surveyorOf(t, launcher.Survey{}, strings.Fields("-x PATH=/opt/bin --preflight quick --prefix /opt/mpi -np 1 -H a -wdir /x ./x : -np 1 -H a,b -wdir /y ./y")...)
	for host, want := range map[string]facts.Order{
		"a": {Dir: "/x", Programs: []string{"./x", "/y/y"}, Path: "/opt/bin"},
		"b": {Dir: "/y", Programs: []string{"./y"}},
		"":  {Dir: "/x", Programs: []string{"./x", "/y/y"}, Path: "/opt/bin"},
	} {
		got := s.o.order(s.job, host)
		if got.Dir != want.Dir || !slices.Equal(got.Programs, want.Programs) || got.Path != want.Path || got.Prepend != "/opt/mpi/bin" {
			t.Errorf("%q: got %+v; want %+v", host, got, want)
		}
	}
	all, some, err := s.o.orders(s.job)
	if err != nil || len(all) == 0 || len(some) != 1 || some["b"] == nil {
		t.Errorf("got %s, %s, %v; want another order for b", all, some, err)
	}
}

// Secrets are in no file and no message.
func TestSecretsStayHidden(t *testing.T) {
	const secret = "hunter2"
	f := factstest.Plain("a", 1)
	f.System.Cmdline = "quiet api_key=" + secret
	f.Session = []string{"NCCL_X_TOKEN=" + secret}
	f.Conf = []facts.ConfFile{{Path: "/etc/nccl.conf", Set: []string{"NCCL_PASSWORD=" + secret}}}
	f.Programs = []facts.Program{{Arg: "APP_TOKEN=" + secret}}
	f.GPU.Devices = []facts.Device{{Users: []facts.GPUUser{{Name: "python3 --token " + secret}}}}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	survey := launcher.Survey{Hosts: []launcher.Surveyed{{
		Name: "a", Offer: launcher.Offer{Name: "a", Slots: 1, Limit: 1}, Facts: text, Settings: map[string]string{"NCCL_SECRET": secret, "NCCL_DEBUG": "INFO"},
	}}}
	dir := t.TempDir()
	save, page := filepath.Join(dir, "facts"), filepath.Join(dir, "page")
	s := surveyorOf(t, survey, "--preflight-only", "--save-facts", save, "--html", page)
	_, err = s.judge(context.Background(), survey)
	e, ok := errors.AsType[*verdictError](err)
	if !ok || e.trouble != nil {
		t.Fatal(err, e)
	}
	var out strings.Builder
	for _, o := range []options{{verbose: true}, {preflight: preflightOptions{json: true}}} {
		if err := e.page.print(&out, o, false, 0); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintln(&out, verdictReport(e, options{}), verdictReport(&verdictError{page: e.page}, options{}))
	for _, name := range []string{save, page} {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
	}
	if at := strings.Index(out.String(), secret); at >= 0 {
		t.Errorf("got the secret: %s", out.String()[max(0, at-100):at+len(secret)])
	}
	if !strings.Contains(out.String(), `"NCCL_DEBUG": "INFO"`) {
		t.Error("what is no secret is hidden, too")
	}
}

func TestVerdictCodes(t *testing.T) {
	trouble := []error{errors.New("the page could not be written")}
	for _, tt := range []struct {
		name    string
		code    int
		only    bool
		trouble []error
		want    int
	}{
		{"go", 0, true, nil, 0},
		{"no-go", 3, true, nil, 3},
		{"no-go-unless", 4, true, nil, 4},
		{"not-checked", 125, true, nil, 125},
		{"usage", 2, true, nil, 2},
		{"go-but-not-written", 0, true, trouble, 125},
		{"no-go-and-not-written", 3, true, trouble, 3},
		{"job-no-go", 3, false, nil, 125},
		{"job-no-go-unless", 4, false, nil, 125},
		{"job-not-checked", 125, false, nil, 125},
		{"job-usage", 2, false, nil, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := &verdictError{page: page{decision: preflight.Decision{Code: tt.code}}, only: tt.only, trouble: tt.trouble}
			if got := errorCode(e); got != tt.want {
				t.Errorf("got %d; want %d", got, tt.want)
			}
			if r := verdictReport(e, options{}); len(r.lines) < len(tt.trouble) {
				t.Errorf("got %q; want a line for each file", r.lines)
			}
		})
	}
}
