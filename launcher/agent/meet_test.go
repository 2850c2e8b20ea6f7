package agent

import (
	"fmt"
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// A host that meets itself meets nobody, whether somebody listens there or not.
func TestUnmet(t *testing.T) {
	places := []string{"127.0.0.1:1", "127.0.1.1:1", "[::1]:1"}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			places = append(places, net.JoinHostPort(ip.IP.String(), "1"))
		}
	}
	for _, place := range places {
		if got := <-tryMeeting(place); got != "that is this host itself" {
			t.Errorf("%s: got %q", place, got)
		}
	}
	if got := <-tryMeeting(""); got != "" {
		t.Errorf("not asked: got %q", got)
	}
	if place := "192.0.2.1:1"; own(place) { // of no network there is
		t.Errorf("%s is taken for this host's", place)
	}
}

// A host that refuses is reached, and so is one where somebody listens; one whose answer
// does not come, or to which no way leads, is not.
func TestUnanswered(t *testing.T) {
	held := holdPort()
	defer held.drop()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct{ name, place, want string }{
		{"held", fmt.Sprintf("127.0.0.1:%d", held.port), ""},
		{"heard", l.Addr().String(), ""},
		{"silent", silent(t), "no answer in 1s"},
		{"no-way", "[fe80::1]:20001", "invalid argument"}, // of an interface that is not said
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := unanswered(tt.place); got != tt.want {
				t.Errorf("%s: got %q; want %q", tt.place, got, tt.want)
			}
		})
	}
}

// silent returns an address that answers no more: whoever connects first fills its queue.
func silent(t *testing.T) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	a, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	place := fmt.Sprintf("127.0.0.1:%d", a.(*unix.SockaddrInet4).Port)
	conn, err := net.Dial("tcp", place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return place
}
