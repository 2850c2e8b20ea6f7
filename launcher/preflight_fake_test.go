package launcher

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"gorun/launcher/wire"
)

// examined are what agents do in a preflight, as behaviours named "pre-…".
var examined = map[string]func(*fake){
	"well":      func(f *fake) { f.hello(); f.survey(map[string]bool{}); f.runs() },
	"dies-soon": func(f *fake) { f.dieFirst(); f.hello(); f.survey(map[string]bool{}); f.runs() },
	"no-facts": func(f *fake) {
		lazy := f.first()
		f.hello()
		f.survey(map[string]bool{"facts": lazy})
		f.runs()
	},
	"prints": func(f *fake) {
		f.hello()
		f.survey(map[string]bool{})
		f.send(wire.Message{Prepared: &wire.Prepared{}})
		f.begin()
		f.ranks(func(rank int) {
			for _, e := range f.plan.Env {
				if strings.HasPrefix(string(e), "HERE=") {
					f.print(rank, wire.Out, fmt.Sprintf("%d %s\n", rank, e))
				}
			}
		})
		f.exitAll()
		f.waitStop()
		f.finish()
	},
	"late-facts": func(f *fake) {
		f.hello()
		late := f.first()
		f.survey(map[string]bool{"facts": late})
		if late {
			f.tellFacts()
		}
		f.runs()
	},
	"bad-facts": func(f *fake) {
		f.hello()
		f.until(func(m wire.Message) bool { return m.Examine != nil })
		f.send(wire.Message{Facts: &wire.Facts{Part: wire.Bytes("{")}})
		f.survey(map[string]bool{"facts": true})
		f.runs()
	},
	"no-probes": func(f *fake) {
		lazy := f.first()
		f.hello()
		f.survey(map[string]bool{"probed": lazy})
		f.runs()
	},
	"no-ports": func(f *fake) {
		lazy := f.first()
		f.hello()
		f.survey(map[string]bool{"probing": lazy})
		f.runs()
	},
	"dies-asked": func(f *fake) {
		first := f.first()
		f.hello()
		f.until(func(m wire.Message) bool { return m.Examine != nil })
		if first {
			f.die()
		}
		f.tellFacts()
		f.survey(map[string]bool{"facts": true})
		f.runs()
	},
	"echoes": func(f *fake) {
		f.hello()
		m := f.until(func(m wire.Message) bool { return m.Examine != nil })
		f.send(wire.Message{Facts: &wire.Facts{Part: m.Examine.Order}})
		f.survey(map[string]bool{"facts": true})
		f.runs()
	},
	"withholds": func(f *fake) {
		f.hello()
		f.until(func(m wire.Message) bool { return m.Examine != nil })
		f.mark("asked")
		f.survey(map[string]bool{"facts": true})
		f.runs()
	},
	"not-asked": func(f *fake) {
		f.hello()
		if m := f.message(); m.Plan == nil {
			panic("asked for something else than its part")
		} else {
			f.plan = m.Plan
		}
		f.runs()
	},
}

// dieFirst ends the first agent before it has said anything.
func (f *fake) dieFirst() {
	if f.first() {
		fmt.Fprintln(os.Stderr, "oops")
		os.Exit(3)
	}
}

// runs runs the ranks of the plan to a good end.
func (f *fake) runs() {
	f.send(wire.Message{Prepared: &wire.Prepared{}})
	f.begin()
	f.exitAll()
	f.waitStop()
	f.finish()
}

// tellFacts tells facts in two parts.
func (f *fake) tellFacts() {
	f.send(wire.Message{Clock: &wire.Clock{At: time.Now().Add(time.Hour)}})
	f.send(wire.Message{Facts: &wire.Facts{Part: wire.Bytes(`{"fake":`), More: true}})
	f.send(wire.Message{Facts: &wire.Facts{Part: wire.Bytes("1}")}})
}

// survey answers what is asked before the plan, but for what lacks says. An agent that is
// told to stop says so by a mark.
func (f *fake) survey(lacks map[string]bool) {
	for {
		m := f.until(func(m wire.Message) bool {
			if m.Stop != nil {
				f.mark(fmt.Sprintf("released-%d", os.Getpid()))
			}
			return m.Examine != nil || m.Listen != nil || m.Probe != nil || m.Plan != nil
		})
		switch {
		case m.Plan != nil:
			f.plan = m.Plan
			return
		case m.Examine != nil && !lacks["facts"]:
			f.tellFacts()
		case m.Listen != nil && !lacks["probing"]:
			f.send(wire.Message{Probing: &wire.Probing{Port: uint16(1000 + m.Listen.Host)}})
		case m.Probe != nil && !lacks["probed"]:
			var hosts []int
			for _, t := range m.Probe.Targets {
				hosts = append(hosts, int(t.Addr.Port())-1000)
			}
			result, _ := json.Marshal(hosts)
			if m.Probe.Rails != nil {
				result, _ = json.Marshal(fmt.Sprintf("%s to %v", m.Probe.Rails, hosts))
			}
			f.send(wire.Message{Probed: &wire.Probed{Result: result}})
		}
	}
}

// judged is a job with a preflight, and the survey that its judge was given.
type judged struct {
	*world
	rule func(context.Context, Survey) (Ruling, error)

	mu     sync.Mutex
	calls  int    // guarded by mu
	survey Survey // guarded by mu; the last
}

func newJudged(t *testing.T, behaviour string, rule func(context.Context, Survey) (Ruling, error), ranks ...int) *judged {
	t.Helper()
	w := &judged{world: newWorld(t, behaviour, ranks...), rule: rule}
	w.waits.listen, w.waits.probe = time.Second, time.Second
	w.job.Preflight = &Preflight{
		Order: []byte("{}"), Limit: 20 * time.Second,
		Judge: func(ctx context.Context, s Survey) (Ruling, error) {
			w.mu.Lock()
			w.calls, w.survey = w.calls+1, s
			w.mu.Unlock()
			return w.rule(ctx, s)
		},
	}
	return w
}

// use is a judge that rules which hosts are used.
func use(hosts ...int) func(context.Context, Survey) (Ruling, error) {
	return func(context.Context, Survey) (Ruling, error) { return Ruling{Use: hosts}, nil }
}

// without is a judge that leaves out what is in error.
func without(_ context.Context, s Survey) (Ruling, error) {
	r := Ruling{Use: []int{}}
	for i, h := range s.Hosts {
		if h.Err == nil {
			r.Use = append(r.Use, i)
		}
	}
	return r, nil
}

// errs says which hosts of the survey are in error, and why.
func (w *judged) errs() string {
	var out []string
	for _, h := range w.survey.Hosts {
		if h.Err != nil {
			out = append(out, h.Name+": "+h.Err.Error())
		}
	}
	return strings.Join(out, "; ")
}

// places writes where ranks are as "a b b", by rank.
func places(res *Result) string {
	var out []string
	for _, r := range res.Ranks {
		out = append(out, r.Host)
	}
	return strings.Join(out, " ")
}
