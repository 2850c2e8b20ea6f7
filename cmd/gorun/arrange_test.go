package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorun/hostfile"
	"gorun/launcher"
	"gorun/preflight/facts"
)

// judgeFacts has hosts with so many slots judged by their facts, for a job of the options.
func judgeFacts(t *testing.T, o options, slots int, known ...*facts.Host) (launcher.Ruling, error) {
	t.Helper()
	var hosts []hostfile.Host
	var survey launcher.Survey
	for _, f := range known {
		hosts = append(hosts, hostfile.Host{Name: f.Name, Slots: slots})
		v := launcher.Surveyed{Name: f.Name, Offer: launcher.Offer{Name: f.Name, Slots: slots, Limit: slots}}
		if f.Version == 0 {
			v.Err = errors.New("no route")
		} else {
			text, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			v.Facts = text
		}
		survey.Hosts = append(survey.Hosts, v)
	}
	o.program = []string{"app"}
	if err := o.settle(); err != nil {
		t.Fatal(err)
	}
	job := launcher.Job{Hosts: hosts, Apps: []launcher.App{{Args: o.program, NP: o.np}}, PerHost: o.ppn, Mesh: meshOf(o.mesh), Bcast: true}
	s := &surveyor{o: o, job: job, now: time.Now}
	return s.judge(t.Context(), survey)
}

// ready is gpuHost with what the checks want of a host.
func ready(t *testing.T, name, cluster string, numa ...int) *facts.Host {
	t.Helper()
	h := gpuHost(t, name, len(numa), "")
	for _, item := range []string{facts.ItemSystem, facts.ItemLimits, facts.ItemDisks, facts.ItemNet, facts.ItemNames, facts.ItemPCI, facts.ItemGPUTopo,
		facts.ItemGPUNVLink, facts.ItemFabric, facts.ItemRDMA, facts.ItemKernel, facts.ItemPrograms, facts.ItemNCCL, facts.ItemConf} {
		if h.Unknown == nil {
			h.Unknown = map[string]string{}
		}
		h.Unknown[item] = "not looked at"
	}
	for i, n := range numa {
		d := &h.GPU.Devices[i]
		d.NUMA, d.FabricCluster, d.FabricClique = n, cluster, "1"
		if cluster != "" {
			d.FabricState, d.FabricStatus = "Completed", "Success"
		}
	}
	if cluster != "" {
		h.GPU.IMEX = []string{"channel0"}
	}
	return h
}

func TestJudgeArranges(t *testing.T) {
	lost := &facts.Host{Name: "lost"}
	for _, tt := range []struct {
		name    string
		o       options
		slots   int
		hosts   []*facts.Host
		use     string // indexes
		np      int    // 0: as it was
		visible string // by host, of its first rank
		err     string
		note    string
		warning string // among them
	}{
		{name: "order-of-gpus", slots: 4, hosts: []*facts.Host{ready(t, "a", "", 0, 1, 0, 1), ready(t, "b", "", 0, 1, 0, 1)},
			use: "0 1", visible: "GPU-a-0,GPU-a-2,GPU-a-1,GPU-a-3 GPU-b-0,GPU-b-2,GPU-b-1,GPU-b-3",
			note: "a,b: CUDA_VISIBLE_DEVICES has the GPUs in the order 0,2,1,3, by what is near on the host"},
		{name: "one-gpu-each", o: options{gpuBind: bindOne}, slots: 2, hosts: []*facts.Host{ready(t, "a", "", 0, 0)}, use: "0", visible: "GPU-a-0"},
		{name: "too-few-gpus", o: options{gpuBind: bindOne}, slots: 4, hosts: []*facts.Host{ready(t, "a", "", 0, 0)}, err: "--gpu-bind one: a has 2 GPUs for 4 ranks"},
		{name: "domains-with-a-mesh", o: options{mesh: "dp=*,tp=4"}, slots: 2,
			hosts: []*facts.Host{ready(t, "a", "11", 0, 0), ready(t, "b", "22", 0, 0), ready(t, "c", "11", 0, 0), ready(t, "d", "22", 0, 0)},
			use:   "0 2 1 3", visible: "- - - -", note: "hosts are taken by their NVLink domains: a, c, b, d"},
		{name: "domains-as-named", slots: 2, o: options{mesh: "dp=*,tp=2", orderHosts: orderFile},
			hosts: []*facts.Host{ready(t, "a", "11", 0, 0), ready(t, "b", "22", 0, 0), ready(t, "c", "11", 0, 0), ready(t, "d", "22", 0, 0)},
			use:   "0 1 2 3", visible: "- - - -"},
		{name: "smaller-mesh", o: options{mesh: "dp=*,tp=2", np: 6, preflight: preflightOptions{dropBad: true}}, slots: 2,
			hosts: []*facts.Host{ready(t, "a", "", 0, 0), lost, ready(t, "c", "", 0, 0)}, use: "0 2", np: 4, visible: "- -"},
		{name: "open-mesh-without-a-host", o: options{mesh: "dp=*,tp=4", preflight: preflightOptions{dropBad: true}}, slots: 2,
			hosts: []*facts.Host{ready(t, "a", "", 0, 0), lost, ready(t, "c", "", 0, 0), ready(t, "d", "", 0, 0)}, use: "0 2", visible: "- -"},
		{name: "host-that-a-mesh-leaves", o: options{mesh: "dp=*,tp=4", preflight: preflightOptions{dropBad: true}}, slots: 2,
			hosts: []*facts.Host{ready(t, "a", "", 0, 0), ready(t, "b", "", 0, 0), ready(t, "c", "", 0, 0)}, use: "0 1", visible: "- -",
			warning: "not used: c; --mesh dp=*,tp=4 takes multiples of 4 ranks"},
		{name: "whole-mesh-or-none", o: options{mesh: "dp=3,tp=2", preflight: preflightOptions{dropBad: true}}, slots: 2,
			hosts: []*facts.Host{ready(t, "a", "", 0, 0), lost, ready(t, "c", "", 0, 0)}, err: "preflight: no-go: the job has 6 ranks, and the good hosts offer 4 slots"},
		{name: "whole-mesh-on-a-spare", o: options{mesh: "dp=2,tp=2", preflight: preflightOptions{spares: 1}}, slots: 2,
			hosts: []*facts.Host{ready(t, "a", "", 0, 0), lost, ready(t, "c", "", 0, 0)}, use: "0 2", visible: "- -"},
		{name: "torn-mesh", o: options{mesh: "dp=*,tp=2"}, slots: 3, hosts: []*facts.Host{ready(t, "a", "", 0, 0, 0), ready(t, "b", "", 0, 0, 0)},
			err: "tp=2 does not divide the 3 slots of a: the group of ranks 2 to 3 would span 2 hosts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := judgeFacts(t, tt.o, tt.slots, tt.hosts...)
			if err != nil || tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("got %v; want %s", err, tt.err)
				}
				return
			}
			if got := strings.Trim(fmt.Sprint(r.Use), "[]"); got != tt.use {
				t.Errorf("got hosts %s; want %s", got, tt.use)
			}
			if tt.np > 0 && (len(r.NP) != 1 || r.NP[0] != tt.np) || tt.np == 0 && r.NP != nil {
				t.Errorf("got %v ranks; want %d", r.NP, tt.np)
			}
			var visible []string
			for _, v := range r.Visible {
				visible = append(visible, append(v, "-")[0])
			}
			if got := strings.Join(visible, " "); got != tt.visible {
				t.Errorf("got %q; want %q", got, tt.visible)
			}
			if got := strings.Join(r.Warnings, "\n"); !strings.Contains(got, tt.warning) {
				t.Errorf("got warnings %q; want %q", got, tt.warning)
			}
			if got := strings.Join(r.Notes, "\n"); got != tt.note {
				t.Errorf("got notes %q; want %q", got, tt.note)
			}
		})
	}
}
