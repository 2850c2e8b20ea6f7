package launcher

import (
	"errors"
	"fmt"

	"gorun/launcher/wire"
)

// This file refuses what no agent may say, on the hosts' goroutines: the head believes the
// rest.

// Limits of what an agent may have its user told.
const (
	maxLogs = 100
	maxLog  = 4 << 10 // bytes of one line
)

// checkMessage refuses a message that is too much, or of what is not there.
func (r *run) checkMessage(h *host, m wire.Message) error {
	p := r.placed.Load()
	at := p.at(h)
	switch {
	case m.Log != nil:
		return checkLog(h, m.Log)
	case m.Settings != nil:
		return checkSettings(m.Settings)
	case ofPreflight(m):
		return r.checkAnswer(h, m)
	case ofFiles(m):
		return r.staging.check(h, m)
	case m.Prepared != nil:
		return p.checkPrepared(at, m.Prepared)
	case m.Started != nil:
		return p.checkStarted(at, m.Started)
	case m.Proof != nil:
		return checkProof(p, at, m.Proof)
	case m.Abort != nil:
		return p.checkAbort(at, m.Abort)
	case len(m.Parted) > 0:
		return p.checkParted(at, m.Parted)
	case m.Watching != nil || m.Word != nil:
		return r.checkWatch(h, m)
	case m.Picture != nil:
		return p.checkPicture(at, m.Picture)
	case m.Exited != nil:
		return p.checkExited(at, m.Exited)
	case m.Done != nil:
		return p.checkDone(at, m.Done)
	}
	return errors.New("a message that agents do not send then")
}

func checkLog(h *host, l *wire.Log) error {
	if h.logs++; h.logs > maxLogs || len(l.Text) > maxLog {
		return fmt.Errorf("it has %d lines for the user, the last of %d bytes", h.logs, len(l.Text))
	}
	return nil
}

// checkSettings refuses settings that no host has.
func checkSettings(s *wire.Settings) error {
	if len(s.Files) > 2 || len(s.Trouble) > maxLog {
		return fmt.Errorf("it has %d files of settings, and %d bytes of trouble", len(s.Files), len(s.Trouble))
	}
	for _, f := range s.Files {
		if len(f.Path) > maxLog || len(f.Trouble) > maxLog {
			return fmt.Errorf("it has a file of settings with a path of %d bytes", len(f.Path))
		}
	}
	return nil
}

func (p *placement) checkPrepared(host int, m *wire.Prepared) error {
	for _, f := range m.Failures {
		if (f.Rank != -1 && !p.has(host, f.Rank)) || f.Code < codeOurs || f.Code > codeNotFound {
			return fmt.Errorf("it cannot prepare rank %d: code %d", f.Rank, f.Code)
		}
		if f.Twin != nil && (p == nil || *f.Twin < 0 || *f.Twin >= len(p.hosts)) {
			return fmt.Errorf("it is the same machine as node %d", *f.Twin)
		}
	}
	if err := checkLibraries(m.Libraries); err != nil {
		return err
	}
	if err := checkLacked(m.Lacked); err != nil {
		return err
	}
	if n := len(m.Unmet); n > maxUnmet {
		return fmt.Errorf("it says in %d bytes why ranks cannot meet", n)
	}
	return p.checkBindings(host, m)
}

func (p *placement) checkStarted(host int, s *wire.Started) error {
	if host < 0 || len(s.PIDs) != p.layout.Count[host] {
		return fmt.Errorf("it started %s", count(len(s.PIDs), "rank"))
	}
	return nil
}

func (p *placement) checkAbort(host int, a *wire.Abort) error {
	if !p.has(host, a.Rank) || a.At < 0 {
		return fmt.Errorf("rank %d aborts, at %v", a.Rank, a.At)
	}
	return nil
}

func (p *placement) checkParted(host int, parted []wire.Parted) error {
	for _, x := range parted {
		if !p.has(host, x.Rank) || x.At < 0 {
			return fmt.Errorf("rank %d leaves MPI, at %v", x.Rank, x.At)
		}
	}
	return nil
}

func (p *placement) checkPicture(host int, pic *wire.Picture) error {
	last := -1
	for _, s := range pic.Sights {
		switch {
		case !p.has(host, s.Rank) || s.Rank <= last:
			return fmt.Errorf("it sees rank %d, which is not there, or twice", s.Rank)
		case s.CPU < 0 || s.Threads < 0 || s.More < 0 || len(s.Conns) > wire.MaxPeers || len(s.Listens) > wire.MaxPeers || len(s.Store) > wire.MaxStores:
			return fmt.Errorf("it sees what cannot be of rank %d", s.Rank)
		}
		last = s.Rank
	}
	if pic.Took <= 0 {
		return fmt.Errorf("its look took %v", pic.Took)
	}
	return nil
}

func (p *placement) checkExited(host int, x *wire.Exited) error {
	switch {
	case !p.has(host, x.Rank):
		return fmt.Errorf("rank %d ended, which is not there", x.Rank)
	case x.Code < 0 || x.Code > 255 || x.Signal < 0 || x.Signal > 64 || x.At < 0 || x.Text != "" && x.Code == 0:
		return fmt.Errorf("rank %d ended with code %d, signal %d, at %v", x.Rank, x.Code, x.Signal, x.At)
	}
	return nil
}

func (p *placement) checkDone(host int, d *wire.Done) error {
	for _, rank := range d.Killed {
		if !p.has(host, rank) {
			return fmt.Errorf("it killed rank %d", rank)
		}
	}
	if len(d.Kept) > maxLog {
		return fmt.Errorf("it keeps a directory of %d bytes", len(d.Kept))
	}
	return nil
}
