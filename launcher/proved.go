package launcher

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"gorun/envsync"
	"gorun/launcher/output"
	"gorun/launcher/wire"
)

// proved takes over what a host has read back from its ranks' processes.
func (r *run) proved(h *host, m *wire.Proof) {
	if r.proof == nil || !r.m.live(h.index) {
		return
	}
	r.tellAlone(h, m.Settled)
	var fatal []EnvDifference
	for _, d := range r.proof.take(h.index, m) {
		r.complete(&d)
		lines := d.Lines()
		r.record(Event{Event: "environment_differs", Text: d.Headline(), Message: lines})
		if d.Fatal {
			fatal = append(fatal, d)
			continue
		}
		r.note("warn", d.Headline())
		for _, line := range lines {
			r.note("info", "  "+line)
		}
	}
	if fatal != nil {
		r.step(event{differs: fatal})
	}
	if r.proof.complete() {
		r.tellProof()
	}
}

// tellAlone warns once of ranks that will not find each other, if they mean to by Open MPI,
// which may have come by a wrapper or a module of Python's. It may be there for something
// else, so that it ends no job.
func (r *run) tellAlone(h *host, seen []wire.Settled) {
	for _, s := range seen {
		if len(s.MPI) > 0 && !r.proof.alone {
			r.proof.alone = true
			r.note("warn", fmt.Sprintf("rank %d on %s has loaded %s, of Open MPI, which gorun does not serve: if it calls MPI_Init, each rank is rank 0 of 1; "+
				"build it with MPICH, or start it by Open MPI's mpirun; --pmi none says that it is meant so", s.Ranks[0], h.spec.Name, output.Clean(path.Base(string(s.MPI)))))
		}
	}
}

// complete adds to a difference what an agent does not tell: the planned values, and
// names of hosts. Text of others is cleaned.
func (r *run) complete(d *EnvDifference) {
	for i := range d.Values {
		v := &d.Values[i]
		if v.Planned {
			v.Value, v.Set = r.plannedValue(d.Name, v.Ranks[0])
		}
		if envsync.Hidden(d.Name) {
			v.Value = ""
		}
		hosts := map[int]bool{}
		for _, rank := range v.Ranks {
			hosts[r.m.layout.Ranks[rank].Host] = true
		}
		for _, host := range slices.Sorted(maps.Keys(hosts)) {
			v.Hosts = append(v.Hosts, r.m.hosts[host].name)
		}
		v.Value = strings.ToValidUTF8(v.Value, "\ufffd")
	}
	for i := range r.proof.differences {
		if r.proof.differences[i].Name == d.Name {
			r.proof.differences[i] = *d
		}
	}
}

// plannedValue is what a rank was given for name, as far as the head decides.
func (r *run) plannedValue(name string, rank int) (value string, set bool) {
	place := r.m.layout.Ranks[rank]
	var vars []envsync.Var
	if slices.Contains(r.lacked[name], place.Host) {
		vars = r.planner.lack(rank)
	}
	vars = slices.Concat(vars, r.env.job, r.env.hosts[r.m.hosts[place.Host].name], r.env.apps[place.App], r.planner.rankEnv(rank))
	for _, v := range slices.Backward(vars) {
		if v.Name == name {
			return v.Value[:min(len(v.Value), wire.MaxValue)], true
		}
	}
	return "", false
}

// tellProof says what was read back, in one line, and what is alike but not as given.
func (r *run) tellProof() {
	r.proof.summed = true
	e := r.proof.environment()
	line := fmt.Sprintf("environment proven in %d of %s", e.Proven, count(len(r.proof.ranks), "rank"))
	if e.Digest != "" {
		line += ", digest " + e.Digest
	}
	if e.Unreadable > 0 {
		line += fmt.Sprintf("; %d cannot be read", e.Unreadable)
	}
	r.note("info", line)
	if len(e.Changed) > 0 {
		r.note("info", "changed alike in all ranks by what starts the program: "+someOf(e.Changed))
	}
	for _, l := range e.Libraries {
		r.note("info", fmt.Sprintf("libnccl in ranks %s: %s", spans(l.Ranks), output.Clean(l.text())))
	}
	r.record(Event{Event: "environment", Proven: &e.Proven, NotProven: &e.NotProven, Digest: e.Digest, Text: line})
}

// Headline says in one line what differs.
func (d EnvDifference) Headline() string {
	rare, common := d.Values[0], d.Values[len(d.Values)-1]
	more := ""
	if n := len(d.Values) - 2; n > 0 {
		more = fmt.Sprintf(", and %s", count(n, "other value"))
	}
	return fmt.Sprintf("%s differs between ranks: %s in %s, %s in %s%s", d.Name, rare.text(d.Name), rare.who(), common.text(d.Name), common.who(), more)
}

// maxLines bounds the values that are told of a variable.
const maxLines = 16

// Lines says who has which value, a line for each.
func (d EnvDifference) Lines() []string {
	var out []string
	for i, v := range d.Values {
		if i == maxLines && len(d.Values) > maxLines+1 {
			out = append(out, fmt.Sprintf("and %d more values; --result FILE keeps all", len(d.Values)-i))
			break
		}
		line := fmt.Sprintf("%s: %s", v.who(), d.line(v))
		if v.Planned && !v.untouched(d.Name) {
			line += " (as gorun gave it)"
		}
		out = append(out, line)
	}
	return out
}

func (d EnvDifference) line(v EnvValue) string {
	if !v.Set {
		return d.Name + " " + v.text(d.Name)
	}
	return envsync.Show(envsync.Var{Name: d.Name, Value: v.Value})
}

// text is the value for people.
func (v EnvValue) text(name string) string {
	switch {
	case v.untouched(name):
		return "as the host has it"
	case !v.Set:
		return "not set"
	}
	_, text, _ := strings.Cut(envsync.Show(envsync.Var{Name: name, Value: v.Value}), "=")
	return text
}

// untouched reports whether it is what the host's own environment has, or has not.
func (v EnvValue) untouched(name string) bool {
	return v.Planned && !v.Set && !strings.HasPrefix(name, "NCCL_")
}

// who names the ranks that have the value, and their hosts.
func (v EnvValue) who() string {
	noun := "ranks"
	if len(v.Ranks) == 1 {
		noun = "rank"
	}
	return fmt.Sprintf("%s %s on %s", noun, spans(v.Ranks), someOf(v.Hosts))
}

// checkProof refuses what cannot be true of a host's ranks.
func checkProof(p *placement, host int, m *wire.Proof) error {
	seen := map[int]bool{}
	once := func(ranks []int) error {
		for _, rank := range ranks {
			if !p.has(host, rank) || seen[rank] {
				return fmt.Errorf("it reads the environment of rank %d, which is not there, or twice", rank)
			}
			seen[rank] = true
		}
		return nil
	}
	for _, s := range m.Settled {
		if len(s.Changes) > wire.MaxChanges || len(s.Ranks) == 0 || s.More < 0 || len(s.Version) > maxVersion || len(s.MPI) > maxLog || len(s.Build) > maxBuild {
			return errors.New("it reads what cannot be of its ranks' environments")
		}
		for _, c := range s.Changes {
			if len(c.Name) > wire.MaxName || len(c.Value) > wire.MaxValue || strings.ContainsFunc(c.Name, notInName) {
				return errors.New("it reads what no variable can be")
			}
		}
		if err := once(s.Ranks); err != nil {
			return err
		}
	}
	return once(m.Refused)
}

// notInName reports what is not in the names that agents look at.
func notInName(r rune) bool {
	return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}
