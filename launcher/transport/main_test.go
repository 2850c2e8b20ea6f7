package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gorun/launcher/wire"
)

// The test program is also the stand-in for gorun on a host: `agent` hails and then
// echoes lines, and words make it do other things.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "--version":
			fmt.Println("stand-in")
			os.Exit(0)
		case "agent":
			standIn(os.Args[2:])
		case "vanish":
			vanish()
		case "room":
			if err := room(); err != nil {
				fmt.Println(err)
			}
			os.Exit(0)
		case "compare":
			seed, _ := strconv.ParseUint(os.Args[3], 10, 64)
			n, _ := strconv.Atoi(os.Args[4])
			if err := compareSSH(os.Args[2], seed, n); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// vanish removes this program's file, then runs it as a local link does.
func vanish() {
	self, err := os.Executable()
	if err == nil {
		err = os.Remove(self)
	}
	l := &localLink{self: self}
	out, runErr := l.Run(context.Background(), "agent", "sweep", "job7")
	fmt.Print(string(out))
	if err := errors.Join(err, runErr); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

func standIn(args []string) {
	if args[0] == "sweep" {
		fmt.Printf("swept %s\n", strings.Join(args[1:], " "))
		os.Exit(0)
	}
	fmt.Println(wire.Hail(args[0]))
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		word, rest, _ := strings.Cut(in.Text(), " ")
		switch word {
		case "args":
			fmt.Println(strings.Join(args[1:], " "))
		case "exe":
			exe, _ := os.Executable()
			fmt.Println(exe)
		case "umask":
			f, _ := os.ReadFile("/proc/self/status")
			for line := range strings.Lines(string(f)) {
				if strings.HasPrefix(line, "Umask:") {
					fmt.Println(strings.Fields(line)[1])
				}
			}
		case "pgrp":
			f, _ := os.ReadFile("/proc/self/stat")
			fmt.Println(os.Getpid(), strings.Fields(string(f))[4])
		case "stderr":
			io.WriteString(os.Stderr, rest+"\n")
			fmt.Println("ok")
		case "exit":
			var n int
			fmt.Sscan(rest, &n)
			os.Exit(n)
		default:
			fmt.Println(in.Text())
		}
	}
	os.Exit(0)
}

// testSelf is a small copy of what the stand-in does, as a script: it is quicker to
// send and to start than the test program.
func testSelf(t *testing.T) string {
	t.Helper()
	return scriptSelf(t, "")
}

const standInScript = `#!/bin/sh
# %s
case $1 in
--version) echo stand-in; exit 0;;
agent) ;;
*) exit 2;;
esac
shift
test "$1" = sweep && { shift; echo "swept $*"; exit 0; }
echo "@gorun-$1 agent 1"
shift
while read -r w r; do
	case $w in
	args) echo "$*";;
	exe) echo "$0";;
	umask) umask;;
	pgrp) echo $$ $(cut -d" " -f5 /proc/$$/stat);;
	stderr) echo "$r" >&2; echo ok;;
	exit) exit $r;;
	*) echo "$w $r";;
	esac
done
`

func scriptSelf(t *testing.T, comment string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "gorun")
	write(t, name, fmt.Sprintf(standInScript, comment), 0o755)
	return name
}

// ask sends a line to the stand-in and returns its answer.
func ask(t *testing.T, l Link, line string) string {
	t.Helper()
	type result struct {
		line string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		if _, err := io.WriteString(l, line+"\n"); err != nil {
			done <- result{"", err}
			return
		}
		var b strings.Builder
		var one [1]byte
		for {
			if _, err := io.ReadFull(l, one[:]); err != nil {
				done <- result{b.String(), err}
				return
			}
			if one[0] == '\n' {
				done <- result{b.String(), nil}
				return
			}
			b.WriteByte(one[0])
		}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			t.Fatalf("ask %q: %v (got %q so far)", line, r.err, r.line)
		}
		return strings.TrimSpace(r.line)
	case <-time.After(20 * time.Second):
		t.Fatalf("ask %q: no answer", line)
	}
	return ""
}
