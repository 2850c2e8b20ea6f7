package launcher

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strings"
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
	if !layout.contiguous() {
		r.note("info", "ranks are not numbered host by host: RANK is not GROUP_RANK * LOCAL_WORLD_SIZE + LOCAL_RANK")
	}
	r.planner = &planner{job: r.job, id: r.id, secret: r.secret, site: site, env: r.env, cargo: r.cargo}
	for _, h := range r.hosts {
		r.planner.hosts, r.planner.offers = append(r.planner.hosts, h.spec.Name), append(r.planner.offers, h.offer())
	}
	r.planner.lay(layout)
	if first := layout.Ranks[0].Host; site.ports[first] == 0 && r.planner.ownPort() {
		r.note("warn", fmt.Sprintf("%s has no free port for MASTER_PORT, which is not set", r.planner.hosts[first]))
	}
	if r.staging != nil {
		r.staging.layout, r.staging.nodes, r.staging.site = layout, r.planner.node, site
	}
	if r.job.ShowLayout {
		r.sayLayout(r.planner)
	}
	r.step(event{planned: &layout})
	if r.staging == nil {
		r.sendPlans()
	}
}

// sendPlans tells each host what it is to run.
func (r *run) sendPlans() {
	r.planner.window = r.window()
	for _, h := range r.hosts {
		if r.planner.layout.Count[h.index] == 0 {
			continue
		}
		plan := r.planner.plan(h.index)
		plan.Bind = r.bindOn(h)
		if err := h.send.SendMessage(wire.Message{Plan: plan}); err != nil {
			r.step(event{planErr: fmt.Errorf("plan of %s: %w", h.spec.Name, err)})
			return
		}
	}
}

// sayLayout says the layout as a dry run prints it, without its empty lines.
func (r *run) sayLayout(p *planner) {
	var b strings.Builder
	var specs []hostfile.Host
	for _, h := range r.hosts {
		specs = append(specs, h.spec)
	}
	printLayout(&b, r.job, specs, p)
	for line := range strings.Lines(b.String()) {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			r.say(line)
		}
	}
}

// decide makes the layout, completes the environment and chooses addresses.
func (r *run) decide() (Layout, site, error) {
	var offers []Offer
	var peers []peer
	for _, h := range r.hosts {
		offers = append(offers, h.offer())
	}
	layout, err := r.job.Place(offers)
	if err == nil {
		r.noteMesh(layout, offers)
		err = r.job.checkStdin(layout)
	}
	if err == nil {
		err = r.reconcile(layout)
	}
	if err != nil {
		return layout, site{}, err
	}
	for _, h := range r.hosts {
		peers = append(peers, peer{h.spec.Name, h.hello, h.local(), lookup(r.env.hosts[h.spec.Name], "NCCL_SOCKET_IFNAME")})
	}
	spec := r.env.lookup("NCCL_SOCKET_IFNAME")
	for _, text := range prefixNotes(peers, layout, spec) {
		r.remark(envsync.Note{Level: "warn", Text: text})
	}
	s, err := survey(peers, layout, r.job.Interface, spec)
	for _, text := range s.notes {
		r.remark(envsync.Note{Level: "warn", Text: text})
	}
	if r.oddities != nil {
		return layout, site{}, &FoundError{Lines: r.oddities}
	}
	if text := r.env.meetElsewhere(peers, layout.Ranks[0].Host); text != "" {
		r.note("warn", text)
	}
	return layout, s, err
}

// noteMesh says what the mesh is like, and what of it may be slow.
func (r *run) noteMesh(l Layout, offers []Offer) {
	if r.io.Verbose && !r.job.ShowLayout {
		var b strings.Builder
		printMesh(&b, l, offers)
		for line := range strings.Lines(b.String()) {
			if line = strings.TrimSuffix(line, "\n"); line != "" {
				r.note("info", line)
			}
		}
	}
	for _, text := range r.job.meshWarnings(l, offers, r.unneeded) {
		r.note("warn", text)
	}
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
	p := &placement{layout: layout, nodes: make([]int, len(r.hosts)), hosts: layout.Hosts()}
	nodeNames := make([]string, len(p.hosts))
	for n, h := range p.hosts {
		p.nodes[h], nodeNames[n] = n, r.hosts[h].spec.Name
	}
	for rank, place := range layout.Ranks {
		names[rank] = r.hosts[place.Host].spec.Name
	}
	files, err := r.job.files(r.id, layout, func(i int) string { return r.hosts[i].spec.Name })
	if err != nil {
		return err
	}
	credit := streamCredit(layout.Size())
	p.credit = newCreditBook(layout.Size(), credit, func(rank, which int, n uint32) {
		r.hosts[layout.Ranks[rank].Host].send.Send(wire.CreditFrame(wire.StreamID(rank, which), int(n)))
	})
	if err := r.openStdin(layout); err != nil {
		return err
	}
	out, err := output.New(output.Options{
		Stdout: r.io.Stdout, Stderr: r.io.Stderr, Terminal: r.io.StdoutTerminal, StderrTerminal: r.io.StderrTerminal,
		Hosts: names, Tag: r.job.Tag, Stamp: r.job.Stamp, Fold: r.job.Fold, Color: r.io.Color, Files: files, Width: r.io.Width,
		Partial: min(64<<10, credit/2), Written: p.credit.written, Failed: r.outputFailed,
	})
	if err != nil {
		return err
	}
	p.out = out
	r.swap(out)
	r.engine = rendezvous.NewEngine(layout.Size(), nodeNames,
		func(rank int) int { return p.nodes[layout.Ranks[rank].Host] },
		func(rank int) bool { return r.m.ranks[rank].State != StateWaiting })
	r.placed.Store(p)
	return nil
}

// files are the names of the ranks' files, nil for none; host names a host.
func (j Job) files(id string, layout Layout, host func(int) string) ([]string, error) {
	if j.OutputDir == "" {
		return nil, nil
	}
	ranks := make([]output.Rank, layout.Size())
	for i, place := range layout.Ranks {
		ranks[i] = output.Rank{Host: host(place.Host), Local: place.Local, App: place.App}
	}
	return output.FileNames(j.OutputDir, id, ranks)
}

// swap puts out in the place of the merger that has written gorun's own lines until
// now. A blocked stderr holds up the job only that long.
func (r *run) swap(out *output.Merger) {
	ctx, cancel := context.WithTimeout(context.Background(), r.m.waits.flush)
	defer cancel()
	r.out.Close(ctx)
	r.out = out
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
	}, func(err error) {
		r.tell(func() { r.note("warn", fmt.Sprintf("standard input cannot be read: %v", err)) })
	})
	r.stdin = pump
	return err
}

// ignoreTTIN keeps a background job from being stopped when it reads the terminal.
func ignoreTTIN() { signal.Ignore(syscall.SIGTTIN) }

// outputFailed is called by the merger once per destination that cannot be written.
// A closed stdout or stderr ends the job, as SIGPIPE would end a program; other lost
// output is told at once and at the end.
func (r *run) outputFailed(err error, dest string) {
	if (dest == "stdout" || dest == "stderr") && errors.Is(err, syscall.EPIPE) {
		r.pipeClosed.Store(true)
		r.trouble <- func() { r.step(event{stdout: true}) }
		return
	}
	text := fmt.Sprintf("output to %s is lost: %v", dest, err)
	if r.outErr.CompareAndSwap(nil, &text) {
		r.trouble <- func() { r.say(text + "; the job goes on, and ends with exit code 125 if not by another failure") }
	}
}
