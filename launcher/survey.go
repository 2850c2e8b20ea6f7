package launcher

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"gorun/envsync"
	"gorun/hostfile"
	"gorun/launcher/wire"
)

// limit is how long a host has to tell its facts.
func (p *Preflight) limit() time.Duration { return cmp.Or(p.Limit, DefaultExamineLimit) }

// examination is the loop's part of a preflight.
type examination struct {
	secret   []byte // of the probes
	began    time.Time
	settings []map[string]string // by host
	cancel   context.CancelFunc  // of Judge; nil: it was not called
	patience *alarm
	excluded []Excluded
}

// answers is what a host has told in a preflight.
type answers struct {
	asked             time.Time // when Examine was sent; zero: it was not
	offset, uncertain time.Duration
	facts             []byte
	links             [][]byte
	addr              netip.Addr // where others are to reach it
	port              uint16     // where it listens for their probes; 0: it does not

	probes atomic.Int32 // Probed that are to come
	size   int          // of its facts so far; owned by serve
	whole  bool         // they have come; owned by serve
	linked int          // bytes of its links so far; owned by serve
}

// newExamination is nil for a job without a preflight.
func newExamination(p *Preflight) *examination {
	if p == nil {
		return nil
	}
	e := &examination{secret: make([]byte, 32), patience: newAlarm()}
	rand.Read(e.secret)
	return e
}

// examine asks a host that comes up for its facts.
func (r *run) examine(h *host) {
	p := r.job.Preflight
	if p == nil || r.m.stopping {
		return
	}
	h.answers.asked = time.Now()
	order, ok := p.Orders[h.spec.Name]
	if !ok {
		order = p.Order
	}
	// A host answers with what it has before it is given up.
	h.send.SendMessage(wire.Message{Examine: &wire.Examine{Order: order, Within: p.limit() - p.limit()/8}})
}

// checkAnswer refuses what no agent may say in a preflight.
func (r *run) checkAnswer(h *host, m wire.Message) error {
	a := &h.answers
	switch {
	case r.job.Preflight == nil:
		return errors.New("it answers what nobody has asked")
	case m.Clock != nil && h.once("clock"):
		return nil
	case m.Probing != nil && h.once("probing"):
		return checkReason(m.Probing.Failure)
	case m.Facts != nil && !a.whole:
		a.whole = !m.Facts.More
		if a.size += len(m.Facts.Part); a.size > wire.MaxFacts {
			return fmt.Errorf("it tells %d bytes of facts", a.size)
		}
		return checkReason(m.Facts.Failure)
	case m.Probed != nil && a.probes.Add(-1) >= 0:
		if a.linked += len(m.Probed.Result); a.linked > wire.MaxFacts {
			return fmt.Errorf("it tells %d bytes of its links", a.linked)
		}
		if !json.Valid(m.Probed.Result) {
			return errors.New("what it tells of its links is no JSON")
		}
		return nil
	}
	return errors.New("it answers twice")
}

func checkReason(text string) error {
	if len(text) > maxLog {
		return fmt.Errorf("a reason of %d bytes", len(text))
	}
	return nil
}

// ofPreflight reports whether a host answers what a preflight asks.
func ofPreflight(m wire.Message) bool {
	return m.Clock != nil || m.Facts != nil || m.Probing != nil || m.Probed != nil
}

// answered takes an answer, which came at the time given.
func (r *run) answered(h *host, m wire.Message, at time.Time) {
	a := &h.answers
	switch {
	case m.Clock != nil:
		trip := at.Sub(a.asked)
		a.offset, a.uncertain = m.Clock.At.Sub(a.asked.Add(trip/2).Round(0)), max(trip/2, 1)
		return
	case m.Facts != nil:
		if a.facts = append(a.facts, m.Facts.Part...); m.Facts.More {
			return
		}
		r.step(event{host: h.index, told: &facts{a.check(m.Facts.Failure)}})
	case m.Probing != nil:
		if a.port = m.Probing.Port; a.port == 0 {
			r.note("info", h.spec.Name+": cannot listen for probes: "+m.Probing.Failure)
		}
		r.step(event{host: h.index, probing: m.Probing})
	case m.Probed != nil:
		a.links = append(a.links, m.Probed.Result)
		r.step(event{host: h.index, probed: true})
	}
}

// check looks at facts that are whole, and says why they are of no use, if so.
func (a *answers) check(failure string) error {
	if failure == "" && json.Valid(a.facts) {
		return nil
	}
	a.facts = nil
	return fmt.Errorf("reached, but its agent cannot tell what the host is like: %s", cmp.Or(failure, "what it says is no JSON"))
}

// beginSurvey chooses the addresses by which hosts are to reach each other, and has those
// that have one listen there.
func (r *run) beginSurvey() {
	r.exam.began = time.Now()
	asked := []int{}
	for i, addr := range r.probeAddrs() {
		h := r.hosts[i]
		if h.answers.addr = addr; addr.IsValid() {
			h.send.SendMessage(wire.Message{Listen: &wire.Listen{Host: i, Addr: addr, Secret: r.exam.secret}})
			asked = append(asked, i)
		}
	}
	r.step(event{listening: asked})
}

// probeAddrs chooses an address for each host as if all had ranks. A host alone has none.
func (r *run) probeAddrs() []netip.Addr {
	var peers []peer
	all := Layout{Count: make([]int, len(r.hosts))}
	spec := r.env.lookup("NCCL_SOCKET_IFNAME")
	r.exam.settings = make([]map[string]string, len(r.hosts))
	for i, h := range r.hosts {
		p := peer{name: h.spec.Name, hello: h.hello}
		if r.m.counts(i) {
			all.Ranks, all.Count[i] = append(all.Ranks, Place{Host: i}), 1
			r.exam.settings[i] = r.settingsOf(h)
			p.local = h.local()
			if name := r.exam.settings[i]["NCCL_SOCKET_IFNAME"]; name != spec {
				p.ifname = name
			}
		}
		peers = append(peers, p)
	}
	addrs := make([]netip.Addr, len(peers))
	if all.Size() < 2 {
		return addrs
	}
	s, _ := survey(peers, all, r.job.Interface, spec) // a host without an address is told as such
	for i, text := range s.addrs {
		if a, err := netip.ParseAddr(text); err == nil {
			addrs[i] = a
		}
	}
	return addrs
}

// settingsOf are the NCCL settings that ranks on a host would get, if it were the only one.
func (r *run) settingsOf(h *host) map[string]string {
	name := h.spec.Name
	found, _ := r.found(h)
	decided := r.env.decided()
	own := envsync.Reconcile([]envsync.Found{found}, r.job.Rigor, func(_ int, v string) (string, bool) { return decided(name, v) }, func([]int) string { return name })
	out := map[string]string{}
	for _, vars := range append([][]envsync.Var{own.Job, own.Hosts[0], r.env.job, r.env.hosts[name]}, r.env.apps...) {
		for _, v := range vars {
			if strings.HasPrefix(v.Name, "NCCL_") && v.Name != confFile {
				out[v.Name] = v.Value
			}
		}
	}
	return out
}

// What is measured of links. In a full preflight a host streams to all others together
// for so long, or so much: where many hosts share a CPU, as virtual ones do, the latter.
const (
	pings       = 3
	streamTime  = 2 * time.Second
	longStream  = 100 * time.Millisecond
	shortStream = 10 * time.Millisecond
	streamBytes = 32 << 20
)

// probe has h probe others.
func (r *run) probe(h *host, others []int) {
	limit := r.m.waits.probe
	p := &wire.Probe{Within: limit - limit/4, Pings: pings, MTU: true}
	if r.job.Preflight.Full {
		n := len(r.hosts)
		p.Bytes = streamBytes / int64(n)
		p.Bandwidth = min(max(streamTime/time.Duration(n), shortStream), longStream)
	}
	for _, o := range others {
		a := &r.hosts[o].answers
		p.Targets = append(p.Targets, wire.Target{Host: o, Addr: netip.AddrPortFrom(a.addr, a.port)})
	}
	h.answers.probes.Add(1)
	h.send.SendMessage(wire.Message{Probe: p})
}

// surveyed gathers what the hosts have told.
func (r *run) surveyed() Survey {
	s := Survey{Took: time.Since(r.exam.began), Differ: r.differing()}
	for i, h := range r.hosts {
		a := &h.answers
		v := Surveyed{Name: h.spec.Name, Err: r.m.inquiry.hosts[i].err, Addr: a.addr, Facts: a.facts, Offset: a.offset, Uncertain: a.uncertain, Settings: r.exam.settings[i]}
		if a.links != nil {
			v.Links = slices.Concat([]byte("["), bytes.Join(a.links, []byte(",")), []byte("]"))
		}
		v.Offer = h.offer()
		s.Hosts = append(s.Hosts, v)
	}
	return s
}

// differing is the Survey's Differ: what it needs of the run is read now.
func (r *run) differing() func(hosts []int) error {
	found := make([]envsync.Found, len(r.hosts))
	names := make([]string, len(r.hosts))
	for i, h := range r.hosts {
		names[i] = h.spec.Name
		if r.m.counts(i) {
			found[i], _ = r.found(h)
		}
	}
	decided, rigor := r.env.decided(), r.job.Rigor
	return func(hosts []int) error {
		var own []envsync.Found
		for _, h := range hosts {
			own = append(own, found[h])
		}
		called := func(which []int) string {
			var list []string
			for _, w := range which {
				list = append(list, names[hosts[w]])
			}
			return hostfile.Fold(list)
		}
		conflicts := envsync.Reconcile(own, rigor, func(i int, name string) (string, bool) { return decided(names[hosts[i]], name) }, called).Conflicts
		if len(conflicts) == 0 {
			return nil
		}
		return settingsError(conflicts, rigor, called)
	}
}

// planRails asks between which hosts RDMA is to be tried, aside.
func (r *run) planRails() {
	s := r.surveyed()
	r.aside.Go(func() {
		rounds := r.job.Preflight.Rails(s)
		r.tell(func() { r.step(event{rails: &railPlan{rounds}}) })
	})
}

// tryRails has h try its rails to another host.
func (r *run) tryRails(h *host, o RailOrder) {
	limit := r.m.waits.rails
	a := &r.hosts[o.To].answers
	h.answers.probes.Add(1)
	h.send.SendMessage(wire.Message{Probe: &wire.Probe{
		Within: limit - limit/4, Rails: o.Rails,
		Targets: []wire.Target{{Host: o.To, Addr: netip.AddrPortFrom(a.addr, a.port)}},
	}})
}

// judge has the survey judged, aside.
func (r *run) judge() {
	s := r.surveyed()
	var ctx context.Context
	ctx, r.exam.cancel = context.WithCancel(context.Background())
	r.aside.Go(func() {
		ruling, err := r.job.Preflight.Judge(ctx, s)
		r.tell(func() { r.ruled(ruling, err) })
	})
}

// ruled carries out what Judge has said.
func (r *run) ruled(ruling Ruling, err error) {
	if r.m.stopping {
		return
	}
	use := ruling.Use
	if use == nil {
		use = []int{}
		for i := range r.hosts {
			use = append(use, i)
		}
	}
	if err == nil {
		err = r.checkRuling(use, ruling)
	}
	if err != nil {
		r.step(event{planErr: err})
		return
	}
	for _, text := range ruling.Warnings {
		r.note("warn", text)
	}
	for _, text := range ruling.Notes {
		r.note("info", text)
	}
	if !r.job.Preflight.Only {
		r.take(use, ruling)
	}
	r.step(event{ruled: use})
}

// take takes over what a ruling says of the programs, and of the hosts that are used.
func (r *run) take(use []int, ruling Ruling) {
	if ruling.NP != nil {
		r.job.Apps = slices.Clone(r.job.Apps)
		for i, n := range ruling.NP {
			r.job.Apps[i].NP = n
		}
	}
	for k, n := range ruling.Slots {
		r.hosts[use[k]].most = n
	}
	for k, d := range ruling.Domains {
		r.hosts[use[k]].spec.Domain = d
	}
	visible := make(map[string][]string, len(use))
	maps.Copy(visible, r.job.Visible)
	for k, v := range ruling.Visible {
		visible[r.hosts[use[k]].spec.Name] = v
	}
	r.job.Visible = visible
}

// checkRuling refuses a ruling by which the job cannot go on.
func (r *run) checkRuling(use []int, ruling Ruling) error {
	names := map[string]bool{}
	for _, i := range use {
		if i < 0 || i >= len(r.hosts) || names[r.hosts[i].spec.Name] {
			return fmt.Errorf("preflight rules on hosts %v of %d", use, len(r.hosts))
		}
		names[r.hosts[i].spec.Name] = true
	}
	if r.job.Preflight.Only {
		return nil
	}
	if len(use) == 0 {
		return errors.New("preflight has left no host")
	}
	if np := ruling.NP; np != nil && len(np) != len(r.job.Apps) {
		return fmt.Errorf("preflight rules on %s of %d", count(len(np), "program"), len(r.job.Apps))
	}
	for _, n := range []int{len(ruling.Slots), len(ruling.Visible), len(ruling.Domains)} {
		if n > len(use) {
			return fmt.Errorf("preflight rules on what %s of %d have", count(n, "host"), len(use))
		}
	}
	for i, a := range r.job.Apps {
		left := len(a.Hosts) == 0
		for _, h := range a.Hosts {
			left = left || names[h.Name]
		}
		if !left {
			return fmt.Errorf("preflight has left no host of those that %s may use", r.job.appName(i))
		}
	}
	return nil
}

// use has the job go on with these hosts, in this order. The others have been released.
func (r *run) use(list []int) {
	all, specs := r.hosts, r.job.Hosts[:0:0]
	r.hosts = nil
	used := map[string]bool{}
	for _, i := range list {
		h := all[i]
		h.index = len(r.hosts)
		r.hosts = append(r.hosts, h)
		specs = append(specs, h.spec)
		used[h.spec.Name] = true
	}
	if len(r.job.Hosts) > 0 { // else it is this machine
		r.job.Hosts = specs
	}
	for i, h := range all {
		if !used[h.spec.Name] {
			delete(r.env.hosts, h.spec.Name)
			x := Excluded{Name: h.spec.Name}
			if err := r.m.inquiry.hosts[i].err; err != nil {
				x.Text = err.Error()
			}
			r.exam.excluded = append(r.exam.excluded, x)
		}
	}
}

// release lets a host go that is not used. What its agent says from now on is no news.
func (r *run) release(h *host) {
	if h.index = released; !h.sweeping { // else the end of that drops it
		h.drop(r.m.waits.drop)
	}
}

// closeExamination returns when nothing of a preflight is under way but Judge, which is
// told that it is over.
func (r *run) closeExamination() {
	if r.exam == nil {
		return
	}
	if r.exam.cancel != nil {
		r.exam.cancel()
	}
	r.exam.patience.off()
	if r.m.patient() {
		r.sweeps.Wait()
	}
}

// over tells when the patience is over; never without a preflight.
func (e *examination) over() <-chan time.Time {
	if e == nil {
		return nil
	}
	return e.patience.C
}

// of has the loop call f unless h has been released by then.
func (r *run) of(h *host, f func()) {
	r.tell(func() {
		if h.index != released {
			f()
		}
	})
}
