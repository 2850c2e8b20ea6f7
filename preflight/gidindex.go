package preflight

import (
	"net/netip"
	"strconv"
	"strings"

	"gorun/preflight/facts"
)

// gidChoice is how NCCL chooses an entry of a port's table of GIDs.
type gidChoice struct {
	index   int  // that is set; -1: none
	v4      bool // the family that is preferred
	within  netip.Prefix
	version int // of RoCE
}

// gidSettings reads the choice from NCCL_IB_GID_INDEX, NCCL_IB_ADDR_FAMILY,
// NCCL_IB_ADDR_RANGE and NCCL_IB_ROCE_VERSION_NUM.
func gidSettings(set map[string]string) gidChoice {
	c := gidChoice{index: intSetting(set, "NCCL_IB_GID_INDEX", -1), v4: true, version: intSetting(set, "NCCL_IB_ROCE_VERSION_NUM", 2)}
	if set["NCCL_IB_ADDR_FAMILY"] == "AF_INET6" {
		c.v4 = false
	}
	if p, err := netip.ParsePrefix(set["NCCL_IB_ADDR_RANGE"]); err == nil && p.Addr().Is4() == c.v4 {
		c.within = p
	}
	return c
}

func intSetting(set map[string]string, name string, none int) int {
	n, err := strconv.ParseInt(strings.TrimSpace(set[name]), 0, 32)
	if err != nil {
		return none
	}
	return int(n)
}

// choose returns the index that NCCL takes, as its ncclIbGetGidIndex does: 0 on
// InfiniBand; else what is set; else the scan from 1 for the family, the range and the
// version that are wanted.
func (c gidChoice) choose(p *facts.Port) int {
	if p.Layer == infiniBand {
		return 0
	}
	if c.index >= 0 {
		return c.index
	}
	best, bestGID := 0, gidAt(p, 0)
	for i := range p.GIDs {
		g := &p.GIDs[i]
		if g.Index > 0 && c.better(bestGID, g) {
			best, bestGID = g.Index, g
		}
	}
	return best
}

// better reports whether NCCL would take next instead of now, which is nil if it is not
// set.
func (c gidChoice) better(now, next *facts.GID) bool {
	if isV4(next) != c.v4 || !c.inRange(next) {
		return false
	}
	if isV4(now) != c.v4 {
		return true
	}
	return validGID(next) && (roceVersion(now) != roceVersion(next) || !validGID(now)) && roceVersion(next) == c.version
}

// inRange reports whether the GID is in NCCL_IB_ADDR_RANGE; all are if that is not set.
func (c gidChoice) inRange(g *facts.GID) bool {
	a := gidAddr(g)
	if c.v4 {
		a = a.Unmap()
	}
	return !c.within.IsValid() || c.within.Contains(a)
}

// gidAt returns the entry with that index, nil if it is empty.
func gidAt(p *facts.Port, index int) *facts.GID {
	for i := range p.GIDs {
		if p.GIDs[i].Index == index {
			return &p.GIDs[i]
		}
	}
	return nil
}

func gidAddr(g *facts.GID) netip.Addr {
	if g == nil {
		return netip.IPv6Unspecified()
	}
	a, err := netip.ParseAddr(g.GID)
	if err != nil {
		return netip.IPv6Unspecified()
	}
	return a
}

func isV4(g *facts.GID) bool { return gidAddr(g).Is4In6() || gidAddr(g).Is4() }

// validGID reports whether the GID is set and leads beyond the link.
func validGID(g *facts.GID) bool {
	a := gidAddr(g)
	return !a.IsUnspecified() && !a.IsLinkLocalUnicast()
}

// roceVersion is 1 or 2, and -1 if the type is not told.
func roceVersion(g *facts.GID) int {
	switch {
	case g == nil:
		return -1
	case strings.HasPrefix(g.Type, "RoCE v2"):
		return 2
	case strings.HasPrefix(g.Type, "IB/RoCE v1"), strings.HasPrefix(g.Type, "RoCE v1"):
		return 1
	}
	return -1
}
