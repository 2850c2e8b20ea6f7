package main

import (
	"strings"
	"testing"

	"gorun/launcher"
)

// A job that was stopped for its environments says so, whatever ranks did then.
func TestReportOfDifferentEnvironments(t *testing.T) {
	res := &launcher.Result{
		Ranks:   []launcher.RankResult{{State: launcher.StateStopped}, {Rank: 1, State: launcher.StateStopped}},
		Stopped: 2,
		Differ: []launcher.EnvDifference{{Name: "NCCL_ALGO", Fatal: true, Values: []launcher.EnvValue{
			{Ranks: []int{1}, Hosts: []string{"b"}},
			{Value: "Ring", Set: true, Planned: true, Ranks: []int{0}, Hosts: []string{"a"}},
		}}},
	}
	if code := exitCode(res, nil); code != exitTrouble {
		t.Errorf("got exit code %d; want %d", code, exitTrouble)
	}
	r := resultReport(res, options{})
	want := "NCCL_ALGO differs between ranks: not set in rank 1 on b, Ring in rank 0 on a; 2 ranks stopped|" +
		"  rank 1 on b: NCCL_ALGO not set|  rank 0 on a: NCCL_ALGO=Ring (as gorun gave it)"
	if got := strings.Join(r.lines, "|"); got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if len(r.hints) != 1 {
		t.Errorf("got hints %q; want one", r.hints)
	}
}
