package rendezvous

// ServerConfig is what a host's Server must know of the job. All fields are needed.
type ServerConfig struct {
	Secret []byte // SecretLen bytes
	Ranks  []int  // the ranks of this host
	UID    int    // only processes of this user are served

	// Send passes a request to the head. It must not block or call the Server, and
	// must keep the order of calls, which come one at a time. It takes over r.
	Send func(r Request)
}

// Server serves the ranks of one host on a unix socket. Its methods are safe for
// concurrent use.
type Server struct{}

// Listen starts a Server on a new socket at path, of mode 0600. The directory that
// holds it must belong to cfg.UID, with mode 0700; path has at most MaxPath bytes.
func Listen(path string, cfg ServerConfig) (*Server, error) { return nil, ErrGone }

// Deliver takes a reply of the head. It does not block on ranks, takes over r, and
// ignores a reply that nobody waits for.
func (s *Server) Deliver(r Reply) {}

// Close removes the socket, closes all connections (waiting clients get ErrGone)
// and returns when every goroutine of the Server has ended.
func (s *Server) Close() error { return nil }
