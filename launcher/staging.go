package launcher

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// staging is the head's part of bringing a cargo to the hosts, before their plans. It is
// owned by the loop. Every host is told what there is and says what it lacks; of those
// that keep files in the same directory one gets them; the others of them look again.
type staging struct {
	r      *run
	cargo  *cargo
	key    []byte
	cancel context.CancelFunc // of reading the files
	read   bool               // all of them have been read
	readin chan struct{}      // closed when the reader has ended
	sends  sync.WaitGroup     // what sends files to hosts
	begun  time.Time          // of sending

	layout Layout
	nodes  []int // by host
	site   site
	have   []*wire.Have  // by host: its answer
	got    []int64       // by host: bytes that it has received
	ready  []bool        // by host: it has everything
	told   time.Time     // when the user was told last, or sending began
	waits  int           // answers to come
	leader []int         // by host: whose directory it shares; -1: nobody's
	shares map[int][]int // by host: those that share its directory, once it is known who does
}

// readFiles begins to read the job's files, aside: the hosts are dialled meanwhile.
func (r *run) readFiles() {
	if r.cargo == nil {
		return
	}
	s := &staging{r: r, cargo: r.cargo, key: make([]byte, bcast.KeySize), readin: make(chan struct{})}
	rand.Read(s.key)
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	r.staging = s
	go func() {
		defer close(s.readin)
		last := time.Now()
		err := s.cargo.read(ctx, func(int) {
			if now := time.Now(); now.Sub(last) > time.Second {
				last = now
				r.tell(func() { r.step(event{moved: true}) })
			}
		})
		r.tell(func() { s.wereRead(err) })
	}()
}

// close returns when nothing reads files any more; a file server that is dead may hold
// that up for ever. The links have ended.
func (s *staging) close() {
	s.cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-s.readin
		s.sends.Wait()
	}()
	select {
	case <-ended:
	case <-time.After(readPatience):
	}
}

func (s *staging) wereRead(err error) {
	if err != nil {
		s.r.step(event{planErr: err})
		return
	}
	s.read = true
	if s.r.m.phase == phaseStaging {
		s.begin()
	}
}

// begin tells every host that has ranks what is to be there.
func (s *staging) begin() {
	if !s.read || s.r.m.stopping {
		return
	}
	files, err := s.cargo.manifest()
	if err != nil {
		s.r.step(event{planErr: fmt.Errorf("list of files: %w", err)})
		return
	}
	s.begun, s.told = time.Now(), time.Now()
	s.have, s.leader = make([]*wire.Have, len(s.r.hosts)), make([]int, len(s.r.hosts))
	s.got, s.ready = make([]int64, len(s.r.hosts)), make([]bool, len(s.r.hosts))
	used := 0
	for _, n := range s.layout.Count {
		used += min(n, 1)
	}
	for i, h := range s.r.hosts {
		s.leader[i] = -1
		if s.layout.Count[i] == 0 {
			continue
		}
		s.waits++
		st := &wire.Stage{JobID: s.r.id, Node: s.nodes[i], Key: s.key, Dir: wire.Bytes(s.r.job.Dir)}
		if bcast.Relayed(used, s.cargo.size()) {
			st.Listen = s.site.addrs[i]
		}
		h.courier.Store(newCourier(s.cargo, h.send))
		h.send.Send(files)
		h.send.SendMessage(wire.Message{Stage: st})
	}
	s.r.step(event{moved: true})
}

// message handles what a host says of its files.
func (s *staging) message(h *host, m wire.Message) {
	s.r.step(event{moved: true})
	switch {
	case m.Have != nil:
		s.have[h.index] = m.Have
		s.answered(s.compare)
	case m.Seen != nil:
		if s.leader[h.index] < 0 {
			return // nobody has asked
		}
		if !m.Seen.Yes {
			s.leader[h.index] = -1
		}
		s.answered(s.route)
	case m.Want != nil:
		s.send(h, m.Want)
	case m.Got != nil:
		s.got[h.index] = m.Got.Bytes
		s.sayWhere(time.Now())
	case m.Staged != nil:
		s.staged(h, m.Staged)
	}
}

// answered counts an answer, and has next done when it was the last.
func (s *staging) answered(next func()) {
	if s.waits--; s.waits == 0 && s.r.m.phase == phaseStaging {
		next()
	}
}

// compare finds hosts that may see the same directory, and asks them whether they do.
func (s *staging) compare() {
	var bad []PrepareFailure
	first := map[string]int{}
	for i, have := range s.have {
		switch {
		case have == nil:
		case have.Text != "":
			bad = append(bad, PrepareFailure{Host: s.r.hosts[i].spec.Name, Rank: -1, Code: codeOurs, Text: have.Text, Files: true})
		case have.Place != "":
			l, ok := first[have.Place]
			if !ok {
				first[have.Place] = i
				continue
			}
			s.leader[i] = l
			s.waits++
		}
	}
	if bad != nil {
		s.r.step(event{unstaged: bad})
		return
	}
	for i, l := range s.leader {
		if l >= 0 {
			s.r.hosts[i].send.SendMessage(wire.Message{Look: &wire.Look{Node: s.nodes[l]}})
		}
	}
	if s.waits == 0 {
		s.route()
	}
}

// route says to every host where it gets what it lacks. Those that share a directory
// with another wait for that one.
func (s *staging) route() {
	var takers []int
	var most int64
	s.shares = map[int][]int{}
	for i, have := range s.have {
		if have == nil {
			continue
		}
		if l := s.leader[i]; l >= 0 {
			s.shares[l] = append(s.shares[l], i)
			continue
		}
		if len(have.Missing) == 0 {
			s.fetch(i, -1)
			continue
		}
		takers = append(takers, i)
		most = max(most, s.missing(have))
	}
	relayed := bcast.Relayed(len(takers), most)
	for n, i := range takers {
		parent := -1
		if relayed {
			parent = bcast.Parent(n, len(takers), most)
		}
		if parent >= 0 {
			parent = takers[parent]
		}
		s.fetch(i, parent)
	}
	s.tell(takers, most, relayed)
}

// tell says, with -v, what is sent.
func (s *staging) tell(takers []int, most int64, relayed bool) {
	used := 0
	for _, have := range s.have {
		if have != nil {
			used++
		}
	}
	if len(takers) == 0 {
		s.r.note("info", "files: every host has them")
		return
	}
	how := "from here"
	if relayed {
		how = "from host to host"
	}
	s.r.note("info", fmt.Sprintf("files: up to %s to %d of %s, %s", sizeText(most), len(takers), count(used, "host"), how))
}

func (s *staging) missing(have *wire.Have) (bytes int64) {
	for _, n := range have.Missing {
		bytes += s.cargo.files[n].size
	}
	return bytes
}

// fetch tells host i to get its files from the host parent, -1 for the head.
func (s *staging) fetch(i, parent int) {
	f := &wire.Fetch{}
	if parent >= 0 && s.have[parent].Port > 0 {
		f.From = net.JoinHostPort(s.site.addrs[parent], strconv.Itoa(s.have[parent].Port))
		f.Host = s.r.hosts[parent].spec.Name
	}
	s.r.hosts[i].send.SendMessage(wire.Message{Fetch: f})
}

// send sends files to a host that wants them from here.
func (s *staging) send(h *host, want *wire.Want) {
	k := h.courier.Load()
	s.sends.Go(func() {
		stop := context.AfterFunc(h.ctx, k.stop)
		defer stop()
		err := k.run(want)
		_, changed := errors.AsType[*ChangedError](err)
		_, unread := errors.AsType[*FileError](err)
		if changed || unread {
			s.r.tell(func() { s.r.step(event{planErr: err}) })
		}
	})
}

// staged passes on that a host has all files, or cannot have them.
func (s *staging) staged(h *host, st *wire.Staged) {
	if st.Text != "" {
		s.r.step(event{unstaged: []PrepareFailure{{Host: h.spec.Name, Rank: -1, Code: codeOurs, Text: st.Text, Files: true}}})
		return
	}
	for _, i := range s.shares[h.index] {
		s.fetch(i, -1)
	}
	s.ready[h.index] = true
	s.r.step(event{host: h.index, staged: true})
}

// sayEvery is how often the user is told how far files have come.
const sayEvery = 15 * time.Second

// sayWhere says how far the slowest host is, when it is time.
func (s *staging) sayWhere(now time.Time) {
	if now.Sub(s.told) < sayEvery {
		return
	}
	s.told = now
	s.r.say(s.where())
}

func (s *staging) where() string {
	slowest, used, ready := -1, 0, 0
	for i, have := range s.have {
		if s.layout.Count[i] == 0 {
			continue
		}
		used++
		switch {
		case s.ready[i]:
			ready++
		case have != nil && len(have.Missing) > 0 && s.leader[i] < 0 && (slowest < 0 || s.got[i] < s.got[slowest]):
			slowest = i
		}
	}
	text := fmt.Sprintf("files are brought to %s; %d have them", count(used, "host"), ready)
	if slowest >= 0 {
		text += fmt.Sprintf("; the slowest, %s, has %s of %s", s.r.hosts[slowest].spec.Name, sizeText(s.got[slowest]), sizeText(s.missing(s.have[slowest])))
	}
	return text
}

// said says, with -v, what it took.
func (s *staging) said() {
	if n := s.cargo.sent.Load(); n > 0 {
		s.r.note("info", fmt.Sprintf("files: sent %s (%d bytes) from here in %.1f s", sizeText(n), n, time.Since(s.begun).Seconds()))
	}
}

// sizeText writes a size as people say it.
func sizeText(n int64) string {
	units := []string{"bytes", "kB", "MB", "GB", "TB"}
	x, i := float64(n), 0
	for ; x >= 1000 && i+1 < len(units); i++ {
		x /= 1000
	}
	if i == 0 {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f %s", x, units[i])
}

// checkFiles refuses what no host may say of files.
func (s *staging) check(h *host, m wire.Message) error {
	if s == nil || h.courier.Load() == nil {
		return errors.New("it speaks of files that it was not told of")
	}
	numbers := []int{}
	switch {
	case m.Have != nil:
		numbers = m.Have.Missing
		if m.Have.Port < 0 || m.Have.Port > 65535 || !h.once("have") {
			return fmt.Errorf("files at port %d", m.Have.Port)
		}
	case m.Seen != nil:
		if !h.once("seen") {
			return errors.New("it has seen too much")
		}
	case m.Want != nil:
		numbers = m.Want.Files
		if !h.once("want") || m.Want.Credit < 0 || m.Want.Credit > maxContent || m.Want.Piece < 0 {
			return fmt.Errorf("it wants files from piece %d on, %d bytes at once", m.Want.Piece, m.Want.Credit)
		}
	case m.Staged != nil:
		if !h.once("staged") {
			return errors.New("it has its files twice")
		}
	}
	if len(numbers) > len(s.cargo.files) || m.Got != nil && m.Got.Bytes < 0 {
		return fmt.Errorf("it speaks of %d files", len(numbers))
	}
	for _, n := range numbers {
		if n < 0 || n >= len(s.cargo.files) || s.cargo.files[n].size == 0 {
			return fmt.Errorf("it lacks file %d", n)
		}
	}
	return nil
}

// maxContent bounds the credit for files that a host may give at once.
const maxContent = 64 << 20
