// Package transport gives the head a byte stream to an agent on a host.
//
// Dial reaches a host by ssh, in this process (no ssh client is forked), by a command of
// the user's, or by a pipe when the host is this machine, starts `gorun agent` there and returns a
// Link positioned after the agent's hail (see wire.Hail). A host that lacks this
// gorun binary is sent it once; it is kept there under a name of its own (see identify).
//
// Transport never asks for anything but the passphrase of a key, and only with
// Options.Prompt. It knows nothing of ranks, plans or frames.
package transport

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

	"gorun/hostfile"
)

// Defaults of Options.
const (
	DefaultConnectTimeout = 20 * time.Second
	DefaultFanout         = 64
)

// Options configures a Dialer. Zero values are usable unless said otherwise.
type Options struct {
	// ConnectTimeout bounds what it takes to reach one host: names, connection, key
	// exchange, authentication, login shell, agent. Waiting for a turn (Fanout), for a
	// passphrase or for another host's installation does not count. While the binary is
	// being sent it bounds the time without progress. 0: DefaultConnectTimeout.
	ConnectTimeout time.Duration

	// Rsh is the command that reaches hosts, instead of ssh in this process:
	// "ssh -o BatchMode=yes {host}", "kubectl exec -i {host} --". It is split into words as
	// by a shell, but none reads it. {host}, {user} and {port} are replaced by what the Host
	// says; what it says and the command has no place for is an error, but for its name,
	// which is appended. What is to be run goes to the end, or where {command} or {sh} is:
	// as one word for a shell on the host, or as the words /bin/sh -c COMMAND; by default
	// the latter for docker, kubectl and the like, else the former. Hosts that are this
	// machine by their names are still local. "": none.
	Rsh string

	// AcceptNewHostKeys records the key of a host that known_hosts does not have
	// instead of failing. A changed key is an error all the same.
	AcceptNewHostKeys bool

	Port        int      // of hosts for which nothing but ssh_config names one; 0: what ssh_config says
	Config      []string // ssh_config files, which must exist; nil: ~/.ssh/config and /etc/ssh/ssh_config if they do
	Home        string   // for ~ in paths; "": this user's home directory
	User        string   // name to log in as where nothing else says so; "": this user's name
	AgentSocket string   // SSH_AUTH_SOCK; "": no ssh-agent

	// Prompt asks the user for a passphrase without echo. Calls never overlap. A wrong
	// passphrase is asked for again, three times in all, once per key for all hosts.
	// nil: never ask; encrypted keys are not used.
	Prompt func(prompt string) ([]byte, error)

	getenv func(name string) (string, bool) // for tests; nil: os.LookupEnv

	Self   string       // the gorun binary to run here and to send to hosts; needed by Dial
	JobID  string       // letters, digits, dot, dash, underscore; needed by Dial
	Logger *slog.Logger // nil: none
	Fanout int          // hosts being reached at once; 0: DefaultFanout
}

// Link is a stream to an agent on a host. Read and Write may be used by one
// goroutine each; the other methods by any.
type Link interface {
	io.Reader
	io.Writer

	// Close drops the link at once and frees what it holds here. The agent sees the
	// end of its stream and stops its ranks. More calls do nothing.
	Close() error

	// Run runs a second `gorun ARGS` on the host, without input, and returns at most
	// 64 KiB of what it printed. It works while the link's connection lives, also
	// after the agent has ended. Arguments may hold letters, digits and -_.:/=@%+, only.
	Run(ctx context.Context, args ...string) ([]byte, error)

	// Stderr returns the last 32 KiB that the agent, or Options.Rsh after the agent's hail,
	// wrote to standard error, cleaned of control characters.
	Stderr() string

	// Timeline says when each phase of Dial began.
	Timeline() []Phase

	// Wait blocks until the agent's command has ended or ctx ends. It returns nil if
	// the command's exit status was 0, an *ExitError if it was another, and another
	// error if the connection broke first.
	Wait(ctx context.Context) error
}

// Phase is a step of Dial: "jump" (waiting for the jump host) or "resolve", "connect" (with the key exchange), "auth",
// "agent", "install" (only if the binary had to be sent) and "ready".
type Phase struct {
	Name string
	At   time.Duration // when it began, since Dial was called
}

// Dialer makes Links. Its methods may be called from any goroutine. It parses
// configuration, known_hosts and keys once, when they are first needed.
type Dialer struct {
	opts    Options
	log     *slog.Logger
	slots   chan struct{}
	world   world
	rsh     *rsh // nil without Options.Rsh
	fork    forker
	config  func() (*sshConfig, error)
	keys    *keyring
	hosts   *hostKeys
	ship    *shipment
	jumps   *jumps
	machine func() machine
	dialTCP func(ctx context.Context, network, addr string) (net.Conn, error)

	children sync.WaitGroup // processes not yet reaped: local agents, and commands that lead to hosts

	mu     sync.Mutex
	unread []string // guarded by mu: files that cannot be read, and why
	doubts []string // guarded by mu: what in ssh's files gorun does not know, each once
}

// note keeps why a file cannot be read.
func (d *Dialer) note(name string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unread = append(d.unread, cleanLine(name+": "+reason(err), 300))
}

// doubt keeps what in ssh's files gorun does not know, as far as one wants to read that.
func (d *Dialer) doubt(texts []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, text := range texts {
		if !slices.Contains(d.doubts, text) && len(d.doubts) < maxDoubts {
			d.doubts = append(d.doubts, text)
		}
	}
}

// maxDoubts is how many of them are told of: a file may be something else altogether.
const maxDoubts = 10

func (d *Dialer) doubted() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.doubts)
}

func (d *Dialer) unreadable() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.unread)
}

// goodJobID reports whether id can stand in a path and in a command line.
func goodJobID(id string) bool {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	}
	return id != "" && len(id) <= 64 && !strings.ContainsFunc(id, bad)
}

// New returns a Dialer. It reads no file and connects to nothing; Close frees it.
func New(opts Options) (*Dialer, error) {
	if opts.JobID != "" && !goodJobID(opts.JobID) {
		return nil, fmt.Errorf("job id %q: only letters, digits, dot, dash and underscore may be used", opts.JobID)
	}
	var command *rsh
	if opts.Rsh != "" {
		var err error
		if command, err = parseRsh(opts.Rsh); err != nil {
			return nil, fmt.Errorf("command to reach hosts by: %w", err)
		}
	}
	fillOptions(&opts)
	d := &Dialer{opts: opts, log: opts.Logger, slots: make(chan struct{}, opts.Fanout), rsh: command}
	d.world = newWorld(opts)
	d.config = sync.OnceValues(func() (*sshConfig, error) { return loadConfig(opts, d.world, d.note) })
	d.keys = newKeyring(opts)
	d.hosts = newHostKeys(d.log, d.note)
	d.ship = newShipment(opts.Self)
	d.jumps = newJumps(d)
	d.machine = sync.OnceValue(thisMachine)
	d.dialTCP = (&net.Dialer{KeepAlive: -1}).DialContext // frames carry heartbeats
	return d, nil
}

func fillOptions(opts *Options) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.ConnectTimeout <= 0 {
		opts.ConnectTimeout = DefaultConnectTimeout
	}
	if opts.Fanout <= 0 {
		opts.Fanout = DefaultFanout
	}
	me, err := user.Current()
	if err != nil {
		me = &user.User{HomeDir: os.Getenv("HOME")} // a container's user may have no name
	}
	opts.Home = cmp.Or(opts.Home, me.HomeDir, "/nonexistent")
	opts.User = cmp.Or(opts.User, me.Username)
	if opts.getenv == nil {
		opts.getenv = os.LookupEnv
	}
}

// Dial reaches h, starts an agent there and returns a Link to it, positioned after
// the agent's hail. It blocks for ConnectTimeout at most, not counting what Options
// excepts from it. Ending ctx ends Dial, not the Link. The error is a *HostError,
// unless ctx ended. A Link must be closed before its Dialer. A Host named localhost, or
// as this machine is, is this machine without a look at ssh_config if its Line is 0.
func (d *Dialer) Dial(ctx context.Context, h hostfile.Host) (Link, error) {
	if d.opts.Self == "" || d.opts.JobID == "" {
		return nil, fmt.Errorf("dial without a gorun binary or a job id")
	}
	a, local, err := d.prepare(ctx, h)
	if err != nil {
		return nil, err
	}
	defer a.end()
	var conn conn
	if !local {
		conn, local, err = a.open()
	}
	var link Link
	switch {
	case err != nil:
	case local:
		link, err = a.localAgent()
	default:
		link, err = a.agent(conn)
	}
	if err != nil {
		return nil, a.fail(err)
	}
	return link, nil
}

// Suspend calls f, which suspends this process: that time is not charged to hosts being
// reached.
func (d *Dialer) Suspend(f func()) {
	d.keys.prompts.recess.begin()
	defer d.keys.prompts.recess.end()
	f()
}

// Warnings returns lines for the user about files of ssh's that cannot be read, what in
// them gorun does not know, and host keys that were accepted without being known. It is complete when all Dials have returned.
func (d *Dialer) Warnings() []string {
	var ws []string
	for _, u := range d.unreadable() {
		ws = append(ws, "cannot read "+u+"; it counts as empty, as with ssh")
	}
	ws = append(ws, d.doubted()...)
	return append(ws, d.hosts.warnings()...)
}

// Close frees what the Dialer holds. It must be called after all Dials have returned
// and all Links are closed, and waits a few seconds for local agents to end. It does
// not wait for a Prompt that has not returned.
func (d *Dialer) Close() {
	d.jumps.close()
	d.world.close()
	d.keys.close()
	d.ship.close()
	done := make(chan struct{})
	go func() { d.children.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(localExit):
		// Killing the agent would leave its ranks' children; it ends by itself.
	}
	d.fork.close()
}
