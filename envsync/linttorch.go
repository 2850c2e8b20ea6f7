package envsync

import (
	"net/netip"
	"strconv"
	"strings"
)

// torch looks at the variables of PyTorch's that NCCL does not read.
func (l *linter) torch(v Var) {
	switch v.Name {
	case "MASTER_PORT":
		n, err := strconv.Atoi(v.Value)
		if v.Value != "" && (err != nil || n < 1 || n > 65535) {
			l.wrong(v, "write a number from 1 to 65535, or leave it to gorun, which finds a free one", "it is no port")
		}
	case "MASTER_ADDR":
		l.masterAddr(v)
	case "GLOO_SOCKET_IFNAME":
		l.glooInterfaces(v)
	case "OMP_NUM_THREADS":
		first, _, _ := strings.Cut(v.Value, ",")
		if n, err := strconv.Atoi(strings.TrimSpace(first)); v.Value != "" && (err != nil || n < 1) {
			l.warn(v, "", "it is no number of threads, and OpenMP ignores it")
		}
	}
}

// masterAddr finds what no resolver takes.
func (l *linter) masterAddr(v Var) {
	host, port, ok := cutPort(v.Value)
	if _, err := netip.ParseAddr(v.Value); err == nil || v.Value == "" {
		return
	}
	switch {
	case ok && port != "":
		l.warn(v, "write MASTER_ADDR="+shown(host)+" and MASTER_PORT="+shown(port), "the port is taken for part of the name")
	case strings.ContainsAny(v.Value, "[] \t,"):
		l.warn(v, "write one name or address, without brackets", "it is neither a name nor an address")
	}
}

// glooInterfaces looks at a list of names. Gloo knows nothing of the marks that
// NCCL_SOCKET_IFNAME may begin with, and compares whole names.
func (l *linter) glooInterfaces(v Var) {
	if strings.ContainsAny(v.Value, "^=!*[] \t;") {
		l.wrong(v, "write the name of the interface; without it gorun sets the one that the hosts reach each other by",
			"gloo takes names of interfaces with commas between, and finds none of that name")
	}
}
