package main

import (
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"

	"gorun/preflight"
)

func TestThresholds(t *testing.T) {
	conf, err := readConfig(t, configFile{local: true}, `
[preflight]
clock-skew = 0.5
open-files = 1024
shm = "64 MiB"
shm-per-rank = "1GiB"
disk-used = 1
slow-latency = 2.5
fatal-xids = [79, 48]
drop-bad = true
`)
	if err != nil {
		t.Fatal(err)
	}
	want := preflight.Defaults()
	want.Skew, want.Nofile, want.Shm, want.ShmPerRank = 500*time.Millisecond, 1024, 64<<20, 1<<30
	want.Disk, want.Slow, want.Fatal = 1, 2.5, []int{79, 48}
	if diff := cmp.Diff(want, conf.limits()); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

// Every threshold shows its default as it can be written.
func TestThresholdsAreShownAsWritten(t *testing.T) {
	for _, each := range thresholds() {
		text := "preflight." + each.key + " = " + each.show(preflight.Defaults())
		conf, err := readConfig(t, configFile{}, text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(preflight.Defaults(), conf.limits()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// Bytes are shown with a unit, where that is exact.
func TestSizesAreShownAsWritten(t *testing.T) {
	for _, tt := range []struct{ set, want string }{
		{`shm = "64 MiB"`, `preflight.shm = "64 MiB" # `},
		{`shm = "1GiB"`, `preflight.shm = "1 GiB" # `},
		{`shm = 1572864`, `preflight.shm = "1536 KiB" # `},
		{`shm = 1000000`, `preflight.shm = 1000000 # `},
		{`open-files = 65536`, `preflight.open-files = 65536 # `},
	} {
		conf, err := readConfig(t, configFile{}, "[preflight]\n"+tt.set+"\n")
		if err != nil {
			t.Fatal(err)
		}
		var shown strings.Builder
		table := tabwriter.NewWriter(&shown, 0, 0, 1, ' ', 0)
		conf.showThresholds(table)
		table.Flush()
		if got := strings.Join(strings.Fields(shown.String()), " "); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s; want %q in it", tt.set, got, tt.want)
		}
	}
}

func FuzzSize(f *testing.F) {
	for _, s := range []string{"1", "1024", "512 MiB", "1GiB", "9999999999 TiB", "", "KiB", "1 GB", "-1", "8191 TiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := size(s)
		if !ok {
			return
		}
		if again, ok := size(sizeText(n)); n < 1 || !ok || again != n {
			t.Errorf("%q is %d, written %q, which is %d, %v", s, n, sizeText(n), again, ok)
		}
	})
}

func TestThresholdErrors(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"negative-time":  {"clock-skew = -1", "clock-skew is a number, and must be a time"},
		"zero":           {"open-files = 0", "open-files is a number, and must be a number above 0"},
		"unit":           {`shm = "1 GB"`, "shm is text, and must be a number above 0"},
		"huge":           {`shm = "9999999999 GiB"`, "shm is text, and must be a number above 0"},
		"over-one":       {"disk-used = 95", "disk-used is a number, and must be a number above 0 and up to 1"},
		"under-one":      {"slow-latency = 0.5", "slow-latency is a number, and must be a number above 1"},
		"infinite":       {"slow-latency = inf", "slow-latency is a number, and must be a number above 1"},
		"not-a-number":   {"slow-bandwidth = nan", "slow-bandwidth is a number, and must be a number above 0"},
		"no-list":        {"fatal-xids = 48", "fatal-xids is a number, and must be a list of numbers"},
		"list-of-words":  {`fatal-xids = ["48"]`, "fatal-xids is a list, and must be a list of numbers"},
		"unknown":        {"clock-skews = 1", `unknown key "preflight.clock-skews"`},
		"inner-table":    {"clock-skew.x = 1", "preflight.clock-skew"},
		"boolean-switch": {`drop-bad = "yes"`, "must be true or false"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readConfig(t, configFile{local: true}, "[preflight]\n"+c.text+"\n")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want %q in it", err, c.want)
			}
		})
	}
}
