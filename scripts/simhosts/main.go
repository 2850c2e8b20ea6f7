// Simhosts plays many hosts in one process: an ssh server and an agent for each, so
// that gorun can be run on thousands of hosts where there are none.
//
//	simhosts [--lines K] [--silent I] [--dies I] DIR N
//
// It listens on one port for all of 127.0.0.0/8: each address is a host, with one slot.
// It writes DIR/hosts, a hostfile of N of them, and DIR/.ssh with a key and the hosts'
// keys, for HOME=DIR; prints "ready"; and ends when its standard input does. The ssh is
// real, the agents speak gorun's protocol, and the ranks are made up: each prints K lines
// of 64 bytes (1) and ends with 0. Host I (from 1) with --silent takes connections and says
// nothing; with --dies it drops its connection when the ranks are started, and the
// other ranks run until they are stopped.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// options are the command line's.
type options struct {
	dir          string
	hosts        int
	lines        int
	silent, dies int // from 1; 0: none
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = serve(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "simhosts:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("simhosts", flag.ContinueOnError)
	fs.IntVar(&o.lines, "lines", 1, "lines that each rank prints")
	fs.IntVar(&o.silent, "silent", 0, "host that says nothing")
	fs.IntVar(&o.dies, "dies", 0, "host that dies when the ranks are started")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() != 2 {
		return o, fmt.Errorf("usage: simhosts [--lines K] [--silent I] [--dies I] DIR N")
	}
	var err error
	o.dir = fs.Arg(0)
	if o.hosts, err = strconv.Atoi(fs.Arg(1)); err != nil || o.hosts < 1 || o.hosts > 65000 {
		return o, fmt.Errorf("%q is no number of hosts from 1 to 65000", fs.Arg(1))
	}
	return o, nil
}

// serve plays the hosts until the standard input ends.
func serve(o options) error {
	if err := raiseFiles(); err != nil {
		return err
	}
	listener, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		return err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return err
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := o.write(port, key, signer.PublicKey()); err != nil {
		return err
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	config.AddHostKey(signer)
	go o.accept(listener, config)
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// raiseFiles allows as many open files as may be.
func raiseFiles() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
}

// address is that of host i, from 1.
func address(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{127, 1 + byte(i/62500), byte(i / 250 % 250), byte(1 + i%250)})
}

// write writes what gorun is to be given.
func (o options) write(port int, key ed25519.PrivateKey, public ssh.PublicKey) error {
	home := filepath.Join(o.dir, ".ssh")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return err
	}
	var hosts strings.Builder
	for i := range o.hosts {
		fmt.Fprintf(&hosts, "%v slots=1 port=%d user=sim\n", address(i+1), port)
	}
	known := fmt.Sprintf("[*]:%d %s", port, ssh.MarshalAuthorizedKey(public))
	for name, text := range map[string]string{
		filepath.Join(o.dir, "hosts"): hosts.String(), filepath.Join(home, "known_hosts"): known,
		filepath.Join(home, "id_ed25519"): string(pem.EncodeToMemory(block)),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// accept serves connections. What does not come from this machine is dropped.
func (o options) accept(l net.Listener, config *ssh.ServerConfig) {
	mute, mortal := address(o.silent), address(o.dies)
	for {
		conn, err := l.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, "simhosts:", err)
			os.Exit(1)
		}
		local := conn.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
		switch {
		case !local.IsLoopback():
			conn.Close()
		case o.silent > 0 && local == mute: // kept open, and forgotten
		default:
			h := host{addr: local, conn: conn, lines: o.lines, dies: o.dies > 0 && local == mortal, waits: o.dies > 0}
			go h.serve(config)
		}
	}
}
