package probe

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestConnectFault(t *testing.T) {
	host, router := netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.1")
	refused := syscall.ECONNREFUSED
	tests := []struct {
		name string
		err  error
		said *icmp
		want Failure
		text string
	}{
		{"timeout", os.ErrDeadlineExceeded, nil, Dropped, "no answer within 1s"},
		{"kernel-timeout", syscall.ETIMEDOUT, nil, Dropped, "no answer"},
		{"refused", refused, nil, Refused, "nobody listens"},
		{"reset", syscall.ECONNRESET, nil, Reset, "reset"},
		{"no-route", syscall.ENETUNREACH, nil, Unreachable, "no way there"},
		{"forbidden", syscall.EACCES, nil, Rejected, "forbids it"},
		{"black-hole-route", syscall.EINVAL, nil, Other, "invalid argument"},
		{"unknown", errors.New("odd"), nil, Other, "odd"},
		{"port-unreachable", refused, &icmp{kind: 3, code: 3, from: host}, Rejected, `10.0.0.7 answers "port unreachable"`},
		{"prohibited", syscall.EHOSTUNREACH, &icmp{kind: 3, code: 13, from: router}, Rejected, "10.0.0.1 answers"},
		{"router-says-host", syscall.EHOSTUNREACH, &icmp{kind: 3, code: 1, from: router}, Unreachable, "host unreachable"},
		{"host-says-host", syscall.EHOSTUNREACH, &icmp{kind: 3, code: 1, from: host}, Rejected, "host unreachable"},
		{"router-says-network", syscall.ENETUNREACH, &icmp{kind: 3, code: 0, from: router}, Unreachable, "network unreachable"},
		{"no-neighbour", syscall.EHOSTUNREACH, &icmp{kind: 3, code: 1, from: router, own: true}, Unreachable, "no machine has that address"},
		{"own-firewall", refused, &icmp{kind: 3, code: 3, from: router, own: true}, Rejected, "port unreachable"},
		{"nobody", syscall.EHOSTUNREACH, &icmp{kind: 3, code: 1}, Unreachable, "host unreachable"},
		{"ipv6-policy", syscall.EACCES, &icmp{six: true, kind: 1, code: 5, from: router}, Rejected, "policy"},
		{"ipv6-address", syscall.EHOSTUNREACH, &icmp{six: true, kind: 1, code: 3, from: router}, Unreachable, "address unreachable"},
		{"time-exceeded", syscall.EHOSTUNREACH, &icmp{kind: 11, from: router}, Unreachable, "ICMP error"},
	}
	for _, tt := range tests {
		err := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", tt.err)}
		if _, ok := tt.err.(syscall.Errno); !ok {
			err.Err = tt.err
		}
		got := asFault(connectFault(err, tt.said, host, time.Second))
		if got.kind != tt.want || !strings.Contains(got.text, tt.text) {
			t.Errorf("%s: got %s, %q; want %s, with %q", tt.name, got.kind, got.text, tt.want, tt.text)
		}
	}
}
