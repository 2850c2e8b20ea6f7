package cpu

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gorun/backend"
	"gorun/rendezvous"
)

// The tests here run ranks as processes of their own: this test binary, started again
// with GORUN_TEST_RANK set to what it is to do. The store is the real one.

func TestMain(m *testing.M) {
	if program := os.Getenv("GORUN_TEST_RANK"); program != "" {
		os.Exit(rankMain(program))
	}
	os.Exit(m.Run())
}

const (
	rankPatience  = time.Minute
	hastyPatience = 400 * time.Millisecond
)

func rankMain(program string) int {
	ctx, cancel := context.WithTimeout(context.Background(), rankPatience)
	defer cancel()
	comm, err := backend.Open(ctx, map[string]backend.Opener{"cpu": Open})
	if err == nil {
		err = map[string]func(context.Context, backend.Comm) error{
			"sum": rankSum, "loop": rankLoop, "hasty": rankHasty, "differ": rankDiffer,
		}[program](ctx, comm)
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	return 0
}

// rankSum makes a few sums, closes, and ends at once.
func rankSum(ctx context.Context, comm backend.Comm) error {
	for _, n := range []int{1, 1000, 200000} {
		s := make([]int64, n)
		for i := range s {
			s[i] = int64(comm.Rank() * i)
		}
		if err := comm.AllReduce(backend.Of(s), backend.Of(s), backend.Sum).Wait(ctx); err != nil {
			return err
		}
		for i, got := range s {
			if want := int64(i * comm.Size() * (comm.Size() - 1) / 2); got != want {
				return fmt.Errorf("element %d: got %d; want %d", i, got, want)
			}
		}
	}
	fmt.Println("right")
	return comm.Close(ctx)
}

// rankLoop makes long sums until one fails.
func rankLoop(ctx context.Context, comm backend.Comm) error {
	s := make([]float32, 4<<20)
	for round := 0; ; round++ {
		if err := comm.AllReduce(backend.Of(s), backend.Of(s), backend.Sum).Wait(ctx); err != nil {
			return err
		}
		if round == 0 {
			fmt.Println("under way")
		}
	}
}

// rankHasty does not wait for long.
func rankHasty(ctx context.Context, comm backend.Comm) error {
	fmt.Println("open")
	if comm.Rank() == 1 {
		select {} // until it is killed
	}
	bufio.NewReader(os.Stdin).ReadString('\n')
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, hastyPatience)
	defer cancel()
	err := comm.Barrier().Wait(ctx)
	fmt.Println(time.Since(start).Milliseconds())
	start = time.Now()
	again := comm.Barrier().Wait(context.Background())
	if again == nil || time.Since(start) > soon {
		return fmt.Errorf("second call: got %v after %v; want an error at once", again, time.Since(start))
	}
	return err
}

// rankDiffer makes another call on rank 1 than on others.
func rankDiffer(ctx context.Context, comm backend.Comm) error {
	n := 1000
	if comm.Rank() == 1 {
		n++
	}
	s := backend.Of(make([]int32, n))
	return comm.AllReduce(s, s, backend.Sum).Wait(ctx)
}

// process is a rank of a job under test.
type process struct {
	*exec.Cmd
	lines *bufio.Scanner
	stdin *os.File
}

// line returns the next line of the process's output.
func (p *process) line(t *testing.T) string {
	t.Helper()
	if !p.lines.Scan() {
		t.Fatalf("output ended: %v", p.lines.Err())
	}
	return p.lines.Text()
}

// start starts program as size ranks, which are killed when the test ends.
func start(t *testing.T, size int, program string) []*process {
	t.Helper()
	socket := serveStore(t, size)
	ranks := make([]*process, size)
	for rank := range size {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "GORUN_TEST_RANK="+program, "GORUN_STORE=unix:"+socket,
			"GORUN_RANK="+strconv.Itoa(rank), "GORUN_SIZE="+strconv.Itoa(size), "GORUN_NODES=1", "GORUN_BACKEND=cpu")
		cmd.Stderr = os.Stderr
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stdin = read
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		read.Close()
		ranks[rank] = &process{cmd, bufio.NewScanner(stdout), write}
		t.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
			write.Close()
		})
	}
	return ranks
}

// serveStore serves a job's store as head and agent do, and returns the socket's path.
func serveStore(t *testing.T, size int) string {
	dir, err := os.MkdirTemp("", "gorun-cpu-test-")
	if err != nil {
		t.Fatal(err)
	}
	secret := make([]byte, rendezvous.SecretLen)
	rand.Read(secret)
	ranks := make([]int, size)
	for r := range ranks {
		ranks[r] = r
	}
	requests := make(chan rendezvous.Request, 100*size)
	path := filepath.Join(dir, "store")
	server, err := rendezvous.Listen(path, rendezvous.ServerConfig{
		Secret: secret, Ranks: ranks, UID: os.Getuid(),
		Send: func(r rendezvous.Request) { requests <- r },
	})
	if err != nil {
		t.Fatal(err)
	}
	engine := rendezvous.NewEngine(size, []string{"here"}, func(int) int { return 0 }, func(int) bool { return false })
	var wg sync.WaitGroup
	wg.Go(func() {
		deadlines := time.NewTicker(10 * time.Millisecond)
		defer deadlines.Stop()
		for {
			var due []rendezvous.Routed
			select {
			case r, ok := <-requests:
				if !ok {
					return
				}
				due = engine.Handle(time.Now(), 0, r)
			case now := <-deadlines.C:
				due = engine.Tick(now)
			}
			for _, routed := range due {
				server.Deliver(routed.Reply)
			}
		}
	})
	t.Cleanup(func() {
		server.Close()
		close(requests)
		wg.Wait()
		os.RemoveAll(dir)
	})
	return path
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	for rank, p := range start(t, 4, "sum") {
		if got := p.line(t); got != "right" {
			t.Errorf("rank %d: %s", rank, got)
		}
		if err := p.Wait(); err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func TestProcessKilled(t *testing.T) {
	t.Parallel()
	const dead = 2
	ranks := start(t, 4, "loop")
	for _, p := range ranks {
		if got := p.line(t); got != "under way" {
			t.Fatal(got)
		}
	}
	began := time.Now()
	ranks[dead].Process.Kill()
	for rank, p := range ranks {
		if rank == dead {
			continue
		}
		if got, want := p.line(t), "error: world: rank 2 is gone: "; !strings.HasPrefix(got, want) {
			t.Errorf("rank %d: got %q; want %q", rank, got, want)
		}
		if took := time.Since(began); took > soon {
			t.Errorf("rank %d: error after %v", rank, took)
		}
	}
}

func TestProcessStopped(t *testing.T) {
	t.Parallel()
	ranks := start(t, 3, "hasty")
	for _, p := range ranks {
		if got := p.line(t); got != "open" {
			t.Fatal(got)
		}
	}
	if err := ranks[1].Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, rank := range []int{0, 2} {
		fmt.Fprintln(ranks[rank].stdin, "go")
	}
	longest := 0
	for _, rank := range []int{0, 2} {
		ms, err := strconv.Atoi(ranks[rank].line(t))
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
		longest = max(longest, ms) // the other one may have been told
		if got := ranks[rank].line(t); !strings.Contains(got, "gave up: call 1, barrier(), waited for rank 1: ") {
			t.Errorf("rank %d: got %q", rank, got)
		}
		if err, ok := errors.AsType[*exec.ExitError](ranks[rank].Wait()); !ok || err.ExitCode() != 1 {
			t.Errorf("rank %d: ended with %v; want exit 1", rank, err)
		}
	}
	if took := time.Duration(longest) * time.Millisecond; took < hastyPatience || took > hastyPatience+soon {
		t.Errorf("gave up after %v; want %v", took, hastyPatience)
	}
}

func TestOpenOutside(t *testing.T) {
	t.Setenv("GORUN_STORE", "")
	if _, err := Open(t.Context()); !errors.Is(err, rendezvous.ErrNotLaunched) {
		t.Errorf("got %v; want %v", err, rendezvous.ErrNotLaunched)
	}
}

// TestOpenAlone checks that the error names the host of a rank that does not come, as
// the store knows it.
func TestOpenAlone(t *testing.T) {
	t.Setenv("GORUN_STORE", "unix:"+serveStore(t, 2))
	t.Setenv("GORUN_SIZE", "2")
	t.Setenv("GORUN_NODES", "1")
	t.Setenv("GORUN_RANK", "0")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := Open(ctx)
	want := `world: not connected with rank 1: key "mesh/world/0/1": rank 1 on here has not written it: context deadline exceeded`
	if err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

// TestProcessesDiffer has ranks that end at once when a call fails: all must say why it
// failed, and none that another has ended.
func TestProcessesDiffer(t *testing.T) {
	t.Parallel()
	for rank, p := range start(t, 6, "differ") {
		if got, want := p.line(t), "error: world: call 1 differs: "; !strings.HasPrefix(got, want) {
			t.Errorf("rank %d: got %q; want %q", rank, got, want)
		}
	}
}
