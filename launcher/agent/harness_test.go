package agent

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorun/launcher/wire"
)

// The agent owns its process, so tests run it in one of its own: this test binary
// again, as "agent NONCE" or as "helper NAME ARGS".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "agent" {
		os.Exit(Main(context.Background(), os.Args[2:], os.Stdin, os.Stdout, os.Stderr))
	}
	if len(os.Args) > 2 && os.Args[1] == "helper" {
		os.Exit(helper(os.Args[2], os.Args[3:]))
	}
	flag.Parse()
	if p := flag.Lookup("test.parallel").Value; p.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		p.Set("8") // most tests only wait
	}
	os.Exit(m.Run())
}

const (
	testLimit = time.Minute // for anything that is expected to happen
	testNonce = "0123456789abcdef"
)

// head is the other end of an agent's link: it keeps everything that comes.
type head struct {
	t      testing.TB
	cmd    *exec.Cmd
	send   *wire.Sender
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr bytes.Buffer // valid after exit
	hello  *wire.Hello
	exited chan struct{}
	silent chan struct{} // close to stop the heartbeats
	mute   sync.Once

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every change
	msgs    []wire.Message
	out     map[uint32][]byte
	eof     map[uint32]bool
	credit  map[uint32]int // granted by the agent
	store   [][]byte
	beats   int
	refund  bool // return credit for output as it comes
	discard bool // do not keep output
	ended   bool // the agent's stream has ended
}

// launch describes how an agent is started.
type launch struct {
	args   []string // after the nonce
	wrap   []string // command put before the agent's
	env    []string
	files  []*os.File
	noRead bool // the head never reads beyond hello
}

func startAgent(t testing.TB, l launch) *head {
	t.Helper()
	args := append(append([]string{}, l.wrap...), os.Args[0], "agent", testNonce)
	args = append(args, l.args...)
	h := &head{
		t: t, cmd: exec.Command(args[0], args[1:]...), changed: make(chan struct{}), exited: make(chan struct{}), silent: make(chan struct{}),
		out: map[uint32][]byte{}, eof: map[uint32]bool{}, credit: map[uint32]int{}, refund: true,
	}
	h.cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=0"), l.env...)
	h.cmd.ExtraFiles = l.files
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var ends [2]*os.File
	h.stdin, ends[0] = h.pipe(true)
	h.stdout, ends[1] = h.pipe(false)
	h.cmd.Stdin, h.cmd.Stdout, h.cmd.Stderr = ends[0], ends[1], &h.stderr
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ends[0].Close()
	ends[1].Close()
	go func() { h.cmd.Wait(); close(h.exited) }()
	t.Cleanup(h.close)
	h.greet(l.noRead)
	return h
}

// pipe returns our end and the agent's.
func (h *head) pipe(weWrite bool) (ours, theirs *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if weWrite {
		return w, r
	}
	return r, w
}

func (h *head) greet(noRead bool) {
	h.t.Helper()
	br := bufio.NewReader(h.stdout)
	line, err := br.ReadString('\n')
	if want := wire.Hail(testNonce) + "\n"; line != want {
		h.t.Fatalf("first line %q, %v; want %q", line, err, want)
	}
	r := wire.NewReader(br, wire.MaxReport)
	f, err := r.Read()
	if err != nil {
		h.t.Fatal(err)
	}
	m, err := wire.Decode(f)
	if err != nil || m.Hello == nil {
		h.t.Fatalf("first message %+v, %v; want hello", m, err)
	}
	h.hello = m.Hello
	h.send = wire.NewSender(h.stdin)
	go h.beat()
	if !noRead {
		go h.read(r)
	}
}

func (h *head) beat() {
	t := time.NewTicker(200 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			h.send.Send(wire.Frame{Kind: wire.Heartbeat})
		case <-h.silent:
			return
		}
	}
}

func (h *head) read(r *wire.Reader) {
	for {
		f, err := r.Read()
		h.mu.Lock()
		if err != nil {
			h.ended = true
			h.changeLocked()
			h.mu.Unlock()
			return
		}
		h.takeLocked(f)
		h.changeLocked()
		h.mu.Unlock()
	}
}

func (h *head) changeLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *head) takeLocked(f wire.Frame) {
	switch f.Kind {
	case wire.Control:
		m, err := wire.Decode(f)
		if err != nil {
			h.t.Error(err)
		}
		h.msgs = append(h.msgs, m)
	case wire.Output:
		if h.eof[f.Stream] {
			h.t.Errorf("output on stream %d after its end", f.Stream)
		}
		h.eof[f.Stream] = len(f.Payload) == 0
		if !h.discard {
			h.out[f.Stream] = append(h.out[f.Stream], f.Payload...)
		}
		if h.refund && len(f.Payload) > 0 {
			h.send.Send(wire.CreditFrame(f.Stream, len(f.Payload)))
		}
	case wire.Credit:
		h.credit[f.Stream] += wire.CreditOf(f)
	case wire.Store:
		h.store = append(h.store, bytes.Clone(f.Payload))
	case wire.Heartbeat:
		h.beats++
	}
}

// until waits until cond, called with mu held, is true.
func (h *head) until(what string, cond func() bool) {
	h.t.Helper()
	limit := time.After(testLimit)
	for {
		h.mu.Lock()
		ok, changed := cond(), h.changed
		h.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-limit:
			h.mu.Lock()
			defer h.mu.Unlock()
			h.t.Fatalf("waited %v for %s; messages: %s", testLimit, what, describe(h.msgs))
		}
	}
}

func describe(msgs []wire.Message) string {
	var b strings.Builder
	for _, m := range msgs {
		f, _ := wire.Encode(m)
		fmt.Fprintf(&b, "\n%s", f.Payload)
	}
	return b.String()
}

func (h *head) tell(m wire.Message) {
	h.t.Helper()
	if err := h.send.SendMessage(m); err != nil {
		h.t.Fatal(err)
	}
}

// message waits for a message that pick accepts.
func message[T any](h *head, what string, pick func(wire.Message) *T) *T {
	h.t.Helper()
	var found *T
	h.until(what, func() bool {
		for _, m := range h.msgs {
			if x := pick(m); x != nil {
				found = x
				return true
			}
		}
		return false
	})
	return found
}

func (h *head) prepare(p *wire.Plan) []wire.Failure {
	h.t.Helper()
	h.tell(wire.Message{Plan: p})
	return message(h, "prepared", func(m wire.Message) *wire.Prepared { return m.Prepared }).Failures
}

// run prepares and starts; it returns the ranks' pids.
func (h *head) run(p *wire.Plan) []int {
	h.t.Helper()
	if f := h.prepare(p); len(f) > 0 {
		h.t.Fatalf("prepare: %+v", f)
	}
	h.tell(wire.Message{Start: &wire.Start{}})
	return message(h, "started", func(m wire.Message) *wire.Started { return m.Started }).PIDs
}

func (h *head) exit(rank int) *wire.Exited {
	h.t.Helper()
	return message(h, fmt.Sprintf("exit of rank %d", rank), func(m wire.Message) *wire.Exited {
		if m.Exited != nil && m.Exited.Rank == rank {
			return m.Exited
		}
		return nil
	})
}

func (h *head) done() *wire.Done {
	h.t.Helper()
	return message(h, "done", func(m wire.Message) *wire.Done { return m.Done })
}

// stop asks for the end and expects that nothing is left.
func (h *head) stop(grace time.Duration) *wire.Done {
	h.t.Helper()
	h.tell(wire.Message{Stop: &wire.Stop{Grace: grace}})
	d := h.done()
	if len(d.Left) > 0 {
		h.t.Errorf("left behind: %q", d.Left)
	}
	if code := h.code(); code != 0 {
		h.t.Errorf("agent's exit code %d; want 0; stderr: %s", code, h.stderr.String())
	}
	return d
}

// code waits for the agent's own end.
func (h *head) code() int {
	h.t.Helper()
	select {
	case <-h.exited:
	case <-time.After(testLimit):
		h.t.Fatalf("the agent did not end; messages: %s", describe(h.msgs))
	}
	return h.cmd.ProcessState.ExitCode()
}

// text waits until the stream has ended and returns what came.
func (h *head) text(rank, which int) string {
	h.t.Helper()
	id := wire.StreamID(rank, which)
	h.until(fmt.Sprintf("end of stream %d of rank %d", which, rank), func() bool { return h.eof[id] })
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.out[id])
}

// shows waits until the rank has written want to its stdout.
func (h *head) shows(rank int, want string) {
	h.t.Helper()
	h.until(fmt.Sprintf("%q of rank %d", want, rank), func() bool {
		return strings.Contains(string(h.out[wire.StreamID(rank, wire.Out)]), want)
	})
}

// line waits for a whole line on the rank's stdout that begins with prefix, and
// returns the rest of it.
func (h *head) line(rank int, prefix string) string {
	h.t.Helper()
	var rest string
	h.until(fmt.Sprintf("line %q of rank %d", prefix, rank), func() bool {
		for line := range strings.Lines(string(h.out[wire.StreamID(rank, wire.Out)])) {
			if r, ok := strings.CutPrefix(line, prefix); ok && strings.HasSuffix(r, "\n") {
				rest = strings.TrimSpace(r)
				return true
			}
		}
		return false
	})
	return rest
}

// pid is line for a number.
func (h *head) pid(rank int, prefix string) int {
	h.t.Helper()
	n, err := strconv.Atoi(h.line(rank, prefix))
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// look reads what has come while nothing more comes.
func (h *head) look(read func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	read()
}

func (h *head) quiet() { h.mute.Do(func() { close(h.silent) }) }

func (h *head) close() {
	h.quiet()
	h.stdin.Close()
	select {
	case <-h.exited:
	case <-time.After(testLimit):
		h.t.Error("the agent outlived its link")
		h.cmd.Process.Kill()
		<-h.exited
	}
	h.stdout.Close()
	if h.send != nil {
		h.send.Close()
	}
}

// newPlan is a plan of which each argument list is a rank.
func newPlan(t testing.TB, ranks ...[]string) *wire.Plan {
	t.Helper()
	id := make([]byte, 8)
	rand.Read(id)
	p := &wire.Plan{
		JobID: hex.EncodeToString(id), Secret: make([]byte, 32), Size: len(ranks), Nodes: 1,
		Dir: wire.Bytes(t.TempDir()), Credit: 1 << 20, LostAfter: 5 * time.Second, Grace: 500 * time.Millisecond,
	}
	p.Env = append(p.Env, wire.Bytes("GORUN_JOB_ID="+p.JobID))
	for n, args := range ranks {
		rp := wire.RankPlan{Rank: n, Env: []wire.Bytes{wire.Bytes(fmt.Sprintf("GORUN_RANK=%d", n))}}
		for _, a := range args {
			rp.Args = append(rp.Args, wire.Bytes(a))
		}
		p.Ranks = append(p.Ranks, rp)
	}
	t.Cleanup(func() {
		if _, err := os.Lstat(jobDir(p.JobID)); err == nil {
			t.Errorf("%s is left behind", jobDir(p.JobID))
			os.RemoveAll(jobDir(p.JobID))
		}
	})
	return p
}

// sh is a rank that runs a shell script.
func sh(script string) []string { return []string{"sh", "-c", script} }

// self is a rank that runs one of this binary's helpers.
func self(args ...string) []string { return append([]string{os.Args[0], "helper"}, args...) }

// eventually waits for something that only asking can tell.
func eventually(t testing.TB, what string, cond func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(testLimit)
	for !cond() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("waited %v for %s", testLimit, what)
		}
	}
}

// alive reports whether pid is a process that still runs.
func alive(pid int) bool {
	p, ok := readProc(pid)
	return ok && p.live()
}

func wantGone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if p, ok := readProc(pid); ok && p.live() {
			t.Errorf("%v is left behind", p)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
