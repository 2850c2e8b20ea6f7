package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"gorun/hostfile"
	"gorun/launcher"
	"gorun/preflight"
	"gorun/preflight/facts"
	"gorun/preflight/probe"
)

func TestUsedGPUs(t *testing.T) {
	var four facts.Host
	for i, uuid := range []string{"GPU-aa11", "GPU-bb22", "GPU-bb33", "GPU-cc44"} {
		four.GPU.Devices = append(four.GPU.Devices, facts.Device{Index: i, UUID: uuid})
	}
	inherited := four
	inherited.GPU.Visible = new("2,3")
	for name, c := range map[string]struct {
		host    facts.Host
		ranks   int
		visible *string
		want    []int
	}{
		"one-each":      {four, 4, nil, nil},
		"fewer-ranks":   {four, 2, nil, []int{0, 1}},
		"more-ranks":    {four, 8, nil, nil},
		"spare":         {four, 0, nil, nil},
		"chosen":        {four, 2, new("3,1"), []int{3, 1}},
		"chosen-more":   {four, 1, new("3,1"), []int{3}},
		"chosen-none":   {four, 2, new(""), []int{}},
		"uuids":         {four, 2, new("GPU-cc44, GPU-aa"), []int{3, 0}},
		"cut-at-bad":    {four, 4, new("1,-1,2"), []int{1}},
		"inherited":     {inherited, 2, nil, []int{2, 3}},
		"job-over-host": {inherited, 2, new("0"), []int{0}},
		"no-gpus":       {facts.Host{}, 2, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := usedGPUs(c.host, c.ranks, c.visible)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// What agents say of their links comes as they make it: a probe.Result for each probe.
func TestLinksOfHost(t *testing.T) {
	of := func(results ...probe.Result) []byte {
		text, err := json.Marshal(results)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	one, two := probe.Link{Host: 1, Failure: probe.Dropped}, probe.Link{Host: 2, MTU: 1500}
	tests := []struct {
		name  string
		told  []byte
		want  []probe.Link
		wrong bool
	}{
		{"nothing-measured", nil, nil, false},
		{"one-probe", of(probe.Result{Links: []probe.Link{one, two}}), []probe.Link{one, two}, false},
		{"two-probes", of(probe.Result{Links: []probe.Link{one}}, probe.Result{Links: []probe.Link{two}}), []probe.Link{one, two}, false},
		{"without-a-result", []byte("[null]"), nil, false},
		{"no-list", []byte(`{"links":[]}`), nil, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := toldBy(launcher.Surveyed{Name: "a", Facts: []byte("{}"), Links: tt.told})
			if !slices.Equal(h.Links, tt.want) || (h.Unreached != "") != tt.wrong {
				t.Errorf("got %v, %q; want %v", h.Links, h.Unreached, tt.want)
			}
		})
	}
}

func TestUndecidedSettingsAreANoGo(t *testing.T) {
	s := launcher.Survey{
		Hosts: []launcher.Surveyed{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Differ: func(hosts []int) error {
			if slices.Contains(hosts, 1) {
				all := []launcher.Difference{{Name: "NCCL_ALGO", Values: []launcher.HostsValue{{Hosts: "a", Text: "not set"}, {Hosts: "b", Text: "Ring"}}}}
				if slices.Contains(hosts, 2) {
					all = append(all, launcher.Difference{Name: "NCCL_PROTO", Values: []launcher.HostsValue{{Hosts: "[a-b]", Text: "LL"}, {Hosts: "c", Text: "LL128"}}})
				}
				return &launcher.SettingsError{Differences: all}
			}
			return nil
		},
	}
	for _, tt := range []struct {
		name string
		use  []string
		want string
		code int
	}{
		{"differ", []string{"a", "b"}, "no-go: NCCL_ALGO differs between hosts, and must be equal: NCCL_ALGO is not set on a, Ring on b; -x decides", noGoCode},
		{"differ-twice", []string{"a", "b", "c"}, "no-go: 2 NCCL settings differ between hosts, and must be equal: NCCL_ALGO is not set on a, Ring on b; NCCL_PROTO is LL on [a-b], LL128 on c; -x decides", noGoCode},
		{"left-out", []string{"c", "a"}, "go: fine", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := undecided(preflight.Decision{Go: true, Verdict: preflight.Go, Reason: "fine", Use: tt.use}, s)
			if got := d.Headline(); got != tt.want || d.Code != tt.code {
				t.Errorf("got %q, code %d; want %q, %d", got, d.Code, tt.want, tt.code)
			}
		})
	}
}

func TestRoomInTmpIsJudgedWhereAsked(t *testing.T) {
	if own := launchersOwn(true); slices.Contains(own, "tmp") {
		t.Errorf("got %q; want no tmp", own)
	}
}

func TestLaunchersOwnChecksExist(t *testing.T) {
	for _, id := range launchersOwn(false) {
		if !slices.ContainsFunc(preflight.Checks(), func(c preflight.Check) bool { return c.ID == id }) {
			t.Errorf("there is no check %q", id)
		}
	}
}

func TestNamesAmong(t *testing.T) {
	hosts := []hostfile.Host{{Name: "elsewhere", Addr: "10.0.0.9"}}
	for i := range 10 {
		hosts = append(hosts, hostfile.Host{Name: fmt.Sprint("gpu", i)})
	}
	for most, want := range map[int]string{
		20: "gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7 gpu8 gpu9",
		10: "gpu0 gpu1 gpu2 gpu3 gpu4 gpu5 gpu6 gpu7 gpu8 gpu9",
		4:  "gpu0 gpu2 gpu5 gpu7",
		1:  "gpu0",
	} {
		if got := strings.Join(namesAmong(hosts, most), " "); got != want {
			t.Errorf("%d: got %s; want %s", most, got, want)
		}
	}
	if got := namesAmong(hosts[:1], 4); len(got) != 0 {
		t.Errorf("got %q of a host that is reached by its address", got)
	}
}
