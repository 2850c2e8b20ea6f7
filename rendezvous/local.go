package rendezvous

// Local is a rank's session with the Server of its own process, for whoever speaks
// another protocol to the rank. Its methods are safe for concurrent use.
type Local struct {
	server  *Server
	session session // guarded by the Server's mu
}

// Local opens a session for rank, as a connection that says hello would; it counts
// among the rank's connections. answer gets each reply, in any goroutine and while
// the Server is locked: it must not block or call the Server or the Local. What is
// open when the Server is closed gets no answer.
func (s *Server) Local(rank int, answer func(Reply)) (*Local, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrGone
	}
	l := &Local{server: s}
	var hello Reply
	l.session.answer = func(r Reply) { hello = r }
	if !s.hub.hello(&l.session, &Request{Op: opHello, Rank: rank}) {
		return nil, hello.failure(0)
	}
	l.session.answer = answer
	return l, nil
}

// Ask makes a request, which is answered by its ID. It does not block.
func (l *Local) Ask(r Request) {
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.hub.handle(s.nowLocked(), &l.session, r)
		s.poke()
	}
}

// Close ends the session and takes back what it waits for.
func (l *Local) Close() {
	s := l.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.hub.leave(s.nowLocked(), &l.session)
		s.poke()
	}
}
