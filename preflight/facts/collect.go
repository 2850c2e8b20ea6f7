package facts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// DefaultLimit is how long one item may take.
	DefaultLimit = 5 * time.Second
	// DefaultGrowth is how long counters are watched.
	DefaultGrowth = 2 * time.Second

	// grace is how long an item may take to say what it has, once its limit has passed.
	grace = 300 * time.Millisecond
)

// Order says what is to be collected.
type Order struct {
	Full     bool          `json:"full,omitempty"`     // also what takes seconds: counters and their growth, hashes of large files
	Limit    time.Duration `json:"limit,omitempty"`    // of each item; 0: DefaultLimit
	Growth   time.Duration `json:"growth,omitempty"`   // in Full, between two looks at counters, at most half of Limit; 0: DefaultGrowth
	Names    []string      `json:"names,omitempty"`    // host names to resolve
	Dir      string        `json:"dir,omitempty"`      // the job's working directory
	Programs []string      `json:"programs,omitempty"` // as the job names them: paths, or names in Path
	Path     string        `json:"path,omitempty"`     // PATH of the ranks; "": the agent's
	Prepend  string        `json:"prepend,omitempty"`  // what stands before that; "": nothing
}

// Collect collects the facts of this host. It returns some hundred milliseconds after the
// limit at the latest, in Full after that and copyLimit, whatever hangs, and starts no process that can outlive it but one
// that the kernel cannot end. A goroutine that hangs in the kernel stays until the kernel
// lets it go. On a host without an NVIDIA driver it starts no process at all. When ctx
// ends, what is not known by then is unknown. It may be called several times, not
// concurrently.
func Collect(ctx context.Context, o Order) Host {
	o = o.withDefaults()
	return collect(ctx, hostSource, o, items(o), lastItems(o))
}

func (o Order) withDefaults() Order {
	o.Limit = cmp.Or(max(o.Limit, 0), DefaultLimit)
	o.Growth = min(cmp.Or(max(o.Growth, 0), DefaultGrowth), o.Limit/2)
	return o
}

// item is one part of the facts, which is collected by itself.
type item struct {
	name string

	// collect fills in its part of a Host that it has for itself. With an error, what it
	// has filled in counts nevertheless. It should return when ctx is done; if it does
	// not, it is left to itself.
	collect func(ctx context.Context, s *source, h *Host) error

	// merge takes that part over. Items are merged in their order.
	merge func(to, from *Host)
}

func items(o Order) []item {
	return []item{
		{ItemSystem, collectSystem(o), func(to, from *Host) { to.System = from.System }},
		{ItemLimits, collectLimits, func(to, from *Host) { to.Limits = from.Limits }},
		{ItemDisks, collectDisks(o), func(to, from *Host) { to.Disks = from.Disks }},
		{ItemNet, collectNet, mergeNet},
		{ItemNames, collectNames(o), mergeNames},
		{ItemPCI, collectPCI, func(to, from *Host) { to.PCI = from.PCI }},
		{ItemGPU, collectGPU, func(to, from *Host) { to.GPU = from.GPU }},
		{ItemGPUTopo, collectTopo, func(to, from *Host) { to.GPU.Topo, to.GPU.P2P = from.GPU.Topo, from.GPU.P2P }},
		{ItemGPUNVLink, collectNVLink, mergeNVLink},
		{ItemFabric, collectFabric, func(to, from *Host) { to.GPU.Fabric = from.GPU.Fabric }},
		{ItemRDMA, collectRDMA(o), func(to, from *Host) { to.RDMA = from.RDMA }},
		{ItemKernel, collectKernel, func(to, from *Host) { to.Kernel = from.Kernel }},
		{ItemPrograms, collectPrograms(o), func(to, from *Host) { to.Programs = from.Programs }},
		{ItemNCCL, collectNCCL, func(to, from *Host) { to.NCCL = from.NCCL }},
		{ItemConf, collectConf, func(to, from *Host) { to.Conf, to.Session = from.Conf, from.Session }},
	}
}

// lastItems are collected when all others have been, so that nothing else runs.
func lastItems(o Order) []item {
	if !o.Full {
		return nil
	}
	return []item{{ItemCopyRate, collectCopyRate, func(to, from *Host) {
		to.System.CopyOne, to.System.CopyAll = from.System.CopyOne, from.System.CopyAll
	}}}
}

func mergeNet(to, from *Host) {
	own, names := to.Net.OwnName, to.Net.Names
	to.Net = from.Net
	to.Net.OwnName, to.Net.Names = own, names
}

func mergeNames(to, from *Host) { to.Net.OwnName, to.Net.Names = from.Net.OwnName, from.Net.Names }

func mergeNVLink(to, from *Host) {
	for _, f := range from.GPU.Devices {
		d := to.GPU.find(f.UUID, f.Index)
		if d == nil {
			to.GPU.Devices = append(to.GPU.Devices, f)
			continue
		}
		d.NVLinks, d.NVActive, d.NVDown = f.NVLinks, f.NVActive, f.NVDown
	}
}

// running is an item that is being collected.
type running struct {
	item
	src  *source
	done <-chan outcome
}

type outcome struct {
	host Host
	err  error
	took time.Duration
}

// collect runs all items at once, and then the last ones. newSource gives each its own
// source.
func collect(ctx context.Context, newSource func() *source, o Order, all, last []item) Host {
	start := time.Now()
	h := Host{Version: Version, Unknown: map[string]string{}}
	seen := newCommon(newSource())
	sharing := func() *source {
		s := newSource()
		s.common = seen
		return s
	}
	h.add(ctx, sharing, o.Limit, all)
	h.add(ctx, sharing, min(o.Limit, copyLimit), last)
	slices.SortStableFunc(h.Items, func(a, b ItemDuration) int { return cmp.Compare(b.Took, a.Took) })
	if len(h.Unknown) == 0 {
		h.Unknown = nil
	}
	h.System.Now, h.Took = time.Now(), time.Since(start)
	return h
}

// add collects items, all at once.
func (h *Host) add(ctx context.Context, newSource func() *source, limit time.Duration, all []item) {
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %v", limit))
	defer cancel()
	var started []running
	for _, it := range all {
		started = append(started, it.start(ctx, newSource()))
	}
	end, cancelEnd := lastly(ctx)
	defer cancelEnd()
	for _, r := range started {
		r.finish(end, h, start)
	}
}

// lastly returns a context that ends when nobody waits for items any more: grace after ctx.
func lastly(ctx context.Context) (context.Context, context.CancelFunc) {
	end, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(grace, func() { cancel(context.Cause(ctx)) })
	})
	return end, func() {
		stop()
		cancel(nil)
	}
}

// start begins to collect the item.
func (it item) start(ctx context.Context, s *source) running {
	begun := time.Now()
	return running{it, s, async(func() (out outcome) {
		out.err = it.collect(ctx, s, &out.host)
		out.took = time.Since(begun)
		return out
	}, func(why error) outcome { return outcome{err: why, took: time.Since(begun)} })}
}

// async runs f beside, and returns where its result will be. A panic must not hide what
// others find, nor end the agent: failed makes a result of it.
func async[T any](f func() T, failed func(error) T) <-chan T {
	done := make(chan T, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- failed(fmt.Errorf("gorun has a fault here: %v", p))
			}
		}()
		done <- f()
	}()
	return done
}

// await returns what async has made, unless ctx is done before that is there.
func await[T any](ctx context.Context, done <-chan T) (result T, ok bool) {
	select {
	case result = <-done:
		return result, true
	case <-ctx.Done():
	}
	select {
	case result = <-done: // both were ready
		return result, true
	default:
		return result, false
	}
}

// finish waits for the item until end is done, and takes over what it has found.
func (r *running) finish(end context.Context, h *Host, start time.Time) {
	out, ok := await(end, r.done)
	if !ok {
		out = outcome{err: r.stuck(context.Cause(end)), took: time.Since(start)}
	}
	r.merge(h, &out.host)
	for name, why := range out.host.Unknown {
		h.Unknown[name] = brief(why)
	}
	if out.err != nil {
		h.Unknown[r.name] = brief(out.err.Error())
	}
	h.Items = append(h.Items, ItemDuration{r.name, out.took})
}

// stuck says where an item hangs.
func (r *running) stuck(why error) error {
	if at := r.src.last.Load(); at != nil {
		return fmt.Errorf("%s: %w", *at, why)
	}
	return why
}
