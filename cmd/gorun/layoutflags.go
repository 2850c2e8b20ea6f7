package main

import (
	"fmt"
	"strings"

	"gorun/hostfile"
	"gorun/launcher"
)

// Values of --order-hosts and --gpu-bind.
const (
	orderFile     = "file"
	orderTopology = "topology"
	bindNone      = "none"
	bindOne       = "one"
)

// layoutFlags say which ranks and GPUs are near each other.
func (o *options) layoutFlags() []flag {
	return []flag{
		{
			words: "--mesh", arg: "AXES", value: value(&o.mesh, parseMesh), key: "mesh",
			text: `Arrange the ranks in a grid, as in dp=4,pp=2,tp=8: the axes with their names and sizes,
			the outermost first. Ranks next to each other along the last axis follow each other and
			share a host. One axis may be dp=*, as many as there are slots for. Every rank gets its
			place and its groups in variables such as GORUN_TP_RANK and GORUN_TP_GROUP; see
			LAYOUT.`,
		},
		{
			words: "--topology", arg: "FILE", value: value(&o.topology, text), complete: aFile, key: "topology",
			text: `Which hosts are near each other: the topology.conf of Slurm, or lines as in a hostfile
			with labels, "gpu[1-8] rack=r1 switch=s2 domain=d1". The hosts are then taken in that order;
			see LAYOUT.`,
		},
		{
			words: "--order-hosts", arg: "HOW", value: value(&o.orderHosts, parseHostOrder), complete: "file topology", key: "order-hosts",
			text: `In which order hosts get their ranks. *file*: as they are named. *topology*: hosts of one
			NVLink domain, rack and switch follow each other. The default is *topology* with --topology
			or --mesh, else *file*.`,
		},
		{
			words: "--gpu-bind", arg: "HOW", value: value(&o.gpuBind, parseGPUBind), complete: "none one", key: "gpu-bind",
			text: `Which GPUs a rank sees. *none*, the default: those of its host. *one*: one of them, by its
			local rank, as CUDA_VISIBLE_DEVICES; it is device 0 of the rank then. That takes a preflight,
			which is quick if nothing else is said.`,
		},
	}
}

func parseHostOrder(s string) (string, error) {
	if s != orderFile && s != orderTopology {
		return "", &usageError{fmt.Sprintf("%q is no order of hosts", s), []string{"write --order-hosts file or --order-hosts topology"}}
	}
	return s, nil
}

func parseGPUBind(s string) (string, error) {
	if s != bindNone && s != bindOne {
		return "", &usageError{fmt.Sprintf("gorun does not bind ranks to GPUs by %q", s),
			[]string{"write --gpu-bind one for a GPU for each rank; without it every rank sees all GPUs of its host, and chooses by LOCAL_RANK"}}
	}
	return s, nil
}

// reorders reports whether hosts are taken in the order of their topology.
func (o *options) reorders() bool {
	switch o.orderHosts {
	case orderFile:
		return false
	case orderTopology:
		return true
	}
	return o.topology != "" || o.mesh != ""
}

// arrangeHosts gives hosts the labels of --topology, and puts them in order.
func (c *command) arrangeHosts(o options, hosts []hostfile.Host) ([]hostfile.Host, error) {
	if o.topology != "" {
		t, err := hostfile.ParseTopologyFile(o.topology)
		if err != nil {
			return nil, hostfileError(err)
		}
		var unnamed []string
		if hosts, unnamed = t.Label(hosts); len(unnamed) > 0 {
			c.console.warn(fmt.Sprintf("%s does not name %s", o.topology, shortList(unnamed)))
		}
	}
	if !o.reorders() {
		return hosts, nil
	}
	ordered, moved := o.ordered(hosts)
	if moved && o.verbose {
		c.console.print(report{lines: []string{"hosts are taken by their topology: " + namesOf(ordered)}})
	}
	return ordered, nil
}

// ordered are hosts in the order of their topology; the spares stay the last.
func (o *options) ordered(hosts []hostfile.Host) (ordered []hostfile.Host, moved bool) {
	main := max(len(hosts)-o.preflight.spares, 0)
	for k, i := range hostfile.Order(hosts[:main]) {
		ordered = append(ordered, hosts[i])
		moved = moved || k != i
	}
	return append(ordered, hosts[main:]...), moved
}

// namesOf names hosts, in their order.
func namesOf(hosts []hostfile.Host) string {
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	return shortList(names)
}

// shortList names hosts in one line, and of many the first.
func shortList(names []string) string {
	const most = 16
	if more := len(names) - most; more > 1 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// meshReport is a report of a mesh that cannot be.
func meshReport(e *launcher.MeshError) report {
	var r report
	r.linef("%s", e.Text)
	if e.Hint != "" {
		r.hintf("%s", e.Hint)
	}
	return r
}
