// Package pmi speaks PMI-1 with the ranks of one host: what an unmodified MPI program
// (MPICH and what descends from it) asks its launcher for its rank, for the addresses of
// the others and for barriers by.
//
// A Server has a connection with each rank, over which lines go back and forth; keys,
// values and barriers are in the job's store (package rendezvous). It tells its caller
// what the job has to know: that a rank aborts the job, and that a rank will come to no
// barrier any more. It decides nothing about the job, and starts no ranks (MPI_Comm_spawn
// is refused).
package pmi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"gorun/rendezvous"
)

// Prefix is what the store's names begin with that belong to MPI.
const Prefix = "gorun/mpi/"

// Ways in which a rank has left MPI.
const (
	Finalized = "finalized" // by MPI_Finalize
	Aborted   = "aborted"   // by MPI_Abort
	Gone      = "gone"      // its connection ended between MPI_Init and MPI_Finalize
	Absent    = "absent"    // its connection ended, or was not used rightly, before MPI_Init
)

// Seat is a rank of this host.
type Seat struct {
	Rank int
	App  int // index of its program
}

// Abort asks for the end of the job.
type Abort struct {
	Rank int
	Code int
	Text string // why the rank cannot go on; "": it called MPI_Abort(Code)
}

// Parted is a rank that will come to no barrier any more.
type Parted struct {
	Rank int
	How  string // one of the ways
	At   time.Time
}

// Config is what a host's Server must know of the job. Its functions may be called from
// any goroutine, and must not block or call the Server.
type Config struct {
	Name    string // of the key-value space: a word that no other job has
	Size    int    // ranks of the job
	Nodes   int
	Node    int    // of this host
	Ranks   []Seat // of this host
	Mapping string // PMI_process_mapping; "": it is not told
	Store   *rendezvous.Server

	Abort  func(Abort)
	Parted func([]Parted)
	Warn   func(text string)
}

// Server serves the ranks of one host. Its methods are safe for concurrent use.
type Server struct {
	cfg     Config
	done    chan struct{}
	wake    chan struct{} // capacity 1: a barrier has been released
	running sync.WaitGroup

	mu       sync.Mutex
	space    *space                 // guarded by mu
	members  map[int]*member        // fixed; what they point to is guarded by mu
	arrived  int                    // guarded by mu; ranks that have entered the barrier that not all have entered
	waiting  int                    // guarded by mu; ranks that are in a barrier, or have not heard that they are not
	released int                    // guarded by mu; barriers that some rank has passed
	parted   int                    // guarded by mu; ranks that have left
	conns    map[io.Closer]struct{} // guarded by mu
	closed   bool                   // guarded by mu
}

// member is a rank.
type member struct {
	Seat
	joined  bool // it has called MPI_Init
	served  bool // it has a connection
	waiting bool // it is in a barrier
	parted  string
	at      time.Time // when it left
	told    bool      // that it has left
}

// New returns a Server that serves nobody yet. On node 0 it begins to gather what all
// hosts put.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, done: make(chan struct{}), wake: make(chan struct{}, 1), space: newSpace(cfg.Nodes == 1, cfg.Node),
		members: map[int]*member{}, conns: map[io.Closer]struct{}{},
	}
	for _, r := range cfg.Ranks {
		s.members[r.Rank] = &member{Seat: r}
	}
	if cfg.Mapping != "" {
		s.space.values["PMI_process_mapping"] = cfg.Mapping
	}
	if cfg.Node == 0 && cfg.Nodes > 1 {
		s.running.Go(s.gather)
	}
	return s
}

// Close ends all connections, and returns when every goroutine of the Server has ended.
// What ranks do from then on is not told.
func (s *Server) Close() {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Serve serves rank on conn, in a goroutine of its own, until the connection ends. It
// takes conn over. A rank is served once.
func (s *Server) Serve(rank int, conn io.ReadWriteCloser) {
	s.hold(conn, func() { s.serve(rank, conn, bufio.NewReaderSize(conn, maxLine)) })
}

// hold runs serve in a goroutine, and closes conn behind it, or when the Server is.
func (s *Server) hold(conn io.Closer, serve func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		conn.Close()
		return
	}
	s.conns[conn] = struct{}{}
	s.running.Go(func() {
		serve()
		conn.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, conn)
	})
}

// claim gives a rank its connection; it has one in its life.
func (s *Server) claim(rank int) (*member, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.members[rank]
	switch {
	case m == nil:
		return nil, fmt.Errorf("rank %d is not on this host", rank)
	case m.served:
		return nil, fmt.Errorf("rank %d begins MPI a second time, which is refused: it may be an MPI program once in its life", rank)
	}
	m.served = true
	return m, nil
}

// serve converses with a rank until its connection ends.
func (s *Server) serve(rank int, conn io.ReadWriter, in *bufio.Reader) {
	m, err := s.claim(rank)
	if err != nil {
		s.cfg.Warn(err.Error())
		return
	}
	defer s.leave(m)
	answers := make(chan rendezvous.Reply, 4) // a request and a table at a time
	local, err := s.cfg.Store.Local(rank, func(r rendezvous.Reply) { answers <- r })
	if err != nil {
		return
	}
	defer local.Close()
	session := &session{
		server: s, member: m, ask: local.Ask,
		say: func(line string) { io.WriteString(conn, line+"\n") }, // that it fails, the reader sees, too
	}
	lines, gone := make(chan string), make(chan struct{})
	stop := make(chan struct{})
	defer close(stop)
	s.running.Go(func() { defer close(gone); read(in, lines, stop) })
	for {
		next := lines
		if !session.idle() {
			next = nil
		}
		select {
		case line := <-next:
			if err := session.line(line); err != nil {
				s.cfg.Warn(fmt.Sprintf("rank %d does not speak PMI-1: %v", rank, err))
				return
			}
		case r := <-answers:
			session.answered(r)
		case <-gone:
			return
		case <-s.done:
			return
		}
	}
}

// read passes lines on until there are no more.
func read(in *bufio.Reader, lines chan<- string, stop <-chan struct{}) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		select {
		case lines <- string(line[:len(line)-1]): // a line that is too long is no command, or has a long value
		case <-stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// join notes that a rank has called MPI_Init. It reports false if it may not.
func (s *Server) join(m *member) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.joined || m.parted != "" {
		return false
	}
	m.joined = true
	return true
}

// leave is the end of a rank's connection.
func (s *Server) leave(m *member) {
	s.mu.Lock()
	how := Absent
	if m.joined {
		how = Gone
	}
	if m.waiting {
		m.waiting = false
		s.waiting--
	}
	s.mu.Unlock()
	s.part(m, how)
}

// part notes that a rank has left, and tells so if it matters: at once if it may be a
// failure, else when others wait, or all have left.
func (s *Server) part(m *member, how string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.parted != "" || s.closed {
		return
	}
	m.parted, m.at = how, time.Now()
	s.parted++
	if how == Gone || s.waiting > 0 || s.parted == len(s.members) {
		s.tellLocked()
	}
}

func (s *Server) tellLocked() {
	var news []Parted
	for _, r := range s.cfg.Ranks {
		if m := s.members[r.Rank]; m.parted != "" && !m.told {
			m.told = true
			news = append(news, Parted{r.Rank, m.parted, m.at})
		}
	}
	if len(news) > 0 {
		s.cfg.Parted(news)
	}
}

func (s *Server) put(key, value string) (*rendezvous.Request, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space.put(key, value)
}

func (s *Server) find(key string, fences int) (value, piece string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space.find(key, fences)
}

func (s *Server) load(piece string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.space.load(piece, value)
}

// enter notes that a rank enters a barrier. It returns what must go to the store before
// it does.
func (s *Server) enter(m *member) (table *rendezvous.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.waiting = true
	s.waiting++
	if s.parted > 0 {
		s.tellLocked()
	}
	if s.arrived++; s.arrived < len(s.members) {
		return nil
	}
	s.arrived = 0
	return s.space.enter()
}

// passed notes that a rank's barrier has been released, its n-th.
func (s *Server) passed(m *member, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.waiting = false
	s.waiting--
	s.released = max(s.released, n)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
