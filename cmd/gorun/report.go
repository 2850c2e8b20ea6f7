package main

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher"
	"gorun/launcher/output"
	"gorun/launcher/wire"
)

// report is what gorun says about something: lines, the first of which is the
// headline, and hints. Details begin with two blanks.
type report struct {
	lines, hints []string
}

func (r *report) linef(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

func (r *report) hintf(format string, args ...any) {
	r.hints = append(r.hints, fmt.Sprintf(format, args...))
}

func (r *report) add(more report) {
	r.lines = append(r.lines, more.lines...)
	r.hints = append(r.hints, more.hints...)
}

// resultReport says how a job ended, or nothing if it ended well. o is what was
// asked for.
func resultReport(res *launcher.Result, o options) report {
	var r report
	switch causeOf(res) {
	case causeTimeout:
		r.linef("timeout: the job has run for %v%s", o.timeout, others(res))
	case causeSignal:
		r.linef("ended by %s%s", signalName(res.Signal), others(res))
	case causeRank:
		r.linef("%s%s", rankEnd(*res.First, o), others(res))
	case causeLost:
		r.linef("host lost: %s%s", res.Lost[0], others(res))
	case causeDiffer:
		r.differ(res)
	case causeStdoutClosed:
		if res.Stopped > 0 {
			r.linef("output was closed by its reader%s", others(res))
		}
	case causeOutput:
		r.linef("%s; the ranks themselves ended well", res.OutputError)
	}
	r.firstFailure(res, o)
	r.aftermath(res, o)
	return r
}

// differ says which environments cannot work together.
func (r *report) differ(res *launcher.Result) {
	r.linef("%s%s", res.Differ[0].Headline(), others(res))
	for _, d := range res.Differ {
		for _, line := range d.Lines() {
			r.linef("  %s", line)
		}
	}
	if res.Differ[0].Library() {
		r.hintf("install the same NCCL on all hosts, or leave out --env-strict")
		return
	}
	r.hintf("what starts the program there (a wrapper, a module, conda) changes what gorun has set; let it do so in all ranks alike, or not at all")
}

// firstFailure adds the first failure's last lines, unless they are the last that the
// user has seen, and the failure itself if the headline is about something else.
func (r *report) firstFailure(res *launcher.Result, o options) {
	if res.First == nil {
		return
	}
	if causeOf(res) != causeRank {
		r.linef("before that %s", rankEnd(*res.First, o))
	}
	if len(res.Tail) > 0 && (len(res.Ranks) > 1 || o.outputDir != "") {
		r.linef("last lines of rank %d:", res.First.Rank)
		for _, l := range res.Tail {
			r.linef("  %s", l)
		}
	}
	if slices.ContainsFunc(res.Tail, func(l string) bool { return strings.Contains(l, fmt.Sprintf("fd=%d", wire.PMIFile)) }) {
		r.hintf("what starts the program has closed descriptor %d, by which MPI reaches gorun; --pmi port does without", wire.PMIFile)
	}
	host := res.First.Host
	switch syscall.Signal(res.First.Signal) {
	case syscall.SIGKILL:
		r.hintf("gorun did not send that KILL; if the kernel did for want of memory, dmesg on %s says so", host)
	case syscall.SIGBUS:
		r.hintf("a full /dev/shm ends programs so: df /dev/shm on %s", host)
	case syscall.SIGILL:
		r.hintf("was the program built for a newer processor than that of %s?", host)
	}
}

// aftermath adds the hosts that were lost and what the stop met with.
func (r *report) aftermath(res *launcher.Result, o options) {
	lost := res.Lost
	if causeOf(res) == causeLost {
		lost = lost[1:]
	}
	for _, l := range lost {
		r.linef("host lost: %s", l)
	}
	switch {
	case len(res.Killed) == 0:
	case res.NoGrace:
		r.linef("%s killed at once, without grace", ranksText(res.Killed))
	default:
		r.linef("%s did not end by TERM within %v and had to be killed", ranksText(res.Killed), o.grace)
	}
	r.left(res.Left)
	r.kept(res.Kept)
}

// left adds what could not be removed. Hosts of which the same is said share a line.
func (r *report) left(all []string) {
	var same causes
	for _, l := range all {
		host, text, _ := strings.Cut(l, ": ")
		same.add(text, host)
	}
	for _, text := range same.texts {
		r.linef("left behind: %s: %s", fewHosts(same.hosts[text], 8), text)
	}
}

// fewHosts lists hosts, of more than most (and one) the first ones.
func fewHosts(hosts []string, most int) string {
	if len(hosts) > most+1 {
		hosts = append(hosts[:most:most], fmt.Sprintf("%d more hosts", len(hosts)-most))
	}
	return strings.Join(hosts, ", ")
}

// kept adds where files are that ranks have written.
func (r *report) kept(dirs []launcher.KeptDir) {
	if len(dirs) == 0 {
		return
	}
	var hosts []string
	for _, d := range dirs {
		hosts = append(hosts, d.Host)
	}
	such := ""
	if len(dirs) > 1 {
		such = "directories such as "
	}
	r.linef("files that ranks have written stay on %s in %s%s", fewHosts(hosts, 8), such, dirs[0].Dir)
}

// rankEnd says how a rank ended.
func rankEnd(f launcher.RankResult, o options) string {
	who := fmt.Sprintf("rank %d on %s", f.Rank, f.Host)
	if program := o.programOf(f.App); program != "" {
		who = fmt.Sprintf("rank %d (%s) on %s", f.Rank, program, f.Host)
	}
	if f.State == launcher.StateNotStarted {
		return fmt.Sprintf("%s could not be started: %s", who, f.Text)
	}
	if f.Fault != "" {
		return fmt.Sprintf("%s %s, %s after start", who, f.Fault, since(f.At))
	}
	if f.Signal == 0 {
		return fmt.Sprintf("%s exited with code %d, %s after start", who, f.Code, since(f.At))
	}
	core := ""
	if f.Core {
		core = " (core dumped)"
	}
	return fmt.Sprintf("%s killed by %s%s %s after start", who, signalName(f.Signal), core, since(f.At))
}

// others counts the ranks that the headline does not name, as "; 3 other ranks stopped".
func others(res *launcher.Result) string {
	lost, hosts := 0, map[string]bool{}
	for _, r := range res.Ranks {
		if r.State == launcher.StateLost {
			lost++
			hosts[r.Host] = true
		}
	}
	other := "other "
	if res.First == nil || causeOf(res) != causeRank {
		other = ""
	}
	var s string
	add := func(n int, what string) {
		switch {
		case n == 1:
			s += "; 1 " + other + "rank " + what
		case n > 1:
			s += fmt.Sprintf("; %d %sranks %s", n, other, what)
		}
	}
	if causeOf(res) == causeRank {
		add(res.Others, "failed too")
	}
	if len(hosts) > 1 { // the headline names one
		add(lost, fmt.Sprintf("lost on %d hosts", len(hosts)))
	} else {
		add(lost, "lost")
	}
	add(res.Stopped, "stopped")
	if len(res.Ranks) == 0 || allWaiting(res.Ranks) {
		s += "; nothing was started"
	}
	return s
}

func allWaiting(ranks []launcher.RankResult) bool {
	return !slices.ContainsFunc(ranks, func(r launcher.RankResult) bool { return r.State != launcher.StateWaiting })
}

// since writes a time as people say it: "120 ms", "4.2 s", "1m40s".
func since(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// signalName is "SIGSEGV", or "signal 40" for one without a name.
func signalName(n int) string {
	if name := unix.SignalName(syscall.Signal(n)); name != "" {
		return name
	}
	return fmt.Sprintf("signal %d", n)
}

// ranksText is "rank 3" or "ranks 0,2-5".
func ranksText(ranks []int) string {
	ranks = slices.Sorted(slices.Values(ranks))
	noun := "ranks "
	if len(ranks) == 1 {
		noun = "rank "
	}
	return noun + output.RankSet(ranks)
}
