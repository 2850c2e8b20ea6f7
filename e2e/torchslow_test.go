package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// needTorch skips the test where there is no PyTorch.
func needTorch(t *testing.T) {
	t.Helper()
	need(t)
	if out, err := exec.Command("/usr/bin/python3", "-c", "import torch").CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no PyTorch: %v\n%s", err, out)
		}
		t.Skip("no PyTorch (package python3-torch)")
	}
}

// loopbackName has a host's own name stand for 127.0.1.1 there, as Debian's installer does.
func loopbackName(t *testing.T, node string) {
	t.Helper()
	file := filepath.Join(shared(t), "hosts")
	const script = `{ echo 127.0.1.1 $1; cat /etc/hosts; } >$2 && mount --bind $2 /etc/hosts`
	testbed(t, "root", node, "sh", "-c", script, "sh", node, file)
	t.Cleanup(func() { testbed(t, "root", node, "umount", "/etc/hosts") })
}

// What a program of PyTorch's does that loses a rank: the others would wait for ever.
const dies = `
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
t = torch.ones(1)
try:
    for i in range(1000000000):
        if i == 5 and dist.get_rank() == 3:
            print("port", os.environ["MASTER_PORT"], flush=True)
            os._exit(7)
        dist.all_reduce(t)
except RuntimeError:
    time.sleep(1000)
`

// PyTorch's ranks meet by what gorun tells them, on hosts whose names are no help.
func TestSlowTorch(t *testing.T) {
	t.Parallel()
	needTorch(t)
	nodes := hosts(t, 3)
	for _, node := range nodes {
		loopbackName(t, node)
	}
	dir := shared(t)
	text, err := os.ReadFile("../examples/ddp/train.py")
	if err != nil {
		t.Fatal(err)
	}
	train := write(t, dir, "train.py", string(text))
	t.Run("trains", func(t *testing.T) {
		e := start(t, []string{"-hostfile", hostfile(t, nodes, "slots=2"), "python3", train}).wait(torchLimit)
		e.want(t, 0, "gorun: OMP_NUM_THREADS=1 for each rank")
		if want := "6 ranks: loss "; !strings.HasPrefix(e.stdout, want) || !strings.HasSuffix(e.stdout, "; parameters are equal\n") {
			t.Errorf("got %q; want %q...", e.stdout, want)
		}
	})
	t.Run("needs-the-interface", func(t *testing.T) {
		args := []string{"-H", nodes[0] + "," + nodes[1], "-x", "GLOO_SOCKET_IFNAME=", "--timeout", "60", "--kill-grace", "1", "python3", train}
		if e := start(t, args).wait(torchLimit); e.code == 0 {
			t.Error("it trains without; the other tests show nothing")
		}
	})
	t.Run("rank-dies", func(t *testing.T) {
		file := write(t, dir, "dies.py", dies)
		args := []string{"-hostfile", hostfile(t, nodes[:2], "slots=2"), "-x", "MASTER_PORT=29511", "--kill-grace", "1", "python3", file}
		e := start(t, args).wait(torchLimit)
		e.want(t, 7, fmt.Sprintf("gorun: rank 3 on %s exited with code 7", nodes[1]), "; 3 other ranks stopped")
		if e.stdout != "port 29511\n" {
			t.Errorf("got %q; want the port that was asked for", e.stdout)
		}
	})
}

// torchLimit is far above what ranks need that start PyTorch all at once.
const torchLimit = 2 * time.Minute
