package envsync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLeftover(t *testing.T) {
	yes := "NCCL_DEBUG PMI_RANK PMI_FD PMI2_X PMIX_RANK PMIX_SERVER_URI41 OMPI_COMM_WORLD_RANK OMPI_MCA_btl RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE " +
		"MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID SLURM_PROCID SLURM_LOCALID SLURM_NODEID SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NODELIST"
	for name := range strings.FieldsSeq(yes) {
		if !Leftover(name) {
			t.Errorf("got false for %s; want true", name)
		}
	}
	no := "PATH HOME NCCL nccl_debug XNCCL_A PMI PMIX RANKS MYRANK OMP_NUM_THREADS TORCH_HOME SLURM_JOB_ID SLURM_NODELIST SLURM_NTASKS PYTHONPATH " +
		"CUDA_VISIBLE_DEVICES LD_LIBRARY_PATH LOCALE MASTER GORUN_NCCL_LIB"
	for name := range strings.FieldsSeq(no) {
		if Leftover(name) {
			t.Errorf("got true for %s; want false", name)
		}
	}
}

func TestHidden(t *testing.T) {
	yes := "HF_TOKEN TOKEN GITHUB_TOKEN_FILE AWS_SECRET_ACCESS_KEY WANDB_API_KEY MYSQL_PASSWORD PASSWORDS CLIENT_SECRET GOOGLE_APPLICATION_CREDENTIALS " +
		"GITHUB_PAT hf_token My_Key"
	for name := range strings.FieldsSeq(yes) {
		if !Hidden(name) {
			t.Errorf("got false for %s; want true", name)
		}
	}
	no := "PATH NCCL_DEBUG KEY KEYBOARD MONKEY PAT XPAT PATCH_LEVEL A_KEYS"
	for name := range strings.FieldsSeq(no) {
		if Hidden(name) {
			t.Errorf("got true for %s; want false", name)
		}
	}
}

func TestValidName(t *testing.T) {
	for _, name := range []string{"A", "_", "a1", "NCCL_DEBUG", "__x__"} {
		if !validName(name) {
			t.Errorf("got false for %q; want true", name)
		}
	}
	for _, name := range []string{"", "1", "1A", "A B", "A-B", "A.B", "é", "A\n", "A=", "\xff"} {
		if validName(name) {
			t.Errorf("got true for %q; want false", name)
		}
	}
}

func TestRankVars(t *testing.T) {
	vars := RankVars(RankInfo{
		JobID: "7f3a", Rank: 5, Size: 16, Local: 1, LocalSize: 4, Node: 2, Nodes: 3, MasterAddr: "10.0.0.1", MasterPort: 29400,
		Backend: "cpu", EnvDigest: Digest{"0123456789abcdef", "fedcba9876543210"}, Dir: "/tmp/gorun-7f3a",
	})
	want := strings.Fields(`
		GORUN_BACKEND=cpu GORUN_ENV_DIGEST=0123456789abcdef.fedcba9876543210 GORUN_JOB_ID=7f3a GORUN_LOCAL_RANK=1 GORUN_LOCAL_SIZE=4
		GORUN_NODES=3 GORUN_NODE_RANK=2 GORUN_RANK=5 GORUN_SIZE=16 GORUN_STORE=unix:/tmp/gorun-7f3a/store
		RANK=5 WORLD_SIZE=16 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=2 NODE_RANK=2 MASTER_ADDR=10.0.0.1 MASTER_PORT=29400
		OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=16 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4 OMPI_COMM_WORLD_NODE_RANK=1
		MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4`)
	var got []string
	for _, v := range vars {
		got = append(got, v.Name+"="+v.Value)
		if v.Origin != FromGorun || !RankName(v.Name) {
			t.Errorf("got %+v; want a rank's name of gorun's", v)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// What is not known is not set, so that no program reads an empty address.
func TestRankVarsUnknown(t *testing.T) {
	var got []string
	for _, v := range RankVars(RankInfo{Size: 1, LocalSize: 1, Nodes: 1}) {
		if v.Value == "" {
			t.Errorf("got %s empty", v.Name)
		}
		got = append(got, v.Name)
	}
	for _, name := range []string{"MASTER_ADDR", "MASTER_PORT", "GORUN_BACKEND", "GORUN_ENV_DIGEST", "GORUN_STORE", "GORUN_JOB_ID"} {
		if slices.Contains(got, name) {
			t.Errorf("got %s; want it left out", name)
		}
	}
	if !slices.Contains(got, "RANK") {
		t.Errorf("got %q; want RANK, though it is 0", got)
	}
}

// A name that gorun sets never comes from elsewhere, however it is asked for; but those
// that say where ranks meet do when they are named.
func TestRankNamesAreGoruns(t *testing.T) {
	for _, v := range RankVars(RankInfo{JobID: "j", MasterAddr: "a", MasterPort: 1, Backend: "b", EnvDigest: Digest{"d", "e"}, Dir: "/d"}) {
		for _, p := range []Policy{
			{Environ: []string{v.Name + "=theirs"}, Set: x(v.Name)},
			{Environ: []string{v.Name + "=theirs"}, Set: x(v.Name[:3] + "*")},
			{Environ: []string{v.Name + "=theirs"}, Forward: []string{v.Name[:2]}},
			{Environ: []string{v.Name + "=theirs"}, All: true},
			{Set: x(v.Name + "=theirs")},
		} {
			job, _, err := p.Build()
			named := len(p.Set) == 1 && strings.HasPrefix(p.Set[0].Text, v.Name) && meeting(v.Name)
			if err != nil || (len(job) > 0) != named || named && job[0].Value != "theirs" {
				t.Errorf("%+v: got %v, %v; want it only where it is named and may be", p, job, err)
			}
		}
	}
}

func ExampleMerge() {
	session := []string{"PATH=/usr/bin", "NCCL_DEBUG=WARN", "PMI_RANK=0"}
	job := []string{"NCCL_DEBUG=INFO"}
	own := []string{"RANK=3"}
	for _, entry := range Merge(session, job, own) {
		fmt.Println(entry)
	}
	// Output:
	// PATH=/usr/bin
	// NCCL_DEBUG=INFO
	// RANK=3
	// PYTHONUNBUFFERED=1
}

func ExamplePolicy_Build() {
	p := Policy{
		Environ: []string{"NCCL_DEBUG=INFO", "PATH=/usr/bin", "HF_TOKEN=hunter2"},
		Set:     []Setting{{"-x", "HF_TOKEN"}, {"-x", "LR=0.1"}, {"-x", "FOO"}},
	}
	_, notes, err := p.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range notes {
		fmt.Println(n.Level, n.Text)
	}
	// Output:
	// warn -x FOO: not set here, so not sent
	// info sent: NCCL_DEBUG=INFO (environment)
	// info sent: HF_TOKEN=<hidden> (-x)
	// info sent: LR=0.1 (-x)
	// info set here and not sent (-x NAME sends it): PATH
}
