package agent

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gorun/launcher/wire"
)

func TestHello(t *testing.T) {
	begin := time.Now()
	h := hello([]string{"SSH_CONNECTION=::1 50000 ::1 22"}, 12345)
	t.Logf("hello took %v", time.Since(begin))
	name, _ := os.Hostname()
	if h.PID != os.Getpid() || h.UID != os.Getuid() || h.Hostname != name || h.Port != 12345 {
		t.Errorf("got %+v; want this process on %s", h, name)
	}
	if len(h.BootID) != 36 || h.Cores < 1 || h.Cores > len(affinity()) || h.GPUs != countGPUs("/proc/driver/nvidia/gpus") {
		t.Errorf("got %+v", h)
	}
	if h.SSHServer != "::1" {
		t.Errorf("ssh server %q; want ::1", h.SSHServer)
	}
}

// The kernel's answer is read as package net does, which asks once for each interface.
func TestInterfaces(t *testing.T) {
	all, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	var want []wire.Interface
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			t.Fatal(err)
		}
		w := wire.Interface{Name: i.Name}
		for _, a := range addrs {
			w.Addrs = append(w.Addrs, a.(*net.IPNet).IP.String())
		}
		if i.Flags&net.FlagUp != 0 && len(addrs) > 0 {
			want = append(want, w)
		}
	}
	if len(want) == 0 {
		t.Fatal("this host has not even a loopback interface")
	}
	if diff := cmp.Diff(want, interfaces()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRouteAddr(t *testing.T) {
	for client, want := range map[string]string{"127.0.0.1": "127.0.0.1", "": "", "host": "", "127.0.0.1 -x": ""} {
		if got := routeAddr(client); got != want {
			t.Errorf("%q: got %q; want %q", client, got, want)
		}
	}
}

// The address by the default route is one of an interface, and not loopback.
func TestOutAddr(t *testing.T) {
	got := outAddr()
	if got == "" {
		return // there is no default route
	}
	for _, i := range interfaces() {
		if i.Name != "lo" && slices.Contains(i.Addrs, got) {
			return
		}
	}
	t.Errorf("got %q, which no interface has", got)
}

func TestPhysicalCores(t *testing.T) {
	dir := t.TempDir()
	// Two sockets of two cores with two threads each; CPU 8 is not described.
	for cpu, siblings := range map[int]string{0: "0,4", 4: "0,4", 1: "1,5", 5: "1,5", 2: "2,6", 6: "2,6", 3: "3,7", 7: "3,7"} {
		write(t, fmt.Sprintf("%s/cpu/cpu%d/topology/thread_siblings_list", dir, cpu), siblings+"\n", 0o600)
	}
	tests := []struct {
		name string
		cpus []int
		want int
	}{
		{"all", []int{0, 1, 2, 3, 4, 5, 6, 7}, 4},
		{"one-thread-each", []int{0, 1, 2, 3}, 4},
		{"both-threads", []int{1, 5}, 1},
		{"second-threads", []int{4, 6}, 2},
		{"not-described", []int{0, 8, 9}, 3},
		{"unknown-mask", nil, 1},
	}
	for _, tt := range tests {
		if got := physicalCores(os.DirFS(dir), tt.cpus); got != tt.want {
			t.Errorf("%s: got %d; want %d", tt.name, got, tt.want)
		}
	}
}

func TestGPUs(t *testing.T) {
	dir := t.TempDir()
	for _, bdf := range []string{"0000:18:00.0", "0001:3a:00.0"} {
		write(t, dir+"/"+bdf+"/information", "Model: NVIDIA H100\n", 0o600)
	}
	if got := countGPUs(dir); got != 2 {
		t.Errorf("got %d; want 2", got)
	}
	if got := countGPUs(dir + "/none"); got != 0 {
		t.Errorf("without a driver: got %d; want 0", got)
	}
}

func TestParseList(t *testing.T) {
	tests := []struct {
		text string
		want []int
	}{
		{"0", []int{0}}, {"0-3,8", []int{0, 1, 2, 3, 8}}, {"2,0-1", []int{2, 0, 1}},
		{"", nil}, {"x", nil}, {"3-1", nil}, {"-1", nil}, {"0-99999999999", nil}, {"1,,2", nil},
	}
	for _, tt := range tests {
		if got, ok := parseList(tt.text); !slices.Equal(got, tt.want) || ok != (tt.want != nil) {
			t.Errorf("%q: got %v, %v; want %v", tt.text, got, ok, tt.want)
		}
	}
}

func TestPickPort(t *testing.T) {
	tests := []struct {
		name        string
		low, high   int
		first, last int // the lowest and the highest that may come
	}{
		{"default", 32768, 60999, 10000, 65535},
		{"up-to-the-top", 32768, 65535, 10000, 32767},
		{"from-the-bottom", 1024, 60999, 61000, 65535},
		{"below", 1024, 4999, 10000, 65535},
		{"everything", 1024, 65535, 10000, 65535},
		{"one-left", 10001, 65535, 10000, 10000},
	}
	for _, tt := range tests {
		first := pickPort(tt.low, tt.high, func(int) int { return 0 })
		last := pickPort(tt.low, tt.high, func(n int) int { return n - 1 })
		if first != tt.first || last != tt.last {
			t.Errorf("%s: ports %d to %d; want %d to %d", tt.name, first, last, tt.first, tt.last)
		}
	}
	for i := range 65536 { // no port of the range ever comes
		p := pickPort(32768, 60999, func(n int) int { return i % n })
		if p < minPort || (p >= 32768 && p <= 60999) || p > maxPort {
			t.Fatalf("draw %d gives port %d", i, p)
		}
	}
}

func TestParseRange(t *testing.T) {
	for text, want := range map[string][2]int{"1024\t65535": {1024, 65535}, "": {32768, 60999}, "5 1": {32768, 60999}, "0 70000": {32768, 60999}, "a b": {32768, 60999}} {
		if low, high := parseRange(text); low != want[0] || high != want[1] {
			t.Errorf("%q: got %d, %d; want %v", text, low, high, want)
		}
	}
}

func TestTwoAgentsNeverShareAPort(t *testing.T) {
	a := holdPort()
	if a.port == 0 {
		t.Fatal("no port")
	}
	defer a.drop()
	if fd, err := bindPort(a.port); err == nil {
		t.Errorf("port %d was bound twice, as %d", a.port, fd)
	}
}

func TestParseArgs(t *testing.T) {
	tests := []struct {
		args string
		ok   bool
	}{
		{"0123456789abcdef", true}, {"0123456789abcdef --remove /tmp/x", true},
		{"", false}, {"0123", false}, {"0123456789abcdeg", false}, {"0123456789abcdef --remove", false},
		{"0123456789abcdef -x /tmp/x", false}, {"sweep", false},
	}
	for _, tt := range tests {
		if _, err := parseArgs(strings.Fields(tt.args)); (err == nil) != tt.ok {
			t.Errorf("%q: %v; want accepted %v", tt.args, err, tt.ok)
		}
	}
}
