package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// The binary is sent in pieces, each when the host has acknowledged the last one, and
// written in chunks, for each of which ssh keeps a buffer for the connection.
const (
	piece = 512 << 10
	chunk = 16 << 10
)

// binary is the gorun binary that is sent to hosts.
type binary struct {
	file *os.File
	size int64
	name string // of its own, as identify gives it
	arch string // GOARCH
}

// shipment opens and identifies the binary once, when the first host needs its name, and
// sees to it that on a shared home one host installs it while the others wait.
type shipment struct {
	get func() (*binary, error)

	mu     sync.Mutex
	file   *os.File      // guarded by mu
	leader chan struct{} // guarded by mu: nil before the first host asks; closed when that host is done
}

func newShipment(self string) *shipment {
	s := &shipment{}
	s.get = sync.OnceValues(func() (*binary, error) { return s.open(self) })
	return s
}

func (s *shipment) open(self string) (*binary, error) {
	f, err := os.Open(self)
	if err != nil {
		return nil, fmt.Errorf("gorun's own binary: %w", err)
	}
	s.mu.Lock()
	s.file = f
	s.mu.Unlock()
	if loader := loaderOf(f); loader != "" {
		return nil, &DynamicError{Loader: loader}
	}
	name, size, err := identify(f)
	if err != nil {
		return nil, fmt.Errorf("gorun's own binary: %w", err)
	}
	return &binary{file: f, size: size, name: name, arch: runtime.GOARCH}, nil
}

func (s *shipment) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file != nil {
		s.file.Close()
	}
}

// lead makes the caller the one that installs, if it is the first to ask; it must then
// call done. Others get a channel that is closed once the first is done.
func (s *shipment) lead() (first bool, done chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leader == nil {
		s.leader = make(chan struct{})
		return true, s.leader
	}
	return false, s.leader
}

// talk is the conversation with one command on a host, up to the agent's hail.
type talk struct {
	a       *attempt
	s       *session
	sc      *scanner
	bin     *binary
	command string        // that the host was given
	spoke   bool          // a line with the nonce has come
	lead    chan struct{} // to be closed when this host is done; nil if it does not lead
	looked  bool          // told `again`
	sent    bool          // the binary has been sent to the home directory
	sends   int           // how often it has been sent
	left    int64         // bytes of it that the host has not acknowledged
	place   place
	failed  []Place
}

// agent starts an agent over conn and returns the link to it. It closes conn if it fails.
func (a *attempt) agent(conn conn) (Link, error) {
	stop := context.AfterFunc(a.ctx, func() { conn.cut() })
	link, err := a.start(conn)
	if !stop() && err == nil {
		err = context.Cause(a.ctx)
	}
	if err != nil {
		conn.close()
		return nil, err
	}
	a.trail.mark("ready")
	link.phases = a.trail.all()
	return link, nil
}

// start runs the cached binary; where that ends without a hail, the script finds out
// why, and installs it. By Options.Rsh the script is all there is: starting another command
// would cost more, and fail as the first one if that is what fails.
func (a *attempt) start(conn conn) (*remoteLink, error) {
	bin, err := await(a.ctx, a.d.ship.get)
	if err != nil {
		return nil, err
	}
	nonce := newNonce()
	if a.rsh == nil {
		a.trail.mark("agent")
		link, err := a.converse(conn, bin, nonce, firstCommand(nonce, bin))
		if _, ended := errors.AsType[*ShellError](err); !ended {
			return link, err
		}
	}
	return a.converse(conn, bin, nonce, installCommand(nonce, a.d.opts.JobID, bin))
}

// converse runs a command and talks with it up to the agent's hail.
func (a *attempt) converse(conn conn, bin *binary, nonce, command string) (*remoteLink, error) {
	s, err := conn.start(command)
	if err != nil {
		return nil, err
	}
	t := &talk{a: a, s: s, sc: newScanner(s, nonce), bin: bin, command: command}
	err = t.run(nonce)
	t.release()
	if t.sc.skipped > 0 {
		a.d.log.Info("printed before the agent spoke", "host", a.host.Name, "bytes", t.sc.skipped, "text", t.sc.noise())
	}
	if err != nil {
		s.Close()
		return nil, t.explain(err)
	}
	if text := s.stderr.take(); text != "" {
		a.d.log.Info("printed to standard error before the agent spoke", "host", a.host.Name, "text", text)
	}
	return &remoteLink{conn: conn, agent: s, rest: t.sc.rest(), rsh: rshName(a.rsh), place: t.place, dialer: a.d, jump: a.jump}, nil
}

// run answers the script until the agent hails.
func (t *talk) run(nonce string) error {
	for {
		line, err := t.sc.next()
		if err != nil {
			return err
		}
		if strings.HasSuffix(line, "\r") { // nobody there writes one: a terminal makes it of a newline
			return ErrTerminal
		}
		if !t.spoke {
			t.spoke = true
			t.a.trail.mark("agent")
		}
		word, _, _ := strings.Cut(line, " ")
		switch word {
		case "agent":
			return checkHail(line, nonce)
		case "need":
			err = t.answer(line)
		case "got":
			err = t.acknowledged(line)
		case "fail":
			t.failed = append(t.failed, parseFail(line))
			if len(t.failed) > 2*len(placeDirs) {
				err = errors.New("the host says of more directories than there are that they are no good")
			}
		case "at":
			t.place, err = parseAt(line)
		case "nowhere":
			return &InstallError{Places: t.failed, Stderr: t.s.stderr.String()}
		default:
			err = fmt.Errorf("unexpected word from the host: %q", cleanLine(line, 100))
		}
		if err != nil {
			return err
		}
	}
}

// explain makes sense of a conversation that broke off.
func (t *talk) explain(err error) error {
	a := t.a
	if a.ctx.Err() != nil {
		err = context.Cause(a.ctx)
		if errors.Is(err, errBudget) {
			out, _ := withoutEcho(strings.TrimSpace(t.sc.noise()+"\n"+t.s.stderr.String()), t.command)
			return &TimeoutError{After: a.budget.total, Reached: t.reached(), Output: out}
		}
		return err
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	exit := t.s.wait(a.ctx)
	if errors.Is(exit, errNoExit) {
		return fmt.Errorf("the connection was lost before gorun's agent spoke")
	}
	e := &ShellError{Rsh: a.rsh != nil, Exit: exit}
	var echoed [2]bool
	e.Output, echoed[0] = withoutEcho(t.sc.noise(), t.command)
	e.Stderr, echoed[1] = withoutEcho(t.s.stderr.String(), t.command)
	e.Echo = echoed[0] || echoed[1]
	return e
}

// byRsh is how far Options.Rsh came when nothing was heard.
const byRsh = "it was started, but gorun's agent did not speak"

func (t *talk) reached() string {
	switch {
	case t.a.rsh != nil && t.spoke:
		return "sending gorun's binary made no progress"
	case t.spoke:
		return "logged in, but sending gorun's binary made no progress"
	case t.a.rsh != nil:
		return byRsh
	}
	return "logged in, but the login shell did not start gorun's agent"
}

// answer tells the script what to do about the binary it lacks.
func (t *talk) answer(line string) error {
	n, err := parseNeed(line)
	if err != nil {
		return err
	}
	if err := checkArch(n, t.bin.arch); err != nil {
		return err
	}
	t.a.leave() // what follows costs no key exchange
	switch {
	case n.kind == "tmp": // no help to others
		t.release()
		return t.send()
	case t.sent:
		return t.say("next")
	case n.kind == "cached" && !t.looked:
		t.looked = true
		return t.say("again")
	case t.looked:
		t.sent = true
		return t.send()
	}
	return t.first()
}

// first answers the first request of a host: the first of all hosts is sent the
// binary, others wait for it and look again, for their homes may be the same.
func (t *talk) first() error {
	t.a.trail.mark("install")
	first, done := t.a.d.ship.lead()
	if first {
		t.lead, t.sent = done, true
		return t.send()
	}
	t.looked = true
	t.a.budget.pause()
	defer t.a.budget.renew()
	slow := time.NewTimer(t.a.budget.total)
	defer slow.Stop()
	select {
	case <-done:
	case <-slow.C: // go on without that host
	case <-t.s.ended:
	case <-t.a.ctx.Done():
		return context.Cause(t.a.ctx)
	}
	return t.say("again")
}

// release lets the hosts that wait for this one go on.
func (t *talk) release() {
	if t.lead != nil {
		close(t.lead)
		t.lead = nil
	}
}

// say writes one line. A script that has ended is found out by reading.
func (t *talk) say(word string) error {
	t.s.Write([]byte(word + "\n"))
	return nil
}

// send begins to send the binary. A host asks for it once for each directory at most.
func (t *talk) send() error {
	if t.sends++; t.sends > len(placeDirs) {
		return errors.New("the host asks for gorun's binary again and again")
	}
	t.a.trail.mark("install")
	t.a.d.log.Info("installing gorun", "host", t.a.host.Name, "bytes", t.bin.size)
	t.say("send")
	t.left = t.bin.size
	return t.sendPiece()
}

// acknowledged sends the next piece, if there is one: the host has written the last.
func (t *talk) acknowledged(line string) error {
	left := t.left - min(piece, t.left)
	if t.left == 0 || line != fmt.Sprintf("got %d", left) {
		return fmt.Errorf("unexpected word from the host: %q", cleanLine(line, 100))
	}
	t.left = left
	t.a.budget.renew()
	return t.sendPiece()
}

// sendPiece sends a piece of what is left; each chunk that is taken renews the host's time.
func (t *talk) sendPiece() error {
	at, buf := t.bin.size-t.left, make([]byte, chunk)
	for end := at + min(piece, t.left); at < end; {
		n, err := t.bin.file.ReadAt(buf[:min(chunk, end-at)], at)
		if n == 0 {
			return fmt.Errorf("gorun's own binary: %w", err)
		}
		if _, err := t.s.Write(buf[:n]); err != nil {
			return nil // reading tells why
		}
		at += int64(n)
		t.a.budget.renew()
	}
	return nil
}

// checkArch compares the host with this binary.
func checkArch(n need, goarch string) error {
	oses := map[string]string{"Linux": "linux", "Darwin": "darwin", "FreeBSD": "freebsd"}
	arches := map[string]string{
		"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le", "riscv64": "riscv64",
		"s390x": "s390x", "loongarch64": "loong64", "i386": "386", "i686": "386", "armv7l": "arm", "armv6l": "arm",
	}
	e := &ArchError{Kernel: cleanLine(n.kernel, 40), Machine: cleanLine(n.machine, 40), Have: runtime.GOOS + "/" + goarch}
	if os, arch := oses[n.kernel], arches[n.machine]; os != "" && arch != "" {
		e.GOOS, e.GOARCH = os, arch
	}
	if e.GOOS == runtime.GOOS && e.GOARCH == goarch {
		return nil
	}
	return e
}
