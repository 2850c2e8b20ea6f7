package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/wire"
)

func TestPreflightTellsAll(t *testing.T) {
	w := newJudged(t, "pre-well", use(), 1, 2, -1)
	w.rule = func(context.Context, Survey) (Ruling, error) { return Ruling{}, nil }
	w.job.Env = envsync.Policy{Environ: []string{"NCCL_DEBUG=WARN", "OTHER=1"}}
	w.job.HostEnv = map[string][]envsync.Var{"127.0.0.1": {{Name: "NCCL_IB_HCA", Value: "mlx5_0"}}}
	res := w.good()
	if got, want := places(res), "localhost 127.0.0.1 127.0.0.1 ::1 ::1"; got != want || res.Excluded != nil {
		t.Errorf("got ranks on %s, excluded %v; want %s", got, res.Excluded, want)
	}
	if w.calls != 1 || len(w.survey.Hosts) != 3 || w.survey.Took <= 0 || w.errs() != "" {
		t.Fatalf("got %d calls, %+v", w.calls, w.survey)
	}
	for i, h := range w.survey.Hosts {
		links := []string{"[[1,2]]", "[[2,0]]", "[[0,1]]"}[i]
		if h.Name != localNames[i] || string(h.Facts) != `{"fake":1}` || string(h.Links) != links || !h.Addr.IsValid() {
			t.Errorf("got %+v, facts %s, links %s", h, h.Facts, h.Links)
		}
		if h.Uncertain <= 0 || (h.Offset-time.Hour).Abs() > h.Uncertain {
			t.Errorf("%s: got a clock ahead by %v ± %v; want 1h", h.Name, h.Offset, h.Uncertain)
		}
	}
	if got := w.survey.Hosts[1].Settings; !reflect.DeepEqual(got, map[string]string{"NCCL_DEBUG": "WARN", "NCCL_IB_HCA": "mlx5_0"}) {
		t.Errorf("settings: got %v", got)
	}
	if got := w.survey.Hosts[2].Offer; got.Slots != 2 || got.Origin != "2 cores" {
		t.Errorf("offer: got %+v", got)
	}
}

func TestPreflightRules(t *testing.T) {
	type ruling = func(context.Context, Survey) (Ruling, error)
	tests := []struct {
		name, behaviour string
		rule            ruling
		change          func(*judged)
		places          string
		excluded        string
		errs            string // of the survey
	}{
		{"order", "pre-well", use(2, 0, 1), nil, "::1 localhost 127.0.0.1", "", ""},
		{"one-left-out", "pre-well", use(2, 0), nil, "::1 localhost", "127.0.0.1:", ""},
		{"one-left", "pre-well", use(1), nil, "127.0.0.1", "localhost: ::1:", ""},
		{"number-of-ranks", "pre-well", func(context.Context, Survey) (Ruling, error) {
			return Ruling{Use: []int{2, 1}, NP: []int{2}}, nil
		}, func(w *judged) { w.job.Apps[0].NP = 3 }, "::1 127.0.0.1", "localhost:", ""},
		{"spare-is-not-needed", "pre-well", use(0, 1), func(w *judged) { w.job.Apps[0].NP, w.job.Preflight.Drop = 2, true }, "localhost 127.0.0.1", "::1:", ""},
		{"only-needed-hosts-are-asked", "pre-well", use(1, 0), func(w *judged) { w.job.Apps[0].NP = 2 }, "127.0.0.1 localhost", "", ""},
		{"all-pairs", "pre-well", use(0, 1, 2), func(w *judged) { w.job.Preflight.Full = true }, "localhost 127.0.0.1 ::1", "", ""},
		{"cannot-be-reached", "pre-dies-soon", without, func(w *judged) { w.job.Preflight.Drop = true }, "", "oops", "oops"},
		{"no-facts", "pre-no-facts", without, func(w *judged) { w.job.Preflight.Limit = 500 * time.Millisecond }, "", "has not told within 500ms", "has not told within 500ms"},
		{"no-facts-but-used", "pre-no-facts", use(2, 1, 0), func(w *judged) { w.job.Preflight.Limit = 500 * time.Millisecond }, "::1 127.0.0.1 localhost", "", "has not told within 500ms"},
		{"no-probes", "pre-no-probes", without, nil, "", "did not say what its links are like", "did not say what its links are like within 1s"},
		{"no-ports", "pre-no-ports", without, nil, "", "its agent did not answer within 1s", "its agent did not answer within 1s"},
		{"lost", "pre-dies-asked", without, func(w *judged) { w.job.Preflight.Drop = true }, "", "gorun's agent was lost: killed by SIGKILL", "killed by SIGKILL"},
		{"several-programs", "pre-well", use(2, 1), func(w *judged) {
			w.job.Apps = []App{{Args: []string{"x"}, Hosts: w.job.Hosts[:2]}, {Args: []string{"y"}, Hosts: w.job.Hosts[2:]}}
		}, "127.0.0.1 ::1", "localhost:", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newJudged(t, tt.behaviour, tt.rule, 1, 1, 1)
			if tt.change != nil {
				tt.change(w)
			}
			res := w.good()
			var excluded []string
			for _, x := range res.Excluded {
				excluded = append(excluded, x.Name+":"+x.Text)
			}
			got := strings.Join(excluded, " ")
			if tt.places == "" { // which one is first cannot be known
				if len(res.Ranks) != 2 || len(res.Excluded) != 1 || !strings.Contains(got, tt.excluded) {
					t.Errorf("got ranks on %s, excluded %s; want one host excluded: %s", places(res), got, tt.excluded)
				}
			} else if places(res) != tt.places || got != tt.excluded {
				t.Errorf("got ranks on %s, excluded %s; want %s, %s", places(res), got, tt.places, tt.excluded)
			}
			if !strings.Contains(w.errs(), tt.errs) || (w.errs() == "") != (tt.errs == "") {
				t.Errorf("got errors %q; want %q", w.errs(), tt.errs)
			}
			for _, r := range res.Ranks {
				if r.State != StateExited || r.Code != 0 {
					t.Errorf("got %+v", r)
				}
			}
			if len(res.Hosts)+len(res.Excluded) != len(w.survey.Hosts) {
				t.Errorf("got hosts %v and %v of %d", res.Hosts, res.Excluded, len(w.survey.Hosts))
			}
		})
	}
}

// Of all pairs each host probes each other.
func TestPreflightOfAllPairs(t *testing.T) {
	w := newJudged(t, "pre-well", use(0, 1, 2), 1, 1, 1)
	w.job.Preflight.Full = true
	w.good()
	for i, h := range w.survey.Hosts {
		var links [][]int
		if err := json.Unmarshal(h.Links, &links); err != nil || len(links) != 2 || links[0][0]+links[1][0] != 3-i {
			t.Errorf("%s: got %s, %v", h.Name, h.Links, err)
		}
	}
}

// RDMA is tried after all else, in rounds, as Rails says who has seen the facts.
func TestPreflightOfRails(t *testing.T) {
	w := newJudged(t, "pre-well", use(0, 1, 2), 1, 1, 1)
	w.job.Preflight.Full = true
	w.job.Preflight.Rails = func(s Survey) [][]RailOrder {
		for _, h := range s.Hosts {
			if string(h.Facts) != `{"fake":1}` || !strings.Contains(string(h.Links), "[") {
				t.Errorf("%s: got facts %s, links %s; want both", h.Name, h.Facts, h.Links)
			}
		}
		return [][]RailOrder{{{From: 0, To: 1, Rails: []byte("a")}, {From: 1, To: 2, Rails: []byte("b")}}, {}, {{From: 2, To: 0, Rails: []byte("c")}}}
	}
	w.good()
	for i, h := range w.survey.Hosts {
		var told []any
		want := []string{"a to [1]", "b to [2]", "c to [0]"}[i]
		if err := json.Unmarshal(h.Links, &told); err != nil || len(told) != 3 || told[2] != want {
			t.Errorf("%s: got %s, %v; want %q at the end", h.Name, h.Links, err, want)
		}
	}
}

// In a quick preflight it is not.
func TestQuickPreflightTriesNoRails(t *testing.T) {
	w := newJudged(t, "pre-well", use(0, 1), 1, 1)
	w.job.Preflight.Rails = func(Survey) [][]RailOrder {
		t.Error("rails are asked for")
		return nil
	}
	w.good()
}

// What comes when the ruling is over changes nothing, whoever it comes from.
func TestPreflightAnsweredLate(t *testing.T) {
	w := newJudged(t, "pre-late-facts", nil, 1, 1, 1)
	w.job.Preflight.Limit = 300 * time.Millisecond
	w.rule = func(_ context.Context, s Survey) (Ruling, error) {
		for i, h := range s.Hosts {
			if h.Err != nil {
				return Ruling{Use: []int{i, (i + 1) % 3}}, nil
			}
		}
		return Ruling{}, errors.New("no host is late")
	}
	if res := w.good(); len(res.Ranks) != 2 || len(res.Excluded) != 1 {
		t.Errorf("got %+v", res)
	}
}

// A host that is let go is told so, and its agent ends, while the job goes on.
func TestPreflightReleases(t *testing.T) {
	w := newJudged(t, "pre-well", use(1), 1, 1)
	w.good()
	marks, _ := filepath.Glob(filepath.Join(w.dir, "released-*"))
	if len(marks) != 1 {
		t.Errorf("got %q; want one agent to be let go", marks)
	}
}

func TestPreflightEndsJob(t *testing.T) {
	no := errors.New("no-go")
	hosts := func(err error) bool { return is(errors.AsType[*HostsError](err)) }
	text := func(want string) func(error) bool {
		return func(err error) bool { return err != nil && strings.Contains(err.Error(), want) }
	}
	tests := []struct {
		name, behaviour string
		rule            func(context.Context, Survey) (Ruling, error)
		change          func(*judged)
		calls           int
		want            func(error) bool
	}{
		{"judge", "pre-well", func(context.Context, Survey) (Ruling, error) { return Ruling{}, no }, nil, 1, func(err error) bool { return err == no }},
		{"cannot-be-reached", "pre-dies-soon", without, nil, 0, hosts},
		{"rules-on-a-lost-host", "pre-dies-asked", use(0, 1), func(w *judged) { w.job.Preflight.Drop = true }, 1, hosts},
		{"no-host", "pre-well", use([]int{}...), func(w *judged) {
			w.rule = func(context.Context, Survey) (Ruling, error) { return Ruling{Use: []int{}}, nil }
		}, 1, text("preflight has left no host")},
		{"host-twice", "pre-well", use(1, 1), nil, 1, text("preflight rules on hosts [1 1] of 2")},
		{"no-such-host", "pre-well", use(2), nil, 1, text("preflight rules on hosts [2] of 2")},
		{"ranks-of-no-program", "pre-well", func(context.Context, Survey) (Ruling, error) { return Ruling{NP: []int{1, 1}}, nil }, nil, 1, text("preflight rules on 2 programs of 1")},
		{"program-without-hosts", "pre-well", use(0), func(w *judged) {
			w.job.Apps = []App{{Args: []string{"x"}, Hosts: w.job.Hosts[:1]}, {Args: []string{"y"}, Hosts: w.job.Hosts[1:]}}
		}, 1, text("preflight has left no host of those that y may use")},
		{"too-few-slots", "pre-well", use(0), func(w *judged) { w.job.Apps[0].NP = 2 }, 1, func(err error) bool { return is(errors.AsType[*SlotsError](err)) }},
		{"facts-are-no-json", "pre-bad-facts", use(0, 1), nil, 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newJudged(t, tt.behaviour, tt.rule, 1, 1)
			if tt.change != nil {
				tt.change(w)
			}
			res, err := w.run()
			if w.calls != tt.calls {
				t.Errorf("got %d calls of Judge; want %d", w.calls, tt.calls)
			}
			if tt.want == nil {
				if err != nil || !strings.Contains(w.errs(), "what it says is no JSON") {
					t.Errorf("got %v, errors %q", err, w.errs())
				}
			} else if !tt.want(err) || len(res.Ranks) != 0 || !w.has("done") {
				t.Errorf("got %+v, %v", res, err)
			}
		})
	}
}

// Without a program there is nothing to place, and nothing to send.
func TestPreflightOnly(t *testing.T) {
	w := newJudged(t, "pre-dies-soon", use(), 1, 1, 1)
	w.job.Preflight.Only, w.job.Apps, w.job.Preload = true, nil, []string{"/none"}
	var events []string
	w.io.Events = func(e Event) { events = append(events, e.Event+" "+e.Reason) }
	res := w.good()
	if len(res.Ranks) != 0 || w.calls != 1 || !strings.Contains(w.errs(), "oops") || res.Signal != 0 || len(res.Hosts) != 3 {
		t.Errorf("got %+v, %d calls, errors %q", res, w.calls, w.errs())
	}
	if !contains(events, "stop preflight") || contains(events, "preparing") {
		t.Errorf("got events %q", events)
	}
}

// The user's end, and the job's context, end a preflight wherever it is.
func TestPreflightInterrupted(t *testing.T) {
	waits := func(ctx context.Context, _ Survey) (Ruling, error) {
		<-ctx.Done()
		return Ruling{}, ctx.Err()
	}
	tests := []struct {
		name, behaviour string
		judging         bool
	}{
		{"while-asked", "pre-withholds", false},
		{"while-judging", "pre-well", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newJudged(t, tt.behaviour, nil, 1, 1)
			w.rule = func(ctx context.Context, s Survey) (Ruling, error) {
				os.WriteFile(filepath.Join(w.dir, "asked"), nil, 0o600)
				return waits(ctx, s)
			}
			w.signalAt("asked", sigINT)
			res := w.good()
			if res.Signal != int(sigINT) || len(res.Ranks) != 0 || (w.calls == 1) != tt.judging {
				t.Errorf("got %+v, %d calls", res, w.calls)
			}
		})
	}
}

// A job that is suspended goes on where it was: its limits stand still meanwhile.
func TestPreflightSuspended(t *testing.T) {
	w := newJudged(t, "pre-withholds", without, 1)
	w.job.Preflight.Limit = 300 * time.Millisecond
	var suspended time.Time
	w.io.Suspend = func() {
		time.Sleep(500 * time.Millisecond)
		suspended = time.Now()
	}
	w.rule = func(context.Context, Survey) (Ruling, error) { return Ruling{}, nil }
	w.signalAt("asked", syscall.SIGTSTP)
	w.good()
	if suspended.IsZero() || !strings.Contains(w.errs(), "has not told within 300ms") {
		t.Errorf("suspended until %v; errors %q", suspended, w.errs())
	}
}

// Without a preflight nobody is asked for anything.
func TestNoPreflight(t *testing.T) {
	w := newWorld(t, "pre-not-asked", 1, 1)
	w.wantStates(w.good(), "exited 0, exited 0")
}

// A job on this machine alone has a preflight, too.
func TestPreflightOfThisMachine(t *testing.T) {
	w := newJudged(t, "pre-well", nil)
	w.rule = func(context.Context, Survey) (Ruling, error) { return Ruling{}, nil }
	res := w.good()
	if len(res.Ranks) != 2 || len(w.survey.Hosts) != 1 || w.survey.Hosts[0].Links != nil || w.survey.Hosts[0].Addr.IsValid() {
		t.Errorf("got %+v, %+v", res, w.survey)
	}
}

func TestRounds(t *testing.T) {
	for n := range 12 {
		met := map[[2]int]int{}
		all := rounds(n)
		for _, round := range all {
			seen := map[int]bool{}
			for _, p := range round {
				if seen[p[0]] || seen[p[1]] || p[0] == p[1] {
					t.Errorf("%d hosts: one is in two pairs of %v", n, round)
				}
				seen[p[0]], seen[p[1]] = true, true
				met[[2]int{min(p[0], p[1]), max(p[0], p[1])}]++
			}
		}
		if len(met) != n*(n-1)/2 || len(all) > n {
			t.Errorf("%d hosts: got %d pairs in %d rounds", n, len(met), len(all))
		}
	}
}

// answerFrames are frames of a host in a preflight.
func TestAnswersAreChecked(t *testing.T) {
	part := func(n int, more bool) wire.Frame {
		return control(wire.Message{Facts: &wire.Facts{Part: make([]byte, n), More: more}})
	}
	clock := control(wire.Message{Clock: &wire.Clock{}})
	probing := control(wire.Message{Probing: &wire.Probing{}})
	probed := func(text string) wire.Frame {
		return control(wire.Message{Probed: &wire.Probed{Result: wire.Bytes(text)}})
	}
	many := make([]wire.Frame, wire.MaxFacts/wire.FactsPart+1)
	for i := range many {
		many[i] = part(wire.FactsPart, true)
	}
	tests := []struct {
		name   string
		frames []wire.Frame
		want   string // of the last one's error
	}{
		{"all", []wire.Frame{clock, part(10, true), part(10, false), probing, probed("[]")}, ""},
		{"clock-twice", []wire.Frame{clock, clock}, "it answers twice"},
		{"facts-twice", []wire.Frame{part(0, false), part(0, false)}, "it answers twice"},
		{"facts-without-end", many, "it tells 4456448 bytes of facts"},
		{"port-twice", []wire.Frame{probing, probing}, "it answers twice"},
		{"long-reason", []wire.Frame{control(wire.Message{Facts: &wire.Facts{Failure: strings.Repeat("x", maxLog+1)}})}, "a reason of 4097 bytes"},
		{"probed-unasked", []wire.Frame{probed("[]"), probed("[]")}, "it answers twice"},
		{"links-are-no-json", []wire.Frame{probed("[")}, "no JSON"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := placeable(t)
			h := r.hosts[1]
			if err := r.frame(h, clock); !errors.Is(err, errPeer) {
				t.Errorf("unasked: got %v; want an error", err)
			}
			r.job.Preflight = &Preflight{}
			h.answers.probes.Store(1)
			for i, f := range tt.frames {
				err := r.frame(h, f)
				if i < len(tt.frames)-1 || tt.want == "" {
					if err != nil {
						t.Errorf("frame %d: got %v; want none", i, err)
					}
				} else if !errors.Is(err, errPeer) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v; want %q", err, tt.want)
				}
			}
		})
	}
}

// neededHosts are all when a preflight may choose among them.
func TestPreflightReachesSpares(t *testing.T) {
	j := Job{Apps: []App{{Args: []string{"x"}, NP: 1}}, Hosts: []hostfile.Host{{Name: "a", Slots: 1}, {Name: "b", Slots: 1}}}
	for _, tt := range []struct {
		p    *Preflight
		want int
	}{{nil, 1}, {&Preflight{}, 1}, {&Preflight{Drop: true}, 2}, {&Preflight{Only: true}, 2}} {
		j.Preflight = tt.p
		if got, err := j.neededHosts(); err != nil || len(got) != tt.want {
			t.Errorf("%+v: got %v, %v; want %d hosts", tt.p, got, err, tt.want)
		}
	}
}

func TestPreflightCapsSlotsAndWarns(t *testing.T) {
	w := newJudged(t, "pre-well", func(context.Context, Survey) (Ruling, error) {
		return Ruling{Use: []int{0, 2}, Slots: []int{2, 1}, Warnings: []string{"preflight: go without x"}}, nil
	}, 2, 2, 2)
	if res := w.good(); places(res) != "localhost localhost ::1" || res.Hosts[1].Slots != 1 {
		t.Errorf("got ranks on %s, hosts %+v; want two on localhost and one on ::1", places(res), res.Hosts)
	}
	if got := w.stderr.String(); !strings.Contains(got, "warning: preflight: go without x\n") {
		t.Errorf("got %q; want the warning", got)
	}
}

// A ruling names NVLink domains, by which a mesh may lie on several hosts, and GPUs.
func TestPreflightRulesOnGPUs(t *testing.T) {
	w := newJudged(t, "pre-well", func(context.Context, Survey) (Ruling, error) {
		return Ruling{Use: []int{2, 0, 1}, Domains: []string{"x", "x", ""}, Visible: [][]string{{"GPU-b,GPU-a"}, nil, {"GPU-c", "GPU-d"}}, Notes: []string{"only with -v"}}, nil
	}, 3, 3, 2)
	w.job.Mesh = Mesh{{Name: "dp"}, {Name: "tp", Size: 4}}
	var of *run
	w.tweak = func(r *run) { of = r }
	w.good()
	var got []string
	for _, place := range of.m.layout.Ranks {
		got = append(got, strings.Join(texts(of.planner.devices(place)), ""))
	}
	const name = "CUDA_VISIBLE_DEVICES="
	want := []string{name + "GPU-b,GPU-a", name + "GPU-b,GPU-a", "", "", "", name + "GPU-c", name + "GPU-d", name + "GPU-d"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
	text := w.stderr.String()
	if !strings.Contains(text, "warning: 1 of 2 groups of tp=4 lies on 2 hosts") || strings.Contains(text, "only with -v") {
		t.Errorf("got %q; want what the mesh costs, and no note without -v", text)
	}
}

func TestPreflightRulesOnTooMany(t *testing.T) {
	for name, ruling := range map[string]Ruling{
		"gpus": {Use: []int{0}, Visible: [][]string{nil, nil}}, "domains": {Use: []int{0}, Domains: []string{"", ""}}, "slots": {Use: []int{0}, Slots: []int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newJudged(t, "pre-well", func(context.Context, Survey) (Ruling, error) { return ruling, nil }, 1, 1)
			if _, err := w.run(); err == nil || err.Error() != "preflight rules on what 2 hosts of 1 have" {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Files go to the hosts that are used, in their new order; the ranks' environment, too, is
// that of the host where they are.
func TestPreflightBeforeFiles(t *testing.T) {
	w := fileWorld(t, "sent")
	w.waits.listen = 100 * time.Millisecond // these agents do not answer
	w.job.Preflight = &Preflight{Limit: 100 * time.Millisecond, Judge: use(1, 0)}
	res := w.good()
	if got, want := places(res), "127.0.0.1 localhost"; got != want {
		t.Errorf("got ranks on %s; want %s", got, want)
	}
	for _, m := range []string{"right.0", "right.1"} {
		if !w.has(m) {
			t.Errorf("no agent came to %q", m)
		}
	}
}

// What a host's ranks get goes with the host, whatever number it has now.
func TestPreflightMovesEnvironments(t *testing.T) {
	w := newJudged(t, "pre-prints", use(2, 0), 1, 1, 1)
	w.job.HostEnv = map[string][]envsync.Var{}
	for _, name := range localNames {
		w.job.HostEnv[name] = []envsync.Var{{Name: "HERE", Value: name}}
	}
	w.good()
	if got := w.stdout.String(); !sameLines(got, "0 HERE=::1\n1 HERE=localhost\n") {
		t.Errorf("got %q", got)
	}
}

// A host may be asked for something of its own.
func TestPreflightOrders(t *testing.T) {
	w := newJudged(t, "pre-echoes", use(0, 1), 1, 1)
	w.job.Preflight.Orders = map[string][]byte{localNames[1]: []byte(`{"own":1}`)}
	w.good()
	for i, want := range []string{"{}", `{"own":1}`} {
		if got := string(w.survey.Hosts[i].Facts); got != want {
			t.Errorf("%s was asked for %s; want %s", localNames[i], got, want)
		}
	}
}
