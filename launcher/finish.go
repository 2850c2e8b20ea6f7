package launcher

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// finish ends every goroutine and writes the rest of the output.
func (r *run) finish(ctx context.Context) {
	if r.proof != nil && !r.proof.summed {
		r.tellProof()
	}
	close(r.over)
	r.closeExamination()
	for _, h := range r.all {
		h.drop(0)
	}
	for _, h := range r.all {
		<-h.ended
	}
	r.aside.Wait()
	if r.staging != nil {
		r.staging.close()
	}
	if r.stdin != nil {
		r.stdin.close()
	}
	r.flush(ctx)
}

// flush writes the rest of the output. It may wait for a reader of stdout for ever;
// but a user who ended the job, or does so now, does not want that.
func (r *run) flush(ctx context.Context) {
	limited, cancel := context.WithCancel(context.Background())
	defer cancel()
	if !r.m.patient() {
		defer time.AfterFunc(r.m.waits.flush, cancel).Stop()
	}
	written := make(chan error, 1)
	go func() { written <- r.out.Close(limited) }()
	for {
		select {
		case err := <-written:
			if err != nil {
				text := fmt.Sprintf("output is lost: %v", err)
				r.outErr.CompareAndSwap(nil, &text)
			}
			return
		case s := <-r.io.Signals:
			r.signalledLate(s, cancel)
		case <-ctx.Done():
			r.m.interrupted(syscall.SIGTERM)
			cancel()
			ctx = context.WithoutCancel(ctx)
		}
	}
}

// signalledLate handles a signal that comes when all ranks have ended.
func (r *run) signalledLate(s os.Signal, cancel context.CancelFunc) {
	switch s {
	case syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT:
		r.m.interrupted(s.(syscall.Signal))
		cancel()
	case syscall.SIGTSTP:
		r.suspend()
	}
}

// result gathers what is known at the end.
func (r *run) result() *Result {
	m, digest := r.m, r.env.digest()
	res := &Result{
		JobID: r.id, Ranks: m.ranks, Killed: m.killed, Left: inOrder(r.hosts, m.left, hostOf), Kept: inOrder(r.hosts, m.kept, func(k KeptDir) string { return k.Host }), Lost: r.lostTexts(), Timeout: m.timeout,
		Signal: int(m.signal), StdoutClosed: r.pipeClosed.Load(), EnvDigest: digest.Job, EnvHost: digest.Host, Elapsed: r.now(),
		Unfinished: r.out.Unfinished(), Hurried: !m.patient(), NoGrace: m.killing && !m.forced,
		Picture: r.picture,
	}
	if res.Ranks == nil { // none were placed
		res.Ranks = []RankResult{}
	}
	for i, h := range r.hosts {
		o := h.offer()
		hr := HostResult{Name: h.spec.Name, Slots: o.Slots}
		if len(m.ranks) > 0 {
			hr.Ranks = m.layout.Count[i]
		}
		if len(r.env.hosts[hr.Name]) > 0 && digest.Host != "" {
			hr.EnvHost = r.env.digestOf(0, hr.Name).Host
		}
		res.Hosts = append(res.Hosts, hr)
	}
	if text := r.outErr.Load(); text != nil {
		res.OutputError = *text
	}
	if r.exam != nil {
		res.Excluded = r.exam.excluded
	}
	if r.proof != nil {
		res.Environment, res.Differ = r.proof.environment(), m.differ
	}
	for i := range m.ranks {
		m.ranks[i].CPUs = r.bindings.cpus(i)
	}
	for _, rank := range m.ranks {
		if rank.failed() {
			res.Others++
		}
		if rank.State == StateStopped {
			res.Stopped++
		}
	}
	if first := m.first(); first != nil {
		res.First, res.Others = first, res.Others-1
		res.Tail = r.out.Tail(first.Rank)
	}
	return res
}

// hostOf is the host that a text "HOST: ..." is about.
func hostOf(text string) string {
	host, _, _ := strings.Cut(text, ": ")
	return host
}

// failure is the error of a job that never ran.
func (r *run) failure() error {
	m := r.m
	unused := inOrder(r.hosts, m.hostFailures, func(f HostFailure) string { return f.Host })
	switch {
	case m.planErr != nil:
		return m.planErr
	case len(m.prepare) > 0:
		e := &PrepareError{Failures: inOrder(r.hosts, m.prepare, func(f PrepareFailure) string { return f.Host })}
		for _, h := range unused { // those that failed while the others prepared
			e.Failures = append(e.Failures, PrepareFailure{Host: h.Host, Rank: -1, Code: codeOurs, Text: h.Err.Error()})
		}
		return e
	case len(m.hostFailures) > 0:
		return &HostsError{Hosts: unused, Good: len(r.hosts) - len(unused)}
	}
	return nil
}

// inOrder sorts what is about hosts by the order of the hosts: it comes as they answer.
func inOrder[T any](hosts []*host, list []T, name func(T) string) []T {
	at := map[string]int{}
	for i, h := range hosts {
		at[h.spec.Name] = i
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return at[name(a)] - at[name(b)] })
	return list
}
