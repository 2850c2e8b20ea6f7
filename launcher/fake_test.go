package launcher

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// TestMain makes the test program the agent of the jobs that the tests run: a fake
// one, that does what the behaviour its name stands for says.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "agent" {
		os.Exit(fakeMain(os.Args[2:]))
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0 history_size=0") // the race detector in an agent would wait a second at its end
	code := m.Run()
	if left := leftGoroutines(5 * time.Second); left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = max(code, 1)
	}
	os.Exit(code)
}

// fake is an agent without ranks. What is wrong with its stream ends it.
type fake struct {
	dir  string // the test's, for marks
	r    *wire.Reader
	w    io.Writer
	out  *wire.Sender
	plan *wire.Plan
}

func fakeMain(args []string) int {
	f := &fake{dir: filepath.Dir(os.Args[0]), r: wire.NewReader(os.Stdin, wire.MaxMessage), w: os.Stdout}
	name := filepath.Base(os.Args[0])
	if args[0] == "sweep" {
		f.mark("swept")
		if name == "sweep-fails" {
			fmt.Println("cannot")
			return 1
		}
		return 0
	}
	do := behaviour(name)
	if name == "no-hail" {
		f.mark("up")
		f.hang()
	}
	fmt.Println(wire.Hail(args[0]))
	f.out = wire.NewSender(f.w)
	do(f)
	f.out.Close()
	return 0
}

// behaviour returns what agents of that name do, nil if there is none.
func behaviour(name string) func(*fake) {
	if name, ok := strings.CutPrefix(name, "lie-"); ok {
		return lies[name].do
	}
	if name, ok := strings.CutPrefix(name, "pre-"); ok {
		return examined[name]
	}
	if name, ok := strings.CutPrefix(name, "files-"); ok {
		return stagers[name].do
	}
	return behaviours[name]
}

// mark makes a file of that name, for the test to see.
func (f *fake) mark(name string) {
	if err := os.WriteFile(filepath.Join(f.dir, name), nil, 0o600); err != nil {
		panic(err)
	}
}

// first reports whether this agent is the first of its job that asks.
func (f *fake) first() bool {
	w, err := os.OpenFile(filepath.Join(f.dir, "first"), os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		w.Close()
	}
	return err == nil
}

// hang reads nothing and says nothing, until the head has closed the stream.
func (f *fake) hang() {
	for {
		fds := []unix.PollFd{{Fd: 0}}
		if _, err := unix.Poll(fds, -1); err == nil && fds[0].Revents != 0 {
			os.Exit(1)
		}
	}
}

func (f *fake) send(m wire.Message) {
	if err := f.out.SendMessage(m); err != nil {
		panic(err)
	}
}

func (f *fake) hello() {
	f.send(wire.Message{Hello: &wire.Hello{
		PID: os.Getpid(), Cores: 2, Port: 20000,
		Interfaces: []wire.Interface{{Name: "lo", Addrs: []string{"127.0.0.1"}}, ownInterface("eth0")},
	}})
}

// ownInterface is one with an address that no other fake has.
func ownInterface(name string) wire.Interface {
	pid := os.Getpid()
	return wire.Interface{Name: name, Addrs: []string{netip.AddrFrom4([4]byte{10, byte(pid >> 16), byte(pid >> 8), byte(pid)}).String()}}
}

// read returns the next frame that is no heartbeat.
func (f *fake) read() wire.Frame {
	for {
		fr, err := f.r.Read()
		if err != nil {
			f.out.Close()
			os.Exit(1)
		}
		if fr.Kind != wire.Heartbeat {
			return fr
		}
	}
}

// message returns the next control message.
func (f *fake) message() wire.Message {
	for {
		if fr := f.read(); fr.Kind == wire.Control {
			m, err := wire.Decode(fr)
			if err != nil {
				panic(err)
			}
			return m
		}
	}
}

// until waits for a message, and ends the agent when it is told to stop before.
func (f *fake) until(is func(wire.Message) bool) wire.Message {
	for {
		m := f.message()
		if is(m) {
			return m
		}
		if m.Stop != nil {
			f.finish()
			os.Exit(0)
		}
	}
}

func (f *fake) waitPlan() {
	f.plan = f.until(func(m wire.Message) bool { return m.Plan != nil }).Plan
}

// prepare goes as far as being ready to start.
func (f *fake) prepare() {
	f.hello()
	f.waitPlan()
	f.send(wire.Message{Prepared: &wire.Prepared{}})
}

// start goes as far as having started all ranks.
func (f *fake) start() {
	f.prepare()
	f.begin()
}

// begin waits for the start and says that it is done.
func (f *fake) begin() {
	f.until(func(m wire.Message) bool { return m.Start != nil })
	f.send(wire.Message{Started: &wire.Started{PIDs: make([]int, len(f.plan.Ranks))}})
}

// ranks calls end for each rank of this host.
func (f *fake) ranks(end func(rank int)) {
	for _, r := range f.plan.Ranks {
		end(r.Rank)
	}
}

// exit reports the end of a rank, whose streams end too.
func (f *fake) exit(x wire.Exited) {
	f.send(wire.Message{Exited: &x})
	for _, which := range []int{wire.Out, wire.Err} {
		f.out.SendBulk(wire.Frame{Kind: wire.Output, Stream: wire.StreamID(x.Rank, which)})
	}
}

func (f *fake) exitAll() { f.ranks(func(rank int) { f.exit(wire.Exited{Rank: rank}) }) }

// stopAll is how ranks end that the agent stops.
func (f *fake) stopAll() {
	f.ranks(func(rank int) {
		f.exit(wire.Exited{Rank: rank, Signal: int(syscall.SIGTERM), ByStop: true, At: time.Second})
	})
}

func (f *fake) print(rank, which int, text string) {
	f.out.SendBulk(wire.Frame{Kind: wire.Output, Stream: wire.StreamID(rank, which), Payload: []byte(text)})
}

func (f *fake) waitStop() *wire.Stop {
	return f.until(func(m wire.Message) bool { return m.Stop != nil }).Stop
}

// finish says that all is clean.
func (f *fake) finish() {
	f.mark("done")
	f.send(wire.Message{Done: &wire.Done{}})
	f.out.Close()
}

// untilStopped ends the ranks when the head says so.
func (f *fake) untilStopped() {
	f.waitStop()
	f.stopAll()
	f.finish()
}

// well runs this host's ranks to a good end.
func (f *fake) well() {
	f.start()
	f.exitAll()
	f.waitStop()
	f.finish()
}

// on lets one host do something else than the others.
func (f *fake) on(node int, it, others func()) {
	if f.plan.Node == node {
		it()
	} else {
		others()
	}
}

// beats sends heartbeats for ever.
func (f *fake) beats() {
	for {
		f.out.Send(wire.Frame{Kind: wire.Heartbeat})
		time.Sleep(50 * time.Millisecond)
	}
}

// raw sends bytes that need be no frame.
func (f *fake) raw(b string) {
	f.out.SendBulk(wire.Frame{Kind: wire.Heartbeat}) // behind what is queued
	io.WriteString(f.w, b)
}

// ask sends a request to the store and returns the reply.
func (f *fake) ask(q rendezvous.Request) rendezvous.Reply {
	f.out.Send(wire.Frame{Kind: wire.Store, Payload: q.Append(nil)})
	for {
		if fr := f.read(); fr.Kind == wire.Store {
			reply, err := rendezvous.ParseReply(fr.Payload)
			if err != nil {
				panic(err)
			}
			return reply
		}
	}
}

// die ends the agent as kill -9 would.
func (f *fake) die() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	f.hang()
}
