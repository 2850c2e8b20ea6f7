package transport

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func testRunner(t *testing.T, limit time.Duration) *runner {
	r := newRunner(limit, func(string) (string, bool) { return "", false })
	t.Cleanup(r.close)
	return r
}

// A command is run once, however many hosts ask.
func TestRunnerOnce(t *testing.T) {
	r := testRunner(t, time.Minute)
	count := filepath.Join(t.TempDir(), "count")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if ok, err := r.test(t.Context(), "echo x >> "+count); !ok || err != nil {
				t.Errorf("got %v, %v; want true", ok, err)
			}
		})
	}
	wg.Wait()
	if data, _ := os.ReadFile(count); string(data) != "x\n" {
		t.Errorf("the command ran %d times; want once", strings.Count(string(data), "x"))
	}
	if ok, err := r.test(t.Context(), "exit 3"); ok || err != nil {
		t.Errorf("status 3: got %v, %v; want false", ok, err)
	}
}

// No more than some programs run at a time.
func TestRunnerTurns(t *testing.T) {
	r := testRunner(t, time.Minute)
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 3 * atOnce {
		wg.Go(func() {
			ok, err := r.test(t.Context(), "cd "+dir+" && touch $$ && test $(ls | wc -l) -le 8 && rm $$ # "+strings.Repeat("x", i))
			if !ok || err != nil {
				t.Errorf("got %v, %v; want no more than %d files there", ok, err, atOnce)
			}
		})
	}
	wg.Wait()
}

// A program that hangs is ended with all that it has started.
func TestRunnerLimit(t *testing.T) {
	r := testRunner(t, 100*time.Millisecond)
	pid := filepath.Join(t.TempDir(), "pid")
	_, err := r.test(t.Context(), "sleep 60 & echo $! > "+pid+"; wait")
	if err == nil || !strings.Contains(err.Error(), "did not end in 100ms") {
		t.Errorf("got %v; want an error about time", err)
	}
	data, _ := os.ReadFile(pid)
	waitFor(t, "the program's child to be killed", func() bool { return !running(strings.TrimSpace(string(data))) })
}

// running reports whether there is such a process that is no zombie.
func running(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return pid == "" || err == nil && !strings.Contains(string(stat), ") Z ")
}

func TestRunnerClosed(t *testing.T) {
	r := testRunner(t, time.Minute)
	done := make(chan error)
	go func() {
		_, err := r.test(context.Background(), "sleep 60")
		done <- err
	}()
	waitFor(t, "the program to be asked for", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.runs) == 1 })
	r.close()
	if err := <-done; err == nil {
		t.Error("got no error from a program that was ended")
	}
}

func TestCanonicalName(t *testing.T) {
	r := testRunner(t, time.Minute)
	if name, err := r.canonical(t.Context(), "localhost", "v4"); name != "localhost" || err != nil {
		t.Errorf("localhost: got %q, %v", name, err)
	}
	if name, err := r.canonical(t.Context(), "-x", "any"); name != "" && err == nil {
		t.Errorf("-x: got %q, %v; want no name", name, err)
	}
}
