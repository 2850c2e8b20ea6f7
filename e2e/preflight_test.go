package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// judgement is what --preflight-only --json printed.
type judgement struct {
	ended
	Version  int    `json:"v"`
	Mode     string `json:"mode"`
	Headline string `json:"headline"`
	Hosts    []string
	Checks   []struct{ ID, Verdict, Text string }
	Findings []found
	Decision struct {
		Go       bool
		Verdict  string
		Use      []string
		Excluded []string
		Ranks    int
		StandIns []struct{ Host, By string } `json:"stand_ins"`
		Code     int
	}
	Layout []struct {
		Host  string
		Ranks []int
	}
	Latency   [][]*float64 `json:"latency_s"`
	Bandwidth [][]*float64 `json:"bandwidth_bytes_per_s"`
}

// found is a finding.
type found struct {
	Check, Title, Verdict, Remedy string
	Hosts, Evidence               []string
}

// expected is a finding of which this much is known: what its title has, and which hosts
// it is about.
type expected struct {
	check, verdict, title string
	hosts                 []string
}

// tolerant is a configuration for hosts that share a machine: what they share is not worth
// a warning, and links that take its CPUs from each other are slow by chance.
func tolerant(t *testing.T) []string {
	t.Helper()
	return []string{"--config", write(t, shared(t), "gorun.toml", "[preflight]\nopen-files = 256\nslow-latency = 10000\nslow-bandwidth = 0.0001\n")}
}

// look has gorun look at hosts and start nothing.
func look(t *testing.T, args ...string) judgement {
	t.Helper()
	args = slices.Concat([]string{"--preflight-only", "--json"}, tolerant(t), args)
	return judged(t, gorun(t, args))
}

func judged(t *testing.T, e ended) judgement {
	t.Helper()
	j := judgement{ended: e}
	if err := json.Unmarshal([]byte(e.stdout), &j); err != nil || j.Version != 1 || strings.Count(e.stdout, "\n") != 1 {
		t.Fatalf("exit code %d, and no line of JSON of version 1: %v\nstdout: %s\nstderr: %s", e.code, err, shorten(e.stdout), shorten(e.stderr))
	}
	if j.Decision.Code != e.code || j.Decision.Go != (e.code == 0) {
		t.Errorf("exit code %d; the decision says %+v", e.code, j.Decision)
	}
	return j
}

// wantFindings checks the exit code, and that these and no others were found that are
// worse than info.
func (j judgement) wantFindings(t *testing.T, code int, all ...expected) {
	t.Helper()
	left := slices.DeleteFunc(slices.Clone(j.Findings), func(f found) bool { return f.Verdict == "info" })
	for _, want := range all {
		k := slices.IndexFunc(left, func(f found) bool {
			return f.Check == want.check && f.Verdict == want.verdict && strings.Contains(f.Title, want.title) && slices.Equal(f.Hosts, want.hosts)
		})
		if k < 0 {
			t.Errorf("not found: %+v", want)
			continue
		}
		left = slices.Delete(left, k, k+1)
	}
	for _, f := range left {
		t.Errorf("false alarm: %s of %v: %s: %s\n  %s", f.Verdict, f.Hosts, f.Check, f.Title, strings.Join(f.Evidence, "\n  "))
	}
	if j.code != code {
		t.Errorf("exit code %d; want %d: %s", j.code, code, j.Headline)
	}
	if t.Failed() {
		t.Logf("stderr: %s", shorten(j.stderr))
	}
}

// ok checks that the checks named came out as ok, and were not skipped.
func (j judgement) ok(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		for _, c := range j.Checks {
			if c.ID == name && c.Verdict != "ok" {
				t.Errorf("check %s is %s (%s); want ok", name, c.Verdict, c.Text)
			}
		}
	}
}

// smallShm leaves a host with hardly any shared memory.
func smallShm(t *testing.T, host string) {
	t.Helper()
	testbed(t, "root", host, "mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "none", "/dev/shm")
	t.Cleanup(func() { testbed(t, "root", host, "umount", "/dev/shm") })
}

// fence adds a rule to what a host's firewall does with what comes in.
func fence(t *testing.T, host, rule string) {
	t.Helper()
	testbed(t, "root", host, "nft", "table inet mute { chain in { type filter hook input priority 0; "+rule+"; }; }")
	t.Cleanup(func() { testbed(t, "mend", host) })
}

// opening matches what opens a connection to a port that ranks may listen on.
const opening = "tcp dport 32768-60999 tcp flags & (syn | ack) == syn"

// A host that is no use: the job does not start, or goes on without it, by what is allowed.
func TestPreflightJobs(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 4)
	smallShm(t, nodes[1])
	others := []string{nodes[0], nodes[2], nodes[3]}
	file := hostfile(t, nodes, "slots=2")
	title := nodes[1] + " has too little of /dev/shm free"
	tests := []struct {
		name  string
		args  []string
		hosts []string // by rank; nil: nothing is started
		want  []string
	}{
		{"no-go", []string{"--preflight", "quick"}, nil, []string{"no-go unless " + nodes[1] + " is left out", "nothing was started", title, "remedy: ", "--drop-bad goes on without " + nodes[1]}},
		{"off", []string{"--preflight", "off"}, twice(nodes), nil},
		{"drop-bad", []string{"--drop-bad"}, twice(others), []string{"go without " + nodes[1] + ": 3 hosts, 6 ranks instead of 8", title}},
		{"drop-bad-with-room", []string{"--drop-bad", "-np", "5"}, twice([]string{nodes[0], nodes[3], nodes[2]})[:5], []string{"go without " + nodes[1]}},
		{"spare", []string{"--spares", "1", "--preflight", "quick"}, twice([]string{nodes[0], nodes[3], nodes[2]}), []string{nodes[3] + " stands in", title}},
		{"enough-hosts", []string{"--min-hosts", "3"}, twice(others), []string{"go without " + nodes[1]}},
		{"too-few-hosts", []string{"--min-hosts", "4"}, nil, []string{"--min-hosts asks for 4", "nothing was started"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := gorun(t, sh(append(append(tt.args, "-hostfile", file), tolerant(t)...), sayPlace))
			if tt.hosts == nil {
				e.want(t, 125, tt.want...)
				if e.stdout != "" {
					t.Errorf("stdout %q; want nothing started", e.stdout)
				}
				return
			}
			e.want(t, 0, tt.want...)
			var got []string
			for i, p := range places(t, e.stdout) {
				got = append(got, p.host)
				if p.rank != i || p.size != len(tt.hosts) {
					t.Errorf("got %+v; want rank %d of %d", p, i, len(tt.hosts))
				}
			}
			if !slices.Equal(got, tt.hosts) {
				t.Errorf("ranks on %v; want %v", got, tt.hosts)
			}
		})
	}
}

// twice has each name two times: where the ranks of hosts with two slots run.
func twice(names []string) (out []string) {
	for _, name := range names {
		out = append(out, name, name)
	}
	return out
}

// What was left out is in the result and among the events.
func TestPreflightRecords(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	smallShm(t, nodes[2])
	dir := shared(t)
	result, events, saved, html := filepath.Join(dir, "result.json"), filepath.Join(dir, "events"), filepath.Join(dir, "facts.json"), filepath.Join(dir, "page.html")
	args := []string{"--drop-bad", "-hostfile", hostfile(t, nodes, "slots=2"), "--result", result, "--events", events, "--save-facts", saved, "--html", html}
	e := gorun(t, append(args, "true"))
	e.want(t, 0, "go without "+nodes[2])
	var res struct {
		Code     int                         `json:"exit_code"`
		Excluded []struct{ Name string }     `json:"excluded"`
		Hosts    []struct{ Name string }     `json:"hosts"`
		Ranks    []struct{ Host, At string } `json:"ranks"`
	}
	readJSON(t, result, &res)
	if len(res.Excluded) != 1 || res.Excluded[0].Name != nodes[2] || len(res.Hosts) != 2 || len(res.Ranks) != 4 || res.Code != 0 {
		t.Errorf("the result has %+v; want %s excluded, and four ranks on the others", res, nodes[2])
	}
	text, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	for line := range strings.Lines(string(text)) {
		var event struct {
			Event           string
			Hosts, Excluded []string
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Errorf("the event %q: %v", line, err)
		}
		if event.Event == "preflight" {
			told++
			if !slices.Equal(event.Hosts, nodes[:2]) || !slices.Equal(event.Excluded, nodes[2:]) {
				t.Errorf("the event %q; want %s excluded", line, nodes[2])
			}
		}
	}
	if told != 1 {
		t.Errorf("%d events of preflight; want one:\n%s", told, text)
	}
	page, err := os.ReadFile(html)
	if err != nil || !strings.Contains(string(page), nodes[2]+" has too little of /dev/shm free") {
		t.Errorf("the page says nothing of %s: %v", nodes[2], err)
	}
	// What was saved is judged as it was then.
	again := look(t, "--facts", saved, "--drop-bad")
	again.wantFindings(t, 0, expected{"shm", "host", "", nodes[2:]})
	if !slices.Equal(again.Decision.Excluded, nodes[2:]) {
		t.Errorf("judged again: %+v", again.Decision)
	}
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// A host that is not reached is left out as one that is found unfit.
func TestPreflightUnreached(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	file := write(t, shared(t), "hosts", fmt.Sprintf("%s slots=2\n%s slots=2 port=2222\n%s slots=2\n", nodes[0], nodes[1], nodes[2]))
	const soonTried = "--connect-timeout=3s" // refused connections are tried again
	t.Run("look", func(t *testing.T) {
		look(t, soonTried, "-hostfile", file).wantFindings(t, 4, expected{"host-reached", "host", "refused", nodes[1:2]})
	})
	t.Run("no-go", func(t *testing.T) {
		e := gorun(t, []string{"--preflight", "quick", soonTried, "-hostfile", file, "echo", "started"})
		e.want(t, 125, nodes[1], "refused")
		if e.stdout != "" {
			t.Errorf("stdout %q; want nothing started", e.stdout)
		}
	})
	t.Run("drop-bad", func(t *testing.T) {
		e := gorun(t, sh([]string{"--drop-bad", soonTried, "-hostfile", file}, sayPlace))
		e.want(t, 0, "go without "+nodes[1]+": 2 hosts, 4 ranks instead of 6", "refused")
		if all := places(t, e.stdout); len(all) != 4 || all[1].host != nodes[0] || all[2].host != nodes[2] || all[2].node != 1 {
			t.Errorf("got %+v; want two ranks on %s and on %s", all, nodes[0], nodes[2])
		}
	})
	t.Run("nobody", func(t *testing.T) {
		j := look(t, soonTried, "-hostfile", write(t, shared(t), "hosts", nodes[1]+" port=2222\n"))
		if j.code != 125 || !strings.Contains(j.Headline, "no host could be reached") {
			t.Errorf("exit code %d, %q", j.code, j.Headline)
		}
	})
}

// Settings of NCCL that would end the launch are a no-go of hosts that are only looked at.
func TestPreflightSettingsDiffer(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	ownHome(t, nodes[1], map[string]string{".nccl.conf": "NCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n"})
	file := hostfile(t, nodes, "slots=1")
	told := expected{"nccl-conf", "warning", nodes[1] + " has NCCL settings NCCL_DEBUG=WARN NCCL_ALGO=Ring in /home/rank/.nccl.conf", nodes[1:2]}
	j := look(t, "-hostfile", file)
	j.wantFindings(t, 3, told)
	if want := "no-go: NCCL_ALGO differs between hosts, and must be equal: "; !strings.HasPrefix(j.Headline, want) || !strings.Contains(j.Headline, "Ring on "+nodes[1]) {
		t.Errorf("got %q; want %q, and Ring on %s", j.Headline, want, nodes[1])
	}
	// What the user has decided, and what only hosts have that are left out, is in nobody's way.
	look(t, "-hostfile", file, "-x", "NCCL_ALGO=Tree").wantFindings(t, 0, told)
	look(t, "-hostfile", file, "--exclude", nodes[1]).wantFindings(t, 0)
}

// With --bcast the program is on no host yet, and that is no fault.
func TestPreflightBcast(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	path := headDir(t) + "/prog"
	fill(t, onHost(t, "node0", "/"), map[string]string{path + "*": "#!/bin/sh\necho started\n"})
	args := []string{"--preflight", "quick", "-wdir", "/tmp", "-hostfile", hostfile(t, nodes, "slots=1")}
	e := gorun(t, append(args, path))
	if e.code == 0 || !strings.Contains(e.stderr, path) || e.stdout != "" {
		t.Errorf("exit code %d without --bcast\nstdout: %s\nstderr: %s", e.code, e.stdout, e.stderr)
	}
	e = gorun(t, append(args, "--bcast", path))
	e.want(t, 0)
	if e.stdout != "started\nstarted\n" {
		t.Errorf("got %q; want the program to run on both hosts", e.stdout)
	}
}

// Programs with hosts of their own are looked at together. A program whose hosts are all
// bad cannot go on.
func TestPreflightPrograms(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 4)
	args := []string{"--preflight", "quick", "-hostfile", hostfile(t, nodes, "slots=2")}
	args = sh(append(args, "-np", "2", "-H", nodes[0]), sayPlace)
	args = sh(append(args, ":", "-np", "2", "-H", nodes[2]), sayPlace)
	all := places(t, gorun(t, args).stdout)
	if len(all) != 4 || all[1].host != nodes[0] || all[2].host != nodes[2] {
		t.Errorf("got %+v; want two ranks on %s and on %s", all, nodes[0], nodes[2])
	}
	smallShm(t, nodes[2])
	e := gorun(t, slices.Insert(args, 0, "--drop-bad"))
	e.want(t, 125, nodes[2])
	if e.stdout != "" {
		t.Errorf("stdout %q; want nothing started", e.stdout)
	}
}

// An agent that dies while hosts are looked at costs its host, and not the job.
func TestPreflightAgentKilled(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 4)
	fence(t, nodes[2], opening+" ip saddr "+nodes[1]+" drop") // its first connection takes a while
	j := start(t, sh([]string{"--drop-bad", "-v", "-hostfile", hostfile(t, nodes, "slots=1")}, sayPlace))
	within(t, 20*time.Second, "all hosts reached", func() bool { return strings.Count(j.err.String(), "ready after") == 4 })
	for _, p := range agents(t, nodes[1]) {
		syscall.Kill(p.pid, syscall.SIGKILL)
	}
	e := j.wait(30 * time.Second)
	e.want(t, 0, "go without "+nodes[1]+": 3 hosts, 3 ranks instead of 4", "killed by SIGKILL")
	if all := places(t, e.stdout); len(all) != 3 || all[1].host != nodes[2] {
		t.Errorf("got %+v; want three ranks, without %s", all, nodes[1])
	}
}

// Ctrl-C while hosts are looked at ends that, and leaves nothing.
func TestPreflightInterrupted(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	fence(t, nodes[0], opening+" drop")
	for _, mode := range [][]string{{"--preflight-only"}, {"--preflight", "quick"}} {
		j := start(t, slices.Concat(mode, []string{"-v", "-hostfile", hostfile(t, nodes, "slots=1")}, []string{"echo", "started"}))
		within(t, 20*time.Second, "all hosts reached", func() bool { return strings.Count(j.err.String(), "ready after") == 3 })
		j.signal(syscall.SIGINT)
		e := j.wait(10 * time.Second)
		e.want(t, 130)
		e.wantWithin(t, soon)
		if e.stdout != "" {
			t.Errorf("stdout %q; want nothing", e.stdout)
		}
		for _, host := range nodes {
			checkClean(t, host)
		}
	}
}
