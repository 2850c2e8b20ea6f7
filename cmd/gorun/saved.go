package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"gorun/envsync"
	"gorun/launcher"
	"gorun/preflight"
	"gorun/preflight/facts"
)

// savedFacts is what --save-facts writes and --facts reads. Names are only ever added to
// a version.
type savedFacts struct {
	Version int             `json:"version"`
	Gorun   string          `json:"gorun"`
	Taken   time.Time       `json:"taken"`
	Input   preflight.Input `json:"input"`
	Shape   preflight.Shape `json:"shape"`
}

const savedVersion = 1

// maxSaved is the largest file of facts that is read: 100 KiB for each of 10,000 hosts.
const maxSaved = 1 << 30

func saveFacts(name string, p page) error {
	s := savedFacts{Version: savedVersion, Gorun: ownVersion(), Taken: p.taken, Input: p.in, Shape: p.shape}
	s.Input.Hosts = slices.Clone(p.in.Hosts)
	for i := range s.Input.Hosts {
		hideSecrets(&s.Input.Hosts[i])
	}
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return writeFile(name, append(text, '\n'))
}

// hideSecrets hides what looks secret in what a host has told. It changes only what h itself
// has.
func hideSecrets(h *preflight.Host) {
	settings := make(map[string]string, len(h.Settings))
	for name, value := range h.Settings {
		if envsync.Hidden(name) {
			value = "<hidden>"
		}
		settings[name] = value
	}
	h.Settings = settings
	hideInFacts(&h.Facts)
}

// hideInFacts hides what looks secret in facts. What they share with others stays as it is.
func hideInFacts(f *facts.Host) {
	f.System.Cmdline = hiddenIn(f.System.Cmdline)
	f.Session = envsync.HideArgs(f.Session)
	f.Conf, f.Programs = slices.Clone(f.Conf), slices.Clone(f.Programs)
	for i := range f.Conf {
		f.Conf[i].Set = envsync.HideArgs(f.Conf[i].Set)
	}
	for i := range f.Programs {
		f.Programs[i].Arg = envsync.Conceal(f.Programs[i].Arg)
	}
	f.GPU.Devices = slices.Clone(f.GPU.Devices)
	for i := range f.GPU.Devices {
		d := &f.GPU.Devices[i]
		d.Users = slices.Clone(d.Users)
		for k := range d.Users {
			d.Users[k].Name = hiddenIn(d.Users[k].Name)
		}
	}
}

// hiddenIn is a command line with its secrets hidden.
func hiddenIn(line string) string {
	words := strings.Fields(line)
	hidden := envsync.HideArgs(words)
	if slices.Equal(words, hidden) {
		return line
	}
	return strings.Join(hidden, " ")
}

// loadFacts reads what --save-facts has written. Its error is a *usageError.
func loadFacts(name string) (s savedFacts, err error) {
	data, _, err := readRegular(name, maxSaved)
	if err == nil {
		s, err = parseFacts(data)
	}
	if err == nil {
		return s, nil
	}
	at := shellQuote(name)
	if e, ok := errors.AsType[*jsonError](err); ok {
		at = fmt.Sprintf("%s:%d", at, e.line)
	} else if e, ok := errors.AsType[*os.PathError](err); ok {
		err = e.Err
	}
	return s, &usageError{fmt.Sprintf("--facts %s: %v", at, err), []string{"such files are written by --preflight-only --save-facts FILE"}}
}

// parseFacts reads the text of a file of facts.
func parseFacts(data []byte) (s savedFacts, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return s, errors.New("it is empty")
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, notJSON(data, err)
	}
	switch {
	case len(s.Input.Hosts) == 0:
		return s, errors.New("no facts of hosts are in it")
	case s.Version < 1:
		return s, fmt.Errorf("it is of version %d, which there is not", s.Version)
	case s.Version > savedVersion:
		return s, fmt.Errorf("it is of version %d, and this gorun knows up to %d", s.Version, savedVersion)
	}
	for i := range s.Input.Hosts {
		hideSecrets(&s.Input.Hosts[i])
	}
	return s, s.check()
}

// maxHosts is how many hosts a file of facts may have: ten times as many as have been tried.
const maxHosts = 10000

// check finds what a file cannot say.
func (s *savedFacts) check() error {
	if err := s.checkShape(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, h := range s.Input.Hosts {
		switch {
		case h.Name == "":
			return fmt.Errorf("host %d has no name", i+1)
		case seen[h.Name]:
			return fmt.Errorf("the host %q is in it twice", h.Name)
		case h.Ranks < 0 || h.Ranks > launcher.MaxRanks:
			return fmt.Errorf("%d ranks on %q", h.Ranks, h.Name)
		case h.Unreached == "" && h.Facts.Version > facts.Version:
			return fmt.Errorf("the facts of %q are of version %d, and this gorun knows up to %d", h.Name, h.Facts.Version, facts.Version)
		}
		seen[h.Name] = true
	}
	return nil
}

// checkShape finds numbers that no job has.
func (s *savedFacts) checkShape() error {
	n := len(s.Input.Hosts)
	if n > maxHosts {
		return fmt.Errorf("%d hosts, more than the %d that gorun judges", n, maxHosts)
	}
	if len(s.Shape.Slots) > n || len(s.Shape.Ranks) > n {
		return fmt.Errorf("slots or ranks of more hosts than the %d that are in it", n)
	}
	numbers := slices.Concat(s.Shape.Slots, s.Shape.Ranks, []int{s.Shape.Spares, s.Shape.MinHosts, s.Shape.Multiple, s.Shape.Fixed})
	for _, number := range numbers {
		if number < 0 || number > launcher.MaxRanks {
			return fmt.Errorf("%d slots, ranks or hosts", number)
		}
	}
	return nil
}

// judgeSaved judges the facts of a file for what o asks.
func (o *options) judgeSaved() (page, error) {
	for _, name := range []string{"hostfile", "host", "exclude"} {
		if o.preflight.saidHere(o, name) {
			return page{}, &usageError{fmt.Sprintf("--facts and %s exclude each other", o.typedFlag(name)), []string{"the hosts are those of the file"}}
		}
	}
	s, err := loadFacts(o.preflight.facts)
	if err != nil {
		return page{}, err
	}
	return o.judgeFacts(s)
}

// judgeFacts judges saved facts for what o asks.
func (o *options) judgeFacts(s savedFacts) (page, error) {
	p := o.preflight
	s.Input.Limits, s.Input.Strict = o.config.limits(), p.strict
	if p.mode != "" {
		s.Input.Mode = p.mode
	} else if s.Input.Mode != preflight.Full {
		s.Input.Mode = preflight.Quick
	}
	s.Shape.Drop, s.Shape.MinHosts = p.drops(), p.minHosts
	if p.spares > 0 {
		s.Shape.Spares = p.spares
	}
	if n := o.ranks(); n > 0 {
		if err := o.replan(&s, n); err != nil {
			return page{}, err
		}
	}
	if m := meshOf(o.mesh); m != nil {
		s.Shape.Multiple = m.Multiple()
	}
	pg := judged(s.Input, s.Shape)
	pg.places, pg.remarks = o.arrangeSaved(pg)
	pg.taken, pg.command = s.Taken, o.typed
	return pg, nil
}

// replan lays so many ranks out over saved hosts, in the place of what the file says.
func (o *options) replan(s *savedFacts, ranks int) error {
	s.Shape.Fixed, s.Shape.Multiple, s.Shape.Ranks = ranks, 0, nil
	n := len(s.Input.Hosts)
	if len(s.Shape.Slots) != n {
		return nil
	}
	offers := make([]launcher.Offer, n)
	for i, slots := range s.Shape.Slots {
		offers[i] = launcher.Offer{Name: s.Input.Hosts[i].Name, Slots: slots, Limit: slots, Origin: "--facts"}
	}
	job := launcher.Job{Apps: []launcher.App{{NP: ranks}}, PerHost: o.ppn, Oversubscribe: o.oversubscribe, MapBy: o.mapBy.by}
	layout, err := job.Place(offers[:n-min(s.Shape.Spares, n-1)])
	if err != nil {
		return err
	}
	s.Shape.Ranks, s.Input.Job.Ranks = make([]int, n), ranks
	copy(s.Shape.Ranks, layout.Count)
	for i := range s.Input.Hosts {
		h := &s.Input.Hosts[i]
		if h.Ranks != s.Shape.Ranks[i] {
			h.Ranks, h.GPUs = s.Shape.Ranks[i], usedGPUs(h.Facts, s.Shape.Ranks[i], nil)
		}
	}
	return nil
}
