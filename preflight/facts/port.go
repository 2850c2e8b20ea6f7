package facts

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
)

const (
	maxGIDs  = 4096 // entries of a table
	gapGIDs  = 32   // empty ones in a row after which no more are expected: tables have up to 1024
	maxPKeys = 256
	gapPKeys = 8
)

// port reads what sysfs says of a port of the device in dir.
func port(s *source, dir string, num int, parent string) Port {
	at := dir + "/ports/" + strconv.Itoa(num)
	p := Port{Num: num, State: afterColon(s.text(at + "/state")), Phys: afterColon(s.text(at + "/phys_state"))}
	p.RateText = brief(s.text(at + "/rate"))
	p.Rate = parseRate(p.RateText)
	p.Layer = brief(s.text(at + "/link_layer"))
	p.LID, p.SMLID = lid(s, at+"/lid"), lid(s, at+"/sm_lid")
	p.PKeys = pkeys(s, at)
	p.GIDs = gids(s, at)
	p.NetDevs = netDevs(s, dir, num, parent, p.GIDs)
	if p.Layer == "Ethernet" {
		p.MTU = activeMTU(s, dir, p.NetDevs)
	}
	return p
}

// afterColon is "ACTIVE" of "4: ACTIVE".
func afterColon(text string) string {
	if _, after, ok := strings.Cut(text, ":"); ok {
		text = after
	}
	return brief(text)
}

// parseRate returns the gigabits per second of "400 Gb/sec (4X NDR)", 0 if there are none.
func parseRate(text string) float64 {
	number, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(rest, "Gb/sec") || !(rate >= 0 && rate < 1e6) {
		return 0
	}
	return rate
}

func lid(s *source, file string) int {
	if n, ok := s.number(file); ok && n > 0 && n < 1<<32 {
		return int(n)
	}
	return 0
}

func pkeys(s *source, port string) (out []string) {
	gap := 0
	for i := range maxPKeys {
		text, err := s.read(port+"/pkeys/"+strconv.Itoa(i), 64)
		if err != nil || gap == gapPKeys {
			return out
		}
		key, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 16)
		if err != nil || key == 0 {
			gap++
			continue
		}
		gap = 0
		out = append(out, fmt.Sprintf("0x%04x", key))
	}
	return out
}

// gids reads the table of GIDs until its end, or until so many empty entries follow each
// other that the rest is empty, too: some tables have a thousand.
func gids(s *source, port string) (out []GID) {
	gap := 0
	for i := range maxGIDs {
		n := strconv.Itoa(i)
		text, err := s.read(port+"/gids/"+n, 64)
		if err != nil || gap == gapGIDs {
			return out
		}
		gid, ok := parseGID(string(text))
		if !ok {
			gap++
			continue
		}
		gap = 0
		out = append(out, GID{
			Index: i, GID: gid, Type: brief(s.text(port + "/gid_attrs/types/" + n)), NetDev: brief(s.text(port + "/gid_attrs/ndevs/" + n)),
		})
	}
	return out
}

// parseGID reads eight groups of four digits. ok is false for an empty entry, which is
// all zero, or has a prefix only as on a port without a GUID.
func parseGID(text string) (gid string, ok bool) {
	a, err := netip.ParseAddr(strings.TrimSpace(text))
	if err != nil || !a.Is6() || a.Zone() != "" {
		return "", false
	}
	b := a.As16()
	if allZero(b[8:]) {
		return "", false
	}
	return a.String(), true
}

// netDevs returns the network interfaces of a port: of its GIDs, its software parent, or
// those of the same PCI device that have the port's number.
func netDevs(s *source, dir string, num int, parent string, table []GID) (out []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, g := range table {
		add(g.NetDev)
	}
	add(parent)
	if len(out) > 0 {
		return out
	}
	for _, name := range s.list(dir + "/device/net") {
		if n, ok := s.number(dir + "/device/net/" + name + "/dev_port"); !ok || n == int64(num-1) || n == 0 {
			add(plain(name, 16))
		}
	}
	return out
}

// activeMTU is the port's MTU as drivers derive it from that of the interface itself, not
// from those of VLANs on it.
func activeMTU(s *source, dir string, names []string) int {
	if len(names) == 0 {
		return 0
	}
	name := names[0]
	for _, n := range names {
		if s.exists(dir + "/device/net/" + n) {
			name = n
			break
		}
	}
	mtu, ok := s.number(path.Join(classNet, name, "mtu"))
	if !ok {
		return 0
	}
	return roceMTU(int(mtu))
}

// roceMTU is the largest MTU of RoCE that fits with its headers into packets of an
// interface's MTU, as the kernel's iboe_get_mtu computes it; 0 if none does.
func roceMTU(mtu int) int {
	const headers = 40 + 8 + 12 + 4 + 28 + 4 // GRH, UDP, BTH, XRC, atomic, ICRC
	for _, size := range []int{4096, 2048, 1024, 512, 256} {
		if mtu-headers >= size {
			return size
		}
	}
	return 0
}
