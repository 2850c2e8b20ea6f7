package launcher

import (
	"errors"
	"strings"
	"testing"

	"gorun/envsync"
)

func TestCommID(t *testing.T) {
	for _, row := range []struct {
		name, addr string
		port       int
		want       string // "": an error
	}{
		{"ipv4", "10.0.0.1", 20000, "10.0.0.1:20000"},
		{"ipv6", "fd00::1", 20000, "[fd00::1]:20000"},
		{"no-port", "10.0.0.1", 0, ""},
		{"no-address", "gpu1", 20000, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, err := commID(row.addr, row.port)
			if got != row.want || (err == nil) != (row.want != "") {
				t.Errorf("got %q, %v; want %q", got, err, row.want)
			}
		})
	}
}

// NCCL_COMM_ID is a setting as any other: the digests, by which ranks' settings are
// compared, have it.
func TestSetCommID(t *testing.T) {
	job := Job{
		Apps: []App{{Args: []string{"a"}}, {Args: []string{"b"}, Set: []envsync.Setting{{Flag: "-x", Text: "NCCL_DEBUG=INFO"}}}},
		Env:  envsync.Policy{Environ: []string{"NCCL_IB_HCA=mlx5"}}, CommID: true,
	}
	env, _, err := job.environment()
	if err != nil {
		t.Fatal(err)
	}
	env.setCommID("10.0.0.1:20000")
	for i, want := range []string{
		envsync.Digest([]string{"NCCL_IB_HCA=mlx5", "NCCL_COMM_ID=10.0.0.1:20000"}),
		envsync.Digest([]string{"NCCL_IB_HCA=mlx5", "NCCL_DEBUG=INFO", "NCCL_COMM_ID=10.0.0.1:20000"}),
	} {
		if env.digests[i] != want {
			t.Errorf("program %d: got digest %s; want %s", i, env.digests[i], want)
		}
	}
	if got := lookup(env.job, commIDName); got != "10.0.0.1:20000" {
		t.Errorf("got %q in the job's variables", got)
	}
}

func TestCommIDTwice(t *testing.T) {
	for name, job := range map[string]Job{
		"environment": {Env: envsync.Policy{Environ: []string{"NCCL_COMM_ID=10.0.0.1:1"}}},
		"empty":       {Env: envsync.Policy{Set: []envsync.Setting{{Flag: "-x", Text: "NCCL_COMM_ID="}}}},
		"program":     {Apps: []App{{Args: []string{"a"}}, {Args: []string{"b"}, Set: []envsync.Setting{{Flag: "-env", Text: "NCCL_COMM_ID=h:1"}}}}},
		"host":        {HostEnv: map[string][]envsync.Var{"h": {{Name: commIDName, Value: "h:1", Origin: "gorun.toml:3"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			if job.Apps == nil {
				job.Apps = []App{{Args: []string{"a"}}}
			}
			if _, _, err := job.environment(); err != nil {
				t.Fatalf("without the flag: %v", err)
			}
			job.CommID = true
			_, _, err := job.environment()
			if _, ok := errors.AsType[*envsync.SettingError](err); !ok || !strings.Contains(err.Error(), "--nccl-comm-id would set it to something else") {
				t.Errorf("got %v; want a *envsync.SettingError", err)
			}
		})
	}
}

// A job whose host of rank 0 has no port for it does not start.
func TestCommIDWithoutPort(t *testing.T) {
	r := &run{job: Job{CommID: true}}
	r.hosts = []*host{{}, {}}
	r.hosts[1].spec.Name = "gpu2"
	layout := Layout{Ranks: []Place{{Host: 1}}}
	err := r.chooseCommID(layout, site{addrs: []string{"", "10.0.0.2"}, comms: []int{5, 0}})
	if want := "gpu2: there is no free port for NCCL_COMM_ID"; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}
