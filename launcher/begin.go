package launcher

import (
	"errors"
	"fmt"
	"syscall"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/output"
	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// place lays the ranks out, now that every host has said what it has, and sends
// each host its plan.
func (r *run) place() {
	for _, w := range r.dialer.Warnings() {
		r.note("warn", w)
	}
	layout, site, err := r.decide()
	if err != nil {
		r.step(event{planErr: err})
		return
	}
	if err := r.open(layout); err != nil {
		r.step(event{planErr: err})
		return
	}
	r.step(event{planned: &layout})
	p := &planner{job: r.job, id: r.id, secret: r.secret, hosts: r.specs(), layout: layout, site: site, env: r.env}
	for _, h := range r.hosts {
		if layout.Count[h.index] == 0 {
			continue
		}
		if err := h.send.SendMessage(wire.Message{Plan: p.plan(h.index)}); err != nil {
			r.step(event{planErr: fmt.Errorf("plan of %s: %w", h.spec.Name, err)})
			return
		}
	}
}

func (r *run) specs() []hostfile.Host {
	specs := make([]hostfile.Host, len(r.hosts))
	for i, h := range r.hosts {
		specs[i] = h.spec
	}
	return specs
}

// decide makes the layout and chooses addresses.
func (r *run) decide() (Layout, site, error) {
	var offers []Offer
	var hellos []*wire.Hello
	for _, h := range r.hosts {
		o, _ := offer(h.spec, h.hello)
		offers = append(offers, o)
		hellos = append(hellos, h.hello)
	}
	layout, err := r.job.Place(offers)
	if err != nil {
		return layout, site{}, err
	}
	if err := r.job.checkStdin(layout); err != nil {
		return layout, site{}, err
	}
	s, err := survey(r.specs(), hellos, layout, r.job.Interface, lookup(r.env, "NCCL_SOCKET_IFNAME"))
	return layout, s, err
}

// checkStdin refuses a --stdin rank that does not exist.
func (j Job) checkStdin(l Layout) error {
	if j.Stdin >= l.Size() {
		return &StdinError{Rank: j.Stdin, Size: l.Size()}
	}
	return nil
}

// open makes what follows the ranks: output, credit, store and stdin.
func (r *run) open(layout Layout) error {
	names := make([]string, layout.Size())
	p := &placement{layout: layout, nodes: make([]int, len(r.hosts))}
	var nodeNames []string
	for i, h := range r.hosts {
		p.nodes[i] = len(p.hosts)
		if layout.Count[i] > 0 {
			p.hosts = append(p.hosts, i)
			nodeNames = append(nodeNames, h.spec.Name)
		}
	}
	for rank, place := range layout.Ranks {
		names[rank] = r.hosts[place.Host].spec.Name
	}
	credit := streamCredit(layout.Size())
	p.credit = newCreditBook(layout.Size(), credit, func(rank, which int, n uint32) {
		r.hosts[layout.Ranks[rank].Host].send.Send(wire.CreditFrame(wire.StreamID(rank, which), int(n)))
	})
	out, err := output.New(output.Options{
		Stdout: r.io.Stdout, Stderr: r.io.Stderr, Tag: r.job.Tag, Hosts: names, Color: r.io.Color, Terminal: r.io.StdoutTerminal,
		StderrTerminal: r.io.StderrTerminal,
		Dir:            r.job.OutputDir, Partial: min(64<<10, credit/2), Written: p.credit.written, Failed: r.outputFailed,
	})
	if err != nil {
		return err
	}
	p.out = out
	r.engine = rendezvous.NewEngine(layout.Size(), nodeNames, func(rank int) int { return p.nodes[layout.Ranks[rank].Host] })
	if err := r.openStdin(layout); err != nil {
		return err
	}
	r.placed.Store(p)
	return nil
}

func (r *run) openStdin(layout Layout) error {
	ranks := []int{r.job.Stdin}
	switch {
	case r.job.Stdin == StdinNone || r.io.Stdin == nil:
		r.job.Stdin = StdinNone
		return nil
	case r.job.Stdin == StdinAll:
		ranks = ranks[:0]
		for rank := range layout.Ranks {
			ranks = append(ranks, rank)
		}
	}
	ignoreTTIN()
	pump, err := newStdinPump(r.io.Stdin, ranks, func(rank int, b []byte) error {
		h := r.hosts[layout.Ranks[rank].Host]
		return h.send.SendBulk(wire.Frame{Kind: wire.Stdin, Stream: wire.StreamID(rank, wire.In), Payload: b})
	})
	r.stdin = pump
	return err
}

// outputFailed is called by the merger once per destination that cannot be written.
// A closed stdout ends the job; lost output is told at once and at the end.
func (r *run) outputFailed(err error, dest string) {
	if errors.Is(err, syscall.EPIPE) {
		if dest == "stdout" {
			r.trouble <- func() { r.step(event{stdout: true}) }
		}
		return
	}
	text := fmt.Sprintf("output to %s is lost: %v", dest, err)
	if r.outErr.CompareAndSwap(nil, &text) {
		r.trouble <- func() { r.say(text) }
	}
}

// result gathers what is known at the end.
func (r *run) result() *Result {
	m := r.m
	res := &Result{
		JobID: r.id, Ranks: m.ranks, Killed: m.killed, Left: m.left, Lost: m.lostHosts, Timeout: m.timeout,
		Signal: int(m.signal), StdoutClosed: m.stdoutClosed, EnvDigest: envsync.Digest(texts(r.env)), Elapsed: r.now(),
	}
	p := r.placed.Load()
	for i, h := range r.hosts {
		o, _ := offer(h.spec, h.hello)
		hr := HostResult{Name: h.spec.Name, Slots: o.Slots}
		if p != nil {
			hr.Ranks = p.layout.Count[i]
		}
		res.Hosts = append(res.Hosts, hr)
	}
	if text := r.outErr.Load(); text != nil {
		res.OutputError = *text
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
		res.Tail = p.out.Tail(first.Rank)
	}
	return res
}

// failure is the error of a job that never ran.
func (r *run) failure() error {
	switch {
	case r.m.planErr != nil:
		return r.m.planErr
	case len(r.m.prepare) > 0:
		return &PrepareError{Failures: r.m.prepare}
	case len(r.m.hostFailures) > 0:
		return &HostsError{Hosts: r.m.hostFailures, Good: len(r.hosts) - len(r.m.hostFailures)}
	}
	return nil
}
