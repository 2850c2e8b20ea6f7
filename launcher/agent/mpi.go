package agent

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
	"gorun/rendezvous"
	"gorun/rendezvous/pmi"
)

// mostWarnings bounds what the user is told of ranks that misuse MPI.
const mostWarnings = 8

// mpiServer is how the ranks that are MPI processes reach this one. A nil one is of a
// job that has none.
type mpiServer struct {
	server *pmi.Server
	port   bool
	addr   string // with port: where it listens
}

// serveMPI gives the job its server for MPI programs.
func (a *agent) serveMPI(j *job, store *rendezvous.Server) error {
	p := j.plan
	if p.PMI == nil {
		return nil
	}
	m := &mpiServer{port: p.PMI.Port}
	var seats []pmi.Seat
	for _, r := range j.ranks {
		seats = append(seats, pmi.Seat{Rank: r.n, App: r.plan.App})
	}
	var warned atomic.Int32
	m.server = pmi.New(pmi.Config{
		Name: "gorun-" + j.id, Size: p.Size, Nodes: p.Nodes, Node: p.Node, Ranks: seats, Mapping: p.PMI.Mapping, Store: store,
		Abort: func(x pmi.Abort) {
			a.out.SendMessage(wire.Message{Abort: &wire.Abort{Rank: x.Rank, Code: x.Code, Text: cut(clean(x.Text)), At: j.since(time.Now())}})
		},
		Parted: func(list []pmi.Parted) {
			var parted []wire.Parted
			for _, x := range list {
				parted = append(parted, wire.Parted{Rank: x.Rank, How: x.How, At: j.since(x.At)})
			}
			a.out.SendMessage(wire.Message{Parted: parted})
		},
		Warn: func(text string) {
			if warned.Add(1) <= mostWarnings {
				a.out.SendMessage(wire.Message{Log: &wire.Log{Level: "warn", Text: cut(clean(text))}})
			}
		},
	})
	if m.port {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			m.server.Close()
			return fmt.Errorf("PMI_PORT: %w", err)
		}
		m.addr = l.Addr().String()
		m.server.Listen(l, sameUser)
	}
	j.mpi = m
	return nil
}

// since is how long after the start of the ranks t is.
func (j *job) since(t time.Time) time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.begun.IsZero() {
		return 0
	}
	return max(t.Sub(j.begun), 0)
}

// names are what every rank gets in its environment beside what the plan says.
func (m *mpiServer) names() []string {
	if m == nil || !m.port {
		return nil
	}
	return []string{"PMI_PORT=" + m.addr}
}

func (m *mpiServer) close() {
	if m != nil {
		m.server.Close()
	}
}

// pmiLine is a rank's connection by a descriptor. A nil one is of a rank that has none.
type pmiLine struct {
	server *pmi.Server
	theirs int
	ours   *os.File
}

// pair makes the connection of a rank that is about to be forked.
func (m *mpiServer) pair() (*pmiLine, error) {
	if m == nil || m.port {
		return nil, nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	unix.SetNonblock(fds[0], true)
	return &pmiLine{m.server, fds[1], os.NewFile(uintptr(fds[0]), "pmi")}, nil
}

// files adds the rank's end to its other files. What lies between is closed.
func (l *pmiLine) files(files []uintptr) []uintptr {
	if l == nil {
		return files
	}
	for len(files) < wire.PMIFile {
		files = append(files, ^uintptr(0))
	}
	return append(files, uintptr(l.theirs))
}

func (l *pmiLine) closeTheirs() {
	if l != nil {
		unix.Close(l.theirs)
	}
}

func (l *pmiLine) closeOurs() {
	if l != nil {
		l.ours.Close()
	}
}

func (l *pmiLine) serve(rank int) {
	if l != nil {
		l.server.Serve(rank, l.ours)
	}
}

// sameUser refuses a connection within this machine that another user's process has made.
func sameUser(conn net.Conn) error {
	f, err := os.Open("/proc/self/net/tcp")
	if err != nil {
		return err
	}
	defer f.Close()
	remote, ok1 := addrPort(conn.RemoteAddr())
	local, ok2 := addrPort(conn.LocalAddr())
	if !ok1 || !ok2 {
		return errors.New("no TCP connection")
	}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		s, ok := parseSocket(lines.Text())
		if !ok || s.local != remote || s.remote != local {
			continue
		}
		if uid := strings.Fields(lines.Text())[7]; uid != strconv.Itoa(os.Geteuid()) {
			return fmt.Errorf("it is of user %s", uid)
		}
		return nil
	}
	return errors.New("nobody is at its other end")
}

func addrPort(a net.Addr) (netip.AddrPort, bool) {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port()), true
}
