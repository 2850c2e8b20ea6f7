// Storebench is a rank of bench-store: it meets the others by gorun's store, and exchanges
// keys with them, again and again. Rank 0 prints how long one barrier and one exchange
// take, in microseconds.
//
//	gorun -np N storebench single|gather ROUNDS
//
// single asks for one key after the other, gather for all at once.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"gorun/rendezvous"
)

// warmUp is how many barriers there are before the first that counts.
const warmUp = 5

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "storebench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: gorun -np N storebench single|gather ROUNDS")
	}
	gather, ok := gathers[args[0]]
	if !ok {
		return fmt.Errorf("no way to gather %q", args[0])
	}
	rounds, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	c, err := rendezvous.Dial(context.Background())
	if err != nil {
		return err
	}
	defer c.Close()
	var starts [3]time.Time
	for i := range rounds + warmUp {
		if i == warmUp {
			starts[0] = time.Now()
		}
		if err := c.Barrier(context.Background(), "b"); err != nil {
			return err
		}
	}
	starts[1] = time.Now()
	for i := range rounds {
		if err := exchange(c, i, gather); err != nil {
			return err
		}
	}
	starts[2] = time.Now()
	if c.Rank() == 0 {
		each := func(d time.Duration) int64 { return d.Microseconds() / int64(rounds) }
		fmt.Println(each(starts[1].Sub(starts[0])), each(starts[2].Sub(starts[1])))
	}
	return c.Barrier(context.Background(), "end")
}

// gather returns the values that all ranks have put.
type gather func(c *rendezvous.Client, ctx context.Context, key func(rank int) string) ([][]byte, error)

var gathers = map[string]gather{"single": gatherSingly, "gather": (*rendezvous.Client).Gather}

// exchange tells all ranks 64 bytes, and gets theirs.
func exchange(c *rendezvous.Client, round int, all gather) error {
	key := func(rank int) string { return fmt.Sprintf("%d/%d", round, rank) }
	if err := c.Put(context.Background(), key(c.Rank()), fmt.Appendf(nil, "%064d", c.Rank())); err != nil {
		return err
	}
	values, err := all(c, context.Background(), key)
	if err != nil {
		return err
	}
	for rank, value := range values {
		if len(value) != 64 {
			return fmt.Errorf("got %q of rank %d", value, rank)
		}
	}
	return nil
}

// gatherSingly is Client.Gather, but asks for one key after the other.
func gatherSingly(c *rendezvous.Client, ctx context.Context, key func(rank int) string) (values [][]byte, err error) {
	for rank := range c.Size() {
		value, err := c.GetFrom(ctx, key(rank), rank)
		if err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, nil
}
