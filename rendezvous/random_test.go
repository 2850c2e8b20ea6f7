package rendezvous

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A random job plays barriers of one name, with messages that are late, deadlines
// that pass, and (if kills is set) clients that go away. Whenever the head releases,
// every rank must wait; but for one whose agent's message that it left is on its way.
type randomJob struct {
	*world
	t     *testing.T
	rng   *rand.Rand
	kills bool
	ranks []randomRank
	count struct{ released, failed, killed int }
}

type randomRank struct {
	entered, failed, passed int
	waiting                 *session // nil: between barriers
}

const randomRounds = 20

func newRandomJob(t *testing.T, seed uint64, kills bool) *randomJob {
	j := &randomJob{t: t, rng: rand.New(rand.NewPCG(seed, 1)), kills: kills}
	var hosts []string
	var ranks [][]int
	hostOf := map[int]int{}
	for host := range 1 + j.rng.IntN(4) {
		hosts = append(hosts, fmt.Sprintf("node%d", host))
		ranks = append(ranks, nil)
		for range 1 + j.rng.IntN(4) {
			ranks[host] = append(ranks[host], len(hostOf))
			hostOf[len(hostOf)] = host
		}
	}
	j.world = newWorld(hosts, ranks, hostOf)
	j.ranks = make([]randomRank, len(hostOf))
	j.quiet = true
	j.released = j.checkRelease
	return j
}

func (j *randomJob) checkRelease() {
	j.count.released++
	for rank, r := range j.ranks {
		if r.waiting == nil && !j.leaving(j.hostOf[rank]) {
			j.t.Fatalf("released, but rank %d does not wait: %+v", rank, j.ranks)
		}
	}
}

// leaving reports whether host has told the head that it takes something back.
func (j *randomJob) leaving(host int) bool {
	for _, r := range j.up[host] {
		if r.Op == opCancel {
			return true
		}
	}
	return false
}

// step moves one message, lets a rank do something, or lets time pass.
func (j *randomJob) step() {
	host := j.rng.IntN(len(j.hosts))
	rank := j.rng.IntN(len(j.ranks))
	switch choice := j.rng.IntN(20); {
	case choice < 6 && len(j.up[host]) > 0:
		j.moveUp(host)
	case choice < 12 && len(j.down[host]) > 0:
		j.moveDown(host)
	case choice == 12 && j.kills && j.ranks[rank].waiting != nil:
		j.kill(rank)
	case choice < 18:
		j.enter(rank)
	default:
		j.now = j.now.Add(time.Duration(j.rng.IntN(50)) * time.Millisecond)
		j.hubs[host].tick(j.now)
		j.route(j.engine.Tick(j.now))
	}
}

func (j *randomJob) kill(rank int) {
	s := j.ranks[rank].waiting
	j.ranks[rank].waiting = nil
	j.count.killed++
	j.hubs[j.hostOf[rank]].leave(j.now, s)
}

func (j *randomJob) enter(rank int) {
	r := &j.ranks[rank]
	if r.waiting != nil || r.passed == randomRounds {
		return
	}
	h := j.hubs[j.hostOf[rank]]
	s := &session{answer: func(Reply) {}}
	h.handle(j.now, s, Request{Op: opHello, Rank: rank})
	s.answer = func(reply Reply) { j.answered(rank, s, reply) }
	r.waiting = s
	r.entered++
	timeout := time.Duration(20+j.rng.IntN(300)) * time.Millisecond
	h.handle(j.now, s, Request{Op: opBarrier, Key: "b", Timeout: timeout})
}

func (j *randomJob) answered(rank int, s *session, reply Reply) {
	r := &j.ranks[rank]
	if r.waiting != s {
		j.t.Fatalf("rank %d: a second answer: %+v", rank, reply)
	}
	r.waiting = nil
	defer func() { s.member.sessions-- }()
	if reply.Code == CodeDeadline {
		r.failed++
		j.count.failed++
		return
	}
	if reply.Code != "" {
		j.t.Fatalf("rank %d: %+v", rank, reply)
	}
	r.passed++
	for other, o := range j.ranks {
		if !j.kills && o.entered-o.failed < r.passed {
			j.t.Fatalf("rank %d passed barrier %d before rank %d was in: %+v", rank, r.passed, other, o)
		}
	}
}

func (j *randomJob) done() bool {
	for _, r := range j.ranks {
		if r.passed < randomRounds {
			return false
		}
	}
	return true
}

// checkEmpty makes sure that nothing of a barrier is kept.
func (j *randomJob) checkEmpty() {
	j.t.Helper()
	e := j.engine
	if n := len(e.waits) + len(e.queue) + len(e.meetings); n != 0 {
		j.t.Errorf("the head keeps %d waits, %d queued, %d barriers", len(e.waits), len(e.queue), len(e.meetings))
	}
	for i, h := range j.hubs {
		if len(h.gatherings)+len(h.pending) != 0 {
			j.t.Errorf("%s keeps %d barriers and waits for %d replies", j.hosts[i], len(h.gatherings), len(h.pending))
		}
		for rank, m := range h.members {
			if *m != (member{}) {
				j.t.Errorf("rank %d is charged with %+v", rank, *m)
			}
		}
	}
}

func TestRandomBarriers(t *testing.T) {
	failed := 0
	for seed := range uint64(40) {
		j := newRandomJob(t, seed, false)
		for steps := 0; !j.done(); steps++ {
			if steps > 500_000 {
				t.Fatalf("seed %d: stuck: %+v", seed, j.ranks)
			}
			j.step()
		}
		j.checkEmpty()
		if j.count.released != randomRounds {
			t.Errorf("seed %d: got %d releases; want %d", seed, j.count.released, randomRounds)
		}
		failed += j.count.failed

	}
	if failed < 300 {
		t.Errorf("only %d deadlines passed: the test plays too little", failed)
	}
}

func TestRandomBarriersKilled(t *testing.T) {
	released, killed := 0, 0
	for seed := range uint64(40) {
		j := newRandomJob(t, seed, true)
		for range 5000 {
			j.step()
		}
		for rank, r := range j.ranks {
			if r.waiting != nil {
				j.kill(rank)
			}
		}
		j.flow()
		j.checkEmpty()
		released += j.count.released
		killed += j.count.killed
	}
	if released < 250 || killed < 250 {
		t.Errorf("only %d releases and %d kills: the test plays too little", released, killed)
	}
}
