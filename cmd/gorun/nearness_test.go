package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gorun/hostfile"
	"gorun/preflight"
	"gorun/preflight/probe"
)

func TestNearby(t *testing.T) {
	for _, tt := range []struct {
		name, rows string // microseconds, above the diagonal
		want       string
	}{
		{"two-racks", "50 20 52; 55 21; 50", "0 1 0 1"},
		{"three-and-one", "20 22 60; 21 61; 59", "0 0 0 3"},
		{"all-alike", "20 22 25; 21 24; 26", ""},
		{"all-apart-but-one-pair", "10 50 51; 52 50; 49", "0 0 2 3"},
		{"in-a-chain", "20 50 50; 20 50; 20", ""},
		{"not-measured", "20 0; 50", ""},
		{"two-hosts", "20", ""},
		{"one-host", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rows := strings.Split(tt.rows, ";")
			n := len(rows) + 1
			if tt.rows == "" {
				n = 1
			}
			latency := make([][]time.Duration, n)
			for i := range latency {
				latency[i] = make([]time.Duration, n)
			}
			for i, row := range rows {
				for k, s := range strings.Fields(row) {
					var us int
					fmt.Sscan(s, &us)
					latency[i][i+1+k] = time.Duration(us) * time.Microsecond
				}
			}
			if got := strings.Trim(fmt.Sprint(nearby(latency)), "[]"); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
		})
	}
}

func TestLabelByLatency(t *testing.T) {
	far := func(a, b int) time.Duration {
		if a%2 == b%2 {
			return 20 * time.Microsecond
		}
		return 50 * time.Microsecond
	}
	in := preflight.Input{Mode: preflight.Full}
	for a := range 5 {
		var h preflight.Host
		for b := range 5 {
			if a != b {
				h.Links = append(h.Links, probe.Link{Host: b, Latency: far(a, b)})
			}
		}
		in.Hosts = append(in.Hosts, h)
	}
	hosts := func() []hostfile.Host { return []hostfile.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}} }
	use := []int{0, 1, 2, 4}
	h := hosts()
	if !labelByLatency(h, use, in) || h[0].Switch != h[2].Switch || h[0].Switch != h[3].Switch || h[0].Switch == h[1].Switch {
		t.Errorf("got %+v; want the second host apart", h)
	}
	h = hosts()
	if h[1].Rack = "r1"; labelByLatency(h, use, in) {
		t.Error("hosts with labels were labelled")
	}
	if in.Mode = preflight.Quick; labelByLatency(hosts(), use, in) {
		t.Error("a quick preflight labelled hosts")
	}
}
