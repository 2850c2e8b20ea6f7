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

// A heldPort is a TCP port that is bound on all IPv4 addresses, but not listened to:
// rank 0's program, which sets SO_REUSEADDR as servers do, can have it; another
// agent or an outgoing connection cannot.
type heldPort struct {
	fd   int
	port int // 0: none is held
}

// holdPort finds and binds a free port outside the range of outgoing connections.
// Where that range leaves none (many clusters widen it to 1024-65535) a port inside
// it is as safe, for as long as it is held.
func holdPort() heldPort {
	low, high := parseRange(readLine("/proc/sys/net/ipv4/ip_local_port_range"))
	for range portTries {
		port := pickPort(low, high, rand.IntN)
		if fd, err := bindPort(port); err == nil {
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

// bindPort binds port. The socket is made shareable only after it is bound: two
// sockets that were shareable before could both bind.
func bindPort(port int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	err = unix.Bind(fd, &unix.SockaddrInet4{Port: port})
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
