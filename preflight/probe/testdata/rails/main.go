// Rails has two hosts in one process send over their RDMA devices, and prints what the
// first has found, in one line after a name.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"time"

	"gorun/preflight/probe"
)

func main() {
	name := flag.String("name", "rails", "what the line begins with")
	from := flag.String("from", "rxe0", "device of the host that tries")
	to := flag.String("to", "rxe1", "device of the other")
	gid := flag.Int("gid", 1, "index of the GID at both ends")
	addr := flag.String("addr", "10.77.0.2", "address of the other host")
	user := flag.Int("user", 0, "as whom")
	flag.Parse()
	if err := run(*name, *addr, *user, probe.Rail{From: probe.RailPort{Device: *from, Port: 1, GID: *gid}, To: probe.RailPort{Device: *to, Port: 1, GID: *gid}}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(name, addr string, user int, rail probe.Rail) error {
	if user != 0 {
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(user), syscall.Setuid(user)); err != nil {
			return err
		}
	}
	at, err := netip.ParseAddr(addr)
	if err != nil {
		return err
	}
	secret := []byte("secret")
	l, err := probe.Listen(probe.Identity{Host: 1}, at, secret)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	begun := time.Now()
	target := probe.Target{Host: 1, Addr: netip.AddrPortFrom(at, l.Port())}
	links := probe.RunRails(ctx, 0, secret, netip.Addr{}, target, []probe.Rail{rail})
	text, err := json.Marshal(links)
	if err != nil {
		return err
	}
	fmt.Printf("@%s %s\n", name, text)
	fmt.Printf("%s took %v\n", name, time.Since(begun).Round(10*time.Millisecond))
	return nil
}
