package launcher

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// Picture is what the ranks were seen doing at one moment of a job.
type Picture struct {
	When     string        `json:"when"`  // "at the timeout of 2h0m0s"
	At       time.Duration `json:"at_ns"` // since the ranks were started
	Headline string        `json:"headline"`
	Ranks    []RankPicture `json:"ranks"`
	Store    []string      `json:"store,omitempty"`  // what ranks wait for there, and who is missing
	Silent   []string      `json:"silent,omitempty"` // hosts that did not answer in time
}

// What a rank can be doing.
const (
	doingWork    = "working" // it uses CPU time, or has just printed
	doingSleep   = "sleeping"
	doingStopped = "stopped" // by a signal, or by a debugger
	doingStuck   = "stuck"   // in the kernel, where no signal reaches it
	doingStarved = "starved" // ready to run, but it gets no CPU time
	doingEnded   = "ended"
	doingUnknown = "unknown" // its host is lost, or did not answer
)

// RankPicture is one rank of a Picture. But for the first three fields and the output
// all is empty of a rank that has ended or is unknown.
type RankPicture struct {
	Rank      int      `json:"rank"`
	Host      string   `json:"host"`
	Doing     string   `json:"doing"`
	Text      string   `json:"text,omitempty"` // how it ended, or why nothing is known
	PID       int      `json:"pid,omitempty"`  // of the process that tells most, as the next are
	Program   string   `json:"program,omitempty"`
	State     string   `json:"state,omitempty"`
	Call      string   `json:"call,omitempty"` // system call in which it waits
	File      string   `json:"file,omitempty"` // what that is about
	Channel   string   `json:"wait_channel,omitempty"`
	Processes int      `json:"processes,omitempty"`
	Threads   int      `json:"threads,omitempty"`
	CPU       int      `json:"cpu_percent"` // of one CPU, between two looks
	Store     []string `json:"store,omitempty"`
	Listens   []string `json:"listens,omitempty"`
	Peers     []string `json:"peers,omitempty"`
	WaitsFor  []int    `json:"waits_for,omitempty"` // ranks, as far as that can be told; the first of many
	LastLine  string   `json:"last_line,omitempty"`
	// OutputAge is how long ago the rank printed something; -1: it never has.
	OutputAge time.Duration `json:"output_age_ns"`

	links  []link // its connections
	more   int    // connections of which nothing is known
	met    bool   // it has a connection to the place where ranks meet
	unmet  bool   // it has none
	wanted []int  // what it waits for in the store, by index in the scene's
}

// scene is all that is known when the ranks have been looked at.
type scene struct {
	when   string
	at     time.Duration // since the ranks' start
	limit  time.Duration // of the look
	hosts  []sceneHost
	ranks  []sceneRank
	wanted []rendezvous.Wanted
	meet   uint16 // port of rank 0's at which PyTorch's ranks meet; 0: not known
}

type sceneHost struct {
	name   string
	addrs  []netip.Addr
	silent bool // it was asked and has not answered
	begins bool // it has not started all of its ranks
}

type sceneRank struct {
	host  int
	end   RankResult  // its State is waiting while it runs
	sight *wire.Sight // nil: none has come
	took  time.Duration
	line  string        // the last that it printed
	age   time.Duration // of it; -1: none
	fresh bool          // it has printed since the look began
}

// Shares of a CPU, in percent.
const (
	busyCPU  = 10 // a rank that uses so much works, and does not only look now and then
	quietCPU = 2  // so little does a rank use that hangs in the kernel
)

// paint makes a picture of a scene.
func paint(sc *scene) *Picture {
	p := &Picture{When: sc.when, At: sc.at}
	net := newNetwork(sc)
	for i := range sc.ranks {
		p.Ranks = append(p.Ranks, sc.rank(i, net))
	}
	for i := range p.Ranks {
		p.Ranks[i].Peers = group{i}.connections(p.Ranks)
	}
	for _, w := range sc.wanted[:min(len(sc.wanted), maxWanted)] {
		p.Store = append(p.Store, w.Text)
	}
	for _, h := range sc.hosts {
		if h.silent {
			p.Silent = append(p.Silent, h.name)
		}
	}
	p.Headline = headline(p.Ranks, sc.wanted)
	return p
}

// maxWanted bounds what is told of the store.
const maxWanted = 8

// rank paints one rank.
func (sc *scene) rank(n int, net *network) RankPicture {
	r := sc.ranks[n]
	p := RankPicture{Rank: n, Host: sc.hosts[r.host].name, LastLine: r.line, OutputAge: r.age}
	if r.end.State != StateWaiting || r.sight == nil {
		p.Doing, p.Text = sc.unseen(r)
		return p
	}
	s := r.sight
	p.PID, p.Program, p.State, p.Call, p.File, p.Channel = s.PID, s.Name, s.State, s.Call, s.File, s.Channel
	p.Processes, p.Threads = s.Processes, s.Threads
	p.CPU = int((100*s.CPU + r.took/2) / r.took)
	p.Doing = doing(s.State, p.CPU, r.fresh)
	if p.Doing == doingStarved && len(s.Store) > 0 {
		p.Doing = doingSleep // the store knows better
	}
	for _, w := range s.Store {
		p.Store = append(p.Store, fmt.Sprintf("%s %s for %s", w.Op, w.Name, age(w.For)))
	}
	for _, l := range s.Listens {
		p.Listens = append(p.Listens, listenText(l))
	}
	p.links, p.more = net.links(n, s), s.More
	p.met = slices.ContainsFunc(p.links, func(l link) bool { return l.meets })
	p.unmet = !p.met && p.more == 0 && !s.Partial
	if p.Doing == doingSleep {
		for _, w := range s.Store {
			if i := slices.IndexFunc(sc.wanted, func(x rendezvous.Wanted) bool { return x.Op == w.Op && x.Name == w.Name }); i >= 0 {
				p.wanted = append(p.wanted, i)
			}
		}
		p.WaitsFor = sc.waitsFor(&p)
	}
	return p
}

func doing(state string, cpu int, fresh bool) string {
	switch {
	case state == "T" || state == "t":
		return doingStopped
	case cpu >= busyCPU || fresh:
		return doingWork
	case state == "D" && cpu <= quietCPU:
		return doingStuck
	case state == "R" && cpu <= quietCPU:
		return doingStarved
	}
	return doingSleep
}

// unseen says what is known of a rank of which no process was seen.
func (sc *scene) unseen(r sceneRank) (doing, text string) {
	switch e := r.end; {
	case e.State == StateLost:
		return doingUnknown, "lost with the host"
	case e.State == StateWaiting && sc.hosts[r.host].silent:
		return doingUnknown, "the host does not answer"
	case e.State == StateWaiting && sc.hosts[r.host].begins:
		return doingUnknown, "not started yet"
	case e.State == StateWaiting:
		return doingUnknown, "the host tells nothing"
	case e.Text != "":
		return doingEnded, "could not be started"
	case e.Signal != 0:
		return doingEnded, "killed by " + signalName(syscall.Signal(e.Signal))
	default:
		return doingEnded, fmt.Sprintf("exited with code %d", e.Code)
	}
}

// maxWaitsFor bounds of how many ranks is told that a rank waits for them.
const maxWaitsFor = 16

// waitsFor lists the ranks for which p waits, as far as the store and its connections
// tell: no more than there is room for.
func (sc *scene) waitsFor(p *RankPicture) []int {
	var out []int
	for _, i := range p.wanted {
		from := sc.wanted[i].From
		out = append(out, from[:min(len(from), maxWaitsFor)]...)
	}
	for _, l := range p.links {
		if l.blocks() {
			out = append(out, l.ranks[:min(len(l.ranks), maxWaitsFor)]...)
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxWaitsFor)]
}
