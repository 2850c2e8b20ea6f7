package agent

import (
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// proofOf waits until the agent has told what a rank has settled to, and ok takes it.
func (h *head) proofOf(rank int, ok func(wire.Settled) bool) wire.Settled {
	h.t.Helper()
	return *message(h, fmt.Sprintf("proof of rank %d", rank), func(m wire.Message) *wire.Settled {
		if m.Proof == nil {
			return nil
		}
		for _, s := range m.Proof.Settled {
			if slices.Contains(s.Ranks, rank) && ok(s) {
				return &s
			}
		}
		return nil
	})
}

func changesText(list []wire.Change) string {
	var out []string
	for _, c := range list {
		if c.Sum == "" {
			out = append(out, "-"+c.Name)
		} else {
			out = append(out, c.Name+"="+string(c.Value))
		}
	}
	return strings.Join(out, " ")
}

func TestProve(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{env: []string{"LD_LIBRARY_PATH=/a"}})
	plan := newPlan(t,
		sh("exec sleep 1000"),
		sh("exec sleep 1000"),
		sh("unset NCCL_ALGO; export NCCL_PROTO=LL NCCL_DEBUG=INFO NCCL_X_TOKEN=hush; exec sleep 1000"),
		sh("LD_LIBRARY_PATH=/b sleep 1000 & wait"),
		[]string{"env", "-i", "sleep", "1000"},
		sh("exit 0"),
	)
	plan.Env = append(plan.Env, wire.Bytes("NCCL_ALGO=Ring"))
	h.run(plan)
	for rank, want := range map[int]string{0: "", 1: "", 2: "-NCCL_ALGO NCCL_PROTO=LL NCCL_X_TOKEN=", 3: "LD_LIBRARY_PATH=/b"} {
		s := h.proofOf(rank, func(s wire.Settled) bool {
			return strings.HasSuffix(string(s.File), "/sleep") || strings.Contains(string(s.File), "coreutils")
		})
		if got := changesText(s.Changes); got != want || s.Library != nil {
			t.Errorf("rank %d: got %q, libnccl %q; want %q and none", rank, got, s.Library, want)
		}
		if rank == 0 && !slices.Equal(s.Ranks, []int{0, 1}) {
			t.Errorf("ranks that are alike: got %v; want 0 and 1", s.Ranks)
		}
		if want := envsync.DigestOf([]string{"NCCL_ALGO=Ring"}).String(); rank != 2 && s.Digest != want {
			t.Errorf("rank %d: got digest %q; want %q", rank, s.Digest, want)
		}
	}
	refused := message(h, "the rank without its names", func(m wire.Message) *wire.Proof {
		if m.Proof != nil && m.Proof.Refused != nil {
			return m.Proof
		}
		return nil
	})
	if !slices.Equal(refused.Refused, []int{4}) {
		t.Errorf("refused: got %v; want rank 4", refused.Refused)
	}
	h.stop(0)
}

// procFS is a /proc of processes, each with these files; of exe the text is the target.
func procFS(files map[string]string) fs.FS {
	out := fstest.MapFS{}
	for name, text := range files {
		f := &fstest.MapFile{Data: []byte(text)}
		if strings.HasSuffix(name, "/exe") {
			f.Mode = fs.ModeSymlink
		}
		out[name] = f
	}
	return out
}

func TestGlance(t *testing.T) {
	const lib = "7f00-7f01 r-xp 00000000 08:01 42    /opt/nccl/libnccl.so.2.21.5\n"
	files := map[string]string{
		"1/environ": "GORUN_JOB_ID=j\x00GORUN_RANK=0\x00NCCL_ALGO=Ring\x00", "1/exe": "/bin/bash", "1/cmdline": "bash\x00-c\x00x", "1/maps": "0-1 r--p 0 0:0 0\n",
		"2/environ": "GORUN_JOB_ID=j\x00GORUN_RANK=0\x00NCCL_ALGO=Tree\x00NCCL_ALGO=Late\x00NCCL_DEBUG=INFO\x00X=1\x00", "2/exe": "/bin/prog", "2/cmdline": "prog\x00--rank=17",
		"3/environ": "GORUN_RANK=0\x00", "3/exe": "/bin/tee", "3/maps": lib,
		"4/environ": "", "4/exe": "/bin/gone",
		"5/environ": "A=1\x00",
		"7/environ": "GORUN_RANK=0\x00", "7/exe": "/bin/python", "7/maps": "0-1 r--p 0 0:0 0 /x/libmpich.so.12\n0-1 r--p 0 0:0 0 /x/libmpi_cxx.so.40.30.4\n",
		"8/environ": "GORUN_RANK=0\x00PMIX_RANK=1\x00", "8/exe": "/bin/python", "8/maps": "0-1 r--p 0 0:0 0 /x/libmpi.so.40\n",
		"6/environ": "GORUN_RANK=0\x00", "6/exe": "/bin/plugin", "6/maps": "0-1 r--p 0 0:0 0 /x/libnccl-net.so\n",
	}
	p := func(pid, ppid int, start uint64) proc { return proc{pid: pid, ppid: ppid, start: start, state: 'S'} }
	tests := []struct {
		name    string
		procs   []proc
		pid     int
		file    string // "" if it cannot be read
		library string
		values  string
	}{
		{"leaf", []proc{p(2, 1, 20), p(1, 0, 10)}, 2, "/bin/prog", "", "GORUN_JOB_ID GORUN_RANK NCCL_ALGO"},
		{"oldest-leaf", []proc{p(6, 1, 30), p(2, 1, 20), p(1, 0, 10)}, 2, "/bin/prog", "", "GORUN_JOB_ID GORUN_RANK NCCL_ALGO"},
		{"maps-nccl", []proc{p(1, 0, 10), p(2, 1, 20), p(3, 1, 30)}, 3, "/bin/tee", "/opt/nccl/libnccl.so.2.21.5", "GORUN_RANK"},
		{"maps-a-plugin", []proc{p(1, 0, 10), p(6, 1, 30)}, 6, "/bin/plugin", "", "GORUN_RANK"},
		{"empty-environment", []proc{p(4, 0, 10)}, 4, "/bin/gone", "", ""},
		{"no-file", []proc{p(5, 0, 10)}, 5, "", "", ""},
		{"gone", []proc{p(9, 0, 10)}, 9, "", "", ""},
	}
	for _, tt := range tests {
		g := newLooker(procFS(files)).glance(0, tt.procs, procKey{}, "")
		if names := strings.Join(slices.Sorted(maps.Keys(g.environ.values)), " "); g.key.pid != tt.pid || g.file != tt.file || g.readable != (tt.file != "") || g.library != tt.library || names != tt.values {
			t.Errorf("%s: got %+v; want process %d, file %q, libnccl %q, names %q", tt.name, g, tt.pid, tt.file, tt.library, tt.values)
		}
	}
	g := newLooker(procFS(files)).glance(0, tests[0].procs, procKey{}, "")
	if got := g.environ.values["NCCL_ALGO"].text; got != "Tree" {
		t.Errorf("of a repeated name: got %q; want the first, Tree", got)
	}
	for pid, want := range map[int]string{7: "/x/libmpi_cxx.so.40.30.4", 8: "", 6: "", 2: ""} { // 8 is a child of mpirun
		l := newLooker(procFS(files))
		for _, alone := range []bool{true, false} {
			l.alone = alone
			if !alone {
				want = ""
			}
			if g := l.glance(0, []proc{p(pid, 0, 10)}, procKey{}, ""); g.mpi != want {
				t.Errorf("process %d, alone %v: got %q; want %q", pid, alone, g.mpi, want)
			}
		}
	}
}

func TestReadEnviron(t *testing.T) {
	long := strings.Repeat("x", 5000)
	tests := []struct {
		name, text string
		ok         bool
		want       int // names that matter
	}{
		{"empty", "", true, 0},
		{"without-an-end", "NCCL_ALGO=Ring", true, 1},
		{"no-variables", "title of a process\x00\x00\x00\x00", true, 0},
		{"odd-names", "NCCL_\xff=1\x00NCCL_A B=1\x00=1\x00NCCL_" + long + "=1\x00", true, 0},
		{"long-value", "NCCL_ALGO=" + long + "\x00", true, 1},
		{"longer-than-linux-allows", "NCCL_ALGO=" + strings.Repeat("x", 200000) + "\x00", false, 0},
		{"many-names", manyNames(maxSettings + 1), false, maxSettings},
		{"endless", strings.Repeat("A=1\x00", maxEnviron/4), false, 0},
	}
	for _, tt := range tests {
		e, ok := readEnviron(strings.NewReader(tt.text))
		if ok != tt.ok || len(e.values) != tt.want {
			t.Errorf("%s: got %d names, %v; want %d, %v", tt.name, len(e.values), ok, tt.want, tt.ok)
		}
	}
	e, _ := readEnviron(strings.NewReader("NCCL_ALGO=" + long + "\x00NCCL_IB_KEY=hush\x00"))
	if v := e.values["NCCL_ALGO"]; len(v.text) != wire.MaxValue || v.sum == newSetting("NCCL_ALGO", long[1:]).sum {
		t.Errorf("long value: got %+v; want its beginning, and a sum of all of it", v)
	}
	if v := e.values["NCCL_IB_KEY"]; v.text != "" || v.sum == "" {
		t.Errorf("secret: got %+v; want a sum only", v)
	}
}

func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "NCCL_A%d=1\x00", i)
	}
	return b.String()
}

func FuzzReadEnviron(f *testing.F) {
	f.Add("A=1\x00NCCL_ALGO=Ring\x00GORUN_RANK=1\x00NCCL_ALGO=\x00=\x00")
	f.Fuzz(func(t *testing.T, text string) {
		e, _ := readEnviron(strings.NewReader(text))
		for name, v := range e.values {
			if !strings.Contains(text, name+"=") || len(v.text) > wire.MaxValue || v.sum == "" {
				t.Errorf("%q: got %q with %+v", text, name, v)
			}
		}
	})
}

// A numbered argument is the same program in every rank; another one is not.
func TestProgramKey(t *testing.T) {
	base := programKeyOf("/bin/p", "p\x00--rank=3\x00x")
	for cmdline, same := range map[string]bool{"p\x00--rank=12\x00x": true, "p\x00--rank=\x00x": false, "p\x00--rank=3\x00y": false, "p\x00--rank=3": false} {
		if got := programKeyOf("/bin/p", cmdline) == base; got != same {
			t.Errorf("%q: got the same program %v; want %v", cmdline, got, same)
		}
	}
	if programKeyOf("/bin/q", "p\x00--rank=3\x00x") == base {
		t.Error("two files are the same program")
	}
}

// seenAt is a glimpse of a process of rank 0.
func seenAt(pid int, file, text string) glimpse {
	e, _ := readEnviron(strings.NewReader(text))
	return glimpse{readable: true, key: procKey{pid, uint64(pid)}, file: file, environ: e}
}

func TestSettle(t *testing.T) {
	plan := planned([]string{"GORUN_JOB_ID=j", "GORUN_RANK=0", "NCCL_ALGO=Ring"})
	const text = "GORUN_JOB_ID=j\x00GORUN_RANK=0\x00NCCL_ALGO=Ring\x00"
	first, other := seenAt(100, "/bin/p", text), seenAt(101, "/bin/p", text)
	step := func(ms int, g glimpse) (time.Duration, glimpse) { return time.Duration(ms) * time.Millisecond, g }
	tests := []struct {
		name string
		play func(*proving)
		want bool
	}{
		{"seen-once", func(r *proving) { at, g := step(200, first); r.take(g, at) }, false},
		{"seen-again", func(r *proving) { r.take(first, 200e6); r.take(first, 1000e6) }, true},
		{"too-soon", func(r *proving) { r.take(first, 900e6); r.take(first, 1000e6) }, false},
		{"another-file", func(r *proving) { r.take(seenAt(100, "/bin/sh", text), 200e6); r.take(first, 1000e6) }, false},
		{"another-value", func(r *proving) {
			r.take(seenAt(100, "/bin/p", text+"NCCL_PROTO=LL\x00"), 200e6)
			r.take(first, 1000e6)
		}, false},
		{"child", func(r *proving) { r.take(other, 1000e6); r.take(other, 2000e6) }, false},
		{"child-that-stays", func(r *proving) { r.take(other, 1000e6); r.take(other, 5000e6) }, true},
		{"ended", func(r *proving) { r.take(first, 200e6); r.take(first, 1000e6); r.take(glimpse{gone: true}, 2000e6) }, true},
		{"unreadable", func(r *proving) { r.take(first, 200e6); r.take(first, 1000e6); r.take(glimpse{}, 2000e6) }, false},
		{"another-rank", func(r *proving) {
			g := seenAt(100, "/bin/p", "GORUN_JOB_ID=j\x00GORUN_RANK=1\x00")
			r.take(g, 200e6)
			r.take(g, 1000e6)
		}, false},
	}
	for _, tt := range tests {
		r := &proving{plan: plan, first: 100}
		if tt.play(r); r.settled != tt.want {
			t.Errorf("%s: settled %v; want %v", tt.name, r.settled, tt.want)
		}
	}
}

// A program that has just been started may start itself anew; one that a wrapper has become
// was started by that.
func TestEarly(t *testing.T) {
	const text = "GORUN_JOB_ID=j\x00GORUN_RANK=0\x00NCCL_ALGO=Ring\x00"
	script := []string{"./run", "-n", "2"}
	tests := []struct {
		name    string
		path    string
		argv    []string
		cmdline string
		pid     int
		text    string
		want    bool
	}{
		{"started", "/bin/p", []string{"p", "x"}, "p\x00x\x00", 100, text, true},
		{"script", "./run", script, "/bin/sh\x00-e\x00./run\x00-n\x002\x00", 100, text, true},
		{"script-has-become-a-program", "./run", script, "prog\x00-n\x002\x00", 100, text, false},
		{"wrapper-has-become-its-argument", "/usr/bin/env", []string{"env", "p", "x"}, "p\x00x\x00", 100, text, false},
		{"child", "/bin/p", []string{"p", "x"}, "p\x00x\x00", 101, text, false},
		{"has-started-itself-anew", "/bin/p", []string{"p", "x"}, "p\x00x\x00", 100, text + "NCCL_PROTO=LL\x00", false},
	}
	for _, tt := range tests {
		r := &proving{plan: planned([]string{"GORUN_JOB_ID=j", "GORUN_RANK=0", "NCCL_ALGO=Ring"}), first: 100, path: tt.path, argv: tt.argv}
		g := seenAt(tt.pid, "/bin/p", tt.text)
		g.cmdline = tt.cmdline
		r.take(g, 200*time.Millisecond)
		r.take(g, 4*time.Second)
		if got := r.seen().Early; !r.settled || got != tt.want {
			t.Errorf("%s: settled %v, early %v; want %v", tt.name, r.settled, got, tt.want)
		}
		r.take(g, 5*time.Second)
		if r.seen().Early {
			t.Errorf("%s: early for ever", tt.name)
		}
	}
}

// A host with very many ranks, each with another value of something, tells of what else they
// have all the same.
func TestProofsTellOfAll(t *testing.T) {
	p := &prover{ranks: map[int]*proving{}}
	for rank := range 65 {
		values := map[string]setting{"UCX_NET_DEVICES": newSetting("UCX_NET_DEVICES", fmt.Sprint(rank))}
		for i := range 20 {
			name := fmt.Sprintf("NCCL_A%d", i)
			values[name] = newSetting(name, "1")
		}
		p.ranks[rank] = &proving{plan: planned(nil), settled: true, last: glimpse{environ: environ{values: values}}}
	}
	for _, m := range p.proofs(true) {
		for _, s := range m.Settled {
			if len(s.Changes) != 21 || s.More != 0 {
				t.Fatalf("%d changes and %d more; want 21", len(s.Changes), s.More)
			}
		}
	}
}

// What an agent tells is bounded, whatever ranks put into their environments.
func TestProofsFit(t *testing.T) {
	p := &prover{ranks: map[int]*proving{}}
	values := map[string]setting{}
	for i := range maxSettings {
		name := fmt.Sprintf("NCCL_%0*d", wire.MaxName-5, i)
		values[name] = newSetting(name, strings.Repeat("\xff", 300))
	}
	for rank := range 130 {
		r := &proving{plan: planned(nil), settled: true}
		r.last = glimpse{program: fmt.Sprint(rank), file: strings.Repeat("f", 5000), library: strings.Repeat("l", 5000), environ: environ{values: values}}
		p.ranks[rank] = r
	}
	told := map[int]bool{}
	for _, m := range p.proofs(true) {
		f, err := wire.Encode(wire.Message{Proof: &m})
		if err != nil || len(f.Payload) > wire.MaxReport {
			t.Errorf("a message of %d bytes, %v; want at most %d", len(f.Payload), err, wire.MaxReport)
		}
		for _, s := range m.Settled {
			told[s.Ranks[0]] = true
			if len(s.Changes) == 0 || len(s.Changes)+s.More != maxSettings {
				t.Errorf("%d changes and %d more; want %d in all", len(s.Changes), s.More, maxSettings)
			}
		}
	}
	if len(told) != 130 {
		t.Errorf("%d ranks are told of; want 130", len(told))
	}
	if again := p.proofs(false); again != nil {
		t.Errorf("what has not changed is told again: %d messages", len(again))
	}
	if last := p.proofs(true); len(last) != 1 || !last[0].Last || last[0].Settled != nil {
		t.Errorf("the last message: got %+v", last)
	}
}

// hangingFS is a /proc in which reading a process's environment takes for ever.
type hangingFS struct {
	fs.FS
	pid  string
	hang chan struct{}
}

func (h hangingFS) Open(name string) (fs.File, error) {
	if name == h.pid+"/environ" {
		<-h.hang
	}
	return h.FS.Open(name)
}

func (h hangingFS) ReadLink(name string) (string, error)   { return fs.ReadLink(h.FS, name) }
func (h hangingFS) Lstat(name string) (fs.FileInfo, error) { return fs.Lstat(h.FS, name) }

// A process that hangs in the kernel holds up only its own rank, and is read once.
func TestProveHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		files := map[string]string{}
		for _, pid := range []string{"100", "200"} {
			files[pid+"/environ"], files[pid+"/exe"] = "GORUN_JOB_ID=j\x00", "/bin/p"
		}
		p := &prover{
			looker: newLooker(hangingFS{procFS(files), "200", hang}), ranks: map[int]*proving{0: {first: 100}, 1: {first: 200}},
			slots: make(chan struct{}, glances), found: make(chan glimpse, 2),
		}
		for _, r := range p.ranks {
			r.plan = planned([]string{"GORUN_JOB_ID=j"})
		}
		trees := map[int][]proc{0: {{pid: 100}}, 1: {{pid: 200}}}
		begun := time.Now()
		p.look(trees, time.Second, nil)
		if took := time.Since(begun); took != glanceLimit {
			t.Errorf("the first look took %v; want %v", took, glanceLimit)
		}
		p.look(trees, 5*time.Second, nil)
		if took := time.Since(begun); took != glanceLimit {
			t.Errorf("both looks took %v; want no more than the first", took)
		}
		if !p.ranks[0].settled || p.ranks[1].settled {
			t.Errorf("settled: %v, %v; want only the first", p.ranks[0].settled, p.ranks[1].settled)
		}
		close(hang)
		synctest.Wait()
	})
}
