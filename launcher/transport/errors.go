package transport

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// HostError says why a host could not be reached. Its text does not name the host.
//
// errors.As finds in it what can be told more precisely: *ConfigError,
// *HostKeyError, *AuthError, *TimeoutError, *DroppedError, *ArchError,
// *DynamicError, *InstallError, *ShellError; errors.Is finds ErrTerminal,
// syscall.ECONNREFUSED and the like, and errors.As a *net.DNSError for a name that is
// not known.
type HostError struct {
	Host   string   // as the user wrote it
	Addr   string   // user@host:port that was dialled, "" for a local host
	Rsh    []string // by Options.Rsh: the words that run cat on the host
	Phase  string   // the Phase in which it failed
	Tries  int      // connections attempted
	Config string   // the ssh_config file read in the place of the usual ones, or "none"; "": those
	Unused []string // ssh_config directives that apply to the host and that gorun does not use, with file and line
	Doubts []string // what ssh_config says of the host and gorun does not know: "file:3: unknown keyword ..."
	Unread []string // files of ssh's that are there and cannot be read, and why
	Err    error
}

func (e *HostError) Error() string {
	s := e.Err.Error()
	if e.Addr != "" {
		s = "ssh " + cleanLine(e.Addr, 200) + ": " + s
	}
	if name := rshName(e.Rsh); name != "" {
		s = "--rsh " + name + ": " + s
	}
	if len(e.Unread) > 0 {
		s += " (not read: " + strings.Join(e.Unread, "; ") + ")"
	}
	if e.Tries > 1 {
		s += fmt.Sprintf(" (%d tries)", e.Tries)
	}
	return s
}

func (e *HostError) Unwrap() error { return e.Err }

// ConfigError is a line of an ssh_config file that is wrong or asks for what gorun
// does not do yet.
type ConfigError struct {
	File string
	Line int // 0: the file as a whole
	Msg  string
}

func (e *ConfigError) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Msg)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Msg)
}

// JumpError says that a jump host could not be reached, or was lost later (see
// BrokenJumps). All hosts behind it have the same *JumpError.
type JumpError struct {
	Host string // as the user wrote it in a ProxyJump
	Err  error  // a *HostError if it could not be reached
}

func (e *JumpError) Error() string {
	return fmt.Sprintf("jump host %s: %v", cleanLine(e.Host, 200), e.Err)
}

func (e *JumpError) Unwrap() error { return e.Err }

// ForwardError says that a jump host, which was reached, did not connect to the host
// behind it.
type ForwardError struct {
	Jump       string // as in a ProxyJump
	Target     string // host:port
	Text       string // what the jump host's sshd said; cleaned
	Prohibited bool   // it is not allowed to
	again      bool
}

func (e *ForwardError) Error() string {
	if e.Prohibited {
		return fmt.Sprintf("jump host %s may not connect to %s (AllowTcpForwarding or PermitOpen in its sshd_config): it said %q", e.Jump, e.Target, e.Text)
	}
	return fmt.Sprintf("jump host %s cannot connect to %s: %s", e.Jump, e.Target, e.Text)
}

// passing reports whether trying again may help.
func (e *ForwardError) passing() bool { return e.again }

// HostKeyProblem is a kind of HostKeyError.
type HostKeyProblem int

// The problems a host's key may have.
const (
	HostKeyUnknown     HostKeyProblem = iota // known_hosts does not have the host
	HostKeyChanged                           // it has the host with another key: perhaps another machine answers
	HostKeyRevoked                           // it says that the key, or the authority, must not be trusted
	HostKeyCertificate                       // the host shows a certificate that is not valid here
)

// HostKeyError is a host key that cannot be trusted. Trying again does not help.
type HostKeyError struct {
	Problem        HostKeyProblem
	Name           string // under which known_hosts has, or would have, the host
	Algorithm      string // of the key shown
	Fingerprint    string // of the key shown, SHA256:...
	File           string // the line of known_hosts that contradicts; for an unknown key, a file that may
	Line           int
	KnownAlgorithm string // of the key in that line
	Detail         string // what is wrong with the certificate
	Command        string // for an unknown key: shows the fingerprint, and records the key once confirmed
}

func (e *HostKeyError) Error() string {
	key := fmt.Sprintf("%s %s", e.Algorithm, e.Fingerprint)
	switch e.Problem {
	case HostKeyUnknown:
		s := fmt.Sprintf("host key of %q is not known: %s", e.Name, key)
		if e.File != "" {
			s += fmt.Sprintf("; %s, which cannot be read, may know another", e.File)
		}
		return s
	case HostKeyChanged:
		s := fmt.Sprintf("host key of %q is not the one in %s:%d: the host shows %s", e.Name, e.File, e.Line, key)
		if e.KnownAlgorithm != e.Algorithm {
			s += ", known is a key of type " + e.KnownAlgorithm
		}
		return s
	case HostKeyRevoked:
		return fmt.Sprintf("host key of %q is revoked by %s:%d: %s", e.Name, e.File, e.Line, key)
	}
	return fmt.Sprintf("host certificate of %q: %s; its key is not known either: %s", e.Name, strings.TrimPrefix(e.Detail, "ssh: "), key)
}

// Key is a key that could have been used to log in.
type Key struct {
	Source      string // its file, or "ssh-agent (comment)"
	Type        string // "" if the key could not be read
	Fingerprint string
	Why         string // for a key that was not offered: why
}

func (k Key) String() string {
	s := k.Source
	if k.Type != "" {
		s += " " + strings.TrimPrefix(k.Type, "ssh-")
	}
	if k.Why != "" {
		s += ": " + k.Why
	}
	return s
}

// AuthError says that the host accepted none of the keys. Trying again does not help.
type AuthError struct {
	User    string
	Offered []Key    // in order
	Skipped []Key    // not offered
	Methods []string // what the server would take; nil if it did not say
	Partial bool     // a key was accepted, but the server wants more than a key
	NoKeys  string   // the directive of ssh_config that forbids keys: "PubkeyAuthentication no (file:3)"; "": none
	Text    string   // the server's last words, if any
}

// unsigned begins the Why of a key that the server would have taken.
const unsigned = "the server takes it, but signing failed: "

// Unsigned reports whether the server would have taken an offered key with which nothing
// could be signed: a wrong passphrase, an ssh-agent that refuses.
func (e *AuthError) Unsigned() bool {
	return slices.ContainsFunc(e.Offered, func(k Key) bool { return strings.HasPrefix(k.Why, unsigned) })
}

func (e *AuthError) Error() string {
	var b strings.Builder
	switch {
	case e.Partial:
		b.WriteString("a key was accepted, but the server wants more")
	case e.NoKeys != "":
		b.WriteString("no key is offered, for " + e.NoKeys)
	case len(e.Offered) == 0:
		b.WriteString("no key to offer")
	case strings.Contains(e.Text, "Too many authentication failures"):
		fmt.Fprintf(&b, "the server takes no more than %s, and none of these was right", count(len(e.Offered), "key"))
	case e.Unsigned():
		b.WriteString("the right key could not be used")
	case len(e.Offered) == 1:
		b.WriteString("the key was not accepted")
	default:
		fmt.Fprintf(&b, "none of %d keys was accepted", len(e.Offered))
	}
	list(&b, "; offered ", e.Offered)
	list(&b, "; not offered ", e.Skipped)
	if e.Methods != nil {
		fmt.Fprintf(&b, "; the server takes %s", cleanLine(strings.Join(e.Methods, ", "), 200))
	}
	if e.Text != "" {
		fmt.Fprintf(&b, "; it said %q", e.Text)
	}
	return b.String()
}

func list(b *strings.Builder, head string, keys []Key) {
	for i, k := range keys {
		b.WriteString(head)
		b.WriteString(k.String())
		if head = ", "; i == 7 && len(keys) > 8 {
			fmt.Fprintf(b, " and %d more", len(keys)-8)
			return
		}
	}
}

// TimeoutError says that ConnectTimeout passed. Reached tells how far it came.
type TimeoutError struct {
	After   time.Duration
	Reached string // for people: "no answer from 10.0.0.1:22"
	Output  string // what the login shell printed, if it came that far; cleaned
}

func (e *TimeoutError) Error() string {
	s := fmt.Sprintf("%s in %v", e.Reached, e.After)
	if e.Output != "" {
		s += fmt.Sprintf("; it printed %q", cleanLine(e.Output, 300))
	}
	return s
}

// Timeout makes a TimeoutError look like other packages' timeouts.
func (e *TimeoutError) Timeout() bool { return true }

// DroppedError says that the server closed the connection before its ssh banner, as
// sshd does when too many logins are under way (MaxStartups). It was tried again
// until ConnectTimeout had passed.
type DroppedError struct {
	Addr string // the address that was connected to
	Text string // what the server said first, if anything; cleaned
	err  error  // of the read; nil if something else than ssh speaks there
}

func (e *DroppedError) Unwrap() error { return e.err }

// NotSSH reports whether something else than ssh speaks there. Trying again does not help then.
func (e *DroppedError) NotSSH() bool { return e.err == nil }

func (e *DroppedError) Error() string {
	s := e.Addr + " closed the connection before the ssh banner"
	if e.NotSSH() {
		return fmt.Sprintf("%s is not an ssh server: it said %q", e.Addr, e.Text)
	}
	if e.Text != "" {
		return s + fmt.Sprintf(": it said %q", e.Text)
	}
	return s + " (MaxStartups reached, or not an ssh server)"
}

// ArchError says that this gorun binary cannot run on the host. GOOS and GOARCH are
// what Go calls the host, "" if that is not known.
type ArchError struct {
	Kernel, Machine string // uname -s, uname -m
	GOOS, GOARCH    string
	Have            string // this binary's, "linux/amd64"
}

func (e *ArchError) Error() string {
	s := fmt.Sprintf("the host is %s %s, this gorun is for %s", e.Kernel, e.Machine, e.Have)
	if e.GOARCH != "" {
		s += "; build one with: " + e.Build()
	}
	return s
}

// Build is the command that builds gorun for the host, "" if Go does not know it.
func (e *ArchError) Build() string {
	if e.GOARCH == "" {
		return ""
	}
	return fmt.Sprintf("GOOS=%s GOARCH=%s CGO_ENABLED=0 go build ./cmd/gorun", e.GOOS, e.GOARCH)
}

// DynamicError says that this gorun binary needs libraries, which hosts may not have: it
// is not sent to any.
type DynamicError struct {
	Loader string // what would load them, "/lib64/ld-linux-x86-64.so.2"
}

func (e *DynamicError) Error() string {
	return fmt.Sprintf("this gorun is linked dynamically (it needs %s), and runs ranks on this machine only; build one for all hosts with: %s",
		cleanLine(e.Loader, 200), e.Build())
}

// Build is the command that builds gorun without the need.
func (e *DynamicError) Build() string { return "CGO_ENABLED=0 go build ./cmd/gorun" }

// InstallError says that the host has no directory from which gorun can be run.
type InstallError struct {
	Places []Place // in the order they were tried
	Stderr string  // what the commands there said; cleaned
}

// Place is a directory on a host, and why gorun could not be run from it.
type Place struct{ Dir, Why string }

func (e *InstallError) Error() string {
	var b strings.Builder
	b.WriteString("no directory to run gorun from: ")
	for i, p := range e.Places {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %s", p.Dir, p.Why)
	}
	if e.Stderr != "" {
		fmt.Fprintf(&b, "; it said %q", cleanLine(e.Stderr, 300))
	}
	return b.String()
}

// ShellError says that the login shell, or what it started, ended before the agent
// spoke: no /bin/sh, a forced command, a restricted shell, no login allowed.
type ShellError struct {
	Local  bool   // there was no shell: the agent was started here
	Rsh    bool   // it is the command of Options.Rsh that ended
	Exit   error  // *ExitError, or why that is not known; nil for exit status 0
	Echo   bool   // it gave back what was sent to it, which is "..." in Output and Stderr
	Output string // standard output, cleaned, the first 4 KiB
	Stderr string // standard error, cleaned, the last 32 KiB
}

func (e *ShellError) Error() string {
	how := "exit status 0"
	if e.Exit != nil {
		how = e.Exit.Error()
	}
	s := fmt.Sprintf("the login shell ended (%s) before gorun's agent spoke", how)
	if e.Rsh {
		s = fmt.Sprintf("it ended (%s) before gorun's agent spoke", how)
	}
	if e.Local {
		s = fmt.Sprintf("gorun's agent on this machine ended (%s) before it spoke", how)
	}
	if e.Echo {
		s += "; it gave back what was sent to it"
	}
	if out := cmp.Or(e.Stderr, e.Output); out == echoMark {
		return s
	} else if out != "" && e.Rsh {
		s += fmt.Sprintf("; it printed %q", cleanEnd(out, 300)) // what ssh says of its end comes behind banners
	} else if out != "" {
		s += fmt.Sprintf("; it printed %q", cleanLine(out, 300))
	}
	return s
}

// ExitError is the end of a command on a host, when it is not exit status 0.
type ExitError struct {
	Status int    // exit status; 0 if a signal ended it
	Signal string // name of the signal, without SIG
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return "killed by SIG" + cleanLine(e.Signal, 20)
	}
	return fmt.Sprintf("exit status %d", e.Status)
}

// ErrTerminal is returned by Dial when what comes from the host has passed a terminal,
// which changes frames in both directions. Trying again does not help.
var ErrTerminal = errors.New("a terminal is on the way, which changes the bytes that pass: lines come with a carriage return")

var (
	errBudget = errors.New("connect timeout") // cause of a dial's context that ran out of time
	errNoExit = errors.New("connection lost")
)
