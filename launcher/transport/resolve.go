package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"gorun/hostfile"
)

// machine is what this machine is called and where it can be reached.
type machine struct {
	hostname string
	addrs    map[netip.Addr]bool
}

func thisMachine() machine {
	m := machine{addrs: map[netip.Addr]bool{}}
	m.hostname, _ = os.Hostname()
	ifaces, _ := net.InterfaceAddrs()
	for _, a := range ifaces {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			m.addrs[p.Addr().Unmap()] = true
		}
	}
	return m
}

// named reports whether name is this machine, without asking anyone.
func (m machine) named(name string) bool {
	if name == "" || strings.EqualFold(name, "localhost") || m.hostname != "" && strings.EqualFold(name, m.hostname) {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && m.has([]netip.Addr{addr})
}

// is reports whether h is this machine as far as its name tells.
func (m machine) is(h hostfile.Host) bool { return m.named(h.Target()) && h.User == "" && h.Port == 0 }

// has reports whether all addresses are this machine's.
func (m machine) has(addrs []netip.Addr) bool {
	for _, a := range addrs {
		if a = a.Unmap(); !a.IsLoopback() && !m.addrs[a.WithZone("")] {
			return false
		}
	}
	return len(addrs) > 0
}

// resolve returns the addresses of name, in the order in which to try them. A name
// that Go's resolver does not find is asked of getent, which knows what nsswitch.conf
// says. Each of the two may take a third of limit.
func resolve(ctx context.Context, name string, limit time.Duration) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{addr}, nil
	}
	if strings.HasPrefix(name, "-") || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("%q is not a host name", name)
	}
	goCtx, cancel := context.WithTimeout(ctx, limit/3)
	defer cancel()
	addrs, err := (&net.Resolver{PreferGo: true}).LookupNetIP(goCtx, "ip", name)
	if err != nil {
		if more := getent(ctx, name, limit/3); len(more) > 0 {
			return alternate(more), nil
		}
		if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsTimeout {
			e.Err = fmt.Sprintf("no answer within %v", limit/3) // not Go's "i/o timeout"
		}
		return nil, err
	}
	return alternate(addrs), nil
}

// getent asks the C library's name service, nil if it does not know name either.
func getent(ctx context.Context, name string, limit time.Duration) []netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "getent", "ahosts", name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for gorun to handle
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	return parseGetent(string(out))
}

// parseGetent reads lines of "ADDRESS STREAM NAME", each address once.
func parseGetent(out string) []netip.Addr {
	var addrs []netip.Addr
	seen := map[netip.Addr]bool{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if a, err := netip.ParseAddr(f[0]); err == nil && !seen[a] {
			seen[a] = true
			addrs = append(addrs, a)
		}
	}
	return addrs
}

// alternate orders addresses so that the two families take turns, beginning with the
// family of the first and otherwise keeping the order (RFC 8305).
func alternate(addrs []netip.Addr) []netip.Addr {
	var first, second []netip.Addr
	for i, a := range addrs {
		addrs[i] = a.Unmap()
		if addrs[i].Is4() == addrs[0].Is4() {
			first = append(first, addrs[i])
		} else {
			second = append(second, addrs[i])
		}
	}
	var out []netip.Addr
	for i := range max(len(first), len(second)) {
		if i < len(first) {
			out = append(out, first[i])
		}
		if i < len(second) {
			out = append(out, second[i])
		}
	}
	return out
}
