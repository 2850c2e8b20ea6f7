// Package gossip lets the hosts of a job watch each other, independently of the
// connections by which their agents are led.
//
// Every host probes others twice a second and tells what it finds (SWIM, by
// hashicorp/memberlist); so all know within some seconds which of them cannot be
// reached by any. A Watch says what has changed. It is an opinion and no more: it is
// wrong for a moment when a host was stopped or is busy, and takes it back then. What
// follows from it others decide.
//
// All that is sent is encrypted with a key of the job's own. Whoever has not that key
// can neither join nor be heard.
package gossip

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

const (
	probeInterval = 500 * time.Millisecond
	probeTimeout  = 250 * time.Millisecond
	streamTimeout = time.Second            // of a connection, and of what is said on it
	gather        = 250 * time.Millisecond // changes are told together that come within so long
	tellAllEvery  = 10 * time.Second       // a host and another tell each other all, more seldom among more than 32: a rumour may be missed
	retry         = 5 * time.Second        // between visits to a host that is dead: it may be back
	closeLimit    = time.Second            // for connections to end when a Watch is closed
)

// Config says who watches.
type Config struct {
	Node  int        // of this host, below Nodes
	Nodes int        // how many there are
	Addr  netip.Addr // to listen on; the other hosts reach it
	Key   []byte     // 32 bytes, the same for all of the job
	Most  int        // nodes that are called dead at a time: in a parted network half of all would tell of the other half

	// Changed is told which nodes have become dead, and which are alive again. It is not
	// called twice at a time, and may block for a short time only.
	Changed func(dead, alive []int)

	still bool // of a test: nobody is probed, as one machine cannot do that for hundreds of hosts
}

// Key makes a job's key of its secret.
func Key(secret []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("gorun gossip"))
	return mac.Sum(nil)
}

// Watch is one host's part. Its methods may be called from any goroutine.
type Watch struct {
	config Config
	net    *network
	list   *memberlist.Memberlist
	news   chan struct{} // capacity 1: dead may have changed
	quit   chan struct{} // closed by Close
	ended  sync.WaitGroup
	once   sync.Once

	mu   sync.Mutex
	dead map[int]string // guarded by mu; nodes that cannot be reached, with their addresses
}

// Listen opens a port of the kernel's choice, for UDP and TCP, on c.Addr.
func Listen(c Config) (*Watch, error) {
	n, err := listen(c.Addr, c.Nodes)
	if err != nil {
		return nil, err
	}
	return newWatch(c, n)
}

func newWatch(c Config, n *network) (*Watch, error) {
	w := &Watch{config: c, net: n, news: make(chan struct{}, 1), quit: make(chan struct{}), dead: map[int]string{}}
	var err error
	if w.list, err = memberlist.Create(w.settings()); err != nil {
		n.Shutdown()
		return nil, err
	}
	w.ended.Go(w.tell)
	w.ended.Go(w.revisit)
	return w, nil
}

// settings are memberlist's. Names are node numbers.
func (w *Watch) settings() *memberlist.Config {
	s := memberlist.DefaultLANConfig()
	s.Name, s.Transport, s.SecretKey = strconv.Itoa(w.config.Node), w.net, w.config.Key
	s.BindAddr, s.BindPort = w.config.Addr.String(), int(w.net.port())
	s.ProbeInterval, s.ProbeTimeout, s.TCPTimeout = probeInterval, probeTimeout, streamTimeout
	s.SuspicionMult, s.SuspicionMaxTimeoutMult = suspicion(w.config.Nodes), 1
	if w.config.still {
		s.ProbeInterval = time.Hour
	}
	// A host that finds itself slow probes more seldom; but others must not stay unwatched.
	s.AwarenessMaxMultiplier = 2
	s.PushPullInterval = tellAllEvery
	s.EnableCompression = false
	s.Logger, s.Events = log.New(io.Discard, "", 0), w
	return s
}

// suspicion is how many probe intervals a suspect has to answer for itself, in units of
// log10(nodes): all in all a host is called dead about 3.5 s after it was suspected.
func suspicion(nodes int) int {
	scale := max(1, math.Log10(float64(max(nodes, 1))))
	return max(2, int(3.5/(probeInterval.Seconds()*scale)))
}

// Port is where w listens.
func (w *Watch) Port() uint16 { return w.net.port() }

// Join makes w known to peers, one after the other: each answers with what it has learnt
// until then, so that few visits spread much. It returns nil if one of them has answered
// until ctx ended or all were asked; else why the first did not. It returns soon when w
// is closed.
func (w *Watch) Join(ctx context.Context, peers []netip.AddrPort) error {
	joined, first := false, error(nil)
	for _, p := range peers {
		if ctx.Err() != nil || w.net.ctx.Err() != nil {
			break
		}
		if _, err := w.list.Join([]string{p.String()}); err == nil {
			joined = true
		} else if first == nil {
			first = fmt.Errorf("%v: %w", p, w.net.whyNot(p, err))
		}
	}
	switch {
	case joined:
		return nil
	case first != nil:
		return first
	case len(peers) == 0:
		return errors.New("there is nobody to join")
	}
	return cmp.Or(context.Cause(ctx), context.Cause(w.net.ctx))
}

// Close ends the watch without a word to the others, and does not call Changed any
// more when it has returned. It takes no longer than closeLimit.
func (w *Watch) Close() {
	w.once.Do(func() {
		close(w.quit)
		w.list.Shutdown()
		w.net.wait(closeLimit)
	})
	w.ended.Wait()
}

// NotifyJoin, NotifyLeave and NotifyUpdate are memberlist's, which holds its locks
// meanwhile.

func (w *Watch) NotifyJoin(n *memberlist.Node) { w.note(n, false) }

func (w *Watch) NotifyLeave(n *memberlist.Node) { w.note(n, true) }

func (w *Watch) NotifyUpdate(*memberlist.Node) {}

func (w *Watch) note(n *memberlist.Node, dead bool) {
	node, err := strconv.Atoi(n.Name)
	if err != nil || node < 0 || node >= w.config.Nodes || node == w.config.Node {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if dead {
		w.dead[node] = n.Address()
	} else {
		delete(w.dead, node)
	}
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// tell calls Changed when something has changed, and what came soon after has come.
func (w *Watch) tell() {
	told := map[int]bool{}
	for {
		select {
		case <-w.news:
		case <-w.quit:
			return
		}
		select {
		case <-time.After(gather):
		case <-w.quit:
			return
		}
		if dead, alive := w.changes(told); len(dead)+len(alive) > 0 {
			w.config.Changed(dead, alive)
		}
	}
}

// changes returns what is not yet told, and notes that it is.
func (w *Watch) changes(told map[int]bool) (dead, alive []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for node := range told {
		if _, ok := w.dead[node]; !ok {
			alive = append(alive, node)
			delete(told, node)
		}
	}
	for node := range w.dead { // in no order: each host tells of others, if there are too many
		if !told[node] && len(told) < w.config.Most {
			dead = append(dead, node)
			told[node] = true
		}
	}
	return dead, alive
}

// revisit calls at dead hosts now and then. memberlist itself has nothing to do with
// these, so that two halves of a network would never learn that they are one again.
func (w *Watch) revisit() {
	t := time.NewTicker(retry)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-w.quit:
			return
		}
		if addr := w.someDead(); addr != "" {
			w.list.Join([]string{addr}) // that it fails is what one expects
		}
	}
}

// someDead returns the address of a dead host, "" if there is none.
func (w *Watch) someDead() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var addrs []string
	for _, a := range w.dead {
		addrs = append(addrs, a)
	}
	if len(addrs) == 0 {
		return ""
	}
	return addrs[rand.IntN(len(addrs))]
}
