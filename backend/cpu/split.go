package cpu

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"gorun/backend"
)

// member is what a rank gives to Split.
type member struct{ rank, color, key int }

// Split implements backend.Comm. The new communicator has connections of its own; its
// name, in errors and in the store, is this one's with the number of the call and the
// color.
func (c *comm) Split(ctx context.Context, color, key int) (backend.Comm, error) {
	table := make([]int64, 2*c.size)
	table[2*c.rank], table[2*c.rank+1] = int64(color), int64(key)
	bytes := backend.Of(table).Bytes()
	o := c.submit(&op{
		call: call{kind: split, count: uint64(len(table)), dtype: backend.Int64, op: backend.Sum, algo: star},
		dst:  bytes, src: bytes,
	})
	if err := o.Wait(ctx); err != nil {
		return nil, err
	}
	if color < 0 {
		return nil, nil
	}
	members := group(table, color)
	ranks := make([]int, len(members))
	for i, m := range members {
		ranks[i] = c.ranks[m.rank]
	}
	rank := slices.IndexFunc(members, func(m member) bool { return m.rank == c.rank })
	child, err := c.openChild(ctx, fmt.Sprintf("%s.%d.%d", c.name, o.seq, color), rank, ranks)
	if err != nil {
		c.fail(&backend.AbortError{Comm: c.name, Rank: c.rank, Err: fmt.Errorf("call %d, %v: %w", o.seq, o.call, err)})
		return nil, c.failure()
	}
	return child, nil
}

// openChild is newComm, ended early when c dies.
func (c *comm) openChild(ctx context.Context, name string, rank int, ranks []int) (*comm, error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		select {
		case <-c.dead:
			cancel()
		case <-ctx.Done():
		}
	})
	return newComm(ctx, c.session, name, rank, ranks)
}

// group returns the members with color, in the order of the new communicator. table
// holds color and key of each rank.
func group(table []int64, color int) []member {
	var members []member
	for r := range len(table) / 2 {
		if int(table[2*r]) == color {
			members = append(members, member{r, color, int(table[2*r+1])})
		}
	}
	slices.SortFunc(members, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.rank, b.rank))
	})
	return members
}
