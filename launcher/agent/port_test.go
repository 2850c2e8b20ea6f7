package agent

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A port that is kept for NCCL can be listened to as NCCL does it, on any address of the
// host, and by no stranger.
func TestHoldsCommPort(t *testing.T) {
	held := holdPort(bindCommPort)
	if held.port == 0 {
		t.Fatal("no port")
	}
	defer held.drop()
	v4 := &unix.SockaddrInet4{Port: held.port, Addr: [4]byte{127, 0, 0, 1}}
	v6 := &unix.SockaddrInet6{Port: held.port, Addr: [16]byte{15: 1}}
	both := []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT}
	for _, row := range []struct {
		name    string
		addr    unix.Sockaddr
		options []int
		want    error
	}{
		{"nccl", v4, both, nil},
		{"nccl-ipv6", v6, both, nil},
		{"server", v4, []int{unix.SO_REUSEADDR}, unix.EADDRINUSE},
		{"server-ipv6", v6, []int{unix.SO_REUSEADDR}, unix.EADDRINUSE},
		{"plain", v4, nil, unix.EADDRINUSE},
		{"all-addresses", &unix.SockaddrInet4{Port: held.port}, []int{unix.SO_REUSEADDR}, unix.EADDRINUSE},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := listenOn(t, row.addr, row.options); err != row.want && err != unix.EADDRNOTAVAIL && err != unix.EAFNOSUPPORT {
				t.Errorf("got %v; want %v", err, row.want)
			}
		})
	}
	if fd, err := bindCommPort(held.port); err == nil {
		unix.Close(fd)
		t.Error("two agents hold one port")
	}
	t.Run("other-user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("only root can make another user's socket")
		}
		runtime.LockOSThread() // never unlocked: the thread ends with its user
		unix.Setfsuid(65534)
		if err := listenOn(t, v4, both); err != unix.EADDRINUSE {
			t.Errorf("got %v; want %v", err, unix.EADDRINUSE)
		}
	})
}

// listenOn listens, for a moment, on a socket with the options.
func listenOn(t *testing.T, addr unix.Sockaddr, options []int) error {
	t.Helper()
	family := unix.AF_INET
	if _, ok := addr.(*unix.SockaddrInet6); ok {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for _, option := range options {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Bind(fd, addr); err != nil {
		return err
	}
	return unix.Listen(fd, 1)
}
