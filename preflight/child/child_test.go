package child

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const linger = 5 * time.Second // the machine may be busy

// shell starts a script, whose output and errors are one.
func shell(text string) (*Process, *Output) {
	out := &Output{Most: 100}
	cmd := exec.Command("/bin/sh", "-c", text)
	cmd.Stdout, cmd.Stderr = out, out
	return Start(cmd, linger), out
}

func TestEnds(t *testing.T) {
	for _, tt := range []struct{ name, script, out, err string }{
		{"well", "echo hello; echo words >&2", "hello\nwords\n", ""},
		{"code", "echo no; exit 3", "no\n", "exit status 3"},
		{"signal", "kill -SEGV $$", "", "signal: segmentation fault"},
		{"child-holds-output", "sleep 60 & echo hello", "hello\n", ""},
		{"no-input", "cat", "", ""},
		{"english", "echo $LC_ALL", "C\n", ""},
		{"much", "yes | head -c 1000", strings.Repeat("y\n", 50), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, out := shell(tt.script)
			<-p.Done()
			got := ""
			if err := p.Err(); err != nil {
				got = err.Error()
			}
			if text := string(out.Bytes()); text != tt.out || got != tt.err || p.Failure() != nil || !p.Wait(t.Context()) || !p.End() {
				t.Errorf("got %q, error %q, %v; want %q, %q", text, got, p.Failure(), tt.out, tt.err)
			}
		})
	}
}

func TestCannotBeStarted(t *testing.T) {
	p := Start(exec.Command("/none/nvidia-smi"), linger)
	<-p.Done()
	if !errors.Is(p.Failure(), fs.ErrNotExist) || !errors.Is(p.Err(), fs.ErrNotExist) || !p.End() {
		t.Errorf("got %v, %v; want that there is no such file", p.Failure(), p.Err())
	}
}

// The whole group is killed, also one that takes no notice of other signals; all of it has
// the output open until then.
func TestKilled(t *testing.T) {
	p, out := shell("trap '' TERM; (trap '' TERM; echo begun; sleep 60) & sleep 60")
	for len(out.Bytes()) == 0 && p.Failure() == nil {
		<-time.After(time.Millisecond)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if p.Wait(over) || p.Err() != nil {
		t.Errorf("it is not to end by itself: %v", p.Err())
	}
	if !p.End() || p.Err() == nil || p.Err().Error() != "signal: killed" || string(out.Bytes()) != "begun\n" {
		t.Errorf("got %q, %v; want it killed", out.Bytes(), p.Err())
	}
}

// One that is killed before it was started does not outlive that.
func TestKilledEarly(t *testing.T) {
	for range 20 {
		p, _ := shell("sleep 60")
		if !p.End() || p.Err() == nil {
			t.Fatalf("got %v; want it killed", p.Err())
		}
	}
}
