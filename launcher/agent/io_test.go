package agent

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"gorun/launcher/wire"
)

func TestOutputComplete(t *testing.T) {
	t.Parallel()
	const ranks, size = 4, 1<<20 + 17
	var args [][]string
	for n := range ranks {
		args = append(args, self("flood", fmt.Sprint(size), fmt.Sprint(n)))
	}
	h := startAgent(t, launch{})
	p := newPlan(t, args...)
	p.Credit = 64 << 10
	h.run(p)
	for n := range ranks {
		got := h.text(n, wire.Out)
		if len(got) != size {
			t.Errorf("rank %d: %d bytes; want %d", n, len(got), size)
			continue
		}
		for i := range len(got) {
			if got[i] != pattern(i, n) {
				t.Errorf("rank %d: byte %d is wrong", n, i)
				break
			}
		}
	}
	h.stop(0)
}

// Not a byte more comes than was granted; what is granted later comes later, even
// after the rank was stopped.
func TestOutputKeepsCredit(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.refund = false
	p := newPlan(t, self("flood", "60000", "1"), sh("echo quick >&2"))
	p.Credit = 1000
	h.run(p)
	h.exit(0)
	id := wire.StreamID(0, wire.Out)
	have := func() int { return len(h.out[id]) }
	h.until("the first credit", func() bool { return have() == 1000 })
	h.send.Send(wire.CreditFrame(id, 500))
	h.until("the second credit", func() bool { return have() == 1500 })
	if got := h.text(1, wire.Err); got != "quick\n" {
		t.Errorf("rank 1 wrote %q; want quick", got)
	}
	h.tell(wire.Message{Stop: &wire.Stop{}})
	h.send.Send(wire.CreditFrame(id, 8500))
	h.until("the third credit", func() bool { return have() == 10000 })
	h.send.Send(wire.CreditFrame(id, 1<<20))
	if got := h.text(0, wire.Out); len(got) != 60000 || got[59999] != pattern(59999, 1) {
		t.Errorf("%d bytes; want 60000", len(got))
	}
	h.done()
}

// A head that does not want the rest says so by stopping again, without grace.
func TestOutputGivenUp(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.refund = false
	p := newPlan(t, sh("echo $$ >pid; exec cat /dev/zero"))
	p.Credit = 1000
	pids := h.run(p)
	h.until("the first credit", func() bool { return len(h.out[wire.StreamID(0, wire.Out)]) == 1000 })
	h.tell(wire.Message{Stop: &wire.Stop{Grace: testLimit}})
	h.exit(0)
	eventually(t, "the agent's end", func() bool {
		h.tell(wire.Message{Stop: &wire.Stop{}})
		return isClosed(h.exited)
	})
	if d := h.done(); len(d.Left) > 0 || h.code() != 0 {
		t.Errorf("left %q, exit code %d; want none, 0", d.Left, h.code())
	}
	if got := h.text(0, wire.Out); len(got) != 1000 {
		t.Errorf("%d bytes; want 1000", len(got))
	}
	wantGone(t, pids...)
}

// A process in the background may hold the pipe long after the rank has ended.
func TestExitBeforeEndOfOutput(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, sh("(echo early; sleep 0.3; echo late; exec sleep 1000) & exit 5")))
	if x := h.exit(0); x.Code != 5 {
		t.Errorf("rank 0 %+v; want code 5", x)
	}
	h.shows(0, "late\n")
	h.look(func() {
		if h.eof[wire.StreamID(0, wire.Out)] {
			t.Error("end of file while a process still holds the pipe")
		}
	})
	h.stop(time.Minute)
	if got := h.text(0, wire.Out); got != "early\nlate\n" {
		t.Errorf("rank 0 wrote %q; want early, late", got)
	}
}

func TestClosedStdout(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.run(newPlan(t, sh("exec >&-; exec sleep 1000")))
	if got := h.text(0, wire.Out); got != "" {
		t.Errorf("rank 0 wrote %q", got)
	}
	h.stop(0)
}

// feedAll sends data to the rank as its credit allows, then end of file.
func feedAll(h *head, rank int, data []byte) {
	h.t.Helper()
	id := wire.StreamID(rank, wire.In)
	sent := 0
	for sent < len(data) {
		var n int
		h.until("credit for stdin", func() bool {
			n = min(h.credit[id]-sent, wire.MaxPayload, len(data)-sent)
			return n > 0
		})
		h.send.Send(wire.Frame{Kind: wire.Stdin, Stream: id, Payload: bytes.Clone(data[sent : sent+n])})
		sent += n
	}
	h.send.Send(wire.Frame{Kind: wire.Stdin, Stream: id})
}

func TestStdin(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, []string{"cat"}, []string{"cat"}, sh("exec <&-; echo closed; exec sleep 1000"))
	p.Ranks[0].Stdin, p.Ranks[2].Stdin = true, true
	h.run(p)
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = pattern(i, 3)
	}
	feedAll(h, 0, data)
	if got := h.text(0, wire.Out); got != string(data) {
		t.Errorf("rank 0 read %d bytes; want the %d that were sent", len(got), len(data))
	}
	if got := h.text(1, wire.Out); got != "" {
		t.Errorf("rank 1 read %q; want nothing", got)
	}
	h.shows(2, "closed")
	feedAll(h, 2, data) // nobody reads it, and it goes through all the same
	h.stop(0)
}

// A rank that does not read holds the head back.
func TestStdinIsBounded(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, sh(`trap 'echo got' USR1; echo ready; while :; do sleep 0.02; done`))
	p.Ranks[0].Stdin = true
	h.run(p)
	h.shows(0, "ready\n")
	id := wire.StreamID(0, wire.In)
	const pipes = 64 << 10
	sent := 0
	for sent < maxWindow {
		h.until("credit", func() bool { return h.credit[id]-sent >= 1024 })
		h.send.Send(wire.Frame{Kind: wire.Stdin, Stream: id, Payload: make([]byte, 1024)})
		sent += 1024
	}
	h.until("a full pipe", func() bool { return h.credit[id] >= maxWindow+pipes/2 })
	h.tell(wire.Message{Signal: &wire.Signal{Num: 10}})
	h.shows(0, "got\n")
	h.look(func() {
		if h.credit[id] > maxWindow+2*pipes {
			t.Errorf("%d bytes granted to a rank that reads nothing", h.credit[id])
		}
	})
	h.stop(0)
}

// What comes after the end of file is nothing a rank could read.
func TestFeed(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	grants := make(chan int, 100)
	d := newFeed(7, 10, func(f wire.Frame) {
		if f.Stream != 7 {
			t.Errorf("grant for stream %d; want 7", f.Stream)
		}
		grants <- wire.CreditOf(f)
	})
	if err := d.push([]byte("early")); err != errWindow {
		t.Errorf("before the start: %v; want %v", err, errWindow)
	}
	d.start(w)
	if n := <-grants; n != 10 {
		t.Errorf("first grant %d; want 10", n)
	}
	for _, s := range []string{"abcd", "efghij", "", "late", ""} {
		if err := d.push([]byte(s)); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	b, err := io.ReadAll(r)
	if string(b) != "abcdefghij" || err != nil {
		t.Errorf("read %q, %v; want abcdefghij", b, err)
	}
	if a, b := <-grants, <-grants; a != 4 || b != 6 {
		t.Errorf("grants %d, %d; want 4, 6", a, b)
	}
	d.close()
	d.close()
}

func TestFeedRefusesTooMuch(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d := newFeed(0, 10, func(wire.Frame) {})
	d.start(w)
	defer d.close()
	if err := d.push(make([]byte, 11)); err != errWindow {
		t.Errorf("got %v; want %v", err, errWindow)
	}
}

// A link that fails is no reason to stop reading: the rank would hang in a write.
func TestStreamReadsOnWithoutLink(t *testing.T) {
	s := newStream(5, 10, newPool(), func(wire.Frame) error { return wire.ErrClosed })
	theirs, ours, err := pipe(true)
	if err != nil {
		t.Fatal(err)
	}
	s.start(ours)
	f := os.NewFile(uintptr(theirs), "pipe")
	if _, err := f.Write(make([]byte, 1<<20)); err != nil { // more than credit and pipe hold
		t.Error(err)
	}
	f.Close()
	<-s.done
	if s.open() {
		t.Error("the stream has ended, and says it is open")
	}
}

func TestPipeSize(t *testing.T) {
	for ranks, want := range map[int]int{0: maxPipe, 1: maxPipe, 16: maxPipe, 64: 256 << 10, 256: minPipe} {
		if got := pipeSize(ranks); got != want {
			t.Errorf("%d ranks: %d; want %d", ranks, got, want)
		}
	}
}

func TestStdinWindow(t *testing.T) {
	plan := func(nodes, readers int) *wire.Plan {
		p := &wire.Plan{Nodes: nodes}
		for range readers {
			p.Ranks = append(p.Ranks, wire.RankPlan{Stdin: true})
		}
		return p
	}
	tests := []struct {
		name           string
		nodes, readers int
		want           int
	}{
		{"none", 1, 0, maxWindow}, {"one", 1, 1, maxWindow}, {"one-on-many-hosts", 64, 1, maxWindow},
		{"all-of-512", 64, 8, 64 << 10}, {"all-of-a-million", 4096, 256, minWindow}, {"a-lie", 1 << 62, 4, minWindow}, {"none-said", 0, 1, maxWindow},
	}
	for _, tt := range tests {
		if got := stdinWindow(plan(tt.nodes, tt.readers)); got != tt.want {
			t.Errorf("%s: window %d; want %d", tt.name, got, tt.want)
		}
	}
}

// Control goes on while the head takes no output at all.
func TestControlWithBlockedOutput(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	h.refund = false
	p := newPlan(t, sh("exec cat /dev/zero"), sh(`trap 'exit 9' USR1; echo ready; while :; do sleep 0.02; done`))
	p.Credit = 100
	h.run(p)
	h.shows(1, "ready")
	id := wire.StreamID(0, wire.Out)
	h.until("the first credit", func() bool { return len(h.out[id]) > 0 })
	h.tell(wire.Message{Signal: &wire.Signal{Num: 10}})
	if x := h.exit(1); x.Code != 9 {
		t.Errorf("rank 1 %+v; want code 9", x)
	}
	h.stdin.Close()
	h.code()
	h.look(func() {
		if got := len(h.out[id]); got != p.Credit {
			t.Errorf("rank 0 sent %d bytes; want its credit of %d", got, p.Credit)
		}
	})
}

// BenchmarkOutput carries what 16 ranks print, without ssh and without a merger.
func BenchmarkOutput(b *testing.B) {
	const ranks = 16
	size := 4 << 20 * max(b.N/ranks, 1)
	var args [][]string
	for range ranks {
		args = append(args, []string{"head", "-c", fmt.Sprint(size), "/dev/zero"})
	}
	b.SetBytes(4 << 20)
	h := startAgent(b, launch{})
	h.discard = true
	h.run(newPlan(b, args...))
	for n := range ranks {
		h.text(n, wire.Out)
	}
	h.stop(0)
	b.ReportMetric(float64(h.cmd.ProcessState.UserTime()+h.cmd.ProcessState.SystemTime())/float64(ranks*size)*1e9/1e6, "cpu-ms/GB")
}
