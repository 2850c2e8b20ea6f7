package envsync

import (
	"slices"
	"testing"
)

func TestLintTorch(t *testing.T) {
	checkLint(t, [][]string{
		{"MASTER_PORT=29500"}, {"MASTER_PORT="}, {"MASTER_PORT=1"}, {"MASTER_PORT=65535"},
		{"MASTER_PORT=0", "wrong MASTER_PORT=0 (-x): it is no port"}, {"MASTER_PORT=65536", "wrong"}, {"MASTER_PORT=auto", "wrong", "a number from 1 to 65535"},
		{"MASTER_PORT= 1", "wrong"}, {"MASTER_PORT=-1", "wrong"}, {"MASTER_PORT=29500\n", "wrong"},
		{"MASTER_ADDR="}, {"MASTER_ADDR=gpu1"}, {"MASTER_ADDR=10.0.0.1"}, {"MASTER_ADDR=fd77::2"}, {"MASTER_ADDR=::1"}, {"MASTER_ADDR=gpu1.lab"},
		{"MASTER_ADDR=gpu1:29500", "warn", "taken for part of the name", "write MASTER_ADDR=gpu1 and MASTER_PORT=29500"},
		{"MASTER_ADDR=[fd77::2]:29500", "warn", "write MASTER_ADDR=fd77::2 and MASTER_PORT=29500"},
		{"MASTER_ADDR=[fd77::2]", "warn", "neither a name nor an address"}, {"MASTER_ADDR=gpu1,gpu2", "warn"}, {"MASTER_ADDR=gpu1 ", "warn"},
		{"GLOO_SOCKET_IFNAME="}, {"GLOO_SOCKET_IFNAME=eth0"}, {"GLOO_SOCKET_IFNAME=eth0,ib0"}, {"GLOO_SOCKET_IFNAME=eth0:1"}, {"GLOO_SOCKET_IFNAME=br-1.2"},
		{"GLOO_SOCKET_IFNAME=^lo,docker", "wrong", "finds none of that name"}, {"GLOO_SOCKET_IFNAME==eth0", "wrong"}, {"GLOO_SOCKET_IFNAME=eth0, ib0", "wrong"},
		{"OMP_NUM_THREADS=4"}, {"OMP_NUM_THREADS=4,2"}, {"OMP_NUM_THREADS="}, {"OMP_NUM_THREADS= 4 "},
		{"OMP_NUM_THREADS=0", "warn", "OpenMP ignores it"}, {"OMP_NUM_THREADS=all", "warn"}, {"OMP_NUM_THREADS=-1", "warn"},
	})
}

func TestComplete(t *testing.T) {
	env, added := Complete([]string{"A=1", "B="}, []string{"A=2", "B=2", "C=3", "AA=4"})
	if want := []string{"A=1", "B=", "C=3", "AA=4"}; !slices.Equal(env, want) || !slices.Equal(added, []string{"C", "AA"}) {
		t.Errorf("got %q, %q; want %q, and C and AA added", env, added, want)
	}
}
