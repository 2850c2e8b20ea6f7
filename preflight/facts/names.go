package facts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

const (
	lookups  = 16   // at a time
	maxNames = 8192 // that are looked up

	// quickNames is how long all lookups may take together but in Full: a dead name
	// server must not hold up a launch, which may do without it.
	quickNames = time.Second
)

const noSuchHost = "no such host"

// resolve returns the addresses of a name.
type resolve func(ctx context.Context, name string) ([]netip.Addr, error)

func lookUp(ctx context.Context, name string) ([]netip.Addr, error) {
	var r net.Resolver
	return r.LookupNetIP(ctx, "ip", name)
}

// collectNames looks up the host's own name, and those that the order has: as a program
// does, by files and DNS.
func collectNames(o Order) func(context.Context, *source, *Host) error {
	return func(ctx context.Context, s *source, h *Host) error {
		if !o.Full {
			limit := min(quickNames, o.Limit)
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %v", limit))
			defer cancel()
		}
		own := s.text("/proc/sys/kernel/hostname")
		names := append([]string{own}, o.Names[:min(len(o.Names), maxNames)]...)
		found := resolveAll(ctx, names, lookUp)
		h.Net.OwnName, h.Net.Names = found[0].Addrs, found[1:]
		if t := found[0].Trouble; t != "" && t != noSuchHost {
			return fmt.Errorf("%q: %s", own, t)
		}
		return nil
	}
}

// resolveAll looks up some names at a time. What is not known when ctx is done is said to
// be so.
func resolveAll(ctx context.Context, names []string, by resolve) []NameAddr {
	out := make([]NameAddr, len(names))
	var all sync.WaitGroup
	next := make(chan int)
	for range min(lookups, len(names)) {
		all.Go(func() {
			for i := range next {
				out[i] = resolveOne(ctx, names[i], by)
			}
		})
	}
	for i := range names {
		next <- i
	}
	close(next)
	all.Wait()
	return out
}

func resolveOne(ctx context.Context, name string, by resolve) NameAddr {
	out := NameAddr{Name: name}
	if ctx.Err() != nil {
		out.Trouble = context.Cause(ctx).Error()
		return out
	}
	addrs, err := by(ctx, name)
	if err != nil {
		out.Trouble = nameTrouble(ctx, err)
		return out
	}
	for _, a := range addrs {
		out.Addrs = append(out.Addrs, a.Unmap().String())
	}
	slices.Sort(out.Addrs)
	out.Addrs = slices.Compact(out.Addrs)
	return out
}

func nameTrouble(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return context.Cause(ctx).Error()
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		switch {
		case dns.IsNotFound:
			return noSuchHost
		case dns.IsTimeout:
			return "the name server does not answer"
		}
		return brief(dns.Err)
	}
	return brief(err.Error())
}
