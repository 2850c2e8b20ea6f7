package preflight

import (
	"slices"

	"gorun/preflight/facts"
)

// view is the Input as checks read it.
type view struct {
	Input
	reached []int // indexes of the hosts that have facts

	matrices map[string]parsed // by what nvidia-smi topo -m printed
}

// newView returns a view of in whose limits are all set.
func newView(in Input) *view {
	v := &view{Input: in, matrices: map[string]parsed{}}
	v.Limits = in.Limits.orDefaults()
	for i, h := range in.Hosts {
		if h.Unreached == "" {
			v.reached = append(v.reached, i)
		}
	}
	return v
}

func (v *view) names() []string {
	names := make([]string, len(v.Hosts))
	for i, h := range v.Hosts {
		names[i] = h.Name
	}
	return names
}

// lacks reports whether one of items is not known of a host.
func (v *view) lacks(host int, items ...string) bool {
	return slices.ContainsFunc(items, func(item string) bool {
		_, lacks := v.Hosts[host].Facts.Unknown[item]
		return lacks
	})
}

// split lists those of hosts of which all items are known, and finds the others unknown.
func (v *view) split(hosts []int, items ...string) (known []int, unknown []Finding) {
	t := v.tally()
	for _, i := range hosts {
		lacks := false
		for _, item := range items {
			if reason, ok := v.Hosts[i].Facts.Unknown[item]; ok && !lacks {
				t.add(i, unknownFault(item, reason))
				lacks = true
			}
		}
		if !lacks {
			known = append(known, i)
		}
	}
	return known, t.findings()
}

// itemNames are what items are called in findings.
var itemNames = map[string]string{
	facts.ItemSystem: "kernel, CPUs and memory", facts.ItemLimits: "limits", facts.ItemDisks: "disks", facts.ItemNet: "network interfaces",
	facts.ItemNames: "names of other hosts", facts.ItemPCI: "PCI devices", facts.ItemGPU: "GPUs", facts.ItemGPUTopo: "GPU topology",
	facts.ItemGPUNVLink: "NVLinks", facts.ItemFabric: "fabric manager", facts.ItemRDMA: "RDMA devices", facts.ItemKernel: "kernel log",
	facts.ItemPrograms: "programs", facts.ItemNCCL: "NCCL library", facts.ItemConf: "NCCL configuration", facts.ItemCopyRate: "memory speed",
}

// unknownFault is that of a host of which item is not known. Its title tells the reason
// only, so that Judge can join those of several checks.
func unknownFault(item, reason string) fault {
	if reason == "" {
		reason = "no reason is given"
	}
	name, ok := itemNames[item]
	if !ok {
		name = item
	}
	return fault{verdict: Unknown, what: "does not tell its " + name, which: reason}
}

// ranksOn is how many ranks a host must be ready for: those it will get, of a spare as
// many as the fullest host gets.
func (v *view) ranksOn(host int) int {
	if n := v.Hosts[host].Ranks; n > 0 {
		return n
	}
	most := 0
	for i := range v.Hosts {
		most = max(most, v.Hosts[i].Ranks)
	}
	return most
}
