package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"gorun/preflight/facts"
)

// hostChecks are those of area "hosts".
func hostChecks() []Check {
	return []Check{
		{ID: "host-reached", Area: "hosts", Title: "every host answers", Explain: explainReached, run: checkReached},
		{ID: "host-identity", Area: "hosts", Title: "every host is a machine of its own to NCCL", Explain: explainIdentity, run: checkIdentity},
		{ID: "host-user", Area: "hosts", Title: "the job runs as the same user on every host", Explain: explainUser, run: checkUser},
		{ID: "clock", Area: "hosts", Title: "the clocks of all hosts agree", Explain: explainClock, run: checkClock},
	}
}

const explainReached = `A host must be reached by ssh without a question, and the agent that gorun starts there must answer within its limit. ` +
	`A host that does not cannot run a rank, and nothing else is known of it. ` +
	`The reason that is shown is that of the connection or of the agent. ` +
	`Try the same by hand: ssh -o BatchMode=yes HOST true. If that works, gorun -v shows what gorun did otherwise.`

func checkReached(v *view) (found []Finding, good, skip string) {
	t := v.tally()
	for i, h := range v.Hosts {
		if h.Unreached != "" {
			t.add(i, fault{verdict: NoHost, what: "does not answer", which: h.Unreached, remedy: "try: ssh -o BatchMode=yes FIRST true"})
		}
	}
	if len(v.Hosts) == 0 {
		return nil, "", "there is no host"
	}
	return t.findings(), count(len(v.Hosts), "host") + " answered", ""
}

const explainIdentity = `NCCL tells hosts apart by a hash of the host name and the kernel's boot ID (or by NCCL_HOSTID, if it is set). ` +
	`Two hosts with the same pair are one host to it: it then tries shared memory between them, and hangs or fails. ` +
	`That happens with containers whose host names are alike, and when one machine is listed under two names. ` +
	`A job that uses no GPU does not use NCCL, so that it is a warning there. ` +
	`A host name alone that is used twice is only a warning: MPI libraries and many programs number local ranks by it. ` +
	`Give each host its own name (hostnamectl set-hostname NAME, or docker run --hostname), or a different NCCL_HOSTID by [[host]] in the configuration.`

func checkIdentity(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemSystem)
	verdict := Warn
	if v.Job.GPU {
		verdict = NoCluster
	}
	twice := map[int]bool{}
	for _, g := range v.groups(known, identity) {
		if len(g.hosts) < 2 || g.value == "" {
			continue
		}
		for _, i := range g.hosts {
			twice[i] = true
		}
		h := &v.Hosts[g.hosts[0]]
		what := fmt.Sprintf("have host name %q and boot ID %s alike: NCCL takes them for one host", h.Facts.System.Hostname, clip(h.Facts.System.BootID, 12))
		if id := h.Settings["NCCL_HOSTID"]; id != "" {
			what = fmt.Sprintf("have NCCL_HOSTID=%s alike: NCCL takes them for one host", id)
		}
		found = append(found, v.finding(verdict, g.hosts, v.fold(g.hosts)+" "+what, "give each host a name of its own (hostnamectl set-hostname NAME), or a different NCCL_HOSTID", nil))
	}
	for _, g := range v.groups(known, func(h *Host) string { return h.Facts.System.Hostname }) {
		if len(g.hosts) < 2 || g.value == "" || slices.ContainsFunc(g.hosts, func(i int) bool { return twice[i] }) {
			continue
		}
		title := fmt.Sprintf("%s call themselves %q", v.fold(g.hosts), g.value)
		found = append(found, v.finding(Warn, g.hosts, title, "give each host a name of its own: hostnamectl set-hostname NAME (needs root)", nil))
	}
	return found, "host names and boot IDs are all different", ""
}

// identity is what NCCL tells hosts apart by; "" if that is not known.
func identity(h *Host) string {
	if id := h.Settings["NCCL_HOSTID"]; id != "" {
		return "id " + id
	}
	if h.Facts.System.Hostname == "" || h.Facts.System.BootID == "" {
		return ""
	}
	return h.Facts.System.Hostname + "\x00" + h.Facts.System.BootID
}

const explainUser = `Ranks run as the user that ssh logs in as. ` +
	`If that user has another numeric ID on some host, files in shared directories belong to somebody else there: logs and checkpoints cannot be written, or can be by others only. ` +
	`Hosts are compared by the numeric ID; a difference is a warning if the job needs its working directory on every host, and a note else. ` +
	`Give the account the same ID everywhere (usermod -u, or a directory service), or name another user in the hostfile (user=NAME).`

func checkUser(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemSystem)
	verdict := Info
	if v.Job.SharedDir {
		verdict = Warn
	}
	who := func(h *Host) string { return strconv.Itoa(h.Facts.System.UID) }
	found = append(found, v.odd(known, contrast{
		of: who, verb: "runs", what: "ranks as user ID", subject: "the user ID that ranks run as", blame: verdict, differ: verdict,
		remedy: "give the account the same user ID on HOST (usermod -u ID NAME; needs root), or name another user in the hostfile",
	})...)
	if len(known) > 0 {
		s := v.Hosts[known[0]].Facts.System
		good = phrase("user ID", strconv.Itoa(s.UID), s.User)
	}
	return found, good, ""
}

const explainClock = `The clock of each host is compared with that of this machine by the middle of a round trip; half of the round trip is the uncertainty. ` +
	`Hosts are then compared with the median of all hosts, so that a wrong clock here blames nobody. ` +
	`A host is named only if it is off by more than 1 s (preflight.clock-skew) even if the whole uncertainty is in its favour. ` +
	`Skewed clocks break timeouts that are compared between hosts, certificates and tickets, make on shared directories, and logs that are read side by side. ` +
	`Start a time service: systemctl enable --now chrony (or systemd-timesyncd), and look at chronyc tracking.`

func checkClock(v *view) (found []Finding, good, skip string) {
	var known []int
	var offsets []time.Duration
	t := v.tally()
	for _, i := range v.reached {
		if s := v.Hosts[i].Skew; s.Known {
			known, offsets = append(known, i), append(offsets, s.Offset)
		} else if len(v.Hosts) > 1 {
			t.add(i, fault{verdict: Unknown, what: "does not tell its time", which: "the clock was not compared"})
		}
	}
	if len(known) == 0 {
		return nil, "", "no clock was compared"
	}
	slices.Sort(offsets)
	middle := offsets[len(offsets)/2]
	if len(known) < 3 {
		return append(t.findings(), v.clocksOfTwo(known)...), "clocks agree", ""
	}
	var right, wrong []int
	for _, i := range known {
		if v.beyond(v.Hosts[i].Skew, middle, 0) {
			wrong = append(wrong, i)
		} else {
			right = append(right, i)
		}
	}
	if 2*len(right) <= len(known) {
		return append(t.findings(), v.clocksDiffer(known)), "", ""
	}
	for _, i := range wrong {
		t.add(i, v.clockFault(v.Hosts[i].Skew.Offset-middle))
	}
	good = fmt.Sprintf("clocks of %s agree within %v", count(len(known), "host"), (offsets[len(offsets)-1] - offsets[0]).Round(time.Millisecond))
	return t.findings(), good, ""
}

// beyond reports whether a clock is off middle by more than the limit, however the
// uncertainty is taken.
func (v *view) beyond(s Skew, middle, uncertain time.Duration) bool {
	return (s.Offset-middle).Abs()-s.Uncertain-uncertain > v.Limits.Skew
}

func (v *view) clockFault(off time.Duration) fault {
	return fault{
		verdict: Warn, what: "has a wrong clock", which: ahead(off, "the others"),
		remedy: "on HOST: systemctl enable --now chrony; then chronyc tracking (needs root)",
	}
}

// ahead says how far a clock is ahead of others, or behind them.
func ahead(off time.Duration, others string) string {
	way := "ahead of"
	if off < 0 {
		way = "behind"
	}
	return fmt.Sprintf("%v %s %s", off.Abs().Round(10*time.Millisecond), way, others)
}

func (v *view) clocksOfTwo(known []int) []Finding {
	if len(known) == 2 {
		a, b := v.Hosts[known[0]].Skew, v.Hosts[known[1]].Skew
		if v.beyond(a, b.Offset, b.Uncertain) {
			return []Finding{v.clocksDiffer(known)}
		}
	}
	return nil
}

func (v *view) clocksDiffer(known []int) Finding {
	var n notes
	for _, i := range known {
		n.add(i, ahead(v.Hosts[i].Skew.Offset, "this machine"))
	}
	return v.finding(Warn, known, "hosts differ in their clocks", "on all of HOST: systemctl enable --now chrony; then chronyc tracking (needs root)", n.lines(v))
}
