package main

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"gorun/launcher/wire"
)

// beat is the time between an agent's heartbeats.
const beat = 2 * time.Second

// host is one host: a connection, and the agent on it.
type host struct {
	addr  netip.Addr
	conn  net.Conn
	lines int
	dies  bool // drops the connection instead of starting its ranks
	waits bool // its ranks run until they are stopped
}

// serve is the ssh server. A stream that breaks off ends it without a word: that
// is gorun's to report.
func (h *host) serve(config *ssh.ServerConfig) {
	defer h.conn.Close()
	conn, channels, requests, err := ssh.NewServerConn(h.conn, config)
	if err != nil {
		return
	}
	defer conn.Close()
	go ssh.DiscardRequests(requests)
	for c := range channels {
		if c.ChannelType() != "session" {
			c.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go h.session(channel, requests)
	}
}

// session runs one command: gorun's agent, or its sweep, which finds nothing.
func (h *host) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for req := range requests {
		req.Reply(req.Type == "exec", nil)
		if req.Type != "exec" {
			continue
		}
		var exec struct{ Command string }
		if ssh.Unmarshal(req.Payload, &exec) != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		if _, nonce, ok := strings.Cut(exec.Command, ` agent `); ok && !strings.Contains(nonce, " ") {
			a := agent{host: h, r: wire.NewReader(channel, wire.MaxMessage), credit: map[uint32]int{}}
			io.WriteString(channel, wire.Hail(nonce)+"\n")
			a.out = wire.NewSender(channel)
			a.run()
			a.out.Close()
		}
		channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{0}))
		return
	}
}

// agent speaks gorun's protocol for made-up ranks.
type agent struct {
	host  *host
	r     *wire.Reader
	out   *wire.Sender
	plan  *wire.Plan
	began time.Time

	mu     sync.Mutex
	more   sync.Cond      // credit has come, or the agent ends
	credit map[uint32]int // guarded by mu; by stream
	ended  bool           // guarded by mu
}

// run follows one job to its end.
func (a *agent) run() {
	a.more.L = &a.mu
	beats := time.NewTicker(beat)
	defer beats.Stop()
	done := make(chan struct{})
	var ranks sync.WaitGroup
	defer ranks.Wait()
	defer a.end()
	defer close(done)
	ranks.Go(func() {
		for {
			select {
			case <-beats.C:
				a.out.Send(wire.Frame{Kind: wire.Heartbeat})
			case <-done:
				return
			}
		}
	})
	a.hello()
	for {
		f, err := a.r.Read()
		if err != nil {
			return
		}
		switch f.Kind {
		case wire.Credit:
			a.grant(f.Stream, wire.CreditOf(f))
		case wire.Control:
			m, err := wire.Decode(f)
			if err != nil || !a.message(m, &ranks) {
				return
			}
		}
	}
}

func (a *agent) send(m wire.Message) { a.out.SendMessage(m) }

func (a *agent) hello() {
	addr := a.host.addr.String()
	// No loopback address is taken for one that others reach: the name of the interface is
	// what counts for a made-up network.
	a.send(wire.Message{Hello: &wire.Hello{
		PID: 1, Cores: 1, Port: 20000, Hostname: addr, BootID: addr,
		Interfaces: []wire.Interface{{Name: "eth0", Addrs: []string{"10" + strings.TrimPrefix(addr, "127")}}},
	}})
}

// message reports whether the agent goes on.
func (a *agent) message(m wire.Message, ranks *sync.WaitGroup) bool {
	switch {
	case m.Plan != nil:
		a.plan = m.Plan
		a.send(wire.Message{Prepared: &wire.Prepared{}})
	case m.Start != nil && a.host.dies:
		a.host.conn.Close()
		return false
	case m.Start != nil:
		a.began = time.Now()
		a.send(wire.Message{Started: &wire.Started{PIDs: make([]int, len(a.plan.Ranks))}})
		if !a.host.waits {
			for _, r := range a.plan.Ranks {
				ranks.Go(func() { a.rank(r.Rank) })
			}
		}
	case m.Watch != nil: // made-up hosts are well, and say so
		a.send(wire.Message{Watching: &wire.Watching{Port: 1, Joined: len(m.Watch.Peers) > 0}})
	case m.Stop != nil:
		if a.host.waits && a.plan != nil {
			for _, r := range a.plan.Ranks {
				a.exit(wire.Exited{Rank: r.Rank, Signal: int(syscall.SIGTERM), ByStop: true, At: time.Since(a.began)})
			}
		}
		a.send(wire.Message{Done: &wire.Done{}}) // gorun stops agents when their ranks have ended
		return false
	}
	return true
}

var line = []byte(strings.Repeat("x", 63) + "\n")

// rank prints its lines and ends.
func (a *agent) rank(rank int) {
	text := []byte(strings.Repeat(string(line), min(a.host.lines, wire.MaxPayload/len(line))))
	for left := a.host.lines * len(line); left > 0; {
		n := a.take(wire.StreamID(rank, wire.Out), min(left, len(text)))
		if n == 0 {
			return
		}
		a.out.SendBulk(wire.Frame{Kind: wire.Output, Stream: wire.StreamID(rank, wire.Out), Payload: text[:n]})
		left -= n
	}
	a.exit(wire.Exited{Rank: rank, At: time.Since(a.began)})
}

func (a *agent) exit(x wire.Exited) {
	a.send(wire.Message{Exited: &x})
	for _, which := range []int{wire.Out, wire.Err} {
		a.out.SendBulk(wire.Frame{Kind: wire.Output, Stream: wire.StreamID(x.Rank, which)})
	}
}

// take waits for credit and takes whole lines of it, up to n bytes; 0 when the agent ends.
func (a *agent) take(stream uint32, n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.credit[stream]; !ok {
		a.credit[stream] = a.plan.Credit
	}
	for a.credit[stream] < len(line) && !a.ended {
		a.more.Wait()
	}
	if a.ended {
		return 0
	}
	n = min(n, a.credit[stream]) / len(line) * len(line)
	a.credit[stream] -= n
	return n
}

func (a *agent) grant(stream uint32, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.credit[stream]; !ok && a.plan != nil {
		a.credit[stream] = a.plan.Credit
	}
	a.credit[stream] += n
	a.more.Broadcast()
}

func (a *agent) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.more.Broadcast()
}
