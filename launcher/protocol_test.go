package launcher

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"gorun/hostfile"
	"gorun/launcher/wire"
	"gorun/rendezvous"
)

func control(m wire.Message) wire.Frame {
	f, err := wire.Encode(m)
	if err != nil {
		panic(err) // the test is wrong
	}
	return f
}

func outputFrame(stream uint32, text string) wire.Frame {
	return wire.Frame{Kind: wire.Output, Stream: stream, Payload: []byte(text)}
}

func exited(x wire.Exited) wire.Frame { return control(wire.Message{Exited: &x}) }

func twin(node int) wire.Frame {
	return control(wire.Message{Prepared: &wire.Prepared{Failures: []wire.Failure{{Rank: -1, Code: 125, Twin: &node}}}})
}

func failure(rank, code int) wire.Frame {
	return control(wire.Message{Prepared: &wire.Prepared{Failures: []wire.Failure{{Rank: rank, Code: code}}}})
}

func started(n int) wire.Frame {
	return control(wire.Message{Started: &wire.Started{PIDs: make([]int, n)}})
}

func killed(rank int) wire.Frame {
	return control(wire.Message{Done: &wire.Done{Killed: []int{rank}}})
}

func wordFrame(w wire.Word) wire.Frame { return control(wire.Message{Word: &w}) }

func picture(took time.Duration, sights ...wire.Sight) wire.Frame {
	return control(wire.Message{Picture: &wire.Picture{Took: took, Sights: sights}})
}

// frameTests are frames of the host that has rank 1 of two.
var frameTests = []struct {
	name  string
	frame wire.Frame
	want  string // of the error once the ranks have places; "" for none
	early string // before that; "" for the same
}{
	{"heartbeat", wire.Frame{Kind: wire.Heartbeat}, "", ""},
	{"no-json", wire.Frame{Kind: wire.Control, Payload: []byte("{")}, "bad control message", ""},
	{"unknown-message", wire.Frame{Kind: wire.Control, Payload: []byte(`{"news":{}}`)}, "of an unknown kind", ""},
	{"stdin-frame", wire.Frame{Kind: wire.Stdin}, "a frame of kind 3", ""},
	{"head's-message", control(wire.Message{Stop: &wire.Stop{}}), "a message that agents do not send", ""},
	{"second-hello", control(wire.Message{Hello: &wire.Hello{Cores: 1}}), "a message that agents do not send", ""},
	{"output", outputFrame(wire.StreamID(1, wire.Err), "x\n"), "", "output for stream 6"},
	{"output-of-others", outputFrame(wire.StreamID(0, wire.Out), "x"), "output for stream 1", ""},
	{"output-of-nobody", outputFrame(1<<20, "x"), "output for stream", ""},
	{"output-of-the-last-rank", outputFrame(1<<32-2, "x"), "output for stream", ""},
	{"output-to-stdin", outputFrame(wire.StreamID(1, wire.In), "x"), "output for stream 4", ""},
	{"fourth-stream", outputFrame(7, "x"), "output for stream 7", ""},
	{"stdin-credit", wire.CreditFrame(wire.StreamID(1, wire.In), 1000), "", "credit for stream 4"},
	{"credit-of-others", wire.CreditFrame(wire.StreamID(0, wire.In), 1000), "credit for stream 0", ""},
	{"credit-for-output", wire.CreditFrame(wire.StreamID(1, wire.Out), 1000), "credit for stream 5", ""},
	{"word", wordFrame(wire.Word{Dead: []int{0}, Alive: []int{1}}), "", "it watches others without a plan"},
	{"word-of-nobody", wordFrame(wire.Word{Alive: []int{2}}), "it tells of node 2", "it watches others"},
	{"word-of-nobody-below", wordFrame(wire.Word{Dead: []int{-1}}), "it tells of node -1", "it watches others"},
	{"word-of-too-many", wordFrame(wire.Word{Dead: make([]int, wire.MaxWord+1)}), "it tells of 65 nodes at a time", "it watches others"},
	{"watching", control(wire.Message{Watching: &wire.Watching{Port: 1}}), "", "it watches others without a plan"},
	{"long-reason", control(wire.Message{Watching: &wire.Watching{Failure: strings.Repeat("x", maxLog+1)}}), "it says in 4097 bytes why it does not watch", "it watches others"},
	{"picture", picture(1, wire.Sight{Rank: 1}), "", "it sees rank 1, which is not there"},
	{"empty-picture", picture(1), "", ""},
	{"picture-of-others", picture(1, wire.Sight{Rank: 0}), "it sees rank 0, which is not there", ""},
	{"picture-twice", picture(1, wire.Sight{Rank: 1}, wire.Sight{Rank: 1}), "it sees rank 1, which is not there, or twice", ""},
	{"picture-without-time", picture(0, wire.Sight{Rank: 1}), "its look took 0s", "it sees rank 1"},
	{"picture-of-negative-time", picture(1, wire.Sight{Rank: 1, CPU: -1}), "what cannot be of rank 1", "it sees rank 1"},
	{"picture-of-too-much", picture(1, wire.Sight{Rank: 1, Conns: make([]wire.Conn, wire.MaxPeers+1)}), "what cannot be of rank 1", "it sees rank 1"},
	{"no-request", wire.Frame{Kind: wire.Store, Payload: []byte("get k")}, "store message", ""},
	{"exited", exited(wire.Exited{Rank: 1, Code: 255, At: time.Second}), "", "rank 1 ended, which is not there"},
	{"exit-of-others", exited(wire.Exited{Rank: 0, Code: 1}), "rank 0 ended, which is not there", ""},
	{"exit-of-nobody", exited(wire.Exited{Rank: -1}), "rank -1 ended", ""},
	{"exit-code", exited(wire.Exited{Rank: 1, Code: 256}), "rank 1 ended with code 256", "rank 1 ended"},
	{"exit-negative", exited(wire.Exited{Rank: 1, Code: -1}), "rank 1 ended with code -1", "rank 1 ended"},
	{"exit-signal", exited(wire.Exited{Rank: 1, Signal: 65}), "signal 65", "rank 1 ended"},
	{"exit-before-the-start", exited(wire.Exited{Rank: 1, At: -1}), "at -1ns", "rank 1 ended"},
	{"not-started-with-code-0", exited(wire.Exited{Rank: 1, Text: "no"}), "rank 1 ended with code 0", "rank 1 ended"},
	{"started", started(1), "", "it started 1 rank"},
	{"started-others", started(2), "it started 2 ranks", ""},
	{"done", killed(1), "", "it killed rank 1"},
	{"killed-others", killed(0), "it killed rank 0", ""},
	{"prepared", failure(1, 126), "", "it cannot prepare rank 1"},
	{"host-not-prepared", failure(-1, 125), "", ""},
	{"failure-without-code", failure(-1, 0), "it cannot prepare rank -1: code 0", ""},
	{"failure-with-high-code", failure(-1, 128), "it cannot prepare rank -1: code 128", ""},
	{"failure-of-others", failure(0, 127), "it cannot prepare rank 0", ""},
	{"same-as-first", twin(0), "", "it is the same machine as node 0"},
	{"same-as-nobody", twin(9), "it is the same machine as node 9", "it is the same machine as node 9"},
	{"same-as-negative", twin(-1), "it is the same machine as node -1", "it is the same machine as node -1"},
	{"files-unasked", control(wire.Message{Have: &wire.Have{}}), "it speaks of files that it was not told of", ""},
	{"settings", control(wire.Message{Settings: &wire.Settings{}}), "", ""},
	{"many-settings", control(wire.Message{Settings: &wire.Settings{Files: make([]wire.ConfFile, 3)}}), "it has 3 files of settings", ""},
	{"settings-of-a-long-path", control(wire.Message{Settings: &wire.Settings{Files: []wire.ConfFile{{Path: make([]byte, maxLog+1)}}}}), "a path of 4097 bytes", ""},
	{"libraries", control(wire.Message{Prepared: &wire.Prepared{Libraries: make([]wire.Library, 7)}}), "", ""},
	{"many-libraries", control(wire.Message{Prepared: &wire.Prepared{Libraries: make([]wire.Library, 17)}}), "it has 17 libraries", ""},
	{"library-of-a-long-path", control(wire.Message{Prepared: &wire.Prepared{Libraries: []wire.Library{{Path: make([]byte, maxLog+1)}}}}), "a path of 4097 bytes", ""},
	{"content", wire.Frame{Kind: wire.Content, Payload: []byte("x")}, "a frame of kind 7", ""},
	{"credit-for-files", wire.CreditFrame(wire.FileStream, 1000), "credit for stream", ""},
	{"log", control(wire.Message{Log: &wire.Log{Level: "x", Text: "y"}}), "", ""},
	{"long-log", control(wire.Message{Log: &wire.Log{Level: "warn", Text: strings.Repeat("y", maxLog+1)}}), "the last of 4097 bytes", ""},
}

// TestFrames hands frames to a job before and after its ranks have places.
func TestFrames(t *testing.T) {
	for _, tt := range frameTests {
		t.Run(tt.name, func(t *testing.T) {
			r := placeable(t)
			h := r.hosts[1]
			check := func(want string) {
				t.Helper()
				err := r.frame(h, tt.frame)
				if want == "" && err != nil {
					t.Errorf("got %v; want no error", err)
				} else if want != "" && (!errors.Is(err, errPeer) || !strings.Contains(err.Error(), want)) {
					t.Errorf("got %v; want %q", err, want)
				}
			}
			check(cmp.Or(tt.early, tt.want))
			if err := r.open(Layout{Ranks: []Place{{Host: 0}, {Host: 1}}, Count: []int{1, 1}}); err != nil {
				t.Fatal(err)
			}
			check(tt.want)
		})
	}
}

// placeable returns a job on two hosts, with stdin, that has not begun.
func placeable(t *testing.T) *run {
	t.Helper()
	null, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	job := Job{Apps: []App{{Args: []string{"app"}}}, Hosts: []hostfile.Host{{Name: "a", Slots: 1}, {Name: "b", Slots: 1}}, Stdin: StdinAll}
	r, err := newRun(job, IO{Stdin: null, Exe: "/none", Home: t.TempDir(), User: "nobody"}, defaultWaits())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.hosts {
		h.send = wire.NewSender(io.Discard)
	}
	t.Cleanup(func() {
		close(r.over)
		for _, h := range r.hosts {
			h.send.Close()
		}
		if r.stdin != nil {
			r.stdin.close()
		}
		r.out.Close(context.Background())
		r.dialer.Close()
		null.Close()
	})
	return r
}

// Output behind its end, or beyond its credit, ends the link: what the head holds is
// bounded.
func TestOutputHasCredit(t *testing.T) {
	r := placeable(t)
	r.io.Stdout = newValve() // nothing is written on, so no credit is returned
	defer close(r.io.Stdout.(*valve).open)
	if err := r.open(Layout{Ranks: []Place{{Host: 0}, {Host: 1}}, Count: []int{1, 1}}); err != nil {
		t.Fatal(err)
	}
	send := func(which, n int) error {
		return r.frame(r.hosts[1], wire.Frame{Kind: wire.Output, Stream: wire.StreamID(1, which), Payload: make([]byte, n)})
	}
	for range streamCredit(2) / wire.MaxPayload {
		if err := send(wire.Out, wire.MaxPayload); err != nil {
			t.Fatal(err)
		}
	}
	if err := send(wire.Out, 1); !errors.Is(err, errPeer) {
		t.Errorf("without credit: got %v; want %v", err, errPeer)
	}
	if err := errors.Join(send(wire.Err, 1), send(wire.Err, 0)); err != nil {
		t.Errorf("to stderr: %v", err)
	}
	if err := send(wire.Err, 1); !errors.Is(err, errPeer) {
		t.Errorf("behind the end: got %v; want %v", err, errPeer)
	}
}

// An agent that asks the store again and again but reads no answer is let go: what the
// head holds for it is bounded.
func TestAnswersAreRead(t *testing.T) {
	r := placeable(t)
	h := r.hosts[1]
	h.send.Close()
	blocked := newValve()
	defer close(blocked.open)
	h.send = wire.NewSender(blocked)
	ask := func() error {
		q := rendezvous.Request{ID: 1, Op: "try", Key: "k", Rank: 1}
		return r.frame(h, wire.Frame{Kind: wire.Store, Payload: q.Append(nil)})
	}
	answer := make([]byte, rendezvous.MaxValue)
	for h.send.Queued() <= maxUnread {
		if err := ask(); err != nil {
			t.Fatalf("with %d bytes unread: %v", h.send.Queued(), err)
		}
		<-r.post
		h.send.Send(wire.Frame{Kind: wire.Store, Payload: answer})
	}
	if err := ask(); !errors.Is(err, errPeer) || !strings.Contains(err.Error(), "bytes unread") {
		t.Errorf("with %d bytes unread: got %v; want %v", h.send.Queued(), err, errPeer)
	}
}

// lies are what an agent that is confused, or not ours, may do, as behaviours named
// "lie-…". Before says that no rank is started yet. What is wanted is why the link is
// ended; "" if the lie changes nothing.
var lies = map[string]struct {
	before bool
	do     func(*fake)
	want   string
}{
	"trash-first":    {true, func(f *fake) { f.raw("trash trash trash"); f.hangReading() }, "wire: unknown frame kind"},
	"output-first":   {true, func(f *fake) { f.print(0, wire.Out, "x"); f.hangReading() }, "its first frame is of kind 2"},
	"no-hello-first": {true, func(f *fake) { f.send(wire.Message{Started: &wire.Started{}}); f.hangReading() }, "its first message is no hello"},
	"no-cores":       {true, func(f *fake) { f.send(wire.Message{Hello: &wire.Hello{}}); f.hangReading() }, "hello with 0 cores"},
	"trash":          {false, func(f *fake) { f.start(); f.raw("HTTP/1.1 400 Bad Request\r\n"); f.hangReading() }, "link lost: wire: "},
	"long-message": {false, func(f *fake) {
		f.start()
		f.raw(strings.Repeat("\x01\x01\x7f\xff\x00\x00\x00\x00"+strings.Repeat("x", 1<<15-1), 33))
		f.hangReading()
	}, "link lost: wire: message too long"},
	"endless-log": {false, func(f *fake) {
		f.start()
		for range maxLogs + 1 {
			f.send(wire.Message{Log: &wire.Log{Level: "info", Text: "x"}})
		}
		f.hangReading()
	}, "its agent broke the protocol: it has 101 lines for the user"},
	"half-frame":   {false, func(f *fake) { f.start(); f.raw("\x02\x00\x00\x09"); f.die() }, "gorun's agent was lost: killed by SIGKILL"},
	"second-hello": {false, func(f *fake) { f.start(); f.hello(); f.hangReading() }, "its agent broke the protocol: a message that agents do not send"},
	"repeats": {false, func(f *fake) {
		f.start()
		f.send(wire.Message{Started: &wire.Started{PIDs: []int{1}}})
		f.send(wire.Message{Prepared: &wire.Prepared{Failures: []wire.Failure{{Rank: 0, Code: 127, Text: "no"}}}})
		for _, code := range []int{0, 9} {
			f.send(wire.Message{Exited: &wire.Exited{Rank: 0, Code: code}})
		}
		f.waitStop()
		f.send(wire.Message{Done: &wire.Done{}})
		f.send(wire.Message{Done: &wire.Done{Killed: []int{0}}})
		f.finish()
	}, ""},
	"trash-when-done": {false, func(f *fake) { f.start(); f.exitAll(); f.waitStop(); f.finish(); f.trash() }, ""},
}

func (f *fake) trash() { io.WriteString(f.w, "trash trash trash") }

func TestLies(t *testing.T) {
	for name, l := range lies {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "lie-"+name, 1)
			res, err := w.run()
			e, _ := errors.AsType[*HostsError](err)
			switch {
			case l.want == "":
				w.wantStates(res, "exited 0")
				if err != nil || res.Lost != nil || res.Killed != nil {
					t.Errorf("got %+v, %v; want the lie to be ignored", res, err)
				}
			case !l.before:
				w.wantStates(res, "lost")
				if err != nil || !contains(res.Lost, l.want) {
					t.Errorf("got lost %q, %v; want %q", res.Lost, err, l.want)
				}
			case e == nil || !strings.Contains(e.Hosts[0].Err.Error(), l.want):
				t.Errorf("got %v; want %q", err, l.want)
			}
		})
	}
}

// An agent without ranks, or that is let go, has nothing to ask of the store: the
// engine knows no such host.
func TestStoreIsForHostsWithRanks(t *testing.T) {
	w := newWorld(t, "asks-without-ranks", -1, -1)
	w.job.Apps[0].NP = 1
	w.wantStates(w.good(), "exited 0")
}
