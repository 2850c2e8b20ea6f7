package launcher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorun/launcher/transport"
)

// lostHost is a host that was reached and then lost; as an error, why.
type lostHost struct {
	host int
	why  string
}

func (l lostHost) Error() string { return l.why }

// jumpPatience is how long a jump host may take to show that it lives.
const jumpPatience = 2 * time.Second

// blame finds out which hosts were lost with a jump host in front of them. The hosts'
// goroutines must have ended.
func (r *run) blame() {
	m := r.m
	lost := append([]lostHost(nil), m.lostHosts...)
	for _, f := range m.hostFailures {
		if l, ok := errors.AsType[lostHost](f.Err); ok {
			lost = append(lost, l)
		}
	}
	var links []transport.Link
	for _, l := range lost {
		links = append(links, r.hosts[l.host].link)
	}
	ctx, cancel := context.WithTimeout(context.Background(), jumpPatience)
	defer cancel()
	r.broken = map[int]*transport.JumpError{}
	for i, e := range transport.BrokenJumps(ctx, links) {
		if e != nil {
			r.broken[lost[i].host] = e
		}
	}
	for i, f := range m.hostFailures {
		if l, ok := errors.AsType[lostHost](f.Err); ok && r.broken[l.host] != nil {
			m.hostFailures[i].Err = r.broken[l.host]
		}
	}
}

// lostTexts says which hosts were lost, and why; all that were lost with a jump host in
// one text.
func (r *run) lostTexts() (texts []string) {
	behind := map[*transport.JumpError][]string{}
	for i, h := range r.hosts {
		if e := r.broken[i]; e != nil {
			behind[e] = append(behind[e], h.spec.Name)
		}
	}
	for _, l := range r.m.lostHosts {
		name, e := r.hosts[l.host].spec.Name, r.broken[l.host]
		switch names := behind[e]; {
		case e == nil:
			texts = append(texts, name+": "+l.why)
		case len(names) == 1:
			texts = append(texts, fmt.Sprintf("%s, behind jump host %s: %v", name, e.Host, e.Err))
		case len(names) > 1:
			texts = append(texts, fmt.Sprintf("jump host %s, with %d hosts behind it (%s): %v", e.Host, len(names), someOf(names), e.Err))
			behind[e] = nil
		}
	}
	return texts
}
