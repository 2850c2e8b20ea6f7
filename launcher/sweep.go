package launcher

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorun/launcher/output"
)

// sweep removes what an agent that died has left, over the connection it died on.
func (r *run) sweep(h *host) {
	limit := r.m.waits.stop
	if r.now()-time.Duration(h.heard.Load()) > min(r.job.LostAfter, r.m.waits.quiet) {
		limit = r.m.waits.kill // most likely nobody is there to answer
	}
	h.sweeping = true
	r.sweeps.Add(1)
	r.aside.Go(func() {
		defer r.sweeps.Done()
		ctx, cancel := context.WithTimeoutCause(h.ctx, limit, fmt.Errorf("it did not answer within %v", limit))
		defer cancel()
		out, err := h.link.Run(ctx, "agent", "sweep", r.id)
		if text := strings.TrimSpace(string(out)); err != nil && text != "" {
			err = fmt.Errorf("%w: %s", err, output.Clean(text))
		}
		r.tell(func() { r.wasSwept(h, err) })
	})
}

// wasSwept passes on that nothing is left of what a host's agent had left, or why not.
func (r *run) wasSwept(h *host, err error) {
	if h.index == released {
		h.drop(0)
		return
	}
	r.step(event{host: h.index, swept: &sweptEvent{err}})
}
