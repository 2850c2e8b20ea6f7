// Package cpu computes collectives on the CPU, over TCP.
//
// The ranks of a communicator form a full mesh. A pair of ranks shares two
// connections: one for data, which only the collective under way reads and writes,
// and one for control, which is always read, so that a rank's death or abort is
// noticed whatever the data connections are doing. Both are made when the
// communicator is opened and prove to each other that they know the job's secret;
// after that nothing listens. One goroutine does the collectives, in the order of
// the calls.
//
// Every message of a collective starts with what its sender called, and no rank
// completes a collective before all ranks have made the same call. Where two
// different calls would leave ranks waiting for each other, rank 0 finds out: a rank
// that has waited for a moment tells it what it called.
//
// Data travel in the machine's own byte order and are not encrypted.
package cpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"gorun/backend"
	"gorun/rendezvous"
)

// OpenTimeout is how long Open and Connect wait for the other ranks when their
// context has no deadline.
const OpenTimeout = 5 * time.Minute

// Store is how ranks find each other: the part of *rendezvous.Client that is used.
type Store interface {
	// Put sets key for all ranks.
	Put(ctx context.Context, key string, value []byte) error

	// GetFrom returns the value of key, for which it waits until ctx ends; rank is
	// the one that puts it.
	GetFrom(ctx context.Context, key string, rank int) ([]byte, error)

	// Try returns the value of key and whether it is there now.
	Try(ctx context.Context, key string) (value []byte, ok bool, err error)
}

// Config is what a rank must know to open the communicator of all ranks. Rank and
// Size, Secret and Addr are needed, and a Store unless Size is 1.
type Config struct {
	Rank, Size int
	Store      Store  // used until the communicator, and all split from it, are closed
	Epoch      int    // communicators of different epochs never meet
	Secret     []byte // the same in all ranks; proves a connection to be of this job
	Addr       string // this host's IP address, at which the other ranks reach it
	Algo       string // as GORUN_ALGO; see Open

	// Env has entries as os.Environ, whose NCCL settings are compared among the ranks:
	// all ranks have one or none. Where they differ that must be equal, Open fails on all
	// ranks with an error that names two of them, the settings and both values.
	Env []string
}

// Open opens the communicator of all ranks of the job that gorun started, and waits
// for all of them until ctx ends, or OpenTimeout.
//
// GORUN_HOST_ADDR is the address to listen at; a job on one host needs none.
// GORUN_ALGO chooses algorithms, as COLLECTIVE:ALGORITHM with commas between:
// "allreduce:ring" or "allreduce:star". All ranks must choose the same. Otherwise an
// AllReduce of at most StarMax bytes uses the star, a longer one the ring.
func Open(ctx context.Context) (backend.Comm, error) {
	client, err := rendezvous.Dial(ctx)
	if err != nil {
		return nil, err
	}
	addr, err := hostAddr(os.Getenv("GORUN_HOST_ADDR"), os.Getenv("GORUN_NODES"))
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return open(ctx, Config{
		Rank: client.Rank(), Size: client.Size(),
		Store: client, Secret: client.Secret(),
		Addr: addr, Algo: os.Getenv("GORUN_ALGO"), Env: os.Environ(),
	}, client.Close)
}

// Connect is Open with everything said in cfg instead of the environment.
func Connect(ctx context.Context, cfg Config) (backend.Comm, error) {
	return open(ctx, cfg, func() error { return nil })
}

// hostAddr is the address this rank listens at.
func hostAddr(addr, nodes string) (string, error) {
	switch {
	case addr != "":
		return addr, nil
	case nodes == "1":
		return "127.0.0.1", nil
	}
	return "", errors.New("GORUN_HOST_ADDR is not set: no address at which other hosts reach this rank")
}

// session is what the communicators of one Open share. The last one to be closed
// closes the store's client.
type session struct {
	store  Store
	secret []byte
	addr   string
	epoch  int
	algo   choice
	close  func() error
	users  atomic.Int32
}

func (s *session) release() error {
	if s.users.Add(-1) > 0 {
		return nil
	}
	return s.close()
}

func open(ctx context.Context, cfg Config, done func() error) (backend.Comm, error) {
	s, err := newSession(cfg, done)
	if err != nil {
		return nil, errors.Join(err, done())
	}
	ranks := make([]int, cfg.Size)
	for r := range ranks {
		ranks[r] = r
	}
	compare := cfg.Env != nil && cfg.Size > 1
	name := fmt.Sprintf("mesh/%d", cfg.Epoch)
	if compare { // before this rank can be connected to: then all have done so when all are connected
		if err := tellEnv(ctx, cfg, name); err != nil {
			return nil, errors.Join(err, done())
		}
	}
	c, err := newComm(ctx, s, "world", cfg.Rank, ranks)
	if err != nil {
		return nil, err // not the nil *comm in an interface
	}
	if compare {
		if err := c.sameEnv(ctx, cfg.Store, name); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// tellEnv tells the other ranks which NCCL settings this one has.
func tellEnv(ctx context.Context, cfg Config, name string) error {
	ctx, cancel := context.WithTimeout(ctx, OpenTimeout)
	defer cancel()
	return rendezvous.PutEnv(ctx, cfg.Store, name, cfg.Rank, cfg.Env)
}

// sameEnv gives the communicator up if the ranks have different NCCL settings. All find
// the same.
func (c *comm) sameEnv(ctx context.Context, store Store, name string) error {
	ctx, cancel := context.WithTimeout(ctx, OpenTimeout)
	defer cancel()
	err := rendezvous.SameEnv(ctx, store, name)
	if err == nil {
		return nil
	}
	c.fail(&backend.AbortError{Comm: c.name, Rank: c.rank, Err: err})
	c.Close(ctx)
	return err
}

func newSession(cfg Config, done func() error) (*session, error) {
	algo, err := parseChoice(cfg.Algo)
	switch {
	case err != nil:
		return nil, err
	case cfg.Size < 1 || cfg.Rank < 0 || cfg.Rank >= cfg.Size:
		return nil, fmt.Errorf("rank %d of %d: no such rank", cfg.Rank, cfg.Size)
	case len(cfg.Secret) == 0 || cfg.Addr == "" || cfg.Store == nil && cfg.Size > 1:
		return nil, fmt.Errorf("rank %d: a secret, an address and a store are needed", cfg.Rank)
	}
	return &session{
		store: cfg.Store, secret: slices.Clone(cfg.Secret),
		addr: cfg.Addr, epoch: cfg.Epoch, algo: algo, close: done,
	}, nil
}
