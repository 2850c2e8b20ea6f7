package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher"
	"gorun/launcher/transport"
)

// job returns a result of n ranks that ended well.
func job(n int) *launcher.Result {
	res := &launcher.Result{}
	for i := range n {
		res.Ranks = append(res.Ranks, launcher.RankResult{Rank: i, Host: fmt.Sprintf("gpu%02d", i/8), State: launcher.StateExited})
	}
	return res
}

// with sets fields of a result.
func with(res *launcher.Result, set func(*launcher.Result)) *launcher.Result {
	set(res)
	return res
}

// fails makes rank n the first failure.
func fails(n, code, signal int) func(*launcher.Result) {
	return func(res *launcher.Result) {
		r := &res.Ranks[n]
		r.Code, r.Signal, r.At = code, signal, 4200*time.Millisecond
		if signal != 0 {
			r.State = launcher.StateKilled
		}
		res.First = r
	}
}

func TestResults(t *testing.T) {
	tests := map[string]struct {
		res   *launcher.Result
		code  int
		lines []string
	}{
		"well": {job(4), 0, nil},
		"killed": {
			with(with(job(32), fails(12, 0, 11)), func(r *launcher.Result) { r.Stopped = 31; r.Tail = []string{"cuda: oops"} }),
			139, []string{"rank 12 on gpu01 killed by SIGSEGV 4.2 s after start; 31 other ranks stopped", "last lines of rank 12:", "  cuda: oops"},
		},
		"core": {
			with(with(job(1), fails(0, 0, 6)), func(r *launcher.Result) { r.Ranks[0].Core = true; r.Tail = []string{"seen already"} }),
			134, []string{"rank 0 on gpu00 killed by SIGABRT (core dumped) 4.2 s after start"},
		},
		"code": {
			with(with(job(4), fails(2, 3, 0)), func(r *launcher.Result) { r.Others, r.Stopped = 1, 2 }),
			3, []string{"rank 2 on gpu00 exited with code 3, 4.2 s after start; 1 other rank failed too; 2 other ranks stopped"},
		},
		"not-started": {
			with(with(job(2), fails(1, 126, 0)), func(r *launcher.Result) {
				r.First.State, r.First.Text, r.Stopped = launcher.StateNotStarted, "fork: out of memory", 1
			}),
			126, []string{"rank 1 on gpu00 could not be started: fork: out of memory; 1 other rank stopped"},
		},
		"timeout": {
			with(job(4), func(r *launcher.Result) { r.Timeout, r.Stopped, r.Killed = true, 4, []int{3, 0, 1} }),
			124, []string{"timeout: the job has run for 1m0s; 4 ranks stopped", "ranks 0-1,3 did not end by TERM within 5s and had to be killed"},
		},
		"interrupted-twice": {
			with(job(2), func(r *launcher.Result) { r.Signal, r.Stopped, r.Killed, r.NoGrace = 2, 2, []int{0, 1}, true }),
			130, []string{"ended by SIGINT; 2 ranks stopped", "ranks 0-1 killed at once, without grace"},
		},
		"interrupted": {
			with(job(2), func(r *launcher.Result) { r.Signal, r.Stopped = 2, 2 }),
			130, []string{"ended by SIGINT; 2 ranks stopped"},
		},
		"interrupted-after-failure": {
			with(with(job(4), fails(2, 3, 0)), func(r *launcher.Result) { r.Signal, r.Stopped = 2, 3 }),
			130, []string{"ended by SIGINT; 3 ranks stopped", "before that rank 2 on gpu00 exited with code 3, 4.2 s after start"},
		},
		"interrupted-early": {&launcher.Result{Signal: 15}, 143, []string{"ended by SIGTERM; nothing was started"}},
		"lost": {
			with(job(16), func(r *launcher.Result) {
				for i := range 8 {
					r.Ranks[i].State = launcher.StateLost
				}
				r.Lost, r.Stopped = []string{"gpu00: silent for 30s", "gpu01: gone"}, 8
				r.Left = []string{"gpu01: pid 4711", "gpu00: cannot tell: EOF", "gpu02: cannot tell: EOF"}
			}),
			125, []string{"host lost: gpu00: silent for 30s; 8 ranks lost; 8 ranks stopped", "host lost: gpu01: gone", "left behind: gpu01: pid 4711", "left behind: gpu00, gpu02: cannot tell: EOF"},
		},
		"two-lost": {
			with(job(16), func(r *launcher.Result) {
				for i := range r.Ranks {
					r.Ranks[i].State, r.Ranks[i].Host = launcher.StateLost, fmt.Sprintf("gpu%02d", i/8)
				}
				r.Lost = []string{"gpu00: silent for 30s", "gpu01: gone"}
			}),
			125, []string{"host lost: gpu00: silent for 30s; 16 ranks lost on 2 hosts", "host lost: gpu01: gone"},
		},
		"closed":      {with(job(4), func(r *launcher.Result) { r.StdoutClosed, r.Stopped = true, 1 }), 141, []string{"output was closed by its reader; 1 rank stopped"}},
		"closed-late": {with(job(4), func(r *launcher.Result) { r.StdoutClosed = true }), 141, nil},
		"disk-full":   {with(job(4), func(r *launcher.Result) { r.OutputError = "output to x is lost: no space" }), 125, []string{"output to x is lost: no space; the ranks themselves ended well"}},
		"kept": {
			with(job(4), func(r *launcher.Result) { r.Kept = []launcher.KeptDir{{Host: "gpu00", Dir: "/d.0"}} }),
			0, []string{"files that ranks have written stay on gpu00 in /d.0"},
		},
		"kept-on-many": {
			with(job(4), func(r *launcher.Result) {
				for i := range 10 {
					r.Kept = append(r.Kept, launcher.KeptDir{Host: fmt.Sprintf("h%d", i), Dir: fmt.Sprintf("/d.%d", i)})
				}
			}),
			0, []string{"files that ranks have written stay on h0, h1, h2, h3, h4, h5, h6, h7, 2 more hosts in directories such as /d.0"},
		},
		"no-such-name": {with(with(job(1), fails(0, 0, 40)), func(*launcher.Result) {}), 168, []string{"rank 0 on gpu00 killed by signal 40 4.2 s after start"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := defaultOptions()
			o.timeout = time.Minute
			if diff := cmp.Diff(tt.lines, resultReport(tt.res, o).lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := exitCode(tt.res, nil); got != tt.code {
				t.Errorf("got exit code %d; want %d", got, tt.code)
			}
		})
	}
}

// With --output-dir nobody has seen what even a single rank printed last.
func TestLastLinesOfAFile(t *testing.T) {
	res := with(with(job(1), fails(0, 3, 0)), func(r *launcher.Result) { r.Tail = []string{"oops"} })
	want := []string{"rank 0 on gpu00 exited with code 3, 4.2 s after start", "last lines of rank 0:", "  oops"}
	if diff := cmp.Diff(want, resultReport(res, options{outputDir: "out"}).lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHintsForSignals(t *testing.T) {
	for sig, want := range map[int]string{9: "dmesg on gpu00", 7: "/dev/shm on gpu00", 4: "newer processor", 11: ""} {
		hints := strings.Join(resultReport(with(job(2), fails(1, 0, sig)), defaultOptions()).hints, "\n")
		if (want == "") != (hints == "") || !strings.Contains(hints, want) {
			t.Errorf("signal %d: got hints %q; want %q", sig, hints, want)
		}
	}
}

// A program that MPI's descriptor has not reached says so in its own way.
func TestHintForClosedDescriptor(t *testing.T) {
	for line, want := range map[string]bool{"[cli_1]: write_line error; fd=30 buf=:cmd=init": true, "oops": false} {
		res := with(with(job(2), fails(1, 1, 0)), func(r *launcher.Result) { r.Tail = []string{line} })
		if got := strings.Contains(strings.Join(resultReport(res, defaultOptions()).hints, "\n"), "--pmi port does without"); got != want {
			t.Errorf("%q: hint is there: %v", line, got)
		}
	}
}

// unreached is the failure of a host by err.
func unreached(host string, err error) launcher.HostFailure {
	return launcher.HostFailure{Host: host, Err: &transport.HostError{Host: host, Addr: "me@" + host + ":22", Err: err}}
}

func hostNames(failures []launcher.HostFailure) (names []string) {
	for _, f := range failures {
		names = append(names, f.Host)
	}
	return names
}

// behindJump is the failure of a host by that of its jump host.
func behindJump(host string, err *transport.JumpError) launcher.HostFailure {
	return launcher.HostFailure{Host: host, Err: &transport.HostError{Host: host, Err: err}}
}

func TestErrors(t *testing.T) {
	timeout := func(ip string) error {
		return &transport.TimeoutError{After: 20 * time.Second, Reached: "no answer from " + ip + ":22"}
	}
	refused := func(format string, n, step int) (all []launcher.HostFailure) {
		for i := range n {
			all = append(all, unreached(fmt.Sprintf(format, step*i), syscall.ECONNREFUSED))
		}
		return all
	}
	bastion := &transport.JumpError{Host: "bastion", Err: unreached("bastion", &transport.AuthError{User: "me"}).Err}
	tests := map[string]struct {
		err   error
		code  int
		lines []string // nil: the error of the one host, in transport's words
		hint  string   // in one of the hints; "" for no hint at all
	}{
		"one-host": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("gpu05", syscall.ECONNREFUSED)}, Good: 7},
			125, []string{"gpu05: ssh me@gpu05:22: connection refused; nothing was started"}, "port=N",
		},
		"equal-causes": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{
				unreached("gpu05", timeout("10.0.0.5")), unreached("gpu06", timeout("10.0.0.6")), unreached("gpu07", syscall.ECONNREFUSED),
			}, Good: 5},
			125, []string{
				"3 of 8 hosts cannot be used; nothing was started",
				"  gpu05, gpu06: ssh me@HOST:22: no answer from ADDRESS in 20s",
				"  gpu07: ssh me@gpu07:22: connection refused",
			}, "--connect-timeout",
		},
		"no-route": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("gpu05", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}), unreached("gpu06", syscall.ENETUNREACH)}, Good: 7},
			125, []string{"2 of 9 hosts cannot be used; nothing was started", "  gpu05: ssh me@gpu05:22: dial: connect: no route to host", "  gpu06: ssh me@gpu06:22: network is unreachable"}, "--retry-hosts TIME",
		},
		"silent": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("gpu05", timeout("10.0.0.5"))}, Good: 7},
			125, nil, "--retry-hosts TIME",
		},
		"many-hosts": {
			&launcher.HostsError{Hosts: refused("gpu%02d", 41, 1), Good: 1},
			125, []string{"41 of 42 hosts cannot be used; nothing was started", "  gpu[00-40]: ssh me@HOST:22: connection refused"}, "--exclude",
		},
		"too-many-hosts": {
			&launcher.HostsError{Hosts: refused("gpu%d-ib", 1000, 3), Good: 1},
			125, []string{"1000 of 1001 hosts cannot be used; nothing was started", "  " + strings.Join(hostNames(refused("gpu%d-ib", 32, 3)), ", ") + ", 968 more hosts: ssh me@HOST:22: connection refused"}, "--result FILE",
		},
		"jump-host-down": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{
				behindJump("gpu1", bastion), behindJump("gpu2", bastion), behindJump("gpu3", &transport.JumpError{Host: "inner", Err: unreached("inner", bastion).Err}),
				unreached("gpu4", syscall.ECONNREFUSED),
			}},
			125, []string{
				"4 of 4 hosts cannot be used; nothing was started",
				"  jump host bastion, with 3 hosts behind it: ssh me@bastion:22: no key to offer",
				"  gpu4: ssh me@gpu4:22: connection refused",
			}, "ssh-add",
		},
		"jump-host-for-one": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{behindJump("gpu1", &transport.JumpError{Host: "b", Err: unreached("b", &transport.HostKeyError{
				Problem: transport.HostKeyChanged, Name: "b", File: "/h/known_hosts", Line: 3,
			}).Err})}},
			125, []string{`gpu1, behind jump host b: ssh me@b:22: host key of "b" is not the one in /h/known_hosts:3: the host shows  ; nothing was started`}, "if the host was reinstalled: ssh-keygen -R b",
		},
		"other-logins": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.AuthError{User: "me", Methods: []string{"publickey", "gssapi-with-mic"}})}},
			125, nil, "by gssapi-with-mic: --rsh 'ssh -o BatchMode=yes {host}'",
		},
		"hostbased-only": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.AuthError{User: "me", Methods: []string{"hostbased"}})}},
			125, nil, "by hostbased: --rsh",
		},
		"hostbased-by-config": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{{Host: "a", Err: &transport.HostError{
				Host: "a", Unused: []string{"HostbasedAuthentication (/etc/ssh/ssh_config:3)"}, Err: &transport.AuthError{User: "me", Methods: []string{"publickey"}},
			}}}},
			125, nil, "by HostbasedAuthentication: --rsh",
		},
		"too-few-files": {
			&transport.FilesError{Hosts: 100, Need: 128, Limit: 64},
			125, []string{"connections to 100 hosts need about 128 open files here, and 64 is the limit"}, "ulimit -n 256",
		},
		"unknown-name": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("gpux", &net.DNSError{Err: "no such host", Name: "gpux"})}},
			125, nil, "getent hosts gpux",
		},
		"unknown-key": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.HostKeyError{Name: "a", Algorithm: "ssh-ed25519", Fingerprint: "SHA256:x", Command: "ssh a"})}},
			125, nil, "ssh a; or trust new hosts with --accept-new-host-keys",
		},
		"unknown-keys": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{
				unreached("a", &transport.HostKeyError{Name: "a", Command: "ssh a true"}), unreached("b", &transport.HostKeyError{Name: "b", Command: "ssh -p 2222 b true"}),
				behindJump("c", &transport.JumpError{Host: "j", Err: unreached("j", &transport.HostKeyError{Name: "j", Command: "ssh j true"}).Err}),
				unreached("a2", &transport.HostKeyError{Name: "a2", Command: "ssh a true"}),
			}},
			125, []string{"4 of 4 hosts cannot be used; nothing was started", `  a, b, c, behind jump host j, a2: ssh me@HOST:22: host key of "HOST" is not known:  `}, "if those are the right keys: ssh a true; ssh -p 2222 b true; ssh j true; or trust",
		},
		"changed-key": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.HostKeyError{
				Problem: transport.HostKeyChanged, Name: "[a]:2222", Algorithm: "ssh-ed25519", KnownAlgorithm: "ssh-ed25519", Fingerprint: "SHA256:x", File: "/h/known_hosts", Line: 3,
			})}},
			125, nil,
			"ssh-keygen -R '[a]:2222' -f /h/known_hosts",
		},
		"changed-keys": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{
				unreached("a", &transport.HostKeyError{Problem: transport.HostKeyChanged, Name: "a", File: "/h/k"}), unreached("b", &transport.HostKeyError{Problem: transport.HostKeyChanged, Name: "b", File: "/h/k"}),
			}},
			125, []string{"2 of 2 hosts cannot be used; nothing was started", `  a, b: ssh me@HOST:22: host key of "HOST" is not the one in /h/k:0: the host shows  `},
			"if they were reinstalled: ssh-keygen -R a -f /h/k; ssh-keygen -R b -f /h/k",
		},
		"no-key": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.AuthError{User: "me", Methods: []string{"publickey"}})}},
			125, nil, "ssh-add",
		},
		"keys-forbidden": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.AuthError{User: "me", NoKeys: "PubkeyAuthentication no (c:3)"})}},
			125, nil, "PubkeyAuthentication yes in a Host block for the host, above that line",
		},
		"other-config": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{{Host: "a", Err: &transport.HostError{Host: "a", Addr: "me@a:22", Config: "my conf", Err: &transport.AuthError{
				User: "me", Offered: []transport.Key{{Source: "k", Type: "ssh-rsa"}},
			}}}}},
			125, nil, "ssh-copy-id -F 'my conf' me@a",
		},
		"other-config-no-key": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{{Host: "a", Err: &transport.HostError{Host: "a", Addr: "me@a:22", Config: "c", Err: &transport.AuthError{User: "me"}}}}},
			125, nil, "IdentityFile in the file of --ssh-config names",
		},
		"keys-refused": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.AuthError{User: "me", Offered: []transport.Key{{Source: "k", Type: "ssh-rsa"}}})}},
			125, nil, "ssh-copy-id me@a",
		},
		"keys-refused-at-a-port": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{{Host: "a", Err: &transport.HostError{Host: "a", Addr: "me@[fd00::2]:2222", Err: &transport.AuthError{
				User: "me", Offered: []transport.Key{{Source: "k", Type: "ssh-rsa"}},
			}}}}},
			125, nil, "ssh-copy-id -p 2222 me@a",
		},
		"right-key-wrong-passphrase": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.AuthError{
				User: "me", Offered: []transport.Key{{Source: "k", Type: "ssh-rsa", Why: "the server takes it, but signing failed: the passphrase was wrong"}},
			})}},
			125, []string{"a: ssh me@a:22: the right key could not be used; offered k rsa: the server takes it, but signing failed: the passphrase was wrong; nothing was started"}, "ssh-add asks",
		},
		"unreadable-known-hosts": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.HostKeyError{
				Name: "a", Algorithm: "ssh-ed25519", Fingerprint: "SHA256:x", Command: "ssh a", File: "/h/known_hosts",
			})}},
			125, nil, "once this file can be read: /h/known_hosts",
		},
		"key-that-others-read": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.AuthError{
				User: "me", Skipped: []transport.Key{{Source: "/h/id a", Why: "others may read it (mode 0644)"}},
			})}},
			125, nil, "chmod 600 '/h/id a'",
		},
		"passwords-only": {
			&launcher.HostsError{Hosts: []launcher.HostFailure{unreached("a", &transport.AuthError{User: "me", Methods: []string{"password"}})}},
			125, nil, "keys only",
		},
		"slots": {
			&launcher.SlotsError{Need: 64, Have: 56, Ways: launcher.Ways{Ranks: 56, Over: true}, Hosts: []launcher.HostSlots{{Name: "gpu1", Slots: 28, Origin: "hosts:1"}, {Name: "gpu2", Slots: 28, Origin: "hosts:2"}}},
			2, []string{"need 64 slots, hosts offer 56", "  gpu1: 28 slots (hosts:1)", "  gpu2: 28 slots (hosts:2)"}, "lower -np to 56 or pass --oversubscribe",
		},
		"too-many": {
			&launcher.SlotsError{Need: 99999, Have: 65536, Hosts: []launcher.HostSlots{{Name: "gpu1", Slots: 2, Origin: "2 cores"}}},
			2, []string{"need 99999 slots, hosts offer 65536", "  gpu1: 2 slots (2 cores)"}, "a job has at most 65536 ranks",
		},
		"no-slots": {
			&launcher.SlotsError{Hosts: []launcher.HostSlots{{Name: "gpu1", Origin: "hosts:1"}}},
			2, []string{"the hosts offer no slots", "  gpu1: 0 slots (hosts:1)"}, "slots=N",
		},
		"zero-slots": {
			&launcher.SlotsError{Need: 8, Hosts: []launcher.HostSlots{{Name: "a", Origin: "-H"}}},
			2, []string{"need 8 slots, hosts offer 0", "  a: 0 slots (-H)"}, "write slots=N for a host, or host:N in -H",
		},
		"per-host": {
			&launcher.SlotsError{Need: 8, Have: 6, PerHost: 4, Ways: launcher.Ways{Hosts: 2, PerHost: 8, Ranks: 6}, Hosts: []launcher.HostSlots{{Name: "a", Slots: 1, Origin: "-H"}}},
			2, []string{"need 8 slots, hosts offer 6 with -ppn 4", "  a: 1 slot (-H)"}, "add 2 hosts, raise -ppn to 8, or lower -np to 6",
		},
		"per-host-slots": {
			&launcher.SlotsError{Need: 4, Have: 2, PerHost: 4, Ways: launcher.Ways{PerHost: 2, Over: true}, Hosts: []launcher.HostSlots{{Name: "a", Slots: 2, Origin: "-H"}}},
			2, []string{"need 4 slots, hosts offer 2 with -ppn 4", "  a: 2 slots (-H)"}, "lower -ppn to 2 or pass --oversubscribe",
		},
		"not-found": {
			&launcher.PrepareError{Failures: []launcher.PrepareFailure{{Host: "b", Rank: 2, Code: 127, Text: "app: not found"}, {Host: "b", Rank: 3, Code: 127, Text: "app: not found"}}},
			127, []string{"b: app: not found; nothing was started"}, "PATH",
		},
		"not-everywhere": {
			&launcher.PrepareError{Failures: []launcher.PrepareFailure{{Host: "a", Rank: 0, Code: 126, Text: "app: not executable"}, {Host: "b", Rank: -1, Code: 125, Text: `working directory "/w": no such file or directory`}}},
			126, []string{"the program cannot be started on every host; nothing was started", "  a: app: not executable", `  b: working directory "/w": no such file or directory`}, "-wdir DIR",
		},
		"cannot-run": {
			&launcher.PrepareError{Failures: []launcher.PrepareFailure{{Host: "a", Rank: -1, Code: 126, Text: "app: not executable"}}},
			126, []string{"a: app: not executable; nothing was started"}, "",
		},
		"syntax": {
			&hostfile.SyntaxError{File: "hosts", Line: 7, Col: 1, Text: "n[9-3]", Msg: "start is after end", Hint: "swap"},
			2, []string{`hosts:7:1: "n[9-3]": start is after end`}, "swap",
		},
		"unknown-slots": {&launcher.UnknownSlotsError{Hosts: []string{"a", "b"}}, 2, []string{"slots of a, b are known to the hosts only"}, "slots=8"},
		"stdin":         {&launcher.StdinError{Rank: 4, Size: 4}, 2, []string{"--stdin 4: the job has ranks 0 to 3"}, ""},
		"too-long":      {&envsync.SizeError{Arg: -1, Name: "BIG", Size: 200000}, 2, []string{"variable BIG has 200000 bytes; Linux passes at most 131071 to a program"}, ""},
		"long": {
			&usageError{"-np: \"" + strings.Repeat("é", 3000) + "\" is not a whole number", nil}, 2,
			[]string{"-np: \"" + strings.Repeat("é", 147) + " ... " + strings.Repeat("é", 63) + "\" is not a whole number"}, "",
		},
		"other": {errors.New("no memory"), 125, []string{"no memory"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := defaultOptions()
			o.program, o.np = []string{"app"}, 8
			got := errorReport(tt.err, o)
			if tt.lines == nil {
				h := tt.err.(*launcher.HostsError).Hosts[0]
				tt.lines = []string{fmt.Sprintf("%s: %v; nothing was started", h.Host, h.Err)}
			}
			if diff := cmp.Diff(tt.lines, got.lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if hints := strings.Join(got.hints, "\n"); !strings.Contains(hints, tt.hint) || (tt.hint == "") != (hints == "") {
				t.Errorf("got hints %q; want %q", hints, tt.hint)
			}
			if code := exitCode(&launcher.Result{}, tt.err); code != tt.code {
				t.Errorf("got exit code %d; want %d", code, tt.code)
			}
		})
	}
}

// A program that is only here can be brought to the hosts; of one in the current directory
// that nobody finds by its bare name another spelling was meant.
func TestHintsForMissingPrograms(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"near", "both", "bin/both", "bin/found"} {
		os.MkdirAll(filepath.Dir(name), 0o777)
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", filepath.Join(os.Getenv("PWD"), "bin"))
	tests := []struct{ host, program, want string }{
		{"gpu1", "found", "bin/found is on this machine; --bcast"},
		{"gpu1", "./near", "./near is on this machine; --bcast"},
		{"gpu1", "near", "did you mean ./near?"},
		{"gpu1", "both", "bin/both is on this machine; --bcast"},
		{"gpu1", "nowhere", "programs are looked up in the PATH of the host"},
		{"localhost", "found", "programs are looked up in the PATH of the host"},
		{"gpu1", "help", "gorun --help lists the flags"},
		{"gpu1", "version", "write gorun --version"},
		{"gpu1", "cd", "-wdir DIR"},
		{"gpu1", "source", "source is a command of the shell itself: bash -c 'source a && PROGRAM'"},
		{"gpu1", "module", "bash -lc 'module a && PROGRAM'"},
		{"gpu1", "python", "write python3 a"},
		{"gpu1", "hostname; date", "sh -c 'hostname; date a'"},
		{"gpu1", "uptime | wc -l", "sh -c 'uptime | wc -l a'"},
		{"gpu1", "echo $HOSTNAME", "sh -c 'echo $HOSTNAME a'"},
		{"gpu1", "app --token=hunter2 ; b", "sh -c 'app --token=<hidden>'"},
		{"gpu1", "./hello --x", "write ./hello --x a"},
		{"gpu1", "./hello --api-key hunter2", "write ./hello --api-key '<hidden>' a"},
		{"gpu1", "~/hello", "not within quotes"},
		{"gpu1", "gpu2", "-H gpu1,gpu2"},
		{"gpu1", "gpu", "programs are looked up"},
		{"gpu1", "2", "programs are looked up"},
	}
	for _, tt := range tests {
		o := given(t, "-H", "gpu1", tt.program, "a")
		if tt.program == "version" {
			o = given(t, "-H", "gpu1", tt.program)
		}
		err := &launcher.PrepareError{Failures: []launcher.PrepareFailure{{Host: tt.host, Rank: -1, Code: 127, Text: fmt.Sprintf("program %q not found", tt.program)}}}
		if hints := errorReport(err, o).hints; len(hints) != 1 || !strings.Contains(hints[0], tt.want) {
			t.Errorf("%s on %s: got hints %q; want %q", tt.program, tt.host, hints, tt.want)
		}
	}
}

// Hosts that lack the current directory can be sent what the program needs of it.
func TestHintsForMissingDirectories(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"hello", "train.py"} {
		if err := os.WriteFile(name, []byte("#!/bin/sh\n"), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"./hello --lr 3":                        "--bcast brings ./hello to hosts",
		"python3 -u train.py --x":               "--preload train.py brings it to hosts",
		"nvidia-smi -L":                         "-wdir DIR names another than this one, as in -wdir /",
		"-np 1 true : -np 1 python3 ./train.py": "--preload ./train.py brings it",
		"-wdir /w ./hello":                      "the directory of -wdir must exist on every host",
	} {
		o := given(t, append([]string{"-H", "gpu1"}, strings.Fields(line)...)...)
		err := &launcher.PrepareError{Failures: []launcher.PrepareFailure{{Host: "gpu1", Rank: -1, Code: 125, Text: `working directory "/w": no such file or directory`}}}
		if hints := errorReport(err, o).hints; len(hints) != 1 || !strings.Contains(hints[0], want) {
			t.Errorf("%s: got hints %q; want %q", line, hints, want)
		}
	}
}

func TestGeneralize(t *testing.T) {
	tests := map[string]struct{ text, want string }{
		"plain":         {"connection refused", "connection refused"},
		"user-and-host": {"ssh me@gpu1:22: gone", "ssh me@HOST:22: gone"},
		"address":       {"no answer from 10.0.0.1:22, 10.0.0.2:22", "no answer from ADDRESS, ADDRESS"},
		"ipv6":          {"no answer from [fd00::1]:22 in 20s", "no answer from ADDRESS in 20s"},
		"quoted":        {`host key of "gpu1" is unknown`, `host key of "HOST" is unknown`},
		"inside-a-word": {"ask gpu10", "ask gpu10"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := generalize(tt.text, "gpu1"); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func TestManyHostsAreCutShort(t *testing.T) {
	e := &launcher.SlotsError{Need: 999, Have: 40}
	for i := range 40 {
		e.Hosts = append(e.Hosts, launcher.HostSlots{Name: fmt.Sprint("h", i), Slots: 1, Origin: "hosts:1"})
	}
	got := slotsReport(e, options{}).lines
	if n := len(got); n != 10 || got[9] != "  and 32 more hosts" {
		t.Errorf("got %d lines, the last %q; want 10, the last for 32 hosts", n, got[n-1])
	}
}
