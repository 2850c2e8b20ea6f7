package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gorun/launcher/wire"
)

// allowedOf reads which CPUs a task may run on: "0-3".
func allowedOf(t *testing.T, status string) string {
	t.Helper()
	text, err := os.ReadFile(status)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "Cpus_allowed_list:\t")
	list, _, _ := strings.Cut(rest, "\n")
	return list
}

// bound starts ranks that wait, and returns what each may run on, what was promised, and
// the agent's head.
func bound(t *testing.T, l launch, b *wire.Bind, n int) (got []string, p *wire.Prepared, h *head) {
	t.Helper()
	h = startAgent(t, l)
	var ranks [][]string
	for range n {
		ranks = append(ranks, sh("exec sleep 60"))
	}
	plan := newPlan(t, ranks...)
	plan.Bind = b
	h.tell(wire.Message{Plan: plan})
	p = message(h, "prepared", func(m wire.Message) *wire.Prepared { return m.Prepared })
	h.tell(wire.Message{Start: &wire.Start{}})
	for _, pid := range message(h, "started", func(m wire.Message) *wire.Started { return m.Started }).PIDs {
		got = append(got, allowedOf(t, fmt.Sprintf("/proc/%d/status", pid)))
	}
	return got, p, h
}

// Ranks are bound as was said; the agent's own threads are not, nor what it forks later.
func TestBound(t *testing.T) {
	t.Parallel()
	all := formatList(setOf(affinity()))
	n := len(readCores(os.DirFS(systemDir), affinity()))
	got, p, h := bound(t, launch{}, &wire.Bind{By: wire.BindCore}, n)
	if p.Unbound != "" || len(p.Bindings) != n {
		t.Fatalf("got %+v; want %d bindings", p, n)
	}
	for i, b := range p.Bindings {
		if !slices.Equal(b.Ranks, []int{i}) || b.Cores == "" || got[i] != b.CPUs || n > 1 && got[i] == all {
			t.Errorf("rank %d may run on %s; told was %+v", i, got[i], b)
		}
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", h.cmd.Process.Pid))
	if err != nil || len(tasks) < 2 {
		t.Fatalf("the agent's tasks: %v, %v", tasks, err)
	}
	for _, task := range tasks {
		if got := allowedOf(t, task); got != all {
			t.Errorf("%s: may run on %s; want %s", task, got, all)
		}
	}
	h.stop(0)
}

// The mask that the agent was given is all there is.
func TestBoundWithinAMask(t *testing.T) {
	t.Parallel()
	cpus := affinity()
	last := fmt.Sprint(cpus[len(cpus)-1])
	got, p, h := bound(t, launch{wrap: []string{"taskset", "-c", last}}, &wire.Bind{By: wire.BindCore}, 1)
	if got[0] != last || p.Bindings[0].CPUs != last {
		t.Errorf("got %q, %+v; want %s", got, p, last)
	}
	h.stop(0)
	got, p, h = bound(t, launch{wrap: []string{"taskset", "-c", last}}, &wire.Bind{By: wire.BindCore}, 2)
	if !slices.Equal(got, []string{last, last}) || p.Unbound != "2 ranks for 1 core" || len(p.Bindings) != 1 || p.Bindings[0].Cores != "" {
		t.Errorf("got %q, %+v; want two ranks that are not bound", got, p)
	}
	h.stop(0)
}

func TestNotBound(t *testing.T) {
	t.Parallel()
	all := formatList(setOf(affinity()))
	got, p, h := bound(t, launch{}, &wire.Bind{By: wire.BindNone}, 1)
	if got[0] != all || len(p.Bindings) != 1 || p.Bindings[0].CPUs != all || p.Bindings[0].Cores != "" || p.Unbound != "" {
		t.Errorf("got %q, %+v; want all CPUs", got, p)
	}
	h.stop(0)
	got, p, h = bound(t, launch{}, nil, 1)
	if got[0] != all || p.Bindings != nil {
		t.Errorf("got %q, %+v; want all CPUs and no word", got, p)
	}
	h.stop(0)
}

// CPUs that have gone since they were chosen are no reason not to run.
func TestBindFails(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never undone: the thread ends with its mask
		all := affinity()
		j := &job{allowed: all, ranks: []*rank{{n: 3, cpus: []int{maxList - 1}}, {n: 4, cpus: all[:1]}, {n: 5, cpus: []int{maxList - 1}}}}
		for i, want := range [][]int{all, all[:1], all} {
			if j.bindThread(j.ranks[i]); !slices.Equal(affinity(), want) {
				t.Errorf("rank %d: got %v; want %v", i, affinity(), want)
			}
		}
		if got, want := j.bindTrouble(), "not bound: rank 3: invalid argument (and 1 more of this host's ranks)"; got != want {
			t.Errorf("got %q; want %q", got, want)
		}
		setAffinity(all[:1])
		if j.unbindThread(); !slices.Equal(affinity(), all) {
			t.Errorf("undone: got %v; want %v", affinity(), all)
		}
	}()
	<-done
}
