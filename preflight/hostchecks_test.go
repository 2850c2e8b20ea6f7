package preflight

import (
	"time"

	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
)

func hostFirings() []firing {
	skewed := func(d time.Duration) func(h *Host) { return func(h *Host) { h.Skew.Offset = d } }
	return []firing{
		{check: "host-reached", name: "refused", wreck: on(1, func(h *Host) { h.Unreached, h.Facts = "connection refused", facts.Host{} }),
			verdict: NoHost, blamed: "gpu02", title: "gpu02 does not answer: connection refused", remedy: "ssh -o BatchMode=yes gpu02 true"},
		{check: "host-reached", name: "several", wreck: func(in *Input) { in.Hosts[1].Unreached, in.Hosts[2].Unreached = "timed out", "refused" },
			verdict: NoHost, blamed: "gpu02 gpu03", title: "gpu[02-03] do not answer", evidence: "gpu02: timed out"},
		{check: "host-identity", name: "same-machine-without-gpus", build: factstest.Plain, wreck: func(in *Input) {
			in.Hosts[3].Facts.System = in.Hosts[1].Facts.System
		}, verdict: Warn, blamed: "gpu02 gpu04"},
		{check: "host-identity", name: "same-machine", wreck: func(in *Input) {
			in.Hosts[3].Facts.System.Hostname, in.Hosts[3].Facts.System.BootID = in.Hosts[1].Facts.System.Hostname, in.Hosts[1].Facts.System.BootID
		}, verdict: NoCluster, blamed: "gpu02 gpu04", title: "NCCL takes them for one host"},
		{check: "host-identity", name: "same-but-with-ids", build: factstest.Plain, wreck: func(in *Input) {
			in.Hosts[3].Facts.System.BootID, in.Hosts[3].Facts.System.Hostname = in.Hosts[1].Facts.System.BootID, "other"
			in.Hosts[3].Settings = map[string]string{"NCCL_HOSTID": "4"}
		}},
		{check: "host-identity", name: "same-id", wreck: func(in *Input) {
			in.Hosts[0].Settings = map[string]string{"NCCL_HOSTID": "4"}
			in.Hosts[1].Settings = map[string]string{"NCCL_HOSTID": "4"}
		}, verdict: NoCluster, blamed: "gpu01 gpu02", title: "NCCL_HOSTID=4"},
		{check: "host-identity", name: "same-name", wreck: func(in *Input) {
			in.Hosts[0].Facts.System.Hostname, in.Hosts[1].Facts.System.Hostname = "localhost", "localhost"
		}, verdict: Warn, blamed: "gpu01 gpu02", title: `gpu[01-02] call themselves "localhost"`},
		{check: "host-identity", name: "unknown", wreck: unknownOn(1, facts.ItemSystem), verdict: Unknown, blamed: "gpu02"},
		{check: "host-user", name: "other-id", wreck: on(2, func(h *Host) { h.Facts.System.UID = 2000 }),
			verdict: Warn, blamed: "gpu03", title: "gpu03 runs ranks as user ID 2000, the others run 1000"},
		{check: "host-user", name: "two", hosts: 2, wreck: on(1, func(h *Host) { h.Facts.System.UID = 2000 }),
			verdict: Warn, blamed: "gpu01 gpu02", title: "hosts differ in the user ID that ranks run as: 1000 on gpu01, 2000 on gpu02"},
		{check: "host-user", name: "nothing-shared", wreck: func(in *Input) { in.Job.SharedDir = false; in.Hosts[2].Facts.System.UID = 2000 }},
		{check: "clock", name: "not-compared", wreck: all(func(h *Host) { h.Skew = Skew{} })},
		{check: "clock", name: "ahead", wreck: on(2, skewed(90*time.Second)), verdict: Warn, blamed: "gpu03", title: "gpu03 has a wrong clock: 1m30s ahead of the others"},
		{check: "clock", name: "head-is-wrong", wreck: all(skewed(-time.Hour))},
		{check: "clock", name: "uncertain", wreck: on(2, func(h *Host) { h.Skew.Offset, h.Skew.Uncertain = 2*time.Second, 2*time.Second })},
		{check: "clock", name: "two", hosts: 2, wreck: on(1, skewed(-5*time.Second)), verdict: Warn, blamed: "gpu01 gpu02", title: "hosts differ in their clocks"},
		{check: "clock", name: "half", wreck: func(in *Input) { on(1, skewed(time.Minute))(in); on(2, skewed(2*time.Minute))(in) },
			verdict: Warn, blamed: "gpu01 gpu02 gpu03 gpu04", title: "hosts differ in their clocks"},
		{check: "clock", name: "unknown", wreck: on(2, func(h *Host) { h.Skew = Skew{} }), verdict: Unknown, blamed: "gpu03"},
	}
}
