package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// object is a JSON object of any kind.
type object = map[string]any

// at follows names and indexes into JSON, and returns the object there.
func at(t *testing.T, v any, path ...any) object {
	t.Helper()
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(object)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	o, ok := v.(object)
	if !ok {
		t.Fatalf("no object at %v", path)
	}
	return o
}

// equip gives a host of saved facts eight GPUs and eight HCAs, as another host has them
// that is not its neighbour in anything.
func equip(t *testing.T, host object, number int) {
	t.Helper()
	text, err := os.ReadFile("testdata/gpuhost.json")
	if err != nil {
		t.Fatal(err)
	}
	var parts object
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "HOST", fmt.Sprintf("%04x", number))), &parts); err != nil {
		t.Fatal(err)
	}
	for k, hca := range at(t, parts, "rdma")["devices"].([]any) {
		at(t, hca, "ports", 0)["lid"] = 8*number + k + 1
	}
	facts := at(t, host, "facts")
	for name, part := range parts {
		facts[name] = part
	}
	delete(facts, "unknown") // the log of this machine's kernel, which not every user may read
	facts["kernel_log"] = object{}
	at(t, facts, "system")["virtual"] = "" // whatever the tests run in
}

// saved has gorun look at hosts, and returns what it saved.
func saved(t *testing.T, nodes []string) (file string, facts object) {
	t.Helper()
	file = filepath.Join(shared(t), "facts.json")
	look(t, "-hostfile", hostfile(t, nodes, "slots=2"), "--save-facts", file).wantFindings(t, 0)
	readJSON(t, file, &facts)
	return file, facts
}

// lookAtFacts has faults that no testbed can have: facts that it saved are given GPUs and
// HCAs, then one host's are broken.
func lookAtFacts(t *testing.T, nodes []string) {
	const bad = 6
	testbed(t, "root", nodes[bad], "sh", "-c", "prlimit --pid $(cat "+state+"/"+nodes[bad]+"/ready) --memlock=65536:65536")
	t.Cleanup(func() { testbed(t, "sshd", nodes[bad]) })
	file, first := saved(t, nodes)
	if got := at(t, first, "input", "hosts", bad, "facts", "limits")["memlock"]; got != 65536.0 {
		t.Errorf("%s has memlock %v; want 65536", nodes[bad], got)
	}
	broken := nodes[bad : bad+1]
	gpu := func(h object, n int) object { return at(t, h, "facts", "gpu", "devices", n) }
	tests := []struct {
		name  string
		spoil func(h object)
		code  int
		want  []expected
	}{
		{"healthy", func(object) {}, 0, nil},
		{"clock", func(h object) { at(t, h, "skew")["offset_ns"] = 5e9 }, 0, []expected{{"clock", "warning", "5", broken}}},
		{"gpu-lost", func(h object) {
			g := at(t, h, "facts", "gpu")
			g["devices"], g["dev_files"] = g["devices"].([]any)[:7], g["dev_files"].([]any)[:7]
		}, 4, []expected{{"gpu-count", "host", "has 7 of 8 GPUs", broken}}},
		{"xid", func(h object) {
			at(t, h, "facts")["kernel_log"] = object{"xids": []any{object{"at_s": 100, "bdf": gpu(h, 3)["bdf"], "code": 79, "text": "GPU has fallen off the bus."}}}
		}, 4, []expected{{"gpu-xid", "host", "79", broken}}},
		{"mig", func(h object) { gpu(h, 2)["mig"] = "Enabled" }, 4, []expected{
			{"gpu-mode", "host", "MIG mode: GPU 2", broken},
			{"gpu-topology", "warning", "", broken},
		}},
		{"fabric-manager", func(h object) {
			at(t, h, "facts", "gpu", "fabric_manager")["running"] = false
			for n := range 8 {
				gpu(h, n)["fabric_state"] = "In Progress"
			}
		}, 4, []expected{
			{"gpu-fabric", "host", "fabric manager that does not run", broken},
			{"gpu-fabric", "host", "fabric is not set up", broken},
		}},
		{"driver", func(h object) {
			at(t, h, "facts", "gpu")["driver"] = "535.183.01"
			at(t, h, "facts", "gpu", "fabric_manager")["version"] = "535.183.01"
		}, 0, []expected{{"driver", "warning", "535.183.01", broken}}},
		{"ecc", func(h object) { gpu(h, 5)["ecc_uncorrected"] = 3 }, 4, []expected{{"gpu-ecc", "host", "", broken}}},
		{"busy", func(h object) {
			gpu(h, 1)["memory_used"] = 40 << 30
			gpu(h, 1)["users"] = []any{object{"pid": 4711, "name": "python", "user": "somebody", "type": "C", "memory_bytes": 40 << 30}}
		}, 4, []expected{{"gpu-free", "host", "", broken}}},
		{"memlock", func(h object) { at(t, h, "facts", "limits")["memlock"] = 65536 }, 4, []expected{{"rdma-memlock", "host", "", broken}}},
		{"port-down", func(h object) {
			port := at(t, h, "facts", "rdma", "devices", 4, "ports", 0)
			port["state"], port["phys_state"] = "DOWN", "Polling"
		}, 4, []expected{{"rdma-port", "host", "", broken}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var all object
			readJSON(t, file, &all)
			for i := range nodes {
				h := at(t, all, "input", "hosts", i)
				equip(t, h, i)
				at(t, h, "facts", "limits")["memlock"] = -1
			}
			at(t, all, "input", "job")["gpu"] = true // as it is for hosts that have some
			tt.spoil(at(t, all, "input", "hosts", bad))
			text, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			judge := write(t, shared(t), "facts.json", string(text))
			look(t, "--facts", judge).wantFindings(t, tt.code, tt.want...)
		})
	}
}
