package probe

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestFilters(t *testing.T) {
	tests := []struct {
		name, rule string
		six        bool
		want       Failure
		text       string
	}{
		{"drop", "tcp dport 1024-65535 drop", false, Dropped, "no answer within 300ms"},
		{"drop-6", "tcp dport 1024-65535 drop", true, Dropped, ""},
		{"reject", "tcp dport 1024-65535 reject", false, Rejected, `"port unreachable" (ICMP type 3 code 3)`},
		{"reject-6", "tcp dport 1024-65535 reject", true, Rejected, `"port unreachable" (ICMP type 1 code 4)`},
		{"prohibited", "tcp dport 1024-65535 reject with icmp type admin-prohibited", false, Rejected, "prohibited"},
		{"prohibited-6", "tcp dport 1024-65535 reject with icmpv6 type admin-prohibited", true, Rejected, "prohibited"},
		{"host-unreachable", "tcp dport 1024-65535 reject with icmp type host-unreachable", false, Rejected, "10.78.1.2 answers"},
		{"reset", "tcp dport 1024-65535 reject with tcp reset", false, Refused, "nobody listens"},
	}
	c := newCluster(t)
	for _, tt := range tests {
		// One way only: the other host's own connects pass.
		c.host[1].nft(t, "f", "input", "ct state established accept", tt.rule)
		o := Order{Pings: 1}
		if tt.want == Dropped {
			o.Timeout = soon
		}
		got := c.try(t, 0, tt.six, o)
		if got.Failure != tt.want || !strings.Contains(got.Text, tt.text) {
			t.Errorf("%s: got %+v; want %s, with %q", tt.name, got, tt.want, tt.text)
		}
		wantGood(t, tt.name+", reverse", c.try(t, 1, tt.six, Order{Pings: 1, MTU: true}), hostMTU)
		c.host[1].run(t, "", "nft", "flush", "ruleset")
	}
}

func TestRouterUnreachable(t *testing.T) {
	c := newCluster(t)
	c.router.ip(t, "addr del 10.78.1.1/24 dev p1")
	got := c.try(t, 0, false, Order{})
	if got.Failure != Unreachable || !strings.Contains(got.Text, `10.78.0.1 answers "network unreachable"`) {
		t.Errorf("no route behind the router: got %+v", got)
	}
	c.host[0].ip(t, "route del default")
	got = c.try(t, 0, false, Order{})
	if got.Failure != Unreachable || !strings.Contains(got.Text, "this host has no way there") {
		t.Errorf("no route: got %+v", got)
	}
}

// A host that is not there is told from one that drops, if there is time for the kernel
// to find that out.
func TestNobodyHasAddress(t *testing.T) {
	c := newCluster(t)
	c.host[0].ip(t, "neigh replace 10.78.0.1 dev eth0 nud failed")
	c.host[0].set(t, "ipv4/neigh/eth0/retrans_time_ms=100")
	c.router.ip(t, "link set p0 arp off")
	c.router.ip(t, "addr del 10.78.0.1/24 dev p0")
	got := c.try(t, 0, false, Order{Timeout: 4 * time.Second})
	if got.Failure != Unreachable || !strings.Contains(got.Text, "no machine has that address") {
		t.Errorf("got %+v", got)
	}
}

func TestMTU(t *testing.T) {
	order := Order{MTU: true, Pings: 2}
	t.Run("full", func(t *testing.T) {
		c := newCluster(t)
		wantGood(t, "ipv4", c.try(t, 0, false, order), hostMTU)
		wantGood(t, "ipv6", c.try(t, 0, true, order), hostMTU)
	})
	t.Run("router-tells", func(t *testing.T) {
		c := newCluster(t)
		c.shrink(t)
		wantGood(t, "ipv4", c.try(t, 0, false, order), 1400)
		wantGood(t, "ipv6", c.try(t, 0, true, order), 1400)
		// Host 0 has learnt it, and asks for small packets.
		wantGood(t, "reverse", c.try(t, 1, false, order), 1400)
	})
	t.Run("black-hole", func(t *testing.T) {
		c := newCluster(t)
		c.shrink(t)
		c.router.nft(t, "f", "output", "icmp type destination-unreachable drop", "icmpv6 type packet-too-big drop")
		start := time.Now()
		o := Order{MTU: true, Pings: 2, Bandwidth: time.Second, Rounds: [][]Target{{
			{1, netip.AddrPortFrom(c.addr[1], c.port[1])}, {1, netip.AddrPortFrom(c.addr6[1], c.port6[1])},
		}}}
		for i, got := range c.host[0].ask(t, ask{Order: &o}).Result.Links {
			if got.Failure != "" || !got.MTUFailed || got.MTU != hostMTU || got.Latency <= 0 || got.BytesPerSecond != 0 {
				t.Errorf("address %d: got %+v; want a failed MTU of %d", i, got, hostMTU)
			}
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("took %v; want about a second", took)
		}
		wantGood(t, "reverse", c.try(t, 1, false, order), hostMTU)
	})
	t.Run("narrow-switch", func(t *testing.T) {
		c := newCluster(t)
		// As at a switch port, what is larger is dropped without a word.
		c.router.ip(t, "link set p0 mtu 1500")
		got := c.try(t, 0, false, order)
		if got.Failure != "" || !got.MTUFailed || !strings.Contains(got.Text, "9000 bytes are lost") {
			t.Errorf("got %+v; want a failed MTU", got)
		}
	})
	t.Run("lost-once", func(t *testing.T) {
		c := newCluster(t)
		// The first two packets that are large never arrive.
		c.router.nft(t, "f", "forward", "ip length > 8000 limit rate 1/hour burst 2 packets drop")
		wantGood(t, "ipv4", c.try(t, 0, false, order), hostMTU)
	})
}

// shrink makes the router's way to host 1 narrower than any interface says.
func (c *cluster) shrink(t *testing.T) {
	t.Helper()
	c.router.ip(t, "route replace 10.78.1.0/24 dev p1 mtu lock 1400")
	c.router.ip6(t, "route del fd78:1::/64 dev p1", "route add fd78:1::/64 dev p1 mtu lock 1400")
}
