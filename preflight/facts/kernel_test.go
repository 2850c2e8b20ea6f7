package facts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// kmsg is a log as /dev/kmsg has it.
const kmsg = `6,0,0,-;Linux version 5.15.0-1040-azure
6,1201,8123456,-;mlx5_core 0000:64:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:63:01.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)
 SUBSYSTEM=pci
 DEVICE=+pci:0000:64:00.0
4,1300,9000000,-;mlx5_core 0000:64:00.1: mlx5_pcie_event:296:(pid 9): Detected insufficient power on the PCIe slot (27W).
4,1301,9000001,-;mlx5_core 0000:64:00.1: mlx5_pcie_event:296:(pid 9): Detected insufficient power on the PCIe slot (27W).
4,2001,3600250000,-;NVRM: Xid (PCI:0000:9b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
4,2002,3600250001,-;NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.
4,2003,3600260000,-,caller=T123;NVRM: Xid (PCI:0000:9b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)
4,2004,3600270000,c;NVRM: Xid (0000:03:00): 13, Graphics Exception: ESR 0x504648=0x9
3,2005,3700000000,-;nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up
3,2006,3800000000,-;Out of memory: Killed process 4711 (python) total-vm:8388608kB, anon-rss:1kB
6,2007,3900000000,-;eth0: something else
`

func TestCollectKernel(t *testing.T) {
	src := tree(t, gpuTree(map[string]string{"dev/kmsg": kmsg}))
	var h Host
	if err := collectKernel(t.Context(), src, &h); err != nil {
		t.Fatal(err)
	}
	wantXIDs := []XID{
		{3600.25, "0000:9b:00.0", 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus."},
		{3600.26, "0000:9b:00.0", 154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"},
		{3600.27, "0000:03:00.0", 13, "Graphics Exception: ESR 0x504648=0x9"},
	}
	if !slices.Equal(h.Kernel.XIDs, wantXIDs) {
		t.Errorf("XIDs: got %+v; want %+v", h.Kernel.XIDs, wantXIDs)
	}
	if want := []XID{{3700, "0000:c1:00.0", 20034, "Fatal, Link 30 LTSSM Fault Up"}}; !slices.Equal(h.Kernel.SXIDs, want) {
		t.Errorf("SXIDs: got %+v; want %+v", h.Kernel.SXIDs, want)
	}
	wantLines := []string{
		"[8.123456] mlx5_core 0000:64:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x8 link at 0000:63:01.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)",
		"[9.000000] mlx5_core 0000:64:00.1: mlx5_pcie_event:296:(pid 9): Detected insufficient power on the PCIe slot (27W).",
		"[3600.250001] NVRM: GPU 0000:9b:00.0: GPU has fallen off the bus.",
		"[3800.000000] Out of memory: Killed process 4711 (python) total-vm:8388608kB, anon-rss:1kB",
	}
	if !slices.Equal(h.Kernel.Lines, wantLines) {
		t.Errorf("lines: got %q; want %q", h.Kernel.Lines, wantLines)
	}
}

func TestCollectKernelKeepsTheLatest(t *testing.T) {
	var log strings.Builder
	log.WriteString("4,0,0,-;mlx5_core 0000:64:00.1: Detected insufficient power on the PCIe slot (27W).\n")
	for i := range 1000 {
		fmt.Fprintf(&log, "4,%d,%d,-;NVRM: Xid (PCI:0000:9b:00): 13, number %d\n4,%d,%d,-;task %d blocked for more than 120 seconds\n", i, i*1000000, i, i, i*1000000, i)
	}
	src := tree(t, map[string]string{"dev/kmsg": log.String()})
	var h Host
	if err := collectKernel(t.Context(), src, &h); err != nil {
		t.Fatal(err)
	}
	x := h.Kernel.XIDs
	if len(x) != maxKernel || x[0].Text != "number 744" || x[255].Text != "number 999" {
		t.Errorf("got %d XIDs: %+v", len(x), x)
	}
	lines := h.Kernel.Lines
	if len(lines) != 1+maxLines || !strings.Contains(lines[0], "insufficient power") || lines[maxLines] != "[999.000000] task 999 blocked for more than 120 seconds" {
		t.Errorf("got %d lines: %q", len(lines), lines)
	}
}

func TestCollectKernelOfThisHost(t *testing.T) {
	var h Host
	err := newLogReader().kernelOf(t.Context(), hostSource(), &h)
	if err != nil && os.Getuid() == 0 && hostSource().exists("/dev/kmsg") {
		t.Errorf("got %v", err)
	}
	if err != nil {
		t.Skipf("no kernel log here: %v", err)
	}
}

// kernelOf reads only /dev/kmsg.
func (r *logReader) kernelOf(ctx context.Context, src *source, h *Host) error {
	err := src.readKmsg(ctx, r)
	h.Kernel = r.result()
	return err
}

func TestCollectKernelWithoutLog(t *testing.T) {
	const journal = "[    8.123456] gpu07 kernel: NVRM: Xid (PCI:0000:9b:00): 48, pid=1, DBE\n[    9.5] gpu07 systemd[1]: NVRM: Xid (PCI:0000:9b:00): 49\n-- No entries --\n"
	for _, test := range []struct {
		name, out string
		files     map[string]string
		fail      error
		err       string
		xids      int
	}{
		{"journal-answers", journal, gpuTree(map[string]string{"usr/bin/journalctl": "#!"}), nil, "", 1},
		{"journal-is-empty", "", gpuTree(map[string]string{"usr/bin/journalctl": "#!"}), nil, "there is no /dev/kmsg here, as in most containers", 0},
		{"journal-fails", "", gpuTree(map[string]string{"usr/bin/journalctl": "#!"}), &exitError{"journalctl", 1, ""}, "there is no /dev/kmsg here, as in most containers", 0},
		{"no-journal", "", gpuTree(nil), nil, "there is no /dev/kmsg here, as in most containers", 0},
		{"rdma-only", "", map[string]string{"sys/class/infiniband/mlx5_0/": ""}, nil, "there is no /dev/kmsg here, as in most containers", 0},
		{"no-hardware-no-program", journal, map[string]string{"usr/bin/journalctl": "#!"}, nil, "there is no /dev/kmsg here, as in most containers", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := tree(t, test.files)
			answer(src, test.out, test.fail)
			var h Host
			err := collectKernel(t.Context(), src, &h)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != test.err || len(h.Kernel.XIDs) != test.xids {
				t.Errorf("got %q, %d XIDs; want %q, %d", got, len(h.Kernel.XIDs), test.err, test.xids)
			}
		})
	}
}

func TestKmsgError(t *testing.T) {
	if got, want := kmsgError(unix.EPERM).Error(), "this user may not read the kernel's log (kernel.dmesg_restrict)"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestCollectKernelInTime(t *testing.T) {
	src := tree(t, gpuTree(map[string]string{"dev/kmsg": kmsg}))
	why := errors.New("no answer in 1s")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	var h Host
	if err := collectKernel(ctx, src, &h); !errors.Is(err, why) {
		t.Errorf("got %v; want %v", err, why)
	}
}

func FuzzKmsg(f *testing.F) {
	f.Add(kmsg)
	f.Add("6,1,18446744073709551615,-;NVRM: Xid (PCI:0000:9b:00): 79, x")
	f.Add(",,10000000000000000;NVRM: Xid (0:00:00):0") // once a negative time
	f.Add("4,1,1,-;nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 11004, Non-fatal, Link 61 Ingress invalid ACL")
	f.Add("[   12.345678] host kernel: NVRM: Xid (PCI:0000:9b:00): 63, row remapper")
	f.Fuzz(func(t *testing.T, text string) {
		r := newLogReader()
		for line := range strings.Lines(text) {
			r.record(line)
			r.journal(line)
		}
		for _, x := range slices.Concat(r.kernel.XIDs, r.kernel.SXIDs) {
			if x.At < 0 || x.Code < 0 || x.BDF != parseBDF(x.BDF) || strings.ContainsAny(x.Text, "\n\x1b") {
				t.Errorf("got %+v", x)
			}
		}
	})
}

func TestKernelLinesOfHardware(t *testing.T) {
	for _, line := range []string{
		"pcieport 0000:10:01.0: AER: Uncorrected (Fatal) error received: 0000:13:00.0",
		"pcieport 0000:10:01.0: AER: Uncorrectable (Fatal) error message received from 0000:13:00.0",
		"EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#0_DIMM#0 (channel:0 slot:0)",
	} {
		r := newLogReader()
		r.record("3,1,5000000,-;" + line)
		if got := r.result().Lines; len(got) != 1 || got[0] != "[5.000000] "+line {
			t.Errorf("got %q; want %q", got, line)
		}
	}
}
