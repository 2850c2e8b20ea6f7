package launcher

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/launcher/wire"
)

var rewrite = flag.Bool("rewrite", false, "write what the machine does into testdata instead of comparing")

// TestMachine plays the scripts in testdata/machine: a line is an event, and the
// indented lines below it are what the machine says is to be done, and where the job
// stands when its phase changes. "events" shows what --events is told, "status" what stands on the
// terminal's last line. Rewrite them with: go test ./launcher -run TestMachine -rewrite
func TestMachine(t *testing.T) {
	files, err := filepath.Glob("testdata/machine/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(b))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(b) {
				t.Errorf("%s: got\n%s", file, got)
			}
		})
	}
}

// play runs a script's events and returns it with the answers filled in.
func play(t *testing.T, script string) string {
	t.Helper()
	s := &scripted{t: t}
	var out strings.Builder
	for line := range strings.Lines(script) {
		if strings.HasPrefix(line, "    ") {
			continue
		}
		out.WriteString(line)
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for _, a := range s.line(line) {
			fmt.Fprintf(&out, "    %s\n", a)
		}
	}
	return out.String()
}

type scripted struct {
	t     *testing.T
	m     *machine
	names []string // of the hosts, as who carries actions out has them
}

func (s *scripted) line(line string) []string {
	f := strings.Fields(line)
	switch f[0] {
	case "hosts": // hosts NAME... [keep-going] [no-grace] [files] [preflight] [full] [rdma] [only] [drop]
		job, names := scriptJob(f[1:])
		s.m, s.names = newMachine(names, job, defaultWaits()), names
		s.m.listened = true
		s.m.announce()
		return nil
	case "result":
		return s.result()
	case "events":
		return s.events()
	case "status": // status [AFTER]
		after := 3 * time.Second
		if len(f) > 1 {
			after, _ = time.ParseDuration(f[1])
		}
		return []string{strconv.Quote(s.m.status(after))}
	}
	before := s.m.phase
	var said []string
	for _, a := range s.m.step(s.event(f)) {
		said = append(said, s.show(a))
	}
	if s.m.phase != before {
		said = append(said, "phase "+string(s.m.phase))
	}
	return said
}

func (s *scripted) host(name string) int {
	for i, h := range s.m.hosts {
		if h.name == name {
			return i
		}
	}
	s.t.Fatalf("no host %q", name)
	return 0
}

// event reads: up H [answers=N] | answered H | failed H WHY | placed N... | planfail WHY | prepared H [RANK:CODE:TEXT] |
// started H [pids=N,N] | exited RANK [code=N] [signal=N] [at=D] [text=T] [bystop] [host=H] | done H [killed=N] [left=T] |
// listens H | joined H | alone H WHY | word H [dead=H,H] [alive=H,H] | around NOW [H=HEARD]... |
// moved | staged H | unstaged H WHY | lost H WHY | died H WHY | swept H [WHY] | silent H D [fresh=N] | unheard H D fresh=N | signal NAME | timeout |
// asked [H]... | opens H | closed H | told H [WHY] | probed H | rails [H>H[,H>H]...]... | late | ruled [H]... |
// deadline | stdout | pictured H ID | looked | differ H NAME
// Times of ranks are since their start; "hosts" may end in keep-going, no-grace and files.
func (s *scripted) event(f []string) event {
	arg := func(i int) string {
		if i < len(f) {
			return strings.Join(f[i:], " ")
		}
		return ""
	}
	switch f[0] {
	case "placed":
		return event{planned: layoutOf(f[1:])}
	case "planfail":
		return event{planErr: errors.New(arg(1))}
	case "exited":
		return s.exited(f[1:])
	case "aborts", "left":
		return s.broke(f)
	case "signal":
		return event{signal: signalNumber(f[1])}
	case "timeout":
		return event{timeout: true}
	case "deadline":
		return event{deadline: true}
	case "stdout":
		return event{stdout: true}
	case "around":
		return s.around(f[1:])
	case "moved":
		return event{moved: true}
	case "unstaged":
		return event{unstaged: []PrepareFailure{{Host: f[1], Rank: -1, Code: codeOurs, Text: arg(2)}}}
	case "looked":
		return event{looked: true}
	case "asked":
		return event{listening: s.list(f[1:])}
	case "rails":
		return event{rails: s.rails(f[1:])}
	case "late":
		return event{late: true}
	case "ruled":
		return event{ruled: s.list(f[1:])}
	}
	e := event{host: s.host(f[1])}
	switch f[0] {
	case "up":
		e.up = &wire.Hello{Cores: 2}
		if text, ok := strings.CutPrefix(arg(2), "answers="); ok {
			e.answers, _ = strconv.Atoi(text)
		}
	case "answered":
		e.answered = true
	case "told":
		e.told = &facts{}
		if arg(2) != "" {
			e.told.err = errors.New(arg(2))
		}
	case "opens":
		e.probing = &wire.Probing{Port: 9}
	case "closed":
		e.probing = &wire.Probing{}
	case "probed":
		e.probed = true
	case "failed":
		e.failed = errors.New(arg(2))
	case "prepared":
		e.prepared = &wire.Prepared{}
		if len(f) > 2 {
			p := strings.SplitN(arg(2), ":", 3)
			e.prepared.Failures = []wire.Failure{{Rank: number(p[0]), Code: number(p[1]), Text: p[2]}}
		}
	case "staged":
		e.staged = true
	case "started":
		e.started = &wire.Started{PIDs: pidsOf(f[2:])}
	case "done":
		e.done = doneOf(f[2:])
	case "pictured":
		e.picture = &wire.Picture{ID: number(f[2])}
	case "differ":
		e.differs = []EnvDifference{{Name: f[2]}}
	case "lost":
		e.lost = &lostEvent{why: arg(2)}
	case "died":
		e.lost = &lostEvent{why: arg(2), sweep: true}
	case "swept":
		e.swept = &sweptEvent{}
		if arg(2) != "" {
			e.swept.err = errors.New(arg(2))
		}
	case "silent":
		e.silent, _ = time.ParseDuration(f[2])
		if len(f) > 3 {
			e.fresh = number(strings.TrimPrefix(f[3], "fresh="))
		}
	case "unheard":
		e.lost = &lostEvent{why: "silent for " + f[2], sweep: true, fresh: number(strings.TrimPrefix(f[3], "fresh="))}
	case "listens":
		e.watching = &wire.Watching{Port: uint16(4000 + e.host)}
	case "joined":
		e.watching = &wire.Watching{Joined: true}
	case "alone":
		e.watching = &wire.Watching{Failure: arg(2)}
	case "word":
		e.word = s.word(f[2:])
	default:
		s.t.Fatalf("unknown event %q", f[0])
	}
	return e
}

func (s *scripted) exited(f []string) event {
	rank := number(f[0])
	x := &wire.Exited{Rank: rank}
	e := event{exited: x}
	if rank < len(s.m.layout.Ranks) {
		e.host = s.m.layout.Ranks[rank].Host
	}
	for _, field := range f[1:] {
		key, val, _ := strings.Cut(field, "=")
		switch key {
		case "code":
			x.Code = number(val)
		case "signal":
			x.Signal = number(val)
		case "at":
			x.At, _ = time.ParseDuration(val)
		case "text":
			x.Text = val
		case "bystop":
			x.ByStop = true
		case "host":
			e.host = s.host(val)
		default:
			s.t.Fatalf("unknown field %q", field)
		}
	}
	return e
}

// word reads dead=H,H and alive=H,H.
func (s *scripted) word(f []string) *word {
	w := &word{}
	for _, field := range f {
		key, names, _ := strings.Cut(field, "=")
		list := &w.dead
		if key == "alive" {
			list = &w.alive
		}
		for name := range strings.SplitSeq(names, ",") {
			*list = append(*list, s.host(name))
		}
	}
	return w
}

// around reads the time, and H=TIME of hosts that were heard of before.
func (s *scripted) around(f []string) event {
	now, _ := time.ParseDuration(f[0])
	a := &around{now: now}
	for range s.m.hosts {
		a.heard = append(a.heard, now)
	}
	for _, field := range f[1:] {
		name, at, _ := strings.Cut(field, "=")
		a.heard[s.host(name)], _ = time.ParseDuration(at)
	}
	return event{around: a}
}

// broke reads: aborts RANK code=N at=D | left RANK at=D (while others wait for it in MPI)
func (s *scripted) broke(f []string) event {
	a := &wire.Abort{Rank: number(f[1])}
	for _, field := range f[2:] {
		key, val, _ := strings.Cut(field, "=")
		switch key {
		case "code":
			a.Code = number(val)
		case "at":
			a.At, _ = time.ParseDuration(val)
		default:
			s.t.Fatalf("unknown field %q", field)
		}
	}
	if f[0] == "left" {
		return event{broke: &breach{rank: a.Rank, code: 1, at: a.At, fault: "left", late: true}}
	}
	return event{broke: aborted(a)}
}

// pidsOf reads pids=N,N.
func pidsOf(f []string) []int {
	var pids []int
	for _, field := range f {
		for n := range strings.SplitSeq(strings.TrimPrefix(field, "pids="), ",") {
			pids = append(pids, number(n))
		}
	}
	return pids
}

func doneOf(f []string) *wire.Done {
	d := &wire.Done{}
	for _, field := range f {
		key, val, _ := strings.Cut(field, "=")
		switch key {
		case "killed":
			d.Killed = append(d.Killed, number(val))
		case "left":
			d.Left = append(d.Left, val)
		}
	}
	return d
}

func layoutOf(counts []string) *Layout {
	l := &Layout{}
	for h, c := range counts {
		l.Count = append(l.Count, number(c))
		for local := range number(c) {
			l.Ranks = append(l.Ranks, Place{Host: h, Local: local})
		}
	}
	return l
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err) // a script is wrong
	}
	return n
}

func signalNumber(name string) syscall.Signal {
	for n := syscall.Signal(1); n < 65; n++ {
		if signalName(n) == "SIG"+name {
			return n
		}
	}
	panic(name)
}

func (s *scripted) show(a action) string {
	name := s.names[a.host]
	switch {
	case a.survey || a.probe != nil || a.planRails || a.rail != nil || a.patience != 0 || a.judge || a.release || a.use != nil:
		return s.showSurvey(a)
	case a.plan:
		return "plan"
	case a.stage:
		return "stage"
	case a.prepare:
		return "prepare"
	case a.drop:
		return name + ": drop"
	case a.sweep:
		return name + ": sweep"
	case a.say != "":
		return "say " + a.say
	case a.timer == never:
		return "no deadline"
	case a.timer != 0:
		return "deadline " + a.timer.String()
	case a.look != 0:
		return "look for " + a.look.String()
	case a.show != nil:
		return s.showLook(a.show)
	case a.limit:
		return "ranks begin"
	case a.suspend:
		return "suspend"
	case a.listen:
		return name + ": listen for gossip"
	case a.meet != nil:
		var names []string
		for _, h := range a.meet {
			names = append(names, s.m.hosts[h].name)
		}
		return name + ": meet " + strings.Join(names, " ")
	case a.watch != 0:
		return "look around in " + a.watch.String()
	case a.note != nil:
		return a.note.Level + " " + a.note.Text
	case a.send.Start != nil:
		return name + ": start"
	case a.send.Stop != nil:
		return name + ": stop, grace " + a.send.Stop.Grace.String()
	case a.send.Signal != nil && a.send.Signal.Caught:
		return name + ": signal " + signalName(syscall.Signal(a.send.Signal.Num)) + " to who has a handler"
	case a.send.Signal != nil:
		return name + ": signal " + signalName(syscall.Signal(a.send.Signal.Num))
	case a.send.Inspect != nil:
		return fmt.Sprintf("%s: inspect %d", name, a.send.Inspect.ID)
	case a.send.Pause != nil:
		return fmt.Sprintf("%s: pause %v", name, a.send.Pause.On)
	}
	s.t.Fatalf("unknown action %+v", a)
	return ""
}

// events writes the machine's events since the last time without what is nothing.
func (s *scripted) events() []string {
	var out []string
	for _, e := range s.m.journal() {
		line, err := json.Marshal(e)
		if err != nil {
			s.t.Fatal(err)
		}
		text := strings.Replace(string(line), `"v":0,"t":"0001-01-01T00:00:00Z","elapsed_ns":0,`, "", 1)
		out = append(out, text)
	}
	return out
}

func (s *scripted) showLook(l *look) string {
	text := "show the ranks " + l.why
	if l.broken {
		text += ", early"
	}
	for i, h := range s.m.hosts {
		if l.pictures[i] != nil {
			text += ", " + h.name
		} else if l.waiting[i] {
			text += ", silent " + h.name
		}
	}
	return text
}

func (s *scripted) result() []string {
	var out []string
	for _, r := range s.m.ranks {
		out = append(out, fmt.Sprintf("rank %d on %s: %s code %d signal %d", r.Rank, r.Host, r.State, r.Code, r.Signal))
	}
	if f := s.m.first(); f != nil {
		out = append(out, strings.TrimSpace(fmt.Sprintf("first failure: rank %d at %v %s", f.Rank, f.At, f.Fault)))
	}
	for _, h := range s.m.hostFailures {
		out = append(out, fmt.Sprintf("host failure: %s: %v", h.Host, h.Err))
	}
	for _, p := range s.m.prepare {
		out = append(out, fmt.Sprintf("prepare failure: %s rank %d code %d: %s", p.Host, p.Rank, p.Code, p.Text))
	}
	for _, l := range s.m.lostHosts {
		out = append(out, "lost: "+s.m.hosts[l.host].name+": "+l.why)
	}
	for _, l := range s.m.left {
		out = append(out, "left: "+l)
	}
	if s.m.signal != 0 {
		out = append(out, "ended by "+signalName(s.m.signal))
	}
	if s.m.timeout {
		out = append(out, "timeout")
	}
	for _, d := range s.m.differ {
		out = append(out, "differs: "+d.Name)
	}
	if s.m.stdoutClosed {
		out = append(out, "stdout closed")
	}
	for _, k := range s.m.killed {
		out = append(out, fmt.Sprintf("killed: rank %d", k))
	}
	return out
}
