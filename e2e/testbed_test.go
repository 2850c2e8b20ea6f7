package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	script  = "../scripts/testbed"
	rankID  = 7700 // user and group "rank"
	hostsUp = 16
)

var (
	state    = cmp.Or(os.Getenv("TESTBED_DIR"), "/run/testbed") // the testbed's own; every host sees it
	programs = state + "/bin"                                   // every host's /usr/local/bin
)

// pool lends the testbed's hosts to tests.
type pool struct {
	mu   sync.Mutex
	cond *sync.Cond
	free []string // guarded by mu
}

var bed = sync.OnceValues(raise)

// raise builds the programs and starts the testbed. Its owner is this process, so that
// another test run waits for it.
func raise() (*pool, error) {
	if why, err := exec.Command(script, "check").Output(); err != nil {
		return nil, fmt.Errorf("no testbed here: %s", strings.ReplaceAll(strings.TrimSpace(string(why)), "\n", "; "))
	}
	dir, err := os.MkdirTemp("", "gorun-e2e")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	// The programs are built of files that go test does not know of: it must not take a
	// run before they changed for one of today. It notices the directories that are read.
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == ".git" {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir, "../cmd/gorun", "../examples/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", build, err, out)
	}
	up := exec.Command(script, "up", strconv.Itoa(hostsUp), "--for", strconv.Itoa(os.Getpid()), "--wait", "600")
	if out, err := up.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%v: %w\n%s", up, err, out)
	}
	if out, err := exec.Command("cp", "-r", dir+"/.", programs).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copying the programs: %w\n%s", err, out)
	}
	p := new(pool)
	p.cond = sync.NewCond(&p.mu)
	for i := range hostsUp {
		p.free = append(p.free, fmt.Sprintf("node%d", i+1))
	}
	return p, nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if owner, err := os.ReadFile(filepath.Join(state, "owner")); err == nil && strings.HasPrefix(string(owner), strconv.Itoa(os.Getpid())+" ") {
		if out, err := exec.Command(script, "down").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "testbed down: %v\n%s", err, out)
			code = 1
		}
	}
	os.Exit(code)
}

// need returns the pool of hosts, or skips the test where there can be none. In CI that
// is a failure.
func need(t *testing.T) *pool {
	t.Helper()
	p, err := bed()
	if err == nil {
		return p
	}
	if os.Getenv("CI") != "" || !strings.HasPrefix(err.Error(), "no testbed here") {
		t.Fatal(err)
	}
	t.Skip(err)
	return nil
}

// hosts takes n hosts until the test ends. Then it checks that nothing is left on them,
// and mends the link. What else a test changes it must undo.
func hosts(t *testing.T, n int) []string {
	t.Helper()
	p := need(t)
	p.mu.Lock()
	for len(p.free) < n {
		p.cond.Wait()
	}
	taken := p.free[:n:n]
	p.free = p.free[n:]
	p.mu.Unlock()
	t.Cleanup(func() {
		defer p.give(taken)
		for _, host := range taken {
			testbed(t, "mend", host)
			checkClean(t, host)
		}
	})
	return taken
}

func (p *pool) give(hosts []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, hosts...)
	p.cond.Broadcast()
}

// testbed runs the testbed script, which must succeed, and returns what it printed.
func testbed(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(script, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("testbed %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// patience is how long to wait for what takes limit at most on a machine that has time
// for it: others build there, too. A test of a promised time measures it.
func patience(limit time.Duration) time.Duration {
	if os.Getenv("CI") != "" {
		return 3 * limit
	}
	return limit
}

// within waits for ok to become true, and says what did not come about.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	limit = patience(limit)
	for end := time.Now().Add(limit); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}
