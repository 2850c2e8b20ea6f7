package envsync

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// The counts are those of NCCL 2.30.7: who adds a variable changes them knowingly.
func TestTable(t *testing.T) {
	var classes [256]int
	seen := map[string]bool{}
	for _, r := range ncclTable {
		classes[r.class]++
		if seen[r.name] {
			t.Errorf("%s is there twice", r.name)
		}
		seen[r.name] = true
		if !regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`).MatchString(r.name) {
			t.Errorf("%q is no name", r.name)
		}
		if r.since != "" && !regexp.MustCompile(`^2\.\d+\.\d+$`).MatchString(r.since) {
			t.Errorf("%s: %q is no version", r.name, r.since)
		}
		if r.meaning == "" || len(r.meaning) > 120 || strings.TrimSpace(r.meaning) != r.meaning || strings.ContainsFunc(r.meaning, unicode.IsControl) {
			t.Errorf("%s: meaning %q is not one short line", r.name, r.meaning)
		}
		if r.kind == "" || r.kind == Switch && len(r.usual) > 30 {
			t.Errorf("%s: kind %q, default %q", r.name, r.kind, r.usual)
		}
	}
	if len(ncclTable) != 245 {
		t.Errorf("%d variables; want 245", len(ncclTable))
	}
	for letter, want := range map[byte]int{'I': 120, 'H': 15, 'N': 41, 'P': 51, 'D': 18} {
		if classes[letter] != want {
			t.Errorf("%d variables of class %c; want %d", classes[letter], letter, want)
		}
	}
}

func TestLookup(t *testing.T) {
	v, ok := Lookup("NCCL_P2P_LEVEL")
	if !ok || v.Name != "NCCL_P2P_LEVEL" || v.Kind != Words || v.Class != ClassJob || !v.SameHost || v.Since != "" || v.Default != "automatic" {
		t.Errorf("got %+v, %v", v, ok)
	}
	v, ok = Lookup("NCCL_NET_GDR_LEVEL")
	if !ok || v.Class != ClassHost || v.SameHost || v.Since != "2.4.2" {
		t.Errorf("got %+v, %v", v, ok)
	}
	for _, name := range []string{"", "NCCL_", "NCCL_NOPE", "P2P_LEVEL", "nccl_p2p_level", "NCCL_ALGO "} {
		if v, ok := Lookup(name); ok {
			t.Errorf("%q is %+v", name, v)
		}
	}
}

func TestClassOf(t *testing.T) {
	for name, want := range map[string]Class{
		"NCCL_ALGO": ClassJob, "NCCL_SHM_DISABLE": ClassJob, "NCCL_IB_HCA": ClassHost, "NCCL_CONF_FILE": ClassHost, "NCCL_IB_TIMEOUT": ClassProcess,
		"NCCL_DEBUG": ClassDebug, "NCCL_DEBUG_FILE": ClassProcess, "NCCL_OF_TOMORROW": ClassJob, "NCCL_": ClassJob, "NCCL_DEBUGGER": ClassJob,
		"NCCL_TUNER_CONFIG_FILE": ClassJob, "NCCL_INSPECTOR_ENABLE": ClassDebug, "NCCL_UCX_TLS": ClassJob,
		"UCX_TLS": ClassJob, "UCX_NET_DEVICES": ClassHost, "OFI_NCCL_PROTOCOL": ClassJob, "FI_PROVIDER": ClassJob, "TORCH_NCCL_BLOCKING_WAIT": ClassJob,
		"LD_LIBRARY_PATH": ClassJob, "CUDA_DEVICE_ORDER": ClassJob, "CUDA_VISIBLE_DEVICES": ClassProcess,
		"MASTER_ADDR": ClassJob, "MASTER_PORT": ClassJob, "GLOO_SOCKET_IFNAME": ClassHost,
		"": ClassUnknown, "PATH": ClassUnknown, "NCCL": ClassUnknown, "FIX": ClassUnknown, "TORCH_HOME": ClassUnknown, "OMP_NUM_THREADS": ClassUnknown,
	} {
		if got := ClassOf(name); got != want {
			t.Errorf("%s is %q; want %q", name, got, want)
		}
	}
}

func TestPerHost(t *testing.T) {
	for _, name := range []string{"PATH", "UCX_NET_DEVICES", "UCX_TLS", "NCCL", "NCCL_IB_HCA", "NCCL_SOCKET_IFNAME", "NCCL_TOPO_FILE", "NCCL_DEBUG",
		"NCCL_DEBUG_FILE", "NCCL_GDRCOPY_ENABLE", "NCCL_IB_TIMEOUT", "NCCL_DEBUGGER", "NCCL_", "NCCL_OF_TOMORROW", "NCCL_IB_HCAS"} {
		if !PerHost(name) {
			t.Errorf("%s must be equal everywhere", name)
		}
	}
	for _, name := range []string{"NCCL_ALGO", "NCCL_PROTO", "NCCL_IB_DISABLE", "NCCL_IB_QPS_PER_CONNECTION"} {
		if PerHost(name) {
			t.Errorf("%s may differ between hosts", name)
		}
	}
}

func BenchmarkLookupOfTheLast(b *testing.B) {
	for b.Loop() {
		Lookup("NCCL_CONF_FILE")
	}
}
