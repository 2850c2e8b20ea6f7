package cpu

import (
	"fmt"
	"sync"
	"testing"

	"gorun/backend"
)

// BenchmarkAllReduce has four ranks in one process; what is between processes is shown
// by examples/allreduce.
func BenchmarkAllReduce(b *testing.B) {
	for _, algo := range []string{"star", "ring"} {
		for _, n := range []int{8, 64 << 10, 16 << 20} {
			b.Run(fmt.Sprintf("%s-%d-bytes", algo, n), func(b *testing.B) {
				comms, err := openWorld(b.Context(), 4, "allreduce:"+algo)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(n))
				b.ReportAllocs()
				var wg sync.WaitGroup
				for _, c := range comms {
					wg.Go(func() {
						defer c.Close(b.Context())
						s := backend.Of(make([]float32, n/4))
						for range b.N {
							if err := c.AllReduce(s, s, backend.Sum).Wait(b.Context()); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
