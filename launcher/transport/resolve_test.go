package transport

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gorun/hostfile"
)

func TestAlternate(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"one-family", "10.0.0.2 10.0.0.1", "10.0.0.2 10.0.0.1"},
		{"six-first", "fd00::1 fd00::2 10.0.0.1", "fd00::1 10.0.0.1 fd00::2"},
		{"four-first", "10.0.0.1 fd00::1 fd00::2 10.0.0.2", "10.0.0.1 fd00::1 10.0.0.2 fd00::2"},
		{"mapped", "::ffff:10.0.0.1 fd00::1", "10.0.0.1 fd00::1"},
		{"none", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var in []netip.Addr
			for a := range strings.FieldsSeq(tt.in) {
				in = append(in, netip.MustParseAddr(a))
			}
			var got []string
			for _, a := range alternate(in) {
				got = append(got, a.String())
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %v; want %s", got, tt.want)
			}
		})
	}
}

func TestGetent(t *testing.T) {
	out := "10.0.0.1       STREAM gpu1.cluster\n10.0.0.1       DGRAM  \nfd00::1 RAW\njunk\n\nfe80::1%eth0 STREAM\n"
	want := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fe80::1%eth0")}
	if got := parseGetent(out); !slices.Equal(got, want) {
		t.Errorf("got %v; want %v", got, want)
	}

	// A getent that knows a name that Go's resolver does not.
	bin := t.TempDir()
	write(t, filepath.Join(bin, "getent"), "#!/bin/sh\ntest \"$1 $2\" = 'ahosts only-nss.invalid' && echo 127.0.0.9 STREAM\n", 0o755)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	addrs, err := resolve(t.Context(), "only-nss.invalid", 10*time.Second)
	if err != nil || len(addrs) != 1 || addrs[0].String() != "127.0.0.9" {
		t.Errorf("got %v, %v; want 127.0.0.9", addrs, err)
	}
	_, err = resolve(t.Context(), "nobody-knows.invalid", 10*time.Second)
	if _, ok := errors.AsType[*net.DNSError](err); !ok {
		t.Errorf("got %v; want a DNSError", err)
	}

	// One that hangs.
	write(t, filepath.Join(bin, "getent"), "#!/bin/sh\nexec sleep 60\n", 0o755)
	start := time.Now()
	if _, err = resolve(t.Context(), "only-nss.invalid", 900*time.Millisecond); err == nil || time.Since(start) > 5*time.Second {
		t.Errorf("got %v after %v; want an error soon", err, time.Since(start))
	}
}

func TestBadNames(t *testing.T) {
	for _, name := range []string{"-oProxyCommand=x", "a b", "a\nb", "a\x00b"} {
		if _, err := resolve(t.Context(), name, time.Second); err == nil || !strings.Contains(err.Error(), "is not a host name") {
			t.Errorf("%q: got %v; want it refused", name, err)
		}
	}
}

func TestUnknownHost(t *testing.T) {
	d := fakeDialer(t, nil)
	_, err := dial(t, d, hostfile.Host{Name: "no-such-host.invalid"})
	e := hostError(t, err)
	dns, ok := errors.AsType[*net.DNSError](err)
	if !ok || dns.Name != "no-such-host.invalid" || e.Phase != "resolve" || e.Host != "no-such-host.invalid" {
		t.Errorf("got %v in phase %s; want a DNSError in resolve", err, e.Phase)
	}
}

func TestThisMachine(t *testing.T) {
	m := machine{hostname: "Node0.cluster", addrs: map[netip.Addr]bool{netip.MustParseAddr("10.0.0.5"): true, netip.MustParseAddr("fe80::5"): true}}
	named := []struct {
		name string
		want bool
	}{
		{"", true}, {"localhost", true}, {"LOCALHOST", true}, {"node0.cluster", true}, {"node0", false}, {"node0.other", false}, {"127.0.0.1", true},
		{"127.3.2.1", true}, {"::1", true}, {"10.0.0.5", true}, {"::ffff:10.0.0.5", true}, {"fe80::5%eth0", true}, {"10.0.0.6", false},
	}
	for _, tt := range named {
		if got := m.named(tt.name); got != tt.want {
			t.Errorf("named(%q): got %v; want %v", tt.name, got, tt.want)
		}
	}
	if m.has(nil) || m.has([]netip.Addr{netip.MustParseAddr("10.0.0.5"), netip.MustParseAddr("10.0.0.6")}) {
		t.Error("has: no address, or one that is another's, must not be this machine")
	}
	if (machine{}).named("x") || !(machine{}).named("") {
		t.Error("a machine without a name")
	}
}

func FuzzGetent(f *testing.F) {
	f.Add("10.0.0.1       STREAM gpu1.cluster\n10.0.0.1       DGRAM  \nfd00::1 RAW\n")
	f.Add("fe80::1%eth0\n\n::ffff:1.2.3.4 x\n")
	f.Fuzz(func(t *testing.T, out string) {
		addrs := parseGetent(out)
		seen := map[netip.Addr]bool{}
		for _, a := range addrs {
			if !a.IsValid() || seen[a] {
				t.Errorf("%v: not valid, or twice", a)
			}
			seen[a] = true
		}
		if got := alternate(slices.Clone(addrs)); len(got) != len(addrs) {
			t.Errorf("got %d addresses; want %d", len(got), len(addrs))
		}
	})
}
