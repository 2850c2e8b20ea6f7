package facts

import (
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const (
	maxRoutes   = 1024 // that are told
	routeUp     = 0x1
	routeReject = 0x200
	routeLocal  = 0x80000000 // of IPv6: to this host itself
)

// routes returns those of the main table, IPv4's first.
func routes(s *source) []Route {
	out := append(parseRoutes4(s.text("/proc/net/route")), parseRoutes6(s.text("/proc/net/ipv6_route"))...)
	return slices.Clip(out[:min(len(out), maxRoutes)])
}

// parseRoutes4 reads /proc/net/route: addresses are 32-bit numbers as this machine has
// them in memory, written in hexadecimal.
func parseRoutes4(text string) (out []Route) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		dest, ok1 := addr4(f[1])
		via, ok2 := addr4(f[2])
		mask, ok3 := addr4(f[7])
		flags, err := strconv.ParseUint(f[3], 16, 32)
		metric, _ := strconv.Atoi(f[6])
		if !ok1 || !ok2 || !ok3 || err != nil || flags&routeUp == 0 || flags&routeReject != 0 {
			continue
		}
		m := mask.As4()
		ones := 0
		for _, b := range m {
			ones += bits.OnesCount8(b)
		}
		r := Route{Prefix: netip.PrefixFrom(dest, ones).String(), Interface: plain(f[0], 16), Metric: metric}
		if !via.IsUnspecified() {
			r.Via = via.String()
		}
		out = append(out, r)
	}
	return out
}

func addr4(text string) (netip.Addr, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 4 {
		return netip.Addr{}, false
	}
	slices.Reverse(b) // the machines that gorun runs on are little-endian
	return netip.AddrFromSlice(b)
}

// parseRoutes6 reads /proc/net/ipv6_route, which has the routes of all tables: those to
// the host itself and those for multicast are left out.
func parseRoutes6(text string) (out []Route) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 {
			continue
		}
		dest, ok1 := addr6(f[0])
		via, ok2 := addr6(f[4])
		length, err1 := strconv.ParseUint(f[1], 16, 8)
		metric, err2 := strconv.ParseUint(f[5], 16, 32)
		flags, err3 := strconv.ParseUint(f[8], 16, 32)
		if !ok1 || !ok2 || err1 != nil || err2 != nil || err3 != nil || length > 128 {
			continue
		}
		if flags&routeUp == 0 || flags&(routeReject|routeLocal) != 0 || dest.IsMulticast() || f[9] == "lo" {
			continue
		}
		r := Route{Prefix: fmt.Sprintf("%s/%d", dest, length), Interface: plain(f[9], 16), Metric: int(metric)}
		if !via.IsUnspecified() {
			r.Via = via.String()
		}
		out = append(out, r)
	}
	return out
}

func addr6(text string) (netip.Addr, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 16 {
		return netip.Addr{}, false
	}
	return netip.AddrFromSlice(b)
}

// parsePortRange reads two numbers; {0, 0} if they are none.
func parsePortRange(text string) (out [2]int) {
	f := strings.Fields(text)
	if len(f) != 2 {
		return out
	}
	low, err1 := strconv.ParseUint(f[0], 10, 16)
	high, err2 := strconv.ParseUint(f[1], 10, 16)
	if err1 != nil || err2 != nil || low > high {
		return out
	}
	return [2]int{int(low), int(high)}
}
