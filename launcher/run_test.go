package launcher

import (
	"fmt"
	"strings"
	"testing"

	"gorun/envsync"
)

func rankText(r RankResult) string {
	switch r.State {
	case StateExited:
		return fmt.Sprintf("exited %d", r.Code)
	case StateKilled:
		return fmt.Sprintf("killed %d", r.Signal)
	}
	return r.State
}

func TestRunWell(t *testing.T) {
	w := newWorld(t, "prints", 2, 1)
	w.io.Verbose = true
	w.job.Env = envsync.Policy{Environ: []string{"NCCL_DEBUG=WARN"}}
	res := w.good()
	w.wantStates(res, "exited 0, exited 0, exited 0")
	lines := strings.Split(w.stdout.String(), "\n")
	for _, want := range []string{"out of 0 on localhost", "out of 1 on localhost", "out of 2 on 127.0.0.1"} {
		if !contains(lines, want) {
			t.Errorf("stdout: got %q; want %q", lines, want)
		}
	}
	for _, want := range []string{"gorun: localhost: agent ", "ready after", "gorun: 127.0.0.1: 1 rank started\n", "gorun: localhost: 2 ranks started\n", "err of 2\n"} {
		if !strings.Contains(w.stderr.String(), want) {
			t.Errorf("stderr: got %q; want %q", w.stderr, want)
		}
	}
	if len(res.JobID) != 16 || res.EnvDigest == "" || res.Elapsed <= 0 || res.First != nil || res.Others+res.Stopped+res.Signal != 0 || res.Timeout {
		t.Errorf("got %+v", res)
	}
	if got, want := fmt.Sprint(res.Hosts), "[{localhost 2 2} {127.0.0.1 1 1}]"; got != want {
		t.Errorf("hosts: got %s; want %s", got, want)
	}
	if res.Ranks[2].Host != "127.0.0.1" || res.Ranks[2].Rank != 2 {
		t.Errorf("rank 2: got %+v", res.Ranks[2])
	}
}
