package agent

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"gorun/launcher/wire"
)

// picture asks the agent for a picture, until ok says that it is the one.
func (h *head) picture(id int, ok func(wire.Picture) bool) wire.Picture {
	h.t.Helper()
	for limit := time.Now().Add(testLimit); ; id++ {
		h.tell(wire.Message{Inspect: &wire.Inspect{ID: id, Between: 300 * time.Millisecond, Within: testLimit}})
		p := message(h, "picture", func(m wire.Message) *wire.Picture {
			if m.Picture != nil && m.Picture.ID == id {
				return m.Picture
			}
			return nil
		})
		if ok(*p) {
			return *p
		}
		if time.Now().After(limit) {
			h.t.Fatalf("no such picture; the last: %s", describe([]wire.Message{{Picture: p}}))
		}
	}
}

// sight is what a picture says of a rank.
func sight(p wire.Picture, rank int) wire.Sight {
	i := slices.IndexFunc(p.Sights, func(s wire.Sight) bool { return s.Rank == rank })
	if i < 0 {
		return wire.Sight{Rank: -1}
	}
	return p.Sights[i]
}

func TestInspect(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	plan := newPlan(t,
		[]string{"sleep", "1000"},
		sh("while :; do :; done"),
		sh("read x; echo never"),
		sh("kill -STOP $$; exit 3"),
		sh("(sleep 1000; :) & exec sleep 1000"),
		self("talk"),
		sh("exit 0"),
		sh("head -c 10000000 /dev/zero; sleep 1000"),
	)
	plan.Ranks[2].Stdin = true
	plan.Credit = 1 << 10
	h.refund = false
	h.run(plan)
	listening := h.pid(5, "listening ")
	c, err := net.Dial("tcp", fmt.Sprint("127.0.0.1:", listening))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	h.shows(5, "reading\n")
	h.exit(6)
	p := h.picture(1, func(p wire.Picture) bool {
		return sight(p, 0).Call == "nanosleep" && sight(p, 2).Call == "read" && sight(p, 3).State == "T" &&
			sight(p, 4).Processes == 3 && sight(p, 5).Conns != nil && sight(p, 7).Call == "write"
	})
	want := []struct {
		rank              int
		name, state, file string
	}{
		{0, "sleep", "S", ""},
		{1, "sh", "R", ""},
		{2, "sh", "S", "its standard input"},
		{3, "sh", "T", ""},
		{4, "sleep", "S", ""},
		{7, "head", "S", "its standard output"},
	}
	for _, w := range want {
		if s := sight(p, w.rank); s.Name != w.name || s.State != w.state || s.File != w.file || s.Partial {
			t.Errorf("got %+v; want %+v", s, w)
		}
	}
	if s := sight(p, 6); s.Rank != -1 {
		t.Errorf("rank 6 has ended, but there is %+v", s)
	}
	if s := sight(p, 0); s.CPU > p.Took/10 || s.Threads != 1 || s.Processes != 1 {
		t.Errorf("got %+v; want an idle rank of one thread", s)
	}
	h.picture(100, func(p wire.Picture) bool { return sight(p, 1).CPU > p.Took/10 }) // others compute, too
	s := sight(p, 5)
	here := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(listening))
	if !slices.Equal(s.Listens, []netip.AddrPort{here}) {
		t.Errorf("listens on %v; want %v", s.Listens, here)
	}
	if len(s.Conns) != 1 || s.Conns[0].Local != here || s.Conns[0].Remote.String() != c.LocalAddr().String() {
		t.Errorf("connections %+v; want one from %v to %v", s.Conns, here, c.LocalAddr())
	}
	h.send.Send(wire.CreditFrame(wire.StreamID(7, wire.Out), 1<<30))
	h.stop(0)
}

// What a rank waits for in the store is known without the head.
func TestInspectStore(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	plan := newPlan(t, self("barrier"), []string{"sleep", "1000"})
	plan.Ranks[0].Env = append(plan.Ranks[0].Env, wire.Bytes("GORUN_SIZE=2"), wire.Bytes("GORUN_STORE=unix:"+jobDir(plan.JobID)+"/store"))
	h.run(plan)
	h.shows(0, "entering\n")
	p := h.picture(1, func(p wire.Picture) bool { return sight(p, 0).Store != nil })
	if w := sight(p, 0).Store; len(w) != 1 || w[0].Op != "barrier" || w[0].Name != `"all \x1b here"` || w[0].For <= 0 {
		t.Errorf("waits in %+v; want a barrier", w)
	}
	h.stop(0)
}

// The order to stop does not wait for a look.
func TestStopWhileInspected(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, []string{"sleep", "1000"}))
	h.tell(wire.Message{Inspect: &wire.Inspect{Between: time.Hour, Within: time.Hour}})
	h.tell(wire.Message{Inspect: &wire.Inspect{Between: time.Hour, Within: time.Hour}})
	begun := time.Now()
	h.stop(0)
	if took := time.Since(begun); took > testLimit/2 {
		t.Errorf("the stop took %v", took)
	}
}

// A signal that only handlers get ends nothing.
func TestSignalCaught(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, sh("trap 'echo caught' USR2; echo ready; while :; do sleep 0.02; done"), sh("trap '' USR2; echo ready; exec sleep 1000"), sh("echo ready; exec sleep 1000")))
	for rank := range 3 {
		h.shows(rank, "ready\n")
	}
	h.tell(wire.Message{Signal: &wire.Signal{Num: int(syscall.SIGUSR2), Caught: true}})
	h.shows(0, "caught\n")
	p := h.picture(1, func(p wire.Picture) bool { return true })
	if len(p.Sights) != 3 {
		t.Errorf("%d ranks are alive; want 3", len(p.Sights))
	}
	h.stop(0)
}

// A process that hangs in the kernel is told of, by the thread that does; its other
// files may hang too.
func TestLookerStuck(t *testing.T) {
	files := fakeProc()
	l := newLooker(files)
	procs := []proc{{pid: 40, state: 'S', threads: 1}, {pid: 42, ppid: 40, state: 'S', threads: 3}}
	got := l.see(wire.Sight{Rank: 3, PID: 42, Name: "train", State: "S"}, procs)
	want := wire.Sight{
		Rank: 3, PID: 42, Name: "train", State: "D", Channel: "rpc_wait_bit_killable", Call: "read", File: "/nfs/a?b",
		Listens: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:29500")},
		Conns: []wire.Conn{
			{Local: netip.MustParseAddrPort("10.0.0.1:40000"), Remote: netip.MustParseAddrPort("10.0.0.2:4000"), State: wire.ConnOpening},
			{Local: netip.MustParseAddrPort("10.0.0.1:29500"), Remote: netip.MustParseAddrPort("10.0.0.3:50000"), Unsent: 256, Unread: 16},
		},
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
		t.Errorf("got\n%+v; want\n%+v", got, want)
	}
}

// hanging is a /proc in which some files never answer.
type hanging struct {
	fs.FS
	path string
	free chan struct{}
}

func (h hanging) Open(name string) (fs.File, error) {
	if strings.HasPrefix(name, h.path) {
		<-h.free
	}
	return h.FS.Open(name)
}

func TestLookerHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hanging{fakeProc(), "42/", make(chan struct{})}
		defer close(h.free)
		l := newLooker(h)
		sights := []wire.Sight{{Rank: 0, PID: 40, State: "S"}, {Rank: 1, PID: 42, State: "D"}}
		trees := map[int][]proc{0: {{pid: 40}}, 1: {{pid: 42}}}
		if !l.detail(sights, trees, time.After(time.Second), nil) {
			t.Fatal("the look was cut off; want what is known")
		}
		if s := sights[0]; s.Partial || s.Call != "wait" {
			t.Errorf("got %+v; want all of rank 0", s)
		}
		if s := sights[1]; !s.Partial || s.State != "D" {
			t.Errorf("got %+v; want a part of rank 1", s)
		}
		cut := make(chan struct{})
		close(cut)
		if l.detail(sights[1:], trees, nil, cut) {
			t.Error("an order to stop was not seen")
		}
	})
}

// fakeProc is a shell, 40, and its child 42, whose thread 43 hangs in the kernel.
func fakeProc() fstest.MapFS {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	link := func(to string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink} }
	stat := func(pid int, state string) *fstest.MapFile {
		return file(fmt.Sprintf("%d (a b) %s 1 40 40 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0", pid, state))
	}
	return fstest.MapFS{
		"40/status":          file("Name: sh"),
		"40/task/40/stat":    stat(40, "S"),
		"40/task/40/syscall": file("61 0xffffffff 0x0 0x0 0x0 0x0 0x0 0x7ff 0x7ff\n"),
		"42/task/41/stat":    file("gone"),
		"42/task/42/stat":    stat(42, "S"),
		"42/task/43/stat":    stat(43, "D"),
		"42/task/43/wchan":   file("rpc_wait_bit_killable"),
		"42/task/43/syscall": file("0 0x5 0x7ff 0x1000 0x0 0x0 0x0 0x7ff 0x7ff\n"),
		"42/task/44/stat":    stat(44, "R"),
		"42/ns/net":          link("net:[1]"),
		"42/fd/5":            link("/nfs/a\nb"),
		"42/fd/6":            link("socket:[100]"),
		"42/fd/7":            link("socket:[101]"),
		"42/fd/8":            link("socket:[102]"),
		"42/fd/9":            link("socket:[999]"), // of another kind
		"42/net/tcp": file("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
			"   0: 00000000:733C 00000000:0000 0A 00000000:00000003 00:00000000 00000000  1000        0 100 1 0 100 0 0 10 0\n" +
			"   1: 0100000A:733C 0300000A:C350 01 00000100:00000010 01:00000014 00000000  1000        0 101 1 0 20 4 30 10 -1\n" +
			"   2: 0100000A:9C40 0200000A:0FA0 02 00000001:00000000 01:00000014 00000003  1000        0 102 1 0 20 4 30 10 -1\n" +
			"   3: 0100000A:9C41 0200000A:0FA1 01 00000000:00000000 00:00000000 00000000  1001        0 103 1 0 20 4 30 10 -1\n"),
	}
}

func TestParseSocket(t *testing.T) {
	rest := " 01 00000000:00000000 00:00000000 00000000 0 0 7 1 0"
	tests := []struct {
		name, line    string
		local, remote string
		ok            bool
	}{
		{"ipv4", "0: 0100007F:1F90 0200000A:0016" + rest, "127.0.0.1:8080", "10.0.0.2:22", true},
		{"ipv6", "0: B80D01200000000000000000" + "01000000:1F90 00000000000000000000000001000000:0016" + rest, "[2001:db8::1]:8080", "[::1]:22", true},
		{"mapped", "0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000200000A:0016" + rest, "127.0.0.1:8080", "10.0.0.2:22", true},
		{"header", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", "", "", false},
		{"short", "0: 0100007F:1F90 0200000A:0016 01", "", "", false},
		{"no-port", "0: 0100007F 0200000A:0016" + rest, "", "", false},
		{"half-address", "0: 0100:1F90 0200000A:0016" + rest, "", "", false},
	}
	for _, tt := range tests {
		s, ok := parseSocket(tt.line)
		if ok != tt.ok || ok && (s.local.String() != tt.local || s.remote.String() != tt.remote || s.inode != 7) {
			t.Errorf("%s: got %+v, %v; want %s to %s", tt.name, s, ok, tt.local, tt.remote)
		}
	}
}

func TestTeller(t *testing.T) {
	shell := proc{pid: 10, start: 1, own: 5, state: 'S'}
	python := proc{pid: 11, ppid: 10, start: 2, own: 900, state: 'S'}
	helper := proc{pid: 12, ppid: 11, start: 3, own: 1, state: 'S'}
	tests := []struct {
		name  string
		first []proc
		procs []proc
		want  int
	}{
		{"alone", nil, []proc{shell}, 10},
		{"the-leaf", []proc{shell, python}, []proc{shell, python}, 11},
		{"busier-than-its-child", []proc{shell, {pid: 11, start: 2, own: 800}, helper}, []proc{shell, python, helper}, 11},
		{"idle-leaf", []proc{shell, python, helper}, []proc{shell, python, helper}, 12},
		{"stuck", nil, []proc{python, {pid: 13, ppid: 10, state: 'D'}, shell}, 13},
		{"pid-used-again", []proc{{pid: 12, start: 1, own: 1000}, python}, []proc{python, {pid: 12, start: 9, own: 3, ppid: 11}}, 12},
	}
	for _, tt := range tests {
		if got := teller(tt.first, tt.procs); got.pid != tt.want {
			t.Errorf("%s: got %d; want %d", tt.name, got.pid, tt.want)
		}
	}
}

// Connections of a rank with itself are left out, but for one in which it waits.
func TestPlug(t *testing.T) {
	sock := func(inode uint64, local, remote string, state byte) socket {
		return socket{local: netip.MustParseAddrPort(local), remote: netip.MustParseAddrPort(remote), inode: inode, state: state}
	}
	sockets := []socket{
		sock(1, "127.0.0.1:1", "127.0.0.1:2", 1), sock(2, "127.0.0.1:2", "127.0.0.1:1", 1),
		sock(3, "10.0.0.1:3", "10.0.0.2:4", 1), sock(4, "0.0.0.0:5", "0.0.0.0:0", tcpListen), sock(5, "[::]:5", "[::]:0", tcpListen),
		sock(6, "0.0.0.0:0", "0.0.0.0:0", 7),
	}
	for waited, want := range map[uint64]string{0: "10.0.0.2:4", 2: "127.0.0.1:1 10.0.0.2:4"} {
		var s wire.Sight
		plug(&s, sockets, waited)
		var got []string
		for _, c := range s.Conns {
			got = append(got, c.Remote.String())
		}
		if strings.Join(got, " ") != want || len(s.Listens) != 2 {
			t.Errorf("waiting in %d: got %q, listening on %v; want %q", waited, got, s.Listens, want)
		}
	}
}

// A picture of any size is a message that the head takes.
func TestFit(t *testing.T) {
	small := wire.Picture{Sights: []wire.Sight{{Conns: make([]wire.Conn, 3)}}}
	if got := fit(small); len(got.Sights[0].Conns) != 3 || got.Sights[0].More != 0 {
		t.Errorf("got %+v; want it unchanged", got)
	}
	many := func(ranks int) wire.Picture {
		p, conns := wire.Picture{}, make([]wire.Conn, wire.MaxPeers)
		for range ranks {
			s := wire.Sight{Conns: conns, Store: make([]wire.StoreWait, wire.MaxStores), File: strings.Repeat("f", maxName)}
			for i := range s.Store {
				s.Store[i].Name = strings.Repeat("k", 256)
			}
			p.Sights = append(p.Sights, s)
		}
		return p
	}
	for _, ranks := range []int{100, 1500, 4000} {
		p := fit(many(ranks))
		f, err := wire.Encode(wire.Message{Picture: &p})
		if err != nil || len(f.Payload) > wire.MaxReport {
			t.Errorf("%d ranks: %d bytes, %v", ranks, len(f.Payload), err)
		}
		if s := p.Sights[0]; len(s.Conns)+s.More != wire.MaxPeers {
			t.Errorf("%d ranks: %d connections and %d more; want %d in all", ranks, len(s.Conns), s.More, wire.MaxPeers)
		}
		if ranks <= 1500 && len(p.Sights) != ranks {
			t.Errorf("%d ranks: %d are told of", ranks, len(p.Sights))
		}
	}
}

func TestCaught(t *testing.T) {
	status := "Name:\tsh\nSigIgn:\t0000000000000800\nSigCgt:\t0000000000010002\n"
	if got := caught([]byte(status)); got != 0x10002 {
		t.Errorf("got %#x; want 0x10002", got)
	}
	if got := caught([]byte("Name:\tsh\n")); got != 0 {
		t.Errorf("got %#x; want 0", got)
	}
}
