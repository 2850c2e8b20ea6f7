package agent

import (
	"math/rand/v2"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	minPort   = 10000 // below, services of all kinds are configured
	maxPort   = 65535
	portTries = 16
)

// A heldPort is a TCP port that is bound, but not listened to: another agent or an
// outgoing connection cannot have it, and who can is said at bindPort and bindCommPort.
type heldPort struct {
	fd   int
	port int // 0: none is held
}

// holdPort finds a free port outside the range of outgoing connections, and binds it.
// Where that range leaves none (many clusters widen it to 1024-65535) a port inside
// it is as safe, for as long as it is held.
func holdPort(bind func(port int) (fd int, err error)) heldPort {
	low, high := parseRange(readLine("/proc/sys/net/ipv4/ip_local_port_range"))
	for range portTries {
		port := pickPort(low, high, rand.IntN)
		if fd, err := bind(port); err == nil {
			return heldPort{fd, port}
		}
	}
	return heldPort{}
}

// drop frees the port.
func (h *heldPort) drop() {
	if h.port != 0 {
		unix.Close(h.fd)
	}
	h.port = 0
}

// parseRange reads "32768 60999"; anything else is the kernel's default.
func parseRange(s string) (low, high int) {
	f := strings.Fields(s)
	if len(f) == 2 {
		low, err1 := strconv.Atoi(f[0])
		high, err2 := strconv.Atoi(f[1])
		if err1 == nil && err2 == nil && 0 <= low && low <= high && high <= maxPort {
			return low, high
		}
	}
	return 32768, 60999
}

// pickPort draws a port from those at or above minPort that are not within low and
// high, or from all if these leave none.
func pickPort(low, high int, random func(n int) int) int {
	below := max(low-minPort, 0)
	above := maxPort - max(high, minPort-1)
	if below+above == 0 {
		return minPort + random(maxPort-minPort+1)
	}
	if n := random(below + above); n < below {
		return minPort + n
	} else {
		return max(high+1, minPort) + n - below
	}
}

// bindPort binds port on all IPv4 addresses, for rank 0's program if that sets
// SO_REUSEADDR, as servers do.
func bindPort(port int) (int, error) {
	return bindShared(unix.AF_INET, &unix.SockaddrInet4{Port: port}, unix.SO_REUSEADDR)
}

// bindCommPort binds port on all addresses, for rank 0's program if that sets
// SO_REUSEPORT, as NCCL does. Other users' programs cannot have it whatever they set.
func bindCommPort(port int) (int, error) {
	fd, err := bindShared(unix.AF_INET6, &unix.SockaddrInet6{Port: port}, unix.SO_REUSEPORT)
	if err == unix.EAFNOSUPPORT || err == unix.EADDRNOTAVAIL { // a host without IPv6
		return bindShared(unix.AF_INET, &unix.SockaddrInet4{Port: port}, unix.SO_REUSEPORT)
	}
	return fd, err
}

// bindShared binds a socket, then lets others that set option bind the same: two that had
// set it before could both bind.
func bindShared(family int, addr unix.Sockaddr, option int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if family == unix.AF_INET6 { // a site may have net.ipv6.bindv6only set
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, addr)
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
