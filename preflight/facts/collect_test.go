package facts

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func TestThisHost(t *testing.T) {
	h := Collect(t.Context(), Order{Names: []string{"localhost"}, Dir: t.TempDir(), Programs: []string{"sh"}})
	b, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", b)
	if h.System.Hostname == "" || h.System.CPUs == 0 || h.System.Memory == 0 {
		t.Errorf("got %+v; want a host's name, CPUs and memory", h.System)
	}
	if !slices.ContainsFunc(h.Net.Interfaces, func(n Interface) bool { return n.Kind == "loopback" && n.MTU > 0 }) {
		t.Errorf("got %+v; want a loopback interface with an MTU", h.Net.Interfaces)
	}
	if len(h.Programs) != 1 || len(h.Programs[0].SHA256) != 64 {
		t.Errorf("got %+v; want the shell with its hash", h.Programs)
	}
	for item, why := range h.Unknown {
		if item != ItemNames && item != ItemKernel && !strings.HasPrefix(item, "gpu") {
			t.Errorf("%s is not known: %s", item, why)
		}
	}
}

// A test item with a name, and what it does.
func testItem(name string, collect func(context.Context, *source, *Host) error) item {
	return item{name, collect, func(to, from *Host) {
		if from.Programs != nil {
			to.Programs = append(to.Programs, from.Programs...)
		}
	}}
}

func TestWhatHangsIsUnknownAndHidesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		defer func() {
			close(never)
			synctest.Wait()
		}()
		all := []item{
			testItem("hangs", func(_ context.Context, s *source, h *Host) error {
				h.Programs = []Program{{Arg: "half"}}
				s.at("/sys/of/a/sick/device")
				<-never
				h.Programs[0].Arg = "late" // no race: nobody reads this Host
				return nil
			}),
			testItem("obeys", func(ctx context.Context, _ *source, h *Host) error {
				h.Programs = []Program{{Arg: "first part"}}
				<-ctx.Done()
				return errors.Join(errors.New("second part"), context.Cause(ctx))
			}),
			testItem("fine", func(_ context.Context, _ *source, h *Host) error {
				h.Programs = []Program{{Arg: "whole"}}
				return nil
			}),
			testItem("panics", func(context.Context, *source, *Host) error { panic("index out of range") }),
		}
		start := time.Now()
		h := collect(t.Context(), hostSource, Order{Limit: 2 * time.Second}, all, nil)
		if took := time.Since(start); took > 2*time.Second+grace {
			t.Errorf("took %v; want a little more than 2s", took)
		}
		want := map[string]string{
			"hangs":  "/sys/of/a/sick/device: no answer in 2s",
			"obeys":  "second part no answer in 2s",
			"panics": "gorun has a fault here: index out of range",
		}
		for item, why := range want {
			if got := h.Unknown[item]; got != why {
				t.Errorf("%s: got %q; want %q", item, got, why)
			}
		}
		if len(h.Unknown) != len(want) {
			t.Errorf("got %v; want no other", h.Unknown)
		}
		if len(h.Programs) != 2 || h.Programs[0].Arg != "first part" || h.Programs[1].Arg != "whole" {
			t.Errorf("got %+v; want what was in time", h.Programs)
		}
	})
}

func TestEndOfContextEndsCollecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the job has ended"))
		defer cancel()
		never := make(chan struct{})
		defer func() {
			close(never)
			synctest.Wait()
		}()
		start := time.Now()
		h := collect(ctx, hostSource, Order{Limit: time.Minute}, []item{
			testItem("hangs", func(context.Context, *source, *Host) error { <-never; return nil }),
		}, nil)
		if got, want := h.Unknown["hangs"], "the job has ended"; got != want {
			t.Errorf("got %q; want %q", got, want)
		}
		if took := time.Since(start); took != time.Second+grace {
			t.Errorf("took %v; want %v", took, time.Second+grace)
		}
	})
}

func TestNVLinksJoinTheirGPUs(t *testing.T) {
	to := Host{GPU: GPU{Devices: []Device{{Index: 0, UUID: "GPU-a", NVLinks: -1}, {Index: 1, UUID: "GPU-b", NVLinks: -1}}}}
	mergeNVLink(&to, &Host{GPU: GPU{Devices: []Device{{Index: 1, UUID: "GPU-b", NVLinks: 18, NVActive: 17, NVDown: []int{3}}, {Index: 2, UUID: "GPU-c", NVLinks: 18}}}})
	if d := to.GPU.Devices; len(d) != 3 || d[0].NVLinks != -1 || d[1].NVActive != 17 || d[2].NVLinks != 18 {
		t.Errorf("got %+v; want the links at their GPUs", d)
	}
}

// BenchmarkCollect prints the CPU time of one collection, too: on the testbed many hosts
// collect at once on few cores.
func BenchmarkCollect(b *testing.B) {
	used := func() time.Duration {
		var u unix.Rusage
		unix.Getrusage(unix.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	start := used()
	for b.Loop() {
		Collect(b.Context(), Order{Dir: "/tmp", Programs: []string{"/bin/sh"}})
	}
	b.ReportMetric(float64((used()-start).Microseconds())/1000/float64(b.N), "cpu-ms/op")
}
