package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ending is a way in which a job of eight ranks can end.
type ending struct {
	name, script string
	args         []string
	code         int
	lines        int // that its ranks print
}

// endings lists the ways in which the soak's jobs end, in turn. Those that take time by
// their nature come seldom.
func endings() []ending {
	well := ending{"well", `echo rank $GORUN_RANK`, nil, 0, 8}
	return []ending{
		well,
		{"failed", `[ $GORUN_RANK = 3 ] && exit 3; exec sleep 1000`, nil, 3, 0},
		well,
		{"killed", `[ $GORUN_RANK = 7 ] && kill -KILL $$; exec sleep 1000`, nil, 137, 0},
		{"background", `setsid sleep 1000 >/dev/null & echo rank $GORUN_RANK`, nil, 0, 8},
		{"missing", "", []string{"no-such-program"}, 127, 0},
		well,
		{"met", `$GORUN_EXE store barrier all && echo rank $GORUN_RANK`, nil, 0, 8},
		{"kept-going", `[ $GORUN_RANK = 0 ] && exit 5; echo rank $GORUN_RANK`, []string{"--keep-going"}, 5, 7},
		{"much", `head -c 20000 /dev/zero | tr '\0' x; echo`, []string{"-l"}, 0, 8},
		{"no-input", `read x || echo rank $GORUN_RANK`, []string{"--stdin", "all"}, 0, 8},
		{"timed-out", `exec sleep 1000`, []string{"--timeout", "0.2"}, 124, 0},
	}
}

// soakLaunches is how many jobs the soak runs: `make soak` asks for more than there is
// time for in every run of the tests.
func soakLaunches(t *testing.T) int {
	text := os.Getenv("SOAK")
	if text == "" {
		return 150
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("SOAK=%q is no number of launches", text)
	}
	return n
}

// Many jobs in a row end as they should, and leave nothing on any host: no
// process, no file, no descriptor of the server's. Goroutines cannot be seen from here:
// that none is left is what the tests of package launcher end with.
func TestSlowSoak(t *testing.T) {
	launches := soakLaunches(t)
	nodes := hosts(t, 8)
	file := hostfile(t, nodes, "slots=1")
	launch := func(e ending) {
		t.Helper()
		args := append([]string{"-hostfile", file}, e.args...)
		if e.script != "" {
			args = sh(args, e.script)
		}
		got := gorun(t, args)
		if n := strings.Count(got.stdout, "\n"); got.code != e.code || n != e.lines {
			t.Errorf("%s: exit code %d, %d lines; want %d, %d\nstderr: %s", e.name, got.code, n, e.code, e.lines, shorten(got.stderr))
		}
	}
	kinds := endings()
	launch(kinds[0]) // which installs gorun
	var before string
	within(t, sshdGrace, "the first job's connections gone", func() bool {
		before = holdings(t, nodes)
		time.Sleep(2 * time.Second)
		return holdings(t, nodes) == before
	})
	begun := time.Now()
	for i := range launches {
		launch(kinds[i%len(kinds)])
		if t.Failed() {
			t.Fatalf("launch %d of %d", i, launches)
		}
	}
	t.Logf("%d launches took %v", launches, time.Since(begun).Round(time.Second))
	after := before
	defer func() {
		if t.Failed() {
			t.Logf("before\n%safter\n%s", before, after)
		}
	}()
	within(t, sshdGrace, "the hosts as they were before", func() bool {
		after = holdings(t, nodes)
		return after == before
	})
}

// holdings is what the hosts and the launch host hold: processes, open files, what is in
// gorun's cache, which they share, and what jobs have left.
func holdings(t *testing.T, nodes []string) string {
	t.Helper()
	var b strings.Builder
	for _, host := range append([]string{"node0"}, nodes...) {
		files, all := 0, pids(t, host)
		for _, pid := range all {
			open, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid)) // it may have ended
			files += len(open)
		}
		fmt.Fprintf(&b, "%s: %d processes, %d open files, left: %v\n", host, len(all), files, traces(t, host))
	}
	cache, err := os.ReadDir(filepath.Join(state, "home/rank/.cache/gorun"))
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s%d in the cache\n", b.String(), len(cache))
}

// Sixty-four hosts, whose testbed is another than that of all other tests.
func TestSlowSixtyFourHosts(t *testing.T) {
	need(t) // which builds gorun
	const n = 64
	run := func(args ...string) (string, error) {
		cmd := exec.Command(script, args...)
		cmd.Env = append(os.Environ(), fmt.Sprintf("TESTBED_DIR=%s-%d", state, n))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("up", strconv.Itoa(n), "--for", strconv.Itoa(os.Getpid())); err != nil {
		t.Fatalf("testbed up: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := run("down"); err != nil {
			t.Errorf("testbed down: %v\n%s", err, out)
		}
	})
	if out, err := exec.Command("cp", programs+"/gorun", fmt.Sprintf("%s-%d/bin", state, n)).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
	job := func(script string, args ...string) (string, error) {
		return run(sh(append([]string{"exec", "node0", "gorun", "-H", fmt.Sprintf("node[1-%d]", n)}, args...), script)...)
	}
	for range 3 { // the first installs gorun
		out, err := job(`$GORUN_EXE store barrier all && echo rank $GORUN_RANK on $(hostname)`)
		said := lines(out)
		slices.Sort(said)
		if err != nil || len(slices.Compact(said)) != n {
			t.Fatalf("%v, %d lines of %d ranks:\n%s", err, len(said), n, shorten(out))
		}
	}
	out, err := job(`[ $GORUN_RANK = 63 ] && exit 9; exec sleep 1000`)
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 9 || !strings.Contains(out, "rank 63 on node64 exited with code 9") || !strings.Contains(out, "63 other ranks stopped") {
		t.Errorf("%v:\n%s", err, shorten(out))
	}
	out, err = job(`[ $GORUN_RANK = 20 ] && exec sleep 1000; exec $GORUN_EXE store barrier all`, "--timeout", patience(5*time.Second).String())
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 124 || !strings.Contains(out, "rank 20 on node21: sleeping in nanosleep") {
		t.Errorf("%v:\n%s", err, shorten(out))
	}
}
