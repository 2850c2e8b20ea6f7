package agent

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"gorun/launcher/wire"
)

func TestTerminal(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t,
		sh(`test -t 0 || test -t 1 && test -t 2 && echo terminal; stty size <&1; printf 'a\n\tb\r\n\001\177\377' >&2; (exec 3</dev/tty) 2>/dev/null || echo no controlling terminal`),
		self("flood", "300000", "7"),
		sh(`trap 'stty size <&1; exit 3' WINCH; echo waiting; while :; do sleep 0.01; done`),
		sh(`setsid sleep 1000 & echo $!`),
	)
	p.Window = &wire.Window{Rows: 33, Cols: 99}
	h.run(p)
	if got, want := h.text(0, wire.Out), "terminal\n33 99\na\n\tb\r\n\001\177\377no controlling terminal\n"; got != want {
		t.Errorf("rank 0: got %q; want %q", got, want)
	}
	if got := h.text(0, wire.Err); got != "" {
		t.Errorf("rank 0: got %q on its stderr; want all on stdout", got)
	}
	flood := h.text(1, wire.Out)
	if len(flood) != 300000 {
		t.Errorf("rank 1: got %d bytes; want 300000", len(flood))
	}
	for i := range len(flood) {
		if flood[i] != pattern(i, 7) {
			t.Fatalf("rank 1: byte %d is wrong", i)
		}
	}
	h.shows(2, "waiting")
	h.tell(wire.Message{Window: &wire.Window{Rows: 7, Cols: 5}})
	if x := h.exit(2); x.Code != 3 {
		t.Errorf("rank 2: exit code %d; want 3, by SIGWINCH", x.Code)
	}
	if got := h.text(2, wire.Out); got != "waiting\n7 5\n" {
		t.Errorf("rank 2: got %q; want the new size", got)
	}
	sleeper := h.pid(3, "")
	h.exit(3)
	h.stop(time.Second)
	wantGone(t, sleeper)
}

// What is written just before the end arrives, also from many ranks at once.
func TestTerminalLastWords(t *testing.T) {
	t.Parallel()
	const ranks = 20
	var args [][]string
	for n := range ranks {
		args = append(args, sh(fmt.Sprintf("head -c %d /dev/zero", 1000*n+1)))
	}
	h := startAgent(t, launch{})
	p := newPlan(t, args...)
	p.Window = &wire.Window{Rows: 24, Cols: 80}
	h.run(p)
	for n := range ranks {
		if got := h.text(n, wire.Out); len(got) != 1000*n+1 {
			t.Errorf("rank %d: %d bytes; want %d", n, len(got), 1000*n+1)
		}
	}
	h.stop(0)
}

// A terminal's rank gets the signals that any rank gets.
func TestTerminalSignals(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	p := newPlan(t, sh(`trap 'echo INT; exit 4' INT; echo ready; while :; do sleep 0.01; done`), sh(`echo pid $$; exec sleep 1000`))
	p.Window = &wire.Window{Rows: 24, Cols: 80}
	h.run(p)
	h.shows(0, "ready")
	pid := h.pid(1, "pid ")
	h.tell(wire.Message{Pause: &wire.Pause{On: true}})
	eventually(t, "rank 1 to be stopped", func() bool { p, _ := readProc(pid); return p.state == 'T' })
	h.tell(wire.Message{Pause: &wire.Pause{}})
	eventually(t, "rank 1 to go on", func() bool { p, _ := readProc(pid); return p.state != 'T' })
	h.tell(wire.Message{Signal: &wire.Signal{Num: int(syscall.SIGINT)}})
	if x := h.exit(0); x.Code != 4 {
		t.Errorf("rank 0: %+v; want code 4", x)
	}
	if x := h.exit(1); x.Signal != int(syscall.SIGINT) {
		t.Errorf("rank 1: %+v; want to be killed by SIGINT", x)
	}
	h.stop(0)
}

func TestNoTerminals(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can hide /dev")
	}
	h := startAgent(t, launch{wrap: []string{"unshare", "-m", "sh", "-c", `mount -t tmpfs none /dev && : > /dev/null && exec "$@"`, "sh"}})
	p := newPlan(t, sh("echo started"))
	p.Window = &wire.Window{Rows: 24, Cols: 80}
	f := h.prepare(p)
	if len(f) != 1 || f[0].Rank != -1 || f[0].Code != codeOurs || f[0].Text != "no pseudo terminal: open /dev/ptmx: no such file or directory" {
		t.Errorf("got %+v; want it to be told", f)
	}
	h.stop(0)
}
