package agent

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"gorun/launcher/wire"
)

const (
	tick       = 500 * time.Millisecond
	beatEvery  = 4               // ticks: a heartbeat every 2 s
	frozen     = 5 * time.Second // a tick that is so late means that this process was stopped
	orphanWait = 50 * time.Millisecond
)

// signals are those that this process gets.
type signals struct {
	child  chan os.Signal // a process of ours may have ended
	end    chan os.Signal // somebody wants this process to end
	ignore chan os.Signal // never read
}

// catchSignals takes over, for the rest of this process's life, what would stop or
// end it before it has cleaned up. That a signal is caught, and not ignored, also gives children its
// default action, whatever this process inherited.
func catchSignals() *signals {
	s := &signals{child: make(chan os.Signal, 1), end: make(chan os.Signal, 1), ignore: make(chan os.Signal)}
	signal.Notify(s.child, syscall.SIGCHLD)
	signal.Notify(s.end, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	signal.Notify(s.ignore, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	return s
}

// watch looks after signals and heartbeats until the agent is over.
func (a *agent) watch(ctx context.Context, s *signals) {
	beat := time.NewTicker(tick)
	defer beat.Stop()
	var orphans <-chan time.Time // set while there may be some
	cancelled, gone := ctx.Done(), a.end.gone
	last, rest := time.Now(), orphanWait
	for n := 1; ; {
		select {
		case <-a.over:
			return
		case <-cancelled:
			cancelled = nil
			a.end.order(ctx.Err().Error(), exitLost, time.Duration(a.grace.Load()))
		case <-gone:
			gone = nil
			a.cutLink()
		case sig := <-s.end:
			a.endBySignal(sig)
		case <-s.child:
			if a.childEnded() && orphans == nil {
				orphans = time.After(rest)
			}
		case <-orphans:
			orphans, rest = nil, a.reapOrphans()
		case now := <-beat.C:
			a.beat(n, now.Sub(last))
			a.sayOver()
			n, last = n+1, now
		}
	}
}

// cutLink frees what waits for a head that is lost. The ranks' output is read on:
// a rank must not hang in a write when it is told to stop.
func (a *agent) cutLink() {
	a.closeLink()
	if j := a.job.Load(); j != nil {
		for _, s := range j.streams() {
			s.drop()
		}
	}
}

// childEnded reports the ranks that have ended, at once. Adopted processes can wait:
// a program may start thousands a second.
func (a *agent) childEnded() bool {
	j := a.job.Load()
	if j != nil {
		j.collect()
		j.poke()
	}
	return j != nil
}

// reapOrphans frees adopted processes that have ended. It returns how long to wait
// before the next time, so that looking for them takes a small part of a CPU also
// where the kernel is slow to list children.
func (a *agent) reapOrphans() time.Duration {
	start := time.Now()
	a.job.Load().reapOrphans()
	return max(orphanWait, 20*time.Since(start))
}

// beat sends a heartbeat when it is time, and looks whether the head still sends
// its own. late is the time since the last beat.
func (a *agent) beat(n int, late time.Duration) {
	if n%beatEvery == 0 {
		a.out.Send(wire.Frame{Kind: wire.Heartbeat})
	}
	now := time.Since(a.began)
	if late > frozen { // what was sent meanwhile has not been read yet
		a.heard.Store(int64(now))
	}
	silence := now - time.Duration(a.heard.Load())
	if !a.paused.Load() && silence > time.Duration(a.lost.Load()) {
		a.end.lose(fmt.Sprintf("gorun was silent for %v", silence.Round(time.Second)), time.Duration(a.grace.Load()))
	}
}

// endBySignal stops the ranks because somebody on this host wants it.
func (a *agent) endBySignal(sig os.Signal) {
	code := exitLost
	if s, ok := sig.(syscall.Signal); ok {
		code = 128 + int(s)
	}
	why := fmt.Sprintf("stopped by signal: %v", sig)
	a.end.order(why, code, time.Duration(a.grace.Load()))
	a.out.SendMessage(wire.Message{Log: &wire.Log{Level: "warn", Text: "gorun's agent was " + why}})
}

// openFiles lists the open descriptors above stderr.
func openFiles() []int {
	entries, _ := os.ReadDir("/proc/self/fd")
	var out []int
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			out = append(out, fd)
		}
	}
	return out
}
