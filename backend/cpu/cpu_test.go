package cpu

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"gorun/backend"
	"gorun/backend/backendtest"
	"gorun/rendezvous"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	backendtest.Run(t, backendtest.Backend{
		Open:  openWorld,
		Algos: []string{"allreduce:star", "allreduce:ring"},
		Kill:  func(c backend.Comm) { c.(*comm).crash() },
	})
}

// crash ends all connections, as the kernel does for a process that is killed.
func (c *comm) crash() {
	if c.die(errors.New("killed")) {
		close(c.told) // nobody is
	}
	for _, p := range c.peers {
		p.closeData()
		p.closeControl()
	}
}

var testSecret = []byte("a secret of thirty-two bytes....")

// memStore is a store in memory.
type memStore struct {
	mu     sync.Mutex
	values map[string][]byte
	change chan struct{} // closed and renewed by Put
}

func newMemStore() *memStore {
	return &memStore{values: map[string][]byte{}, change: make(chan struct{})}
}

func (s *memStore) Put(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.values[key]; ok {
		if string(old) == string(value) {
			return nil
		}
		return &rendezvous.Error{Code: rendezvous.CodeConflict, Text: fmt.Sprintf("key %q already has another value, put by another rank", key)}
	}
	s.values[key] = value
	close(s.change)
	s.change = make(chan struct{})
	return nil
}

func (s *memStore) GetFrom(ctx context.Context, key string, rank int) ([]byte, error) {
	for {
		s.mu.Lock()
		value, ok := s.values[key]
		change := s.change
		s.mu.Unlock()
		if ok {
			return value, nil
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, fmt.Errorf("key %q: rank %d has not written it: %w", key, rank, ctx.Err())
		}
	}
}

func (s *memStore) Try(_ context.Context, key string) ([]byte, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value, ok := s.values[key]
	return value, ok, nil
}

// openWorld opens size ranks as goroutines of this process.
func openWorld(ctx context.Context, size int, algo string) ([]backend.Comm, error) {
	return openAt(ctx, "127.0.0.1", size, algo)
}

func openAt(ctx context.Context, addr string, size int, algo string) ([]backend.Comm, error) {
	store := newMemStore()
	comms, errs := make([]backend.Comm, size), make([]error, size)
	var wg sync.WaitGroup
	for rank := range size {
		wg.Go(func() {
			comms[rank], errs[rank] = Connect(ctx, Config{
				Rank: rank, Size: size, Store: store, Secret: testSecret, Addr: addr, Algo: algo,
			})
		})
	}
	wg.Wait()
	return comms, errors.Join(errs...)
}
