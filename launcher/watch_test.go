package launcher

import (
	"fmt"
	"testing"
	"time"

	"gorun/launcher/wire"
)

// The network between hosts has parted in two, but the head hears of all: nobody is lost,
// and there is an end to looking around.
func TestPartedNetwork(t *testing.T) {
	const hosts = 2000
	names, counts := make([]string, hosts), make([]int, hosts)
	for i := range names {
		names[i], counts[i] = fmt.Sprintf("h%d", i), 1
	}
	m := newMachine(names, Job{}, defaultWaits())
	m.phase, m.begun = phaseRunning, true
	l := evenly(counts...)
	m.place(l)
	for i := range m.hosts {
		m.hosts[i].state = hostStarted
	}
	heard := make([]time.Duration, hosts)
	around := func(now time.Duration) (again bool) {
		for i := range heard {
			heard[i] = now
		}
		for _, a := range m.step(event{around: &around{now: now, heard: heard}}) {
			again = again || a.watch != 0
			if a.sweep || a.drop || a.say != "" {
				t.Fatalf("at %v: %+v", now, a)
			}
		}
		return again
	}
	around(2 * time.Second)
	for _, answer := range []wire.Watching{{Port: 1}, {Joined: true}} {
		for i := range m.hosts {
			m.step(event{host: i, watching: &answer})
		}
	}
	if n := m.members(); n != hosts {
		t.Fatalf("%d members; want %d", n, hosts)
	}
	around(3 * time.Second)
	for i := range m.hosts {
		w := &word{}
		for n := range wire.MaxWord {
			w.dead = append(w.dead, (i+hosts/2+n)%hosts)
		}
		m.step(event{host: i, word: w})
	}
	now := 4 * time.Second
	for looks := 0; around(now); looks++ {
		if now += time.Second; looks > 20 {
			t.Fatal("looks around for ever")
		}
	}
}
