package transport

import (
	"context"
	"sync"
	"time"
)

// recess counts the time for which there is a reason to charge none to the hosts: the user
// is being asked for a passphrase, or this process is suspended.
type recess struct {
	mu      sync.Mutex
	reasons int           // guarded by mu; that there are now
	since   time.Time     // guarded by mu: when the first of them came up
	total   time.Duration // guarded by mu: before that
}

func (i *recess) begin() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reasons++; i.reasons == 1 {
		i.since = time.Now()
	}
}

func (i *recess) end() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reasons--; i.reasons == 0 {
		i.total += time.Since(i.since)
	}
}

// spent returns how long it has been in all.
func (i *recess) spent() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.reasons == 0 {
		return i.total
	}
	return i.total + time.Since(i.since)
}

// budget is the time that one host may take. It is spent only while it runs, and not
// while there is recess; when it is gone it cancels the dial's context with errBudget.
type budget struct {
	total  time.Duration
	recess func() time.Duration // how long the recess has been so far
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	left  time.Duration // guarded by mu: when it was last resumed
	since time.Time     // guarded by mu: when it was last resumed; zero while it does not run
	base  time.Duration // guarded by mu: recess() at that time
	timer *time.Timer   // guarded by mu
}

func newBudget(total time.Duration, recess func() time.Duration, cancel context.CancelCauseFunc) *budget {
	return &budget{total: total, recess: recess, cancel: cancel, left: total}
}

// resume lets the budget run. It may be called while it does.
func (b *budget) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		b.startLocked()
	}
}

func (b *budget) startLocked() {
	b.since, b.base = time.Now(), b.recess()
	if b.timer == nil {
		b.timer = time.AfterFunc(b.left, b.expire)
		return
	}
	b.timer.Reset(b.left)
}

// pause stops the clock.
func (b *budget) pause() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return
	}
	b.left = max(b.leftLocked(), 0)
	b.since = time.Time{}
	b.timer.Stop()
}

// renew starts the full time again: there was progress.
func (b *budget) renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = b.total
	b.startLocked()
}

func (b *budget) leftLocked() time.Duration {
	return b.left - (time.Since(b.since) - (b.recess() - b.base))
}

// remaining returns how much time is left.
func (b *budget) remaining() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return b.left
	}
	return b.leftLocked()
}

func (b *budget) expire() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		return
	}
	if left := b.leftLocked(); left > 0 { // in a recess it does not shrink
		b.timer.Reset(max(left, 10*time.Millisecond))
		return
	}
	b.cancel(errBudget)
}
