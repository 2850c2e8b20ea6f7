package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"gorun/preflight"
)

// A threshold is a number that preflight compares with, and its key in the table
// [preflight] of a configuration file.
type threshold struct {
	key  string
	want string // what its value must be
	set  func(l *preflight.Limits, v any) bool
	show func(l preflight.Limits) string // its value as TOML has it
}

// thresholds lists what can be configured of preflight.Limits.
func thresholds() []threshold {
	return []threshold{
		timeThreshold("clock-skew", func(l *preflight.Limits) *time.Duration { return &l.Skew }),
		countThreshold("open-files", func(l *preflight.Limits) *int64 { return &l.Nofile }),
		countThreshold("threads-per-rank", func(l *preflight.Limits) *int64 { return &l.Threads }),
		sizeThreshold("shm-per-rank", func(l *preflight.Limits) *int64 { return &l.ShmPerRank }),
		sizeThreshold("shm", func(l *preflight.Limits) *int64 { return &l.Shm }),
		sizeThreshold("tmp-free", func(l *preflight.Limits) *int64 { return &l.TmpFree }),
		ratioThreshold("memory", 0, 1, func(l *preflight.Limits) *float64 { return &l.Memory }),
		ratioThreshold("load", 0, math.Inf(1), func(l *preflight.Limits) *float64 { return &l.Load }),
		sizeThreshold("gpu-memory-used", func(l *preflight.Limits) *int64 { return &l.GPUMemory }),
		countThreshold("remapped-rows", func(l *preflight.Limits) *int64 { return &l.RemapRows }),
		countThreshold("ecc-corrected", func(l *preflight.Limits) *int64 { return &l.Corrected }),
		ratioThreshold("disk-used", 0, 1, func(l *preflight.Limits) *float64 { return &l.Disk }),
		ratioThreshold("slow-latency", 1, math.Inf(1), func(l *preflight.Limits) *float64 { return &l.Slow }),
		ratioThreshold("slow-bandwidth", 0, 1, func(l *preflight.Limits) *float64 { return &l.Bandwidth }),
		{"fatal-xids", "a list of numbers: [48, 79]", setXIDs, func(l preflight.Limits) string {
			return strings.ReplaceAll(fmt.Sprint(l.Fatal), " ", ", ")
		}},
	}
}

func timeThreshold(key string, of func(*preflight.Limits) *time.Duration) threshold {
	return threshold{key, `a time: 1, 0.5, "500ms", "2s"`, func(l *preflight.Limits, v any) bool {
		d, err := positive(fmt.Sprint(v))
		if err == nil {
			*of(l) = d
		}
		return err == nil
	}, func(l preflight.Limits) string { return tomlString(of(&l).String()) }}
}

// sizeThreshold is a number of bytes.
func sizeThreshold(key string, of func(*preflight.Limits) *int64) threshold {
	t := countThreshold(key, of)
	t.show = func(l preflight.Limits) string {
		text := sizeText(*of(&l))
		if strings.Contains(text, " ") {
			return tomlString(text)
		}
		return text
	}
	return t
}

func countThreshold(key string, of func(*preflight.Limits) *int64) threshold {
	return threshold{key, `a number above 0, as 1024, "512 MiB" or "1 GiB"`, func(l *preflight.Limits, v any) bool {
		n, ok := size(fmt.Sprint(v))
		if ok {
			*of(l) = n
		}
		return ok
	}, func(l preflight.Limits) string { return strconv.FormatInt(*of(&l), 10) }}
}

// ratioThreshold is a number above least and at most most.
func ratioThreshold(key string, least, most float64, of func(*preflight.Limits) *float64) threshold {
	want := fmt.Sprintf("a number above %g", least)
	if !math.IsInf(most, 1) {
		want += fmt.Sprintf(" and up to %g", most)
	}
	return threshold{key, want, func(l *preflight.Limits, v any) bool {
		f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
		ok := err == nil && f > least && f <= most && !math.IsInf(f, 0)
		if ok {
			*of(l) = f
		}
		return ok
	}, func(l preflight.Limits) string { return strconv.FormatFloat(*of(&l), 'g', -1, 64) }}
}

func setXIDs(l *preflight.Limits, v any) bool {
	list, ok := v.([]any)
	var codes []int
	for _, item := range list {
		n, isInt := item.(int64)
		ok = ok && isInt && n > 0 && n < 10000
		codes = append(codes, int(n))
	}
	if ok {
		l.Fatal = codes
	}
	return ok
}

// sizeUnits are what may follow a size, each 1024 times the one before.
var sizeUnits = []string{"", "KiB", "MiB", "GiB", "TiB"}

// size is a number of bytes or of something else: 1024, "512 MiB", "1GiB".
func size(s string) (int64, bool) {
	digits := strings.TrimRight(s, "KMGTiB ")
	n, err := strconv.ParseInt(digits, 10, 64)
	shift := slices.Index(sizeUnits, strings.TrimSpace(s[len(digits):]))
	if err != nil || shift < 0 || n < 1 || n > math.MaxInt64>>(10*shift) {
		return 0, false
	}
	return n << (10 * shift), true
}

// sizeText writes a number of bytes exactly, as size reads it: "512 MiB", "1000".
func sizeText(n int64) string {
	shift := 0
	for n > 0 && n%1024 == 0 && shift < len(sizeUnits)-1 {
		n, shift = n/1024, shift+1
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s", n, sizeUnits[shift]))
}

// configuredThreshold is a threshold that a configuration file sets.
type configuredThreshold struct {
	key   string
	value any
	at    place
}

// threshold adds e if it is one.
func (r *configReader) threshold(e entry) (bool, error) {
	if len(e.path) != 2 || e.path[0] != "preflight" || e.value == nil {
		return false, nil
	}
	all := thresholds()
	i := slices.IndexFunc(all, func(t threshold) bool { return t.key == e.path[1] })
	if i < 0 {
		return false, nil
	}
	if !all[i].set(new(preflight.Limits), e.value) {
		return true, e.wrong(all[i].want)
	}
	r.thresholds = append(r.thresholds, configuredThreshold{e.path[1], e.value, e.at})
	return true, nil
}

// limits are the defaults with what files set; a later one wins.
func (conf *config) limits() preflight.Limits {
	l := preflight.Defaults()
	for _, c := range conf.thresholds {
		for _, t := range thresholds() {
			if t.key == c.key {
				t.set(&l, c.value)
			}
		}
	}
	return l
}

// showThresholds writes them for --show-config.
func (conf *config) showThresholds(t *tabwriter.Writer) {
	limits := conf.limits()
	for _, each := range thresholds() {
		origin := "default"
		for _, c := range conf.thresholds {
			if c.key == each.key {
				origin = c.at.String()
			}
		}
		fmt.Fprintf(t, "preflight.%s = %s\t# %s\n", each.key, each.show(limits), origin)
	}
}
