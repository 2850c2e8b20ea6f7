// Allreduce adds up vectors of all ranks, checks the sums, and says how long it took.
//
//	gorun -np 4 allreduce
//
// It shows what a program does to compute together: open the communicator of all
// ranks, wrap slices with backend.Of, call, and wait for the handle.
package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"gorun/backend"
	"gorun/backend/cpu"
	"gorun/rendezvous"
)

const usage = `usage: gorun -np 4 allreduce [flags]

Every rank contributes a vector, of float32 and of int64; the sums are checked on
every rank. Exit status 1 means a wrong sum, or that there was none.

  --size N,N,...  elements of the vectors (default 1,1000,1048576)
  --iters N       how often each sum is made and timed (default 5)
  --algo NAME     ring or star, as GORUN_ALGO=allreduce:NAME; default: by size
  --help          this text

Each rank prints one line. Rank 0 adds one about the longest vector:
  algbw  bytes of the vector / time of one sum on the slowest rank
  busbw  algbw * 2(p-1)/p for p ranks: what each rank's link carries one way
`

// maxSize is the most elements of a vector: 8 GB as int64.
const maxSize = 1 << 30

// patience bounds everything: a program should not wait for ever for others.
const patience = 5 * time.Minute

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "allreduce: %v (see allreduce --help)\n", err)
		return 2
	}
	err = compute(opts, stdout)
	if errors.Is(err, rendezvous.ErrNotLaunched) {
		err = fmt.Errorf("%w; run: gorun -np 4 %s", err, os.Args[0])
	}
	if err != nil {
		fmt.Fprintf(stderr, "allreduce: %v\n", err)
		return 1
	}
	return 0
}

type options struct {
	sizes []int
	iters int
}

func parse(args []string) (options, error) {
	flags := flag.NewFlagSet("allreduce", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error
	sizes := flags.String("size", "1,1000,1048576", "")
	iters := flags.Int("iters", 5, "")
	algo := flags.String("algo", "", "")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if flags.NArg() > 0 {
		return options{}, fmt.Errorf("unexpected %q", flags.Arg(0))
	}
	if *iters < 1 {
		return options{}, fmt.Errorf("--iters %d: want at least 1", *iters)
	}
	if *algo != "" {
		os.Setenv("GORUN_ALGO", "allreduce:"+*algo) // read by cpu.Open
	}
	opts := options{iters: *iters}
	for s := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > maxSize {
			return options{}, fmt.Errorf("--size %q: want numbers of elements, at most %d", *sizes, maxSize)
		}
		opts.sizes = append(opts.sizes, n)
	}
	return opts, nil
}

// compute opens the communicator, makes the sums and prints what this rank has to say.
func compute(opts options, stdout io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	id, err := uniqueID(ctx)
	if err != nil {
		return err
	}
	comm, err := backend.Open(ctx, map[string]backend.Opener{"cpu": cpu.Open})
	if err != nil {
		return err
	}
	last, err := sums(ctx, comm, opts, id, stdout)
	if err == nil && comm.Rank() == 0 {
		fmt.Fprintln(stdout, last.summary(comm))
	}
	closeErr := comm.Close(ctx)
	if err == nil {
		err = closeErr
	}
	return err
}

// uniqueID returns the digest of bytes that rank 0 chose at random for this job and
// all ranks share. NCCL needs such an ID; here it shows that the ranks have met.
func uniqueID(ctx context.Context) (string, error) {
	store, err := rendezvous.Dial(ctx)
	if err != nil {
		return "", err
	}
	defer store.Close()
	id, err := rendezvous.UniqueID(ctx, store, "allreduce", 0, func() (id [128]byte, err error) {
		_, err = rand.Read(id[:])
		return id, err
	})
	sum := sha256.Sum256(id[:])
	return fmt.Sprintf("%x", sum[:8]), err
}

// result is one vector's sum.
type result struct {
	elements, bytes int
	time            time.Duration // of one sum, on the slowest rank
	algorithm       string
	wrong           error // nil: every element is right
}

// sums makes all sums and prints this rank's line. It returns the last result of the
// largest size, or an error if a sum is wrong.
func sums(ctx context.Context, comm backend.Comm, opts options, id string, stdout io.Writer) (longest result, err error) {
	var lengths, how []string
	var total time.Duration
	var wrong error
	for _, n := range opts.sizes {
		floats, err := sum[float32](ctx, comm, n, opts.iters)
		if err != nil {
			return result{}, err
		}
		ints, err := sum[int64](ctx, comm, n, opts.iters)
		if err != nil {
			return result{}, err
		}
		wrong = errors.Join(wrong, floats.wrong, ints.wrong)
		total += time.Duration(opts.iters) * (floats.time + ints.time)
		lengths = append(lengths, strconv.Itoa(n))
		how = append(how, ints.algorithm)
		if ints.bytes >= longest.bytes {
			longest = ints
		}
	}
	verdict := "right"
	if wrong != nil {
		verdict = "WRONG"
	}
	host, _ := os.Hostname()
	fmt.Fprintf(stdout, "rank %d of %d on %s: sums of %s float32 and int64 by %s: %s, %d times in %v, id %s\n",
		comm.Rank(), comm.Size(), host, strings.Join(lengths, ", "), strings.Join(how, ", "), verdict,
		opts.iters, total.Round(time.Microsecond), id)
	return longest, wrong
}

// sum adds up the vectors of all ranks, iters times, and checks the last sum.
func sum[T float32 | int64](ctx context.Context, comm backend.Comm, n, iters int) (result, error) {
	src, dst := make([]T, n), make([]T, n)
	for i := range src {
		src[i] = T(comm.Rank() + i%7)
	}
	r := result{elements: n, bytes: len(backend.Of(src).Bytes())}
	r.algorithm, _, _ = strings.Cut(comm.Explain(r.bytes), " ")
	if err := comm.Barrier().Wait(ctx); err != nil {
		return r, err
	}
	start := time.Now()
	for range iters {
		if err := comm.AllReduce(backend.Of(dst), backend.Of(src), backend.Sum).Wait(ctx); err != nil {
			return r, err
		}
	}
	slowest := []int64{int64(time.Since(start)) / int64(iters)}
	if err := comm.AllReduce(backend.Of(slowest), backend.Of(slowest), backend.Max).Wait(ctx); err != nil {
		return r, err
	}
	r.time = time.Duration(slowest[0])
	p := comm.Size()
	for i, got := range dst {
		// Ranks 0 to p-1, and i%7 from each: exact in a float32, too.
		if want := T(p*(p-1)/2 + p*(i%7)); got != want {
			r.wrong = fmt.Errorf("element %d of %d %T: got %v; want %v", i, n, got, got, want)
			break
		}
	}
	return r, nil
}

// summary is rank 0's line on the longest vector.
func (r result) summary(comm backend.Comm) string {
	p := float64(comm.Size())
	algbw := float64(r.bytes) / max(r.time.Seconds(), 1e-9) / 1e9
	return fmt.Sprintf("%d ranks: %d int64 (%d bytes) by %s: %v, algbw %.3f GB/s, busbw %.3f GB/s",
		comm.Size(), r.elements, r.bytes, r.algorithm, r.time.Round(time.Microsecond), algbw, algbw*2*(p-1)/p)
}
