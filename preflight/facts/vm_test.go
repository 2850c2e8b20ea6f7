package facts

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	vmLimit   = 4 * time.Minute // it takes half a minute on a machine that is not busy
	vmMissing = 255             // with which rxe-vm ends where there can be no virtual machine
)

// vmFacts returns the facts of a virtual machine, by the name of each step in
// testdata/faults.sh. It skips the test where there can be none, but not in CI.
func vmFacts(t *testing.T) map[string]Host {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "collect")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/collect")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	steps, err := os.ReadFile("testdata/faults.sh")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, fmt.Appendf(nil, "COLLECT=%s\n%s", program, steps), 0o600); err != nil {
		t.Fatal(err)
	}
	var words strings.Builder
	vm := exec.CommandContext(t.Context(), "../../scripts/rxe-vm", "-t", fmt.Sprint(int(vmLimit.Seconds())), "-x", program, script)
	vm.Stderr = &words
	out, err := vm.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == vmMissing && os.Getenv("CI") == "" {
		t.Skip("no virtual machine here: ", words.String())
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, words.String())
	}
	found := map[string]Host{}
	for line := range strings.Lines(string(out)) {
		name, text, ok := strings.Cut(strings.TrimPrefix(line, "@"), " ")
		var h Host
		if !ok || !strings.HasPrefix(line, "@") {
			t.Logf("%s", line)
			continue
		}
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found[name] = h
	}
	return found
}

// TestSlowRDMAVM has a real kernel's RDMA, and breaks it.
func TestSlowRDMAVM(t *testing.T) {
	hosts := vmFacts(t)
	hca := func(t *testing.T, step string, i int) HCA {
		t.Helper()
		devices := hosts[step].RDMA.Devices
		if len(devices) != 2 || len(devices[i].Ports) != 1 {
			t.Fatalf("got %+v; want two devices with a port each", devices)
		}
		return devices[i]
	}
	t.Run("healthy", func(t *testing.T) {
		h := hosts["healthy"]
		for i, addr := range []string{"::ffff:10.77.0.1", "::ffff:10.77.0.2"} {
			d := hca(t, "healthy", i)
			p := d.Ports[0]
			local := p.GIDs[0].GID // follows from the interface's address, which is another at each start
			netdev := fmt.Sprint("veth", i)
			want := HCA{
				Name: fmt.Sprint("rxe", i), NUMA: -1, Parent: netdev, GUID: d.GUID, ImageGUID: d.GUID, Uverbs: fmt.Sprint("/dev/infiniband/uverbs", i),
				Ports: []Port{{
					Num: 1, State: "ACTIVE", Phys: "LinkUp", Rate: p.Rate, RateText: p.RateText, Layer: "Ethernet", PKeys: []string{"0xffff"},
					NetDevs: []string{netdev}, MTU: 4096, GIDs: []GID{{0, local, "RoCE v2", netdev}, {1, addr, "RoCE v2", netdev}},
				}},
			}
			if diff := cmp.Diff(want, d); diff != "" {
				t.Error(diff)
			}
			if !strings.HasPrefix(local, "fe80::") || p.Rate <= 0 || d.GUID == "" {
				t.Errorf("got %+v; want a link-local GID, a rate and a GUID", d)
			}
		}
		if _, ok := h.RDMA.Modules["rdma_rxe"]; !ok || h.Limits.Memlock != -1 || len(h.Unknown) > 0 || h.System.Virtual == "" {
			t.Errorf("got modules %v, memlock %d, unknown %v, virtual %q", h.RDMA.Modules, h.Limits.Memlock, h.Unknown, h.System.Virtual)
		}
		for _, n := range h.Net.Interfaces {
			if strings.HasPrefix(n.Name, "veth") && (n.Kind != "veth" || n.MTU != 4200 || !n.Running || len(n.Addrs) == 0) {
				t.Errorf("got %+v; want a veth with an address", n)
			}
		}
	})
	t.Run("down", func(t *testing.T) {
		a, b := hca(t, "down", 0).Ports[0], hca(t, "down", 1).Ports[0]
		if a.State != "DOWN" || a.Phys != "Polling" || b.State != "DOWN" || b.Phys != "Disabled" || a.Rate <= 0 {
			t.Errorf("got %+v and %+v; want Polling at the wire's good end, Disabled at the other, and the rate still there", a, b)
		}
	})
	t.Run("mtu", func(t *testing.T) {
		if a, b := hca(t, "mtu", 0).Ports[0].MTU, hca(t, "mtu", 1).Ports[0].MTU; a != 4096 || b != 1024 {
			t.Errorf("got %d and %d; want 4096 and 1024", a, b)
		}
	})
	t.Run("address", func(t *testing.T) {
		if g := hca(t, "address", 0).Ports[0].GIDs; len(g) != 1 || g[0].Index != 0 {
			t.Errorf("got %v; want the link-local GID only", g)
		}
	})
	t.Run("memlock", func(t *testing.T) {
		if got := hosts["memlock"].Limits; got.Memlock != 64<<10 || got.MemlockHard != 64<<10 {
			t.Errorf("got %+v; want 64 KiB", got)
		}
	})
	t.Run("uverbs", func(t *testing.T) {
		h := hosts["uverbs"]
		if a, b := hca(t, "uverbs", 0).Open, hca(t, "uverbs", 1).Open; a != "permission denied" || b != "" {
			t.Errorf("got %q and %q; want the first not to be opened", a, b)
		}
		if h.System.User != "user" || h.System.UID != 1000 {
			t.Errorf("got user %q (%d); want user (1000)", h.System.User, h.System.UID)
		}
	})
	t.Run("growth", func(t *testing.T) {
		p := hca(t, "growth", 1).Ports[0]
		if p.Delta["link_downed"] < 1 || len(p.Counters) < 10 {
			t.Errorf("got %v, growth %v; want link_downed to grow", p.Counters, p.Delta)
		}
	})
}
