package probe

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// Equal links are not told apart, however busy the machine is: with the streams of two to
// four, of 64, and of more hosts.
func TestEqualLinks(t *testing.T) {
	const hosts = 12
	listeners := make([]*Listener, hosts)
	for i := range listeners {
		listeners[i] = listening(t, i, loopback)
	}
	for _, bytes := range []int64{256 << 10, 64 << 10} {
		results := make([]Result, hosts)
		for _, pairs := range schedule(hosts) {
			var wg sync.WaitGroup
			for _, p := range pairs {
				from, to := min(p.From, p.To), max(p.From, p.To)
				wg.Go(func() {
					o := Order{Bandwidth: maxStream, Bytes: bytes}
					links := Run(context.Background(), from, testSecret, loopback, o.to(target(to, listeners[to]))).Links
					results[from].From = from
					results[from].Links = append(results[from].Links, links...)
				})
			}
			wg.Wait()
		}
		m := Gather(hosts, results)
		_, got := Slow(m, DefaultLimits())
		var all []float64
		for _, row := range m.BytesPerSecond {
			all = append(all, row...)
		}
		slices.Sort(all)
		if len(got.Hosts)+len(got.Links) > 0 {
			t.Errorf("%d bytes: got %+v; %.3g", bytes, got, all[hosts:])
		}
	}
	_ = time.Second
}
