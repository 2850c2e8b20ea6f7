package transport

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// BrokenJumps says which links have broken with a jump host: for each one the first on
// its way whose connection has ended, or that does not answer before ctx ends. It is nil
// for a link without such, and one *JumpError for all links behind the same. The Dialer
// must not have been closed; Links may have been.
func BrokenJumps(ctx context.Context, links []Link) []*JumpError {
	found := map[*jump]**JumpError{}
	var wg sync.WaitGroup
	for _, l := range links {
		for _, j := range jumpsOf(l) {
			if found[j] == nil {
				e := new(*JumpError)
				found[j] = e
				wg.Go(func() { *e = j.ask(ctx) })
			}
		}
	}
	wg.Wait()
	broken := make([]*JumpError, len(links))
	for i, l := range links {
		for _, j := range jumpsOf(l) {
			if broken[i] == nil {
				broken[i] = *found[j]
			}
		}
	}
	return broken
}

// jumpsOf are the jump hosts on a link's way, the nearest first.
func jumpsOf(l Link) (way []*jump) {
	remote, _ := l.(*remoteLink)
	if remote == nil {
		return nil
	}
	for j := remote.jump; j != nil; j = j.before {
		way = slices.Insert(way, 0, j)
	}
	return way
}

// ask says what is wrong with a connection that was made, nil if the server answers.
func (j *jump) ask(ctx context.Context) *JumpError {
	answered := make(chan error, 1)
	open := j.conn.spawn(func() {
		_, _, err := j.conn.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	})
	if !open {
		return &JumpError{Host: j.host, Err: errNoExit}
	}
	select {
	case err := <-answered:
		if err != nil {
			return &JumpError{Host: j.host, Err: errNoExit}
		}
		return nil
	case <-ctx.Done():
		return &JumpError{Host: j.host, Err: errMute}
	}
}

var errMute = errors.New("it does not answer any more")
