package envsync

import "testing"

func jobDigest(env []string) string { return DigestOf(env).Job }

func TestJobDigest(t *testing.T) {
	base := []string{"NCCL_A=1", "NCCL_B=2", "X=1"}
	same := [][]string{
		{"X=2", "NCCL_B=2", "NCCL_A=1"},
		{"NCCL_B=2", "NCCL_A=1", "Y=1", "nccl_c=1", "NCCL=1"},
		{"NCCL_A=9", "NCCL_A=1", "NCCL_B=2"},
		{"NCCL_A=1", "NCCL_B=2", "NCCL_DEBUG=INFO", "NCCL_DEBUG_FILE=x", "NCCL_IB_TIMEOUT=22", "NCCL_IB_HCA=mlx5_0", "LD_LIBRARY_PATH=/x"},
	}
	for _, env := range same {
		if got, want := jobDigest(env), jobDigest(base); got != want {
			t.Errorf("%q: got %s; want %s", env, got, want)
		}
	}
	others := [][]string{
		nil,
		{"NCCL_A=1"},
		{"NCCL_A=1", "NCCL_B=3"},
		{"NCCL_A=1", "NCCL_B="},
		{"NCCL_A=1", "NCCL_C=2"},
		{"NCCL_A=2", "NCCL_B=1"},
		{"NCCL_A=1NCCL_B=2"},
		{"NCCL_A=1", "NCCL_B=2\x00"},
		{"NCCL_A=1", "NCCL_B=\xff"},
		{"NCCL_A=1", "NCCL_B=\xfe"},
		{"NCCL_A=1", "NCCL_B=2", "NCCL_C="},
	}
	seen := map[string][]string{jobDigest(base): base}
	for _, env := range others {
		d := jobDigest(env)
		if twin, ok := seen[d]; ok {
			t.Errorf("got %s for both %q and %q", d, env, twin)
		}
		seen[d] = env
	}
	// Head and ranks may be of different builds: the digest must not change. This one is
	// SHA-256 of each name and value after its length as 8 bytes, big-endian.
	if got, want := jobDigest(base), "53af2723bc517705"; got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// What describes a host is in a part of its own.
func TestHostDigest(t *testing.T) {
	base := DigestOf([]string{"NCCL_ALGO=Ring", "NCCL_IB_HCA=mlx5_0"})
	for _, tt := range []struct {
		name      string
		env       []string
		job, host bool // the part is as that of base
	}{
		{"job", []string{"NCCL_ALGO=Tree", "NCCL_IB_HCA=mlx5_0"}, false, true},
		{"host", []string{"NCCL_ALGO=Ring", "NCCL_IB_HCA=mlx5_1"}, true, false},
		{"unset", []string{"NCCL_ALGO=Ring"}, true, false},
		{"debug", []string{"NCCL_ALGO=Ring", "NCCL_IB_HCA=mlx5_0", "NCCL_DEBUG=INFO"}, true, true},
		{"both", nil, false, false},
	} {
		if d := DigestOf(tt.env); (d.Job == base.Job) != tt.job || (d.Host == base.Host) != tt.host {
			t.Errorf("%s: got %v beside %v; want job part equal %v, host part equal %v", tt.name, d, base, tt.job, tt.host)
		}
	}
	if got := (Digest{}).String(); got != "" {
		t.Errorf("no digest: got %q; want nothing", got)
	}
}
