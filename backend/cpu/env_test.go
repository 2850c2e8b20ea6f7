package cpu

import (
	"strings"
	"sync"
	"testing"
)

// Ranks whose NCCL settings differ all fail to open, and all say why.
func TestOpenComparesEnvironments(t *testing.T) {
	const size = 4
	for _, odd := range []int{-1, 0, 2} {
		store := newMemStore()
		errs := make([]error, size)
		var wg sync.WaitGroup
		for rank := range size {
			env := []string{"NCCL_ALGO=Ring", "NCCL_DEBUG=INFO"}
			if rank == odd {
				env = []string{"NCCL_ALGO=Tree"}
			}
			wg.Go(func() {
				comm, err := Connect(t.Context(), Config{Rank: rank, Size: size, Store: store, Secret: testSecret, Addr: "127.0.0.1", Env: env})
				if errs[rank] = err; err == nil {
					err = comm.Barrier().Wait(t.Context())
					comm.Close(t.Context())
				}
				if err != nil && odd < 0 {
					t.Errorf("rank %d: got %v; want equal settings", rank, err)
				}
			})
		}
		wg.Wait()
		for rank, err := range errs {
			if odd >= 0 && (err == nil || !strings.Contains(err.Error(), "NCCL settings differ between ranks: NCCL_ALGO is ")) {
				t.Errorf("rank %d, with rank %d being odd: got %v; want the setting that differs", rank, odd, err)
			}
		}
	}
}
