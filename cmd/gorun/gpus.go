package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gorun/hostfile"
	"gorun/launcher"
	"gorun/launcher/output"
	"gorun/preflight"
	"gorun/preflight/facts"
	"gorun/preflight/topo"
)

const cudaDevices = "CUDA_VISIBLE_DEVICES"

// gpuPlan is which GPUs the ranks of a host get.
type gpuPlan struct {
	view    *topo.View // nil: nothing is known of GPUs
	gpus    []int      // their indexes, by local rank
	visible []string   // as launcher.Job.Visible has it; nil: nothing is set
	note    string     // what is said of it, about hosts that are named before it; "": nothing
}

// arranger gives ranks their GPUs, by what is known of the hosts. It keeps what it has
// found out of GPUs that are connected alike.
type arranger struct {
	job    launcher.Job
	one    bool // --gpu-bind one
	orders map[string][]int
}

func (o *options) arranger(job launcher.Job) *arranger {
	return &arranger{job: job, one: o.gpuBind == bindOne, orders: map[string][]int{}}
}

// plan decides for a host with so many ranks, of which groups of near follow each other;
// near is 1 without a mesh.
func (a *arranger) plan(name string, f *facts.Host, ranks, near int) (gpuPlan, error) {
	if len(f.GPU.Devices) == 0 {
		return a.unlisted(name, f, ranks)
	}
	view, _ := preflight.Topology(f) // the checks tell what cannot be read
	p := gpuPlan{view: view, gpus: a.order(view, near)}
	natural := slices.IsSorted(p.gpus)
	value, origin, chosen := a.chosen(name, f)
	if chosen {
		if p.gpus = chosenGPUs(*f, value); !natural && !a.one {
			p.note = fmt.Sprintf("%s is as %s has it; by what is near on the host, GPUs would be in the order %s",
				cudaDevices, origin, indexList(a.order(view, near)))
		}
		natural = true
	}
	ids, whole := uuids(f, p.gpus)
	if chosen {
		ids = visibleItems(value)
	}
	switch {
	case a.one && ranks > len(ids):
		return p, tooFewGPUs(name, len(ids), ranks)
	case a.one:
		p.visible = ids
	case natural:
	case !whole:
		p.note = fmt.Sprintf("GPUs are in parts (MIG) or without UUIDs, and their order is left as it is; by what is near on the host, it would be %s", indexList(p.gpus))
		p.gpus = sortedCopy(p.gpus)
	default:
		p.visible = []string{strings.Join(ids, ",")}
		p.note = fmt.Sprintf("%s has the GPUs in the order %s, by what is near on the host", cudaDevices, indexList(p.gpus))
	}
	return p, nil
}

// unlisted is plan for a host whose GPUs nvidia-smi has not told: their device files have
// numbers, too.
func (a *arranger) unlisted(name string, f *facts.Host, ranks int) (gpuPlan, error) {
	if !a.one || ranks == 0 {
		return gpuPlan{}, nil
	}
	var ids []string
	if value, _, ok := a.chosen(name, f); ok {
		ids = visibleItems(value)
	} else {
		for i := range f.GPU.DevFiles {
			ids = append(ids, strconv.Itoa(i))
		}
	}
	if ranks > len(ids) {
		return gpuPlan{}, tooFewGPUs(name, len(ids), ranks)
	}
	return gpuPlan{visible: ids, note: "nvidia-smi does not tell the GPUs: ranks get them by their numbers"}, nil
}

// visibleItems are the GPUs, or parts of them, that a CUDA_VISIBLE_DEVICES lists: up to the
// first that is none.
func visibleItems(value string) []string {
	var items []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item == "" || item[0] == '-' || !isDevice(item) {
			break
		}
		items = append(items, item)
	}
	return items
}

// isDevice reports whether s can be the name of a GPU or of a part of one: a host has told it.
func isDevice(s string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_/:."
	return len(s) <= 128 && strings.Trim(s, plain) == ""
}

func tooFewGPUs(host string, gpus, ranks int) error {
	hint := fmt.Sprintf("-ppn %d gives no host more ranks than that", gpus)
	if gpus == 0 {
		hint = "gorun --preflight-only says what is known of them; leave --gpu-bind out for ranks without GPUs"
	}
	return &usageError{fmt.Sprintf("--gpu-bind one: %s has %s for %s", host, plural(gpus, "GPU"), plural(ranks, "rank")), []string{hint}}
}

// order is the GPUs of a host so that ranks next to each other are near, and groups of so
// many nearest.
func (a *arranger) order(v *topo.View, near int) []int {
	key := fmt.Sprint(near, v.Fingerprint())
	for _, g := range v.GPUs { // the same cards may have other numbers elsewhere
		key += fmt.Sprint(" ", g.Index, " ", g.BDF)
	}
	if order, ok := a.orders[key]; ok {
		return order
	}
	order := v.Order()
	if near > 1 && near < len(order) {
		if g := v.Groups(near); g.Worst.Compare(farthest(v, order, near).link) < 0 {
			order = append(slices.Concat(g.Groups...), g.Left...)
		}
	}
	a.orders[key] = order
	return order
}

// farthest are the two GPUs that are farthest from each other in a group, where groups of so
// many follow each other in order.
func farthest(v *topo.View, order []int, near int) pair {
	var p pair
	for group := range slices.Chunk(order, near) {
		if len(group) == near {
			p.look(v, group)
		}
	}
	return p
}

// chosen is the CUDA_VISIBLE_DEVICES that ranks on a host get anyhow, and who sets it.
func (a *arranger) chosen(host string, f *facts.Host) (value, origin string, ok bool) {
	for _, app := range a.job.Apps {
		for _, s := range app.Set {
			if name, value, given := strings.Cut(s.Text, "="); name == cudaDevices && given {
				return value, s.Flag, true
			}
		}
	}
	if v := chosenByUser(a.job, host); v != nil {
		return v.Value, v.Origin, true
	}
	if f.GPU.Visible != nil {
		return *f.GPU.Visible, "the host's environment", true
	}
	return "", "", false
}

// uuids are the names of GPUs by which CUDA_VISIBLE_DEVICES takes them; whole is false where
// some have none, or are in parts.
func uuids(f *facts.Host, gpus []int) (ids []string, whole bool) {
	whole = true
	for _, index := range gpus {
		for _, d := range f.GPU.Devices {
			if d.Index != index {
				continue
			}
			id := d.UUID
			if !strings.HasPrefix(id, "GPU-") || !isDevice(id) {
				id, whole = strconv.Itoa(index), false
			}
			whole = whole && d.MIG != "Enabled"
			ids = append(ids, id)
		}
	}
	return ids, whole
}

func sortedCopy(list []int) []int {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}

func indexList(list []int) string {
	parts := make([]string, len(list))
	for i, n := range list {
		parts[i] = strconv.Itoa(n)
	}
	return strings.Join(parts, ",")
}

// domainOf names the NVLink domain with other hosts that the GPUs of a host are in; "": none.
func domainOf(f *facts.Host) string {
	var gpus []topo.GPU
	for _, d := range f.GPU.Devices {
		gpus = append(gpus, topo.GPU{Index: d.Index, FabricCluster: d.FabricCluster, FabricClique: d.FabricClique})
	}
	if len(gpus) == 0 {
		return ""
	}
	d := topo.Domains([]topo.HostGPUs{{Host: f.Name, GPUs: gpus}})[0]
	if d.Cluster == "" {
		return ""
	}
	return output.Clean(d.Cluster + "/" + d.Clique)
}

// folded joins what is said of hosts: each text once, with the hosts it is about.
func folded(about map[string]string, order []string) []string {
	by := map[string][]string{}
	for _, host := range order {
		if text := about[host]; text != "" {
			by[text] = append(by[text], host)
		}
	}
	lines := make([]string, 0, len(by))
	for _, text := range slices.SortedFunc(maps.Keys(by), func(x, y string) int {
		return slices.Index(order, by[x][0]) - slices.Index(order, by[y][0])
	}) {
		lines = append(lines, hostfile.Fold(by[text])+": "+text)
	}
	return lines
}
