package preflight

import (
	"fmt"
	"strconv"
	"strings"

	"gorun/preflight/facts"
)

const explainRDMAGID = `A RoCE port has a table of addresses (GIDs), one or two for each IP address of its interface, and both ends must use entries of one kind. ` +
	`NCCL 2.21 and later choose the entry by themselves (older ones take entry 0): an IPv4 address by RoCE v2, unless NCCL_IB_ADDR_FAMILY, NCCL_IB_ADDR_RANGE or NCCL_IB_ROCE_VERSION_NUM say otherwise. ` +
	`The same choice is made here, for each port; that the libnccl of a host is older is a warning, as the job may have another. ` +
	`A link-local GID means that the interface has no IP address: traffic then stays inside one switch at best. ` +
	`If NCCL_IB_GID_INDEX is set, NCCL takes that entry, whatever it holds; it must be set, and of the same kind, on every host. It is better left unset. ` +
	`On InfiniBand entry 0 is used, and there is nothing to choose.`

func checkRDMAGID(v *view) (found []Finding, good, skip string) {
	f, skip := v.fabric()
	if skip != "" {
		return nil, "", skip
	}
	if f.layer != ethernet {
		return f.unknown, "", "the RDMA network is not RoCE"
	}
	empty := f.emptyGIDs()
	var hosts []int
	for _, i := range f.hosts {
		if !empty[i] && len(f.rails(i)) > 0 {
			hosts = append(hosts, i)
		}
	}
	found = append(f.unknown, f.gidFaults(empty)...)
	found = append(found, v.odd(hosts, contrast{
		of: gidKinds, verb: "uses", what: "GIDs of kind", subject: "the kind of GID that NCCL will use",
		blame: v.rdmaVerdict(NoHost), differ: v.rdmaVerdict(NoCluster),
		remedy: "give every RoCE interface of HOST an IPv4 address, and leave NCCL_IB_GID_INDEX unset",
	})...)
	if old, kind := f.oldChoice(hosts); len(old) > 0 {
		found = append(found, f.oldGIDs(old, kind))
	}
	if all := v.groups(hosts, gidKinds); len(all) > 0 && all[0].value != "RoCE v2" {
		found = append(found, f.poorGIDs(all[0])...)
	}
	if len(hosts) > 0 {
		good = "NCCL will use " + gidsOf(&v.Hosts[hosts[0]]) + " on each HCA"
	}
	return found, good, ""
}

// gidOf is the entry that NCCL will use of a port of h; nil if that is empty. The NCCL
// that h has need not be that of the job, so that it is taken for a new one.
func gidOf(h *Host, p *facts.Port) *facts.GID { return gidAt(p, gidSettings(h.Settings).choose(p)) }

// oldChoice are the hosts whose own NCCL would take another kind of entry than a new one.
func (f fabric) oldChoice(hosts []int) (old []int, kind string) {
	for _, i := range hosts {
		h := &f.Hosts[i]
		if !oldNCCL(h) || gidSettings(h.Settings).index >= 0 {
			continue
		}
		for _, r := range f.rails(i) {
			if k := gidKind(gidAt(r.port, 0)); k != gidKind(gidOf(h, r.port)) {
				old, kind = append(old, i), k
				break
			}
		}
	}
	return old, kind
}

// oldNCCL reports whether the NCCL that h has is known to be one that does not choose a
// GID by itself, but takes entry 0.
func oldNCCL(h *Host) bool {
	if len(h.Facts.NCCL) == 0 {
		return false
	}
	major, rest, _ := strings.Cut(h.Facts.NCCL[0].Version, ".")
	first, second := leadingNumber(major), leadingNumber(rest)
	return first > 0 && (first < 2 || first == 2 && second < 21)
}

// gidKind says what sort of GID that is: "RoCE v2" of an IPv4 address, which is what is
// wanted, or what is different of it.
func gidKind(g *facts.GID) string {
	kind := "RoCE of unknown version"
	if n := roceVersion(g); n > 0 {
		kind = fmt.Sprintf("RoCE v%d", n)
	}
	switch {
	case !validGID(g):
		kind += " link-local"
	case !isV4(g):
		kind += " IPv6"
	}
	return kind
}

func gidKinds(h *Host) string {
	var kinds []string
	for _, r := range onLayer(inUse(h), ethernet) {
		kinds = append(kinds, gidKind(gidOf(h, r.port)))
	}
	return strings.Join(unique(kinds), ", ")
}

// gidsOf says which entries NCCL takes on h: "GID 3 (RoCE v2)".
func gidsOf(h *Host) string {
	var indexes []string
	for _, r := range onLayer(inUse(h), ethernet) {
		if g := gidOf(h, r.port); g != nil {
			indexes = append(indexes, strconv.Itoa(g.Index))
		}
	}
	return fmt.Sprintf("GID %s (%s)", strings.Join(unique(indexes), " or "), gidKinds(h))
}

// emptyGIDs are the hosts with a port whose entry is empty.
func (f fabric) emptyGIDs() map[int]bool {
	empty := map[int]bool{}
	f.eachRail(func(i int, r rail) {
		if gidOf(&f.Hosts[i], r.port) == nil {
			empty[i] = true
		}
	})
	return empty
}

func (f fabric) gidFaults(empty map[int]bool) []Finding {
	t, verdict := f.tally(), NoHost
	if len(empty) > 1 && 2*len(empty) > len(f.hosts) {
		verdict = NoCluster
	}
	f.eachRail(func(i int, r rail) {
		h := &f.Hosts[i]
		if gidOf(h, r.port) != nil {
			return
		}
		x := fault{verdict: f.rdmaVerdict(verdict), what: "has RoCE ports without a GID", which: r.name(), remedy: "on HOST, give the interface of WHICH an IPv4 address"}
		if set := h.Settings["NCCL_IB_GID_INDEX"]; set != "" {
			x.what, x.remedy = "has nothing at NCCL_IB_GID_INDEX="+set, "leave NCCL_IB_GID_INDEX unset with NCCL 2.21 or later; it finds the right GID of each HCA by itself"
		}
		t.add(i, x)
	})
	return t.findings()
}

// poorGIDs warns of a kind of GID that most hosts use, but that is none to use.
func (f fabric) poorGIDs(most group) []Finding {
	what := "no interface of the HCAs has an IPv4 address"
	switch {
	case strings.Contains(most.value, "link-local"):
	case strings.Contains(most.value, "v1"):
		what = "RoCE v1 passes no router"
	case strings.Contains(most.value, "IPv6"):
		if f.Hosts[most.hosts[0]].Settings["NCCL_IB_ADDR_FAMILY"] == "AF_INET6" {
			return nil
		}
	}
	remedy, h := "give the interface of every HCA an IPv4 address, and leave NCCL_IB_GID_INDEX unset", &f.Hosts[most.hosts[0]]
	title := fmt.Sprintf("NCCL will use %s GIDs: %s", most.value, what)
	return []Finding{f.finding(Warn, most.hosts, title, remedy, []string{gidsOf(h)})}
}

// oldGIDs warns of an NCCL that does not find the right GID by itself. The job may have
// another one.
func (f fabric) oldGIDs(hosts []int, kind string) Finding {
	h := &f.Hosts[hosts[0]]
	title := fmt.Sprintf("NCCL would use %s GIDs: NCCL %s takes entry 0 of the table", kind, h.Facts.NCCL[0].Version)
	remedy := fmt.Sprintf("use NCCL 2.21 or later, or set NCCL_IB_GID_INDEX=%d", gidSettings(h.Settings).choose(f.rails(hosts[0])[0].port))
	return f.finding(Warn, hosts, title, remedy, []string{"a newer one would use " + gidsOf(h)})
}
