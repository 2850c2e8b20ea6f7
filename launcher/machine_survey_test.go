package launcher

import (
	"fmt"
	"strings"
	"time"
)

// scriptJob reads NAME... [keep-going] [no-grace] [files] [preflight|full|only|drop].
func scriptJob(f []string) (Job, []string) {
	job := Job{Grace: 6 * time.Second, ConnectTimeout: 20 * time.Second, Timeout: time.Hour}
	for ; ; f = f[:len(f)-1] {
		switch f[len(f)-1] {
		case "preflight":
			job.Preflight = &Preflight{}
		case "full":
			job.Preflight = &Preflight{Full: true}
		case "rdma":
			job.Preflight = &Preflight{Full: true, Rails: func(Survey) [][]RailOrder { return nil }}
		case "only":
			job.Preflight = &Preflight{Only: true}
		case "drop":
			job.Preflight = &Preflight{Drop: true}
		case "keep-going":
			job.KeepGoing = true
		case "no-grace":
			job.Grace = 0
		case "files":
			job.Bcast = true
		default:
			return job, f
		}
	}
}

// list returns the hosts of these names; it is not nil.
func (s *scripted) list(names []string) []int {
	list := []int{}
	for _, name := range names {
		list = append(list, s.host(name))
	}
	return list
}

// rails reads rounds of A>B,C>D.
func (s *scripted) rails(f []string) *railPlan {
	p := &railPlan{}
	for _, field := range f {
		var round []RailOrder
		for pair := range strings.SplitSeq(field, ",") {
			from, to, _ := strings.Cut(pair, ">")
			round = append(round, RailOrder{From: s.host(from), To: s.host(to)})
		}
		p.rounds = append(p.rounds, round)
	}
	return p
}

// showSurvey shows what is to be done in a preflight.
func (s *scripted) showSurvey(a action) string {
	named := func(list []int) string {
		var names []string
		for _, i := range list {
			names = append(names, s.names[i])
		}
		return strings.Join(names, " ")
	}
	switch {
	case a.survey:
		return "have all listen"
	case a.probe != nil:
		return s.names[a.host] + ": probe " + named(a.probe)
	case a.planRails:
		return "plan rails"
	case a.rail != nil:
		return s.names[a.host] + ": try rails to " + s.names[a.rail.To]
	case a.judge:
		text := "judge"
		for i, h := range s.m.inquiry.hosts {
			if h.err != nil {
				text += fmt.Sprintf(", %s: %v", s.names[i], h.err)
			}
		}
		return text
	case a.release:
		return s.names[a.host] + ": release"
	case a.patience == never:
		return "patient"
	case a.patience != 0:
		return "patience for " + a.patience.String()
	}
	text := "use " + named(a.use)
	s.names = strings.Fields(named(a.use))
	return text
}
