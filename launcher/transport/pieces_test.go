package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// paddedSelf is a stand-in of size bytes: a script with noise behind its end.
func paddedSelf(t *testing.T, size int) string {
	t.Helper()
	name := testSelf(t)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	pad := bytes.Repeat([]byte("\x00\xff\r\n!'\\"), size/7+1)
	text = append(append(text, "exit 0\n"...), pad...)
	write(t, name, string(text[:size]), 0o755)
	return name
}

// TestPieces sends binaries of several pieces, to homes in which they find room and to
// others whose disk is full in the first, the second or the last piece.
func TestPieces(t *testing.T) {
	tests := []struct {
		name string
		size int    // of the binary
		room string // of the home; "" for enough
		sent int    // times
	}{
		{"one-exactly", piece, "", 1},
		{"two-exactly", 2 * piece, "", 1},
		{"two-and-a-byte", 2*piece + 1, "", 1},
		{"full-in-the-first", 2*piece + 99, "256k", 2},
		{"full-in-the-second", 2*piece + 99, "768k", 2},
		{"full-in-the-last", 2*piece + 200<<10, "1100k", 2},
	}
	for i, tt := range tests {
		for j, sh := range []string{"dash", "bash --posix", "busybox sh"} {
			if tt.room == "" && i%3 != j {
				continue // one of them will do
			}
			t.Run(tt.name+"-"+strings.Fields(sh)[0], func(t *testing.T) {
				t.Parallel()
				needPrograms(t, sh)
				home := filepath.Join(t.TempDir(), "home")
				os.Mkdir(home, 0o700)
				if tt.room != "" {
					mountTmpfs(t, home, 0, "size="+tt.room)
				}
				s := shellHost{login: "bash", sh: sh, env: pathEnv(home)}.serve(t)
				log, id := newCounter(), jobID(t)
				d := fakeDialer(t, func(o *Options) {
					o.Self, o.JobID, o.Logger, o.ConnectTimeout = paddedSelf(t, tt.size), id, slog.New(log), time.Minute
				})
				exe := ask(t, mustDial(t, d, s.host()), "exe")
				if got := log.of(installing); got != tt.sent {
					t.Errorf("sent %d times; want %d", got, tt.sent)
				}
				if inCache := strings.HasPrefix(exe, cacheOf(home)); inCache != (tt.room == "") {
					t.Errorf("runs from %s; want the home only if it has room", exe)
				}
				got, _ := os.ReadFile(exe)
				want, _ := os.ReadFile(d.opts.Self)
				if !bytes.Equal(got, want) {
					t.Errorf("what came (%d bytes) is not what was sent (%d bytes)", len(got), len(want))
				}
				if names := listDir(t, cacheOf(home)); tt.room != "" && len(names) > 0 {
					t.Errorf("left in the cache: %v", names)
				}
			})
		}
	}
}

// TestBadRunAgain: a home in which gorun cannot be run, though it could be written,
// is followed by the next directory, in the same pieces.
func TestBadRunAgain(t *testing.T) {
	for _, sh := range []string{"dash", "bash --posix", "busybox sh"} {
		t.Run(strings.Fields(sh)[0], func(t *testing.T) {
			t.Parallel()
			needPrograms(t, sh)
			home := t.TempDir()
			name := paddedSelf(t, 2*piece+100)
			text, _ := os.ReadFile(name)
			text = bytes.Replace(text, []byte("#!/bin/sh\n"), []byte("#!/bin/sh\ncase $0 in */.cache/*) exit 9;; esac\n"), 1)
			write(t, name, string(text), 0o755)
			log, id := newCounter(), jobID(t)
			d := fakeDialer(t, func(o *Options) { o.Self, o.JobID, o.Logger, o.ConnectTimeout = name, id, slog.New(log), time.Minute })
			l := mustDial(t, d, shellHost{login: "sh", sh: sh, env: pathEnv(home)}.serve(t).host())
			if got, want := ask(t, l, "exe"), "/tmp/gorun-agent-"+id+"/gorun"; got != want || log.of(installing) != 2 {
				t.Errorf("runs from %s, sent %d times; want %s, twice", got, log.of(installing), want)
			}
		})
	}
}

// speaker is the host's end of a talk about the binary.
type speaker struct {
	ch ssh.Channel
	s  *fakeServer
}

func (h speaker) say(nonce, format string, args ...any) {
	fmt.Fprintf(h.ch, "@gorun-%s %s\n", nonce, fmt.Sprintf(format, args...))
}

// take reads n bytes.
func (h speaker) take(n int) { io.ReadFull(h.ch, make([]byte, n)) }

// TestHostsThatLie about the binary they are sent. None may hold up the dial for ever,
// and none is sent more than it has asked for.
func TestHostsThatLie(t *testing.T) {
	const size = 2*piece + 100
	tests := []struct {
		name string
		talk func(h speaker, nonce string) // after the request and "send"
		want string
	}{
		{"acknowledges-twice", func(h speaker, nonce string) {
			h.take(piece)
			h.say(nonce, "got %d", size-piece)
			h.say(nonce, "got %d", size-piece)
		}, fmt.Sprintf("unexpected word from the host: %q", fmt.Sprint("got ", size-piece))},
		{"acknowledges-too-much", func(h speaker, nonce string) { h.say(nonce, "got 0") }, `unexpected word from the host: "got 0"`},
		{"acknowledges-too-little", func(h speaker, nonce string) { h.say(nonce, "got %d", size) }, "unexpected word from the host"},
		{"acknowledges-nonsense", func(h speaker, nonce string) { h.say(nonce, "got -1") }, `unexpected word from the host: "got -1"`},
		{"acknowledges-before-it-reads", func(h speaker, nonce string) {
			h.say(nonce, "got %d", size-piece)
			h.say(nonce, "got %d", size-2*piece)
			h.say(nonce, "got 0")
			h.take(size)
			h.say(nonce, "agent 1")
			h.take(1)
		}, ""},
		{"acknowledges-when-all-has-come", func(h speaker, nonce string) {
			for left := size; left > 0; {
				n := min(left, piece)
				h.take(n)
				left -= n
				h.say(nonce, "got %d", left)
			}
			h.say(nonce, "got 0")
		}, `unexpected word from the host: "got 0"`},
		{"stalls-after-the-first", func(h speaker, nonce string) {
			h.take(piece)
			<-h.s.hang
		}, "logged in, but sending gorun's binary made no progress in 1.5s"},
		{"stalls-after-the-first-is-acknowledged", func(h speaker, nonce string) {
			h.take(piece)
			h.say(nonce, "got %d", size-piece)
			<-h.s.hang
		}, "logged in, but sending gorun's binary made no progress in 1.5s"},
		{"ends-after-the-first", func(h speaker, nonce string) { h.take(piece) }, "the login shell ended (exit status 1) before gorun's agent spoke"},
		{"asks-without-end", func(h speaker, nonce string) {
			for range 1000 {
				h.say(nonce, "need Linux %s tmp", unameMachine())
				h.take(len("send\n") + piece)
			}
			<-h.s.hang
		}, "the host asks for gorun's binary again and again"},
		{"fails-without-end", func(h speaker, nonce string) {
			for range 1000 {
				h.say(nonce, "fail write /tmp")
			}
			<-h.s.hang
		}, "the host says of more directories than there are"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newFakeServer(t, "127.0.0.1:0")
			s.shell = func(ch ssh.Channel, command string) uint32 {
				if !strings.Contains(command, "/bin/sh") {
					return 127
				}
				h := speaker{ch, s}
				h.say(nonceOf(command), "need Linux %s home", unameMachine())
				h.take(len("send\n"))
				tt.talk(h, nonceOf(command))
				return 1
			}
			s.start()
			d := fakeDialer(t, func(o *Options) {
				if o.Self = paddedSelf(t, size); strings.HasSuffix(tt.want, " in 1.5s") {
					o.ConnectTimeout = 1500 * time.Millisecond
				}
			})
			_, err := dial(t, d, s.host())
			if tt.want == "" {
				if err != nil {
					t.Errorf("got %v; want success", err)
				}
				return
			}
			if e := hostError(t, err); !strings.Contains(e.Error(), tt.want) || e.Phase != "install" {
				t.Errorf("got %v (phase %s); want %q", err, e.Phase, tt.want)
			}
		})
	}
}

// TestFullEverywhere: the binary of two pieces fits nowhere, and the error says so for
// each directory, once.
func TestFullEverywhere(t *testing.T) {
	s := startSSHD(t, "for d in /tmp /var/tmp /dev/shm /mnt/home/bash; do mount -t tmpfs -o size=768k none $d; done")
	d := s.dialer(t, func(o *Options) { o.Self, o.JobID = paddedSelf(t, 2*piece+77), jobID(t) })
	_, err := dial(t, d, s.host("bash"))
	e, ok := errors.AsType[*InstallError](err)
	if !ok {
		t.Fatalf("got %v; want an InstallError", err)
	}
	full := func(p Place) bool { return strings.Contains(p.Why, "disk full?") }
	if len(e.Places) != 4 || slices.ContainsFunc(e.Places, func(p Place) bool { return !full(p) }) {
		t.Errorf("got %v; want four full disks", err)
	}
}

// TestBrokenOff: however far the binary has come when the connection breaks, the
// script ends and leaves nothing in the home or in /tmp.
func TestBrokenOff(t *testing.T) {
	const size = 2*piece + 100
	tests := []struct {
		name string
		home bool
		sent int // bytes; -1: not even "send"
	}{
		{"request", true, -1}, {"send", true, 0}, {"first-piece", true, piece / 2}, {"between", true, piece}, {"last-piece", true, 2*piece + 5},
		{"tmp-request", false, -1}, {"tmp-first-piece", false, piece / 2}, {"tmp-between", false, piece},
	}
	for i, tt := range tests {
		shs := []string{"dash", "bash --posix", "busybox sh"}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sh := shs[i%len(shs)]
			needPrograms(t, sh)
			home, id := t.TempDir(), jobID(t)
			env := pathEnv(home)
			if !tt.home {
				env = pathEnv("/nonexistent")
			}
			b := &binary{size: size, name: "gorun-0123456789abcdef"}
			command := strings.Replace(installCommand(testNonce, id, b), "exec /bin/sh", "exec "+sh, 1)
			cmd := exec.Command("bash", "-c", command)
			cmd.Env, cmd.Dir, cmd.Stderr = env, "/", t.Output()
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			next := func() {
				for lines.Scan() {
					if !strings.Contains(lines.Text(), " fail ") {
						return
					}
				}
			}
			next() // the request
			for left := tt.sent; left >= 0; {
				n := min(left, piece)
				if left == tt.sent {
					io.WriteString(in, "send\n")
				}
				in.Write(make([]byte, n))
				if left -= n; n < piece {
					break
				}
				next() // got
			}
			in.Close()
			out.Close()
			if cmd.Wait(); cmd.ProcessState.Success() {
				t.Error("the script ends well; want it to fail")
			}
			if names := listDir(t, cacheOf(home)); len(names) > 0 {
				t.Errorf("left in the cache: %v", names)
			}
			if _, err := os.Stat("/tmp/gorun-agent-" + id); err == nil {
				t.Error("the fallback directory is left")
			}
		})
	}
}
