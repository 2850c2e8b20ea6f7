package main

import (
	"strings"
	"testing"

	"gorun/launcher"
)

// What is offered to type must be what gorun takes, for all that differs.
func TestSettingsReport(t *testing.T) {
	algo := launcher.Difference{Name: "NCCL_ALGO", Harmful: true, Values: []launcher.HostsValue{
		{Hosts: "a", Text: "Rng", Places: []string{"/etc/nccl.conf:1"}, Odd: "NCCL refuses it; write Ring"},
		{Hosts: "b", Text: "Tree", Example: "NCCL_ALGO=Tree", Places: []string{"/etc/nccl.conf:1"}},
	}}
	off := launcher.Difference{Name: "NCCL_IB_DISABLE", Harmful: true, Values: []launcher.HostsValue{{Hosts: "a", Text: "true", Odd: "odd"}, {Hosts: "b", Text: "not set"}}}
	tls := launcher.Difference{Name: "UCX_TLS", Values: []launcher.HostsValue{{Hosts: "a", Text: "rc", Example: "UCX_TLS=rc"}, {Hosts: "b", Text: "not set"}}}
	tests := []struct {
		name string
		all  []launcher.Difference
		want []string
	}{
		{"one", []launcher.Difference{algo}, []string{
			"NCCL_ALGO differs between hosts, and NCCL, which compares nothing, would hang; nothing was started",
			"  NCCL_ALGO on a: Rng (/etc/nccl.conf:1): NCCL refuses it; write Ring",
			"  NCCL_ALGO on b: Tree (/etc/nccl.conf:1)",
			"hint: -x NCCL_ALGO=Tree decides for all hosts; -x NCCL_ALGO= leaves it to NCCL",
			"hint: with --env-lax gorun only warns"}},
		{"several", []launcher.Difference{algo, off, tls}, []string{
			"hint: -x NCCL_ALGO=Tree -x NCCL_IB_DISABLE=VALUE -x UCX_TLS=rc decide for all hosts; -x NCCL_ALGO= leaves it to NCCL"}},
		{"strict", []launcher.Difference{tls}, []string{
			"UCX_TLS differs between hosts, and --env-strict is given; nothing was started",
			"hint: without --env-strict gorun only warns"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := settingsReport(&launcher.SettingsError{Differences: tt.all}, options{})
			got := strings.Join(append(r.lines, "hint: "+strings.Join(r.hints, "\nhint: ")), "\n")
			for _, want := range tt.want {
				if !strings.Contains(got+"\n", want+"\n") {
					t.Errorf("got\n%s\nwant %q", got, want)
				}
			}
		})
	}
}
