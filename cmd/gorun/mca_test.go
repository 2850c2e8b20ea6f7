package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gorun/envsync"
	"gorun/launcher"
)

// mcaLine splits a line of a test at blanks; "~" is a blank inside a word.
func mcaLine(line string) []string {
	words := append(strings.Fields(line), "./app")
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "~", " ")
	}
	return words
}

func TestParametersAreVariables(t *testing.T) {
	tests := map[string]struct {
		line string // "~" is a blank inside a word
		want []envsync.Setting
	}{
		"mca":          {"--mca btl_tcp_if_include eth0", []envsync.Setting{{Flag: "--mca", Text: "OMPI_MCA_btl_tcp_if_include=eth0"}}},
		"one-dash":     {"-mca pml ob1", []envsync.Setting{{Flag: "--mca", Text: "OMPI_MCA_pml=ob1"}}},
		"equals":       {"--mca btl=^openib", []envsync.Setting{{Flag: "--mca", Text: "OMPI_MCA_btl=^openib"}}},
		"value-equals": {"--mca a b=c", []envsync.Setting{{Flag: "--mca", Text: "OMPI_MCA_a=b=c"}}},
		"dash-value":   {"--mca a -l", []envsync.Setting{{Flag: "--mca", Text: "OMPI_MCA_a=-l"}}},
		"blank-value":  {"--mca a b~c", []envsync.Setting{{Flag: "--mca", Text: "OMPI_MCA_a=b c"}}},
		"equal-twice":  {"--mca btl tcp --omca btl tcp", []envsync.Setting{{Flag: "--mca", Text: "OMPI_MCA_btl=tcp"}}},
		"all-kinds": {"--gmca a 1 --prtemca b 2 --pmixmca c 3", []envsync.Setting{
			{Flag: "--gmca", Text: "OMPI_MCA_a=1"}, {Flag: "--prtemca", Text: "PRTE_MCA_b=2"}, {Flag: "--pmixmca", Text: "PMIX_MCA_c=3"}}},
		"harmless": {"--mca plm_rsh_no_tree_spawn 1 --mca plm rsh --mca rmaps round_robin --mca orte_keep_fqdn_hostnames t", []envsync.Setting{
			{Flag: "--mca", Text: "OMPI_MCA_plm_rsh_no_tree_spawn=1"}, {Flag: "--mca", Text: "OMPI_MCA_plm=rsh"},
			{Flag: "--mca", Text: "OMPI_MCA_rmaps=round_robin"}, {Flag: "--mca", Text: "OMPI_MCA_orte_keep_fqdn_hostnames=t"}}},
		"list-of-variables": {"--mca mca_base_env_list A=1;B", []envsync.Setting{{Flag: "-x", Text: "A=1"}, {Flag: "-x", Text: "B"}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, given(t, mcaLine(tt.line)...).settings); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.line, diff)
			}
		})
	}
}

func TestParametersAboutLaunching(t *testing.T) {
	tests := map[string]struct {
		line string
		want func(*options)
	}{
		"hostfile":        {"--mca orte_default_hostfile h", func(o *options) { o.defaultHostfile = "h" }},
		"hostfile-prte":   {"--prtemca prte_default_hostfile h", func(o *options) { o.defaultHostfile = "h" }},
		"per-node":        {"--mca rmaps_base_n_pernode 2", func(o *options) { o.ppn = 2 }},
		"oversubscribe":   {"--mca rmaps_base_oversubscribe 1", func(o *options) { o.oversubscribe = true }},
		"no-oversub":      {"--mca rmaps_base_no_oversubscribe 1", func(o *options) {}},
		"tag":             {"--mca orte_tag_output true -l", func(o *options) { o.tag = true }},
		"untag":           {"--mca orte_tag_output no", func(o *options) {}},
		"time":            {"--mca orte_timestamp_output 1", func(o *options) { o.stamp = true }},
		"display":         {"--mca rmaps_base_display_map 1 --mca orte_display_alloc 1", func(o *options) { o.layout = true }},
		"keep-going":      {"--mca orte_abort_on_non_zero_status 0", func(o *options) { o.keepGoing = true }},
		"grace":           {"--mca odls_base_sigkill_timeout 10", func(o *options) { o.grace = 10 * time.Second }},
		"mapping":         {"--mca rmaps_base_mapping_policy node", func(o *options) { o.mapBy.by = launcher.ByNode }},
		"ranking":         {"--prtemca rmaps_default_ranking_policy node", func(o *options) { o.rankBy = launcher.ByNode }},
		"rsh":             {"--mca plm_rsh_agent /etc/mpi/kubexec.sh~-v", func(o *options) { o.rsh = "/etc/mpi/kubexec.sh -v" }},
		"rsh-brace":       {"--mca plm_rsh_agent enter~{x", func(o *options) { o.rsh = "enter {{x" }},
		"fanout":          {"--mca plm_rsh_num_concurrent 300", func(o *options) { o.fanout = 300 }},
		"ssh-options":     {"--mca plm_rsh_args -q~-o~StrictHostKeyChecking=no~-oConnectTimeout=7~-TnxC", func(o *options) { o.acceptNew, o.connectTimeout = true, 7*time.Second }},
		"ssh-checking":    {"--mca plm_rsh_args -o~StrictHostKeyChecking=yes~-o~BatchMode=yes", func(o *options) {}},
		"ssh-port":        {"--mca plm_rsh_args -p~2222", func(o *options) { o.sshPort = 2222 }},
		"ssh-port-option": {"--mca plm_rsh_args -oPort=2222~-q --ssh-port 2222", func(o *options) { o.sshPort = 2222 }},
		"mpi-operator":    {"--mca plm_rsh_args -o~ConnectionAttempts=10", func(o *options) {}},
		"ssh-agent":       {"--mca plm_rsh_agent ssh~:~rsh", func(o *options) {}},
		"ssh-agent-args":  {"--mca plm_rsh_agent /usr/bin/ssh~-o~ConnectTimeout=7", func(o *options) { o.connectTimeout = 7 * time.Second }},
		"not-local-false": {"--mca rmaps_base_no_schedule_local 0", func(o *options) {
			o.settings = []envsync.Setting{{Flag: "--mca", Text: "OMPI_MCA_rmaps_base_no_schedule_local=0"}}
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := defaultOptions()
			want.program = []string{"./app"}
			tt.want(&want)
			if diff := differ(want, given(t, mcaLine(tt.line)...)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.line, diff)
			}
		})
	}
}

func TestParameterSlips(t *testing.T) {
	const noClient = ": gorun starts no ssh client"
	tests := map[string]struct{ line, msg, hint string }{
		"half":            {"-np 2 --mca", "--mca ./app: the value is missing", "--mca ./app VALUE"},
		"contradiction":   {"--mca btl tcp --mca btl ^openib", "--mca: btl=tcp and btl='^openib' contradict each other", ""},
		"with-a-flag":     {"-ppn 4 --mca rmaps_base_n_pernode 2", "-ppn=4 and --mca rmaps_base_n_pernode=2 contradict each other", ""},
		"name":            {"--mca btl-tcp x", `--mca: "btl-tcp" is not the name of a parameter`, "--mca NAME VALUE"},
		"no-name":         {"--mca =x", `--mca: "" is not the name of a parameter`, "--mca NAME VALUE"},
		"switch":          {"--mca orte_tag_output maybe", `--mca orte_tag_output: "maybe" is neither true nor false`, ""},
		"bad-value":       {"--mca rmaps_base_n_pernode many", `--mca rmaps_base_n_pernode: "many" is not a whole number`, ""},
		"secret":          {"--mca my_key hunter2 --mca my_key hunter3", "--mca: my_key=<hidden> and my_key=<hidden> contradict each other", ""},
		"plm":             {"--mca plm slurm", `--mca plm: gorun does not start by "slurm"`, "-hostfile or -H"},
		"seq":             {"--mca rmaps seq", "--mca rmaps: gorun does not give each line of a hostfile the next rank", "host by host"},
		"rankfile":        {"--mca rmaps_rank_file_path rf", "--mca rmaps_rank_file_path: gorun reads no rankfile", "host by host"},
		"rank-file":       {"--mca rmaps rank_file,ppr", "--mca rmaps: gorun reads no rankfile", "host by host"},
		"output":          {"--mca orte_output_filename o", "--mca orte_output_filename: gorun names the files of the ranks itself", "--output-dir DIR"},
		"not-local":       {"--mca rmaps_base_no_schedule_local 1", "--mca rmaps_base_no_schedule_local: ranks run only on the hosts that are named", "--exclude"},
		"ssh-port":        {"--mca plm_rsh_args -p~22222222", "--mca plm_rsh_args: 22222222 is no port", ""},
		"ssh-ports":       {"--ssh-port 22 --mca plm_rsh_args -p23", "--ssh-port=22 and --mca plm_rsh_args=23 contradict each other", ""},
		"ssh-port-rsh":    {"--rsh ssh --mca plm_rsh_args -p23", "--ssh-port is for gorun's own ssh, and --rsh is used instead", "ssh -p 23 {host}"},
		"ssh-identity":    {"--mca plm_rsh_args -i~/root/.ssh/k", "--mca plm_rsh_args: ssh -i /root/.ssh/k" + noClient, "IdentityFile /root/.ssh/k in ~/.ssh/config"},
		"ssh-user":        {"--mca plm_rsh_args -lubuntu", "--mca plm_rsh_args: ssh -l ubuntu" + noClient, "User ubuntu"},
		"ssh-jump":        {"--mca plm_rsh_args -J~gate", "--mca plm_rsh_args: ssh -J gate" + noClient, "ProxyJump gate"},
		"ssh-known-hosts": {"--mca plm_rsh_args -o~UserKnownHostsFile=/dev/null", "--mca plm_rsh_args: ssh -o UserKnownHostsFile=/dev/null" + noClient, "UserKnownHostsFile /dev/null in ~/.ssh/config"},
		"ssh-other":       {"--mca plm_rsh_args -4", "--mca plm_rsh_args: ssh -4" + noClient, "~/.ssh/config"},
		"ssh-word":        {"--mca plm_rsh_args port~22", `--mca plm_rsh_args: "port" is no argument of ssh's`, ""},
		"ssh-half":        {"--mca plm_rsh_args -o", "--mca plm_rsh_args: -o of ssh needs a value", ""},
		"ssh-agent-none":  {"--mca plm_rsh_agent ~", "--mca plm_rsh_agent: the command is empty", ""},
		"genvlist-value":  {"-genvlist A,B=1", `-genvlist: "B=1": a list has names only`, "-x NAME=VALUE"},
		"genvlist-empty":  {"-genvlist A,,B", `-genvlist "": no name`, ""},
		"prefix":          {"--prefix opt", `--prefix: "opt" is not an absolute path without a colon`, ""},
		"display":         {"--display map,topo", `--display: gorun does not show "topo"`, "--dry-run"},
		"quiet":           {"-q -v", "-q and -v contradict each other", ""},
		"all-and-none":    {"-genvall -genvnone", "-genvall and -genvnone contradict each other", ""},
		"oversubscribe":   {"--oversubscribe --nooversubscribe", "--oversubscribe and --nooversubscribe contradict each other", ""},
		"launcher":        {"-launcher slurm", `-launcher: gorun does not start by "slurm"`, "leave the flag out"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseOptions(mcaLine(tt.line))
			e, ok := errors.AsType[*usageError](err)
			if !ok || e.msg != tt.msg || !strings.Contains(strings.Join(e.hints, "\n"), tt.hint) {
				t.Errorf("%s: got %v %q; want %s, and a hint with %q", tt.line, err, e, tt.msg, tt.hint)
			}
		})
	}
}

// Parameters of flags that gorun does not have yet are told, and taken once it has.
func TestParametersOfEveryFlagAreKnown(t *testing.T) {
	fs := new(options).flagSet()
	for _, p := range []struct{ name, value string }{
		{"rmaps_base_mapping_policy", "node"}, {"rmaps_base_ranking_policy", "node"}, {"hwloc_base_binding_policy", "core"},
		{"hwloc_base_report_bindings", "1"}, {"plm_rsh_args", "-p 2222"}, {"plm_rsh_agent", "/etc/mpi/kubexec.sh"},
	} {
		uses, ok, err := launching(p.name, p.value)
		if err != nil || !ok || len(uses) != 1 {
			t.Fatalf("%s: got %v, %v, %v; want a flag", p.name, uses, ok, err)
		}
		_, err = parseOptions([]string{"--mca", p.name, p.value, "./app"})
		if e, isUsage := errors.AsType[*usageError](err); fs.Lookup(uses[0].name) == nil && (!isUsage || len(e.hints) == 0) {
			t.Errorf("%s: got %v; want an error with a hint", p.name, err)
		} else if fs.Lookup(uses[0].name) != nil && err != nil {
			t.Errorf("%s: got %v; want it taken as --%s", p.name, err, uses[0].name)
		}
	}
}
