package pmi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

const (
	greeting    = 5 * time.Second       // for who connects to say which rank it is
	mostWaiting = 64                    // connections that have not said it
	acceptPause = 50 * time.Millisecond // when the system has no room for a connection
)

// Listen serves ranks that connect to l, which it takes over, and say which they are.
// check returns why a connection is not to be served, nil if it may be. It blocks
// nobody, and ends with the Server.
func (s *Server) Listen(l net.Listener, check func(net.Conn) error) {
	s.hold(l, func() { s.accept(l, check) })
}

func (s *Server) accept(l net.Listener, check func(net.Conn) error) {
	room := make(chan struct{}, mostWaiting)
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-time.After(acceptPause):
				continue
			case <-s.done:
				return
			}
		}
		select {
		case room <- struct{}{}:
			s.hold(conn, func() { s.greet(conn, check, func() { <-room }) })
		default:
			conn.Close()
		}
	}
}

// greet asks who is at the other end of conn, and serves it if it is a rank.
func (s *Server) greet(conn net.Conn, check func(net.Conn) error, known func()) {
	in := bufio.NewReaderSize(conn, maxLine)
	conn.SetDeadline(time.Now().Add(greeting))
	rank, err := s.initack(conn, in, check)
	known()
	if err != nil {
		return
	}
	conn.SetDeadline(time.Time{})
	s.serve(rank, conn, in)
}

// initack is the first exchange on a connection to a port.
func (s *Server) initack(conn net.Conn, in *bufio.Reader, check func(net.Conn) error) (rank int, err error) {
	if err := check(conn); err != nil {
		return 0, err
	}
	line, err := in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	c, err := parse(string(line[:len(line)-1]))
	if err != nil {
		return 0, err
	}
	rank, err = strconv.Atoi(c.get("pmiid"))
	if c.name != "initack" || err != nil || s.members[rank] == nil {
		return 0, fmt.Errorf("%.80q is no rank of this host", line)
	}
	text := reply("initack") + "\n" + reply("set", "size", strconv.Itoa(s.cfg.Size)) + "\n" +
		reply("set", "rank", strconv.Itoa(rank)) + "\n" + reply("set", "debug", "0") + "\n"
	_, err = io.WriteString(conn, text)
	return rank, err
}
