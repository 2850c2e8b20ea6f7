package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gorun/launcher/wire"
	"gorun/preflight/facts"
	"gorun/preflight/probe"
)

// facts waits for all parts of what the agent tells.
func (h *head) facts() (host facts.Host) {
	h.t.Helper()
	var text []byte
	h.until("facts", func() bool {
		text = nil
		for _, m := range h.msgs {
			if m.Facts == nil {
				continue
			}
			if text = append(text, m.Facts.Part...); !m.Facts.More {
				return true
			}
		}
		return false
	})
	if err := json.Unmarshal(text, &host); err != nil {
		h.t.Fatalf("%v in %.200q", err, text)
	}
	return host
}

// listenAt has an agent listen for probes.
func (h *head) listenAt(host int, addr netip.Addr) *wire.Probing {
	h.t.Helper()
	h.tell(wire.Message{Listen: &wire.Listen{Host: host, Addr: addr, Secret: []byte("secret")}})
	return message(h, "Probing", func(m wire.Message) *wire.Probing { return m.Probing })
}

// probe has an agent probe others, and returns what it has found this time.
func (h *head) probe(n int, p wire.Probe) (result probe.Result) {
	h.t.Helper()
	h.tell(wire.Message{Probe: &p})
	var text []byte
	h.until("Probed", func() bool {
		count := 0
		for _, m := range h.msgs {
			if m.Probed != nil {
				count, text = count+1, m.Probed.Result
			}
		}
		return count == n
	})
	if err := json.Unmarshal(text, &result); err != nil {
		h.t.Fatalf("%v in %q", err, text)
	}
	return result
}

func opened(addr netip.AddrPort) bool {
	c, err := net.Dial("tcp", addr.String())
	if err == nil {
		c.Close()
	}
	return err == nil
}

// The facts come, ranks run after them, and nothing is left.
func TestExamine(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	before := time.Now()
	h.tell(wire.Message{Examine: &wire.Examine{Order: []byte(`{"names":["localhost"]}`), Within: 20 * time.Second}})
	c := message(h, "Clock", func(m wire.Message) *wire.Clock { return m.Clock })
	if d := c.At.Sub(before); d < 0 || d > time.Minute {
		t.Errorf("its clock is ahead by %v; want about 0", d)
	}
	if host := h.facts(); host.Version != facts.Version || len(host.Net.Names) != 1 {
		t.Errorf("got %+v; want facts", host)
	}
	h.run(newPlan(t, []string{"true"}))
	h.exit(0)
	h.stop(0)
}

// Two agents probe each other, until one gets a plan and the other is told to stop.
func TestProbesBetweenAgents(t *testing.T) {
	t.Parallel()
	var heads []*head
	var targets []wire.Target
	for host := range 2 {
		h := startAgent(t, launch{})
		p := h.listenAt(host, here)
		if p.Port == 0 || p.Failure != "" {
			t.Fatalf("got %+v; want a port", p)
		}
		heads, targets = append(heads, h), append(targets, wire.Target{Host: host, Addr: netip.AddrPortFrom(here, p.Port)})
	}
	for host, h := range heads {
		other := targets[1-host]
		got := h.probe(1, wire.Probe{Targets: []wire.Target{other}, Within: 20 * time.Second, Pings: 3, MTU: true})
		if got.From != host || len(got.Links) != 1 || got.Links[0].Host != other.Host || got.Links[0].Failure != "" || got.Links[0].Latency <= 0 {
			t.Errorf("host %d: got %+v", host, got)
		}
		got = h.probe(2, wire.Probe{Targets: []wire.Target{other}, Within: 20 * time.Second, Bandwidth: 10 * time.Millisecond})
		if len(got.Links) != 1 || got.Links[0].BytesPerSecond <= 0 {
			t.Errorf("host %d: got %+v; want bandwidth", host, got)
		}
	}
	heads[0].run(newPlan(t, []string{"sleep", "100"}))
	heads[1].stop(0)
	for i, target := range targets {
		if opened(target.Addr) {
			t.Errorf("the port of host %d is open", i)
		}
	}
	heads[0].stop(0)
}

// Two agents try a rail with perftest, and an agent that is told to stop leaves none of it.
func TestRailsBetweenAgents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' helper perftest \"$@\"\n", os.Args[0])
	if err := os.WriteFile(filepath.Join(dir, "ib_write_bw"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	var heads []*head
	var targets []wire.Target
	for host := range 2 {
		h := startAgent(t, launch{env: []string{"PATH=" + dir}})
		p := h.listenAt(host, here)
		heads, targets = append(heads, h), append(targets, wire.Target{Host: host, Addr: netip.AddrPortFrom(here, p.Port)})
	}
	rails := func(device string) wire.Probe {
		text, err := json.Marshal([]probe.Rail{{Place: 2, From: probe.RailPort{Device: device, Port: 1, GID: 3}, To: probe.RailPort{Device: device, Port: 1, GID: 3}}})
		if err != nil {
			t.Fatal(err)
		}
		return wire.Probe{Targets: targets[1:], Within: 20 * time.Second, Rails: text}
	}
	got := heads[0].probe(1, rails("mlx5_2"))
	if got.From != 0 || len(got.Links) != 0 || len(got.Rails) != 1 {
		t.Fatalf("got %+v; want one rail", got)
	}
	if r := got.Rails[0]; r.Host != 1 || r.Place != 2 || r.Failure != "" || r.BytesPerSecond != 10e9 {
		t.Errorf("got %+v; want 10 GB/s", r)
	}
	hangs := rails("hangs")
	heads[0].tell(wire.Message{Probe: &hangs})
	eventually(t, "both programs", func() bool { return len(perftests(dir)) == 2 })
	begun := time.Now()
	heads[0].stop(0)
	heads[1].stop(0)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("the end took %v", took)
	}
	if left := perftests(dir); len(left) > 0 {
		t.Errorf("%q still run", left)
	}
}

// perftests lists the processes of programs that were found in dir.
func perftests(dir string) (running []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environ, err := os.ReadFile(file)
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if err == nil && strings.Contains(string(environ), "PATH="+dir) && strings.Contains(string(line), "perftest") {
			running = append(running, string(line))
		}
	}
	return running
}

// Whoever is probed, the order to stop is obeyed at once.
func TestStopWhileProbing(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	h := startAgent(t, launch{})
	h.listenAt(0, here)
	h.tell(wire.Message{Examine: &wire.Examine{Order: []byte("{}"), Within: 20 * time.Second}})
	h.tell(wire.Message{Probe: &wire.Probe{Within: 20 * time.Second, Targets: []wire.Target{{Host: 1, Addr: netip.MustParseAddrPort(silent.Addr().String())}}}})
	c, err := silent.Accept() // it is probed
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	begun := time.Now()
	h.stop(0)
	if took := time.Since(begun); took > probe.DefaultTimeout {
		t.Errorf("the end took %v", took)
	}
	for _, m := range h.msgs {
		if m.Probed != nil {
			t.Errorf("got %s behind the order to stop", m.Probed.Result)
		}
	}
}

func TestListenFails(t *testing.T) {
	t.Parallel()
	h := startAgent(t, launch{})
	if p := h.listenAt(0, netip.MustParseAddr("192.0.2.1")); p.Port != 0 || !strings.Contains(p.Failure, "cannot assign requested address") {
		t.Errorf("got %+v; want that the address is not there", p)
	}
	h.stop(0)
}

// What no head sends ends the link.
func TestExaminationRefused(t *testing.T) {
	t.Parallel()
	ask := wire.Message{Examine: &wire.Examine{Order: []byte("{}")}}
	listen := wire.Message{Listen: &wire.Listen{Addr: here, Secret: []byte("s")}}
	tests := map[string][]wire.Message{
		"order-is-no-json":   {{Examine: &wire.Examine{Order: []byte("{")}}},
		"asked-twice":        {ask, ask},
		"listens-twice":      {listen, listen},
		"no-secret":          {{Listen: &wire.Listen{Addr: here}}},
		"negative-host":      {{Listen: &wire.Listen{Host: -1, Addr: here, Secret: []byte("s")}}},
		"probe-without-port": {{Probe: &wire.Probe{}}},
		"too-many-targets":   {listen, {Probe: &wire.Probe{Targets: make([]wire.Target, wire.MaxTargets+1)}}},
	}
	for name, msgs := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startAgent(t, launch{})
			for _, m := range msgs {
				h.tell(m)
			}
			if code := h.code(); code != exitLost {
				t.Errorf("the agent ended with code %d; want %d", code, exitLost)
			}
		})
	}
}

// collected is an examiner whose collection of facts is replaced, and what it says.
type collected struct {
	*examiner
	mu   sync.Mutex
	said []wire.Message // guarded by mu
}

func newCollected(settled <-chan struct{}, collect func(context.Context, facts.Order) facts.Host) *collected {
	c := &collected{}
	c.examiner = newExaminer(settled, func(m wire.Message) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.said = append(c.said, m)
	})
	c.collect = collect
	return c
}

// count is how many messages there are that pick accepts.
func (c *collected) count(pick func(wire.Message) bool) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.said {
		if pick(m) {
			n++
		}
	}
	return n
}

func isFacts(m wire.Message) bool { return m.Facts != nil }

func done() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// Long facts come in parts, and those that are too long not at all.
func TestLongFacts(t *testing.T) {
	tests := []struct {
		name  string
		bytes int
		parts int
		fails string
	}{
		{"short", 10, 1, ""},
		{"three-parts", 2*wire.FactsPart + 10, 3, ""},
		{"too-long", wire.MaxFacts, 1, "more than the 4194304 that gorun takes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := facts.Host{Kernel: facts.Kernel{Lines: []string{strings.Repeat("x", tt.bytes)}}}
			x := newCollected(done(), func(context.Context, facts.Order) facts.Host { return want })
			if err := x.take(wire.Message{Examine: &wire.Examine{Order: []byte("{}"), Within: time.Minute}}); err != nil {
				t.Fatal(err)
			}
			x.work.Wait()
			<-x.end()
			var text []byte
			var last *wire.Facts
			for _, m := range x.said {
				if m.Facts != nil {
					last = m.Facts
					text = append(text, last.Part...)
					if f, err := wire.Encode(m); err != nil || len(f.Payload) > wire.MaxReport {
						t.Errorf("a message of %d bytes, %v", len(f.Payload), err)
					}
				}
			}
			var got facts.Host
			if tt.fails != "" {
				if !strings.Contains(last.Failure, tt.fails) {
					t.Errorf("got %q; want %q", last.Failure, tt.fails)
				}
			} else if err := json.Unmarshal(text, &got); err != nil || got.Kernel.Lines[0] != want.Kernel.Lines[0] {
				t.Errorf("got %d bytes, %v", len(text), err)
			}
			if n := x.count(isFacts); n != tt.parts || last.More {
				t.Errorf("got %d parts, more: %v; want %d", n, last.More, tt.parts)
			}
		})
	}
}

// Collection waits for the login shell, has a limit, and ends with the examination; what
// it has then is told to nobody.
func TestCollectionEnds(t *testing.T) {
	settled := make(chan struct{})
	begun, limits := make(chan struct{}), make(chan error, 1)
	x := newCollected(settled, func(ctx context.Context, _ facts.Order) facts.Host {
		close(begun)
		<-ctx.Done()
		limits <- ctx.Err()
		return facts.Host{}
	})
	if err := x.take(wire.Message{Examine: &wire.Examine{Order: []byte("{}"), Within: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-begun:
		t.Error("it does not wait for the login shell")
	case <-time.After(10 * time.Millisecond):
	}
	close(settled)
	<-begun
	<-x.end()
	if err := <-limits; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v; want %v", err, context.Canceled)
	}
	if x.count(isFacts) != 0 || x.count(func(m wire.Message) bool { return m.Clock != nil }) != 1 {
		t.Errorf("got %+v; want the clock alone", x.said)
	}
	if err := x.take(wire.Message{Probe: &wire.Probe{}}); err != nil {
		t.Errorf("behind the end: got %v; want none", err)
	}
	x.aside(func() { t.Error("something begins behind the end") })
}

// An examination that ends before the login shell does collects nothing.
func TestCollectionDoesNotBegin(t *testing.T) {
	x := newCollected(make(chan struct{}), func(context.Context, facts.Order) facts.Host {
		t.Error("it collects")
		return facts.Host{}
	})
	if err := x.take(wire.Message{Examine: &wire.Examine{Order: []byte("{}"), Within: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	<-x.end()
}

// FuzzExamine hands an examiner any order.
func FuzzExamine(f *testing.F) {
	for _, s := range []string{"", "{", "{}", `{"names":["a"],"limit":1}`, "null", `{"limit":"x"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, order []byte) {
		x := newCollected(done(), func(context.Context, facts.Order) facts.Host { return facts.Host{} })
		err := x.take(wire.Message{Examine: &wire.Examine{Order: bytes.Clone(order), Within: time.Second}})
		x.work.Wait()
		<-x.end()
		if (err == nil) != (x.count(isFacts) == 1) {
			t.Errorf("got %v and %+v", err, x.said)
		}
	})
}
