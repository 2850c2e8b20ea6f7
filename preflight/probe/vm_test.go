package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	vmLimit   = 4 * time.Minute // it takes one on a machine that is not busy
	vmMissing = 255             // with which rxe-vm ends where there can be no virtual machine
)

// vmRails returns what was found in a virtual machine, by the name of each step in
// testdata/rails.sh. It skips the test where there can be none, but not in CI.
func vmRails(t *testing.T) map[string]RailLink {
	t.Helper()
	missing := t.Skip
	if os.Getenv("CI") != "" {
		missing = t.Fatal
	}
	drivers, _ := filepath.Glob("/usr/lib/*/libibverbs/librxe-*.so")
	if find(programBandwidth) == "" || find(programLatency) == "" || len(drivers) == 0 {
		missing("perftest or ibverbs-providers is not installed; scripts/need slow installs them")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "rails")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/rails")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	steps, err := os.ReadFile("testdata/rails.sh")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, fmt.Appendf(nil, "RAILS=%s\n%s", program, steps), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-t", fmt.Sprint(int(vmLimit.Seconds()))}
	for _, file := range append([]string{program, find(programBandwidth), find(programLatency), "/etc/libibverbs.d/rxe.driver"}, drivers...) {
		args = append(args, "-x", file)
	}
	var words strings.Builder
	vm := exec.CommandContext(t.Context(), "../../scripts/rxe-vm", append(args, script)...)
	vm.Stderr = &words
	out, err := vm.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == vmMissing {
		missing("no virtual machine here: ", words.String())
	}
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, words.String())
	}
	return readRails(t, string(out))
}

// readRails reads lines of "@NAME JSON".
func readRails(t *testing.T, out string) map[string]RailLink {
	t.Helper()
	found := map[string]RailLink{}
	for line := range strings.Lines(out) {
		t.Logf("%s", strings.TrimSpace(line))
		name, text, ok := strings.Cut(strings.TrimPrefix(line, "@"), " ")
		if !ok || !strings.HasPrefix(line, "@") {
			continue
		}
		var links []RailLink
		if err := json.Unmarshal([]byte(text), &links); err != nil || len(links) != 1 {
			t.Fatalf("%s: %v in %q", name, err, text)
		}
		found[name] = links[0]
	}
	return found
}

// TestSlowRailsVM has the real perftest send over a real kernel's RDMA, and breaks that.
func TestSlowRailsVM(t *testing.T) {
	found := vmRails(t)
	tests := []struct {
		name    string
		failure Failure
		there   bool
		text    string
	}{
		{"healthy", "", false, ""},
		{"reverse", "", false, ""},
		{"missing", Device, true, "ib_write_bw: "},
		{"gid", Lost, false, "ib_write_bw: Failed to modify QP"},
		{"memlock", Device, false, "ib_write_bw: Couldn't allocate MR"},
		{"uverbs", Device, true, "ib_write_bw: Couldn't get context for the device"},
		{"lost", Lost, false, "ib_write_bw: "},
		{"down", Device, true, "ib_write_bw: Port number 1 state is Down"},
	}
	for _, tt := range tests {
		got, ok := found[tt.name]
		if !ok || got.Failure != tt.failure || got.There != tt.there || !strings.HasPrefix(got.Text, tt.text) {
			t.Errorf("%s: got %+v; want %q, there %v, %q", tt.name, got, tt.failure, tt.there, tt.text)
		}
		// An emulated machine that is busy may have no time for ib_write_lat.
		if tt.failure == "" && (got.BytesPerSecond < 1e5 || got.Latency < 0 || got.Latency > time.Second) {
			t.Errorf("%s: got %+v; want figures that make sense", tt.name, got)
		}
	}
}
