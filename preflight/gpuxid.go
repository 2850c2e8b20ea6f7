package preflight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorun/preflight/facts"
)

const explainXID = `The GPU driver writes its errors to the kernel's log, with a number (XID); all since boot are judged. ` +
	`Those of the fatal set (48 62 63 64 74 79 92 94 95 119 120; preflight.fatal-xids) exclude the host, 63 only while a row waits to be remapped; a day later they are a warning, if the driver says that the GPU needs no recovery. ` +
	`XIDs 13, 31, 43, 45, 63, 68 and 154 that come within seconds of another one on the same host are its consequences: they are counted behind the first cause, and not judged. ` +
	`Alone, 13, 31, 43 and 45 are mostly faults of a program that has ended, and are only mentioned; any other XID is a warning. ` +
	`The meaning of each number is in NVIDIA's list of XID errors. ` +
	`A reboot clears the log: if the error comes back, have the GPU replaced.`

// Consequences of an XID come at most so many seconds before or after it.
const (
	xidBefore = 2
	xidAfter  = 10
)

// xids are the XIDs that have a text here: what they mean.
var xids = map[int]string{
	13: "exception of a program on the GPU", 31: "a program used an address that is not mapped", 43: "a program's channel was stopped", 45: "a program was ended by the driver",
	48: "memory error that ECC could not correct", 61: "microcontroller stopped", 62: "microcontroller halted", 63: "a memory row was remapped", 64: "a memory row could not be remapped",
	69: "exception of the graphics engine", 74: "NVLink error", 79: "the GPU fell off the bus", 92: "too many corrected memory errors", 94: "contained memory error", 95: "uncontained memory error",
	119: "the GPU's system processor timed out", 120: "error of the GPU's system processor",
}

// consequential reports whether an XID is mostly the consequence of another.
func consequential(code int) bool {
	return slices.Contains([]int{13, 31, 43, 45, 63, 68, 154}, code)
}

// byProgram reports whether an XID that stands alone is mostly the fault of a program.
func byProgram(code int) bool { return slices.Contains([]int{13, 31, 43, 45}, code) }

func checkXID(v *view) (found []Finding, good, skip string) {
	hosts := v.gpuHosts()
	if len(hosts) == 0 {
		return nil, "", noGPU
	}
	known, found := v.split(hosts, facts.ItemKernel)
	t := v.tally()
	for _, i := range known {
		by := map[Verdict][]incident{}
		for _, in := range incidents(v.Hosts[i].Facts.Kernel.XIDs) {
			verdict := v.judgeXID(i, in)
			by[verdict] = append(by[verdict], in)
		}
		for _, verdict := range order {
			if len(by[verdict]) > 0 {
				t.add(i, v.xidFault(i, verdict, by[verdict]))
			}
		}
	}
	return append(t.findings(), found...), "no XID since boot", ""
}

// incident is an XID on one GPU with what followed from it.
type incident struct {
	facts.XID      // the latest
	times     int  // that it came
	followed  int  // XIDs that were its consequences
	alone     bool // it is consequential, but has no cause
}

// incidents tells causes from consequences, and joins those of one number on one GPU.
// It returns them newest first.
func incidents(log []facts.XID) []incident {
	var causes []facts.XID
	for _, x := range log {
		if !consequential(x.Code) {
			causes = append(causes, x)
		}
	}
	var all []incident
	at := map[string]int{}
	add := func(x facts.XID, alone bool) *incident {
		key := fmt.Sprint(x.Code, " ", slot(x.BDF))
		k, ok := at[key]
		if !ok {
			k = len(all)
			at[key] = k
			all = append(all, incident{XID: x, alone: alone})
		}
		in := &all[k]
		in.times++
		if x.At >= in.At {
			in.XID = x
		}
		return in
	}
	for _, x := range causes {
		add(x, false)
	}
	for _, x := range log {
		if !consequential(x.Code) {
			continue
		}
		if cause, ok := causeOf(x, causes); ok {
			all[at[fmt.Sprint(cause.Code, " ", slot(cause.BDF))]].followed++
		} else {
			add(x, true)
		}
	}
	slices.SortStableFunc(all, func(a, b incident) int { return cmp.Compare(b.At, a.At) })
	return all
}

// causeOf finds what x follows from, rather on the same GPU than on another.
func causeOf(x facts.XID, causes []facts.XID) (cause facts.XID, ok bool) {
	for _, c := range causes {
		if after := x.At - c.At; after < -xidBefore || after > xidAfter {
			continue
		}
		if slot(c.BDF) == slot(x.BDF) {
			return c, true
		}
		if !ok {
			cause, ok = c, true
		}
	}
	return cause, ok
}

func (v *view) judgeXID(host int, in incident) Verdict {
	d := v.deviceAt(host, in.BDF)
	switch {
	case byProgram(in.Code) && in.alone:
		return Info
	case in.Code == 63 && (d == nil || !d.RemapWait):
		return Info
	case !slices.Contains(v.Limits.Fatal, in.Code):
		return Warn
	case d != nil && !v.uses(host, d.Index), d != nil && v.isOver(host, in.At) && strings.EqualFold(d.Recovery, "None") && d.Trouble == "":
		return Warn
	}
	return v.exclude()
}

// isOver reports whether a time of the kernel's log is more than a day ago.
func (v *view) isOver(host int, at float64) bool {
	const day = 24 * 60 * 60
	return v.Hosts[host].Facts.System.Uptime-at > day
}

// lineIsOver is isOver of a line of the kernel's log, "[12.345678] text".
func (v *view) lineIsOver(host int, line string) bool {
	var at float64
	_, err := fmt.Sscanf(line, "[%g]", &at)
	return err == nil && v.isOver(host, at)
}

// deviceAt is the GPU at bdf; nil if nvidia-smi does not list it.
func (v *view) deviceAt(host int, bdf string) *facts.Device {
	devices := v.Hosts[host].Facts.GPU.Devices
	for k := range devices {
		if slot(devices[k].BDF) == slot(bdf) {
			return &devices[k]
		}
	}
	return nil
}

func (v *view) xidFault(host int, verdict Verdict, all []incident) fault {
	f := fault{verdict: verdict}
	var codes, where []string
	for _, in := range all {
		name := in.BDF
		if d := v.deviceAt(host, in.BDF); d != nil {
			name = fmt.Sprintf("GPU %d", d.Index)
		}
		if code := fmt.Sprint(in.Code); !slices.Contains(codes, code) {
			codes = append(codes, code)
		}
		if !slices.Contains(where, name) {
			where = append(where, name)
		}
		f.evidence = append(f.evidence, v.xidLine(host, in, name))
	}
	f.which = strings.Join(where, ", ")
	f.what = "has had XID " + strings.Join(codes, ", ")
	if meaning := xids[all[0].Code]; meaning != "" && len(codes) == 1 {
		f.what += " (" + meaning + ")"
	}
	switch verdict {
	case NoHost:
		f.remedy = "reboot HOST; if the XID comes back, have the GPU replaced (needs root; stops other jobs on HOST)"
	case Warn:
		f.remedy = "on HOST: dmesg -T | grep -i xid; look the number up in NVIDIA's list of XID errors"
	}
	return f
}

func (v *view) xidLine(host int, in incident, name string) string {
	line := fmt.Sprintf("%s (%s): XID %d", name, in.BDF, in.Code)
	if name == in.BDF {
		line = fmt.Sprintf("%s, which nvidia-smi does not list: XID %d", in.BDF, in.Code)
	}
	if in.times > 1 {
		line += fmt.Sprintf(", %d times, last", in.times)
	}
	line += " at " + bootTime(&v.Hosts[host].Facts.System, in.At)
	if text := cmp.Or(in.Text, xids[in.Code]); text != "" {
		line += ": " + clip(text, 80)
	}
	if in.followed > 0 {
		line += "; " + count(in.followed, "XID") + " followed from it"
	}
	return line
}

// bootTime writes a time of the kernel's log as the host's clock had it.
func bootTime(s *facts.System, at float64) string {
	ago := (s.Uptime - at) * float64(time.Second)
	if s.Now.IsZero() || s.Uptime <= 0 || ago < 0 || ago > float64(100*365*24*time.Hour) {
		return fmt.Sprintf("%.0f s after boot", at)
	}
	return s.Now.Add(-time.Duration(ago)).UTC().Format("2006-01-02 15:04:05 UTC")
}

const explainSXID = `NVSwitches report their errors to the kernel's log, with a number (SXID) and whether it is fatal. ` +
	`A fatal one since boot excludes the host: NVLinks through that switch are down until the switch and all GPUs are reset. ` +
	`Any other is a warning for a day, and mentioned later; single link errors that were recovered are common. ` +
	`The numbers are explained in NVIDIA's manual of the fabric manager. ` +
	`Restart the host; if it comes back, have the board looked at.`

func checkSXID(v *view) (found []Finding, good, skip string) {
	var hosts []int
	for _, i := range v.gpuHosts() {
		if h := &v.Hosts[i].Facts; len(h.GPU.Switches) > 0 || len(h.Kernel.SXIDs) > 0 {
			hosts = append(hosts, i)
		}
	}
	if len(hosts) == 0 {
		return nil, "", "no host has NVSwitches"
	}
	known, found := v.split(hosts, facts.ItemKernel)
	t := v.tally()
	for _, i := range known {
		fatal := fault{verdict: v.exclude(), what: "has had a fatal error of an NVSwitch (SXID)", remedy: "reboot HOST (needs root; stops other jobs on HOST)"}
		other := fault{verdict: Warn, what: "has had errors of an NVSwitch (SXID)", remedy: "on HOST: dmesg -T | grep -i sxid; look the number up in the fabric manager's manual"}
		old := fault{verdict: Info, what: "has had errors of an NVSwitch (SXID), days ago"}
		for _, x := range v.Hosts[i].Facts.Kernel.SXIDs {
			f := &other
			switch {
			case isFatal(x.Text):
				f = &fatal
			case v.isOver(i, x.At):
				f = &old
			}
			f.evidence = append(f.evidence, fmt.Sprintf("%s: SXID %d at %s: %s", x.BDF, x.Code, bootTime(&v.Hosts[i].Facts.System, x.At), clip(x.Text, 80)))
		}
		for _, f := range []fault{fatal, other, old} {
			if len(f.evidence) > 0 {
				t.add(i, f)
			}
		}
	}
	return append(t.findings(), found...), "no SXID since boot", ""
}

// isFatal reports whether the text of an SXID says so: "Fatal, Link 30 …", not "Non-fatal, …".
func isFatal(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "fatal") && !strings.Contains(text, "non-fatal") && !strings.Contains(text, "nonfatal")
}
