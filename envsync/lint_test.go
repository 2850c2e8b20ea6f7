package envsync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// lintText writes what Lint finds, "wrong" or "warn" in front; entries are NAME=value.
func lintText(entries ...string) string {
	var vars []Var
	for _, e := range entries {
		name, value, _ := strings.Cut(e, "=")
		vars = append(vars, Var{name, value, "-x"})
	}
	var lines []string
	for _, f := range Lint(vars) {
		line := "warn "
		if f.Wrong {
			line = "wrong "
		}
		line += f.String()
		if f.Hint != "" {
			line += " / " + f.Hint
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// checkLint wants for each entry a finding that has all of the words behind it, or none
// at all.
func checkLint(t *testing.T, tests [][]string) {
	t.Helper()
	for _, tt := range tests {
		got, want := lintText(tt[0]), tt[1:]
		if len(want) == 0 && got != "" || len(want) > 0 && strings.Contains(got, "\n") {
			t.Errorf("%q: got %q; want %q", tt[0], got, want)
		}
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%q: got %q; want %q in it", tt[0], got, w)
			}
		}
	}
}

// A value that ends in others' names and values is not what is meant.
func TestLintSeveralInOne(t *testing.T) {
	checkLint(t, [][]string{
		{"NCCL_DEBUG=INFO,NCCL_IB_DISABLE=1", "warn", "NCCL_IB_DISABLE is part of the value", " / set each variable by itself"},
		{"NCCL_IB_DISABLE=1,NCCL_DEBUG=INFO", "wrong", "NCCL_DEBUG is part of the value"},
		{"NCCL_ALGO=Ring,Tree,NCCL_PROTO=LL", "wrong", "NCCL_PROTO is part of the value"},
		{"FOO=1,NCCL_DEBUG=INFO", "warn", "NCCL_DEBUG is part of the value"},
		{"APPTAINERENV_LIST=A=1,NCCL_DEBUG=INFO"}, {"FOO=a,b=c"}, {"FOO=,"}, {"FOO=1,NCCL_DEBUG"}, {"FOO=run NCCL_DEBUG=INFO"},
	})
}

func TestLintNumbers(t *testing.T) {
	const opposite = "the opposite of what is meant"
	checkLint(t, [][]string{
		{"NCCL_IB_DISABLE=1"}, {"NCCL_IB_DISABLE=0"}, {"NCCL_IB_DISABLE="}, {"NCCL_IB_DISABLE=-2"}, {"NCCL_IB_DISABLE=+1"}, {"NCCL_BUFFSIZE=0x400000"},
		{"NCCL_BUFFSIZE=0X10"}, {"NCCL_BUFFSIZE=00"}, {"NCCL_BUFFSIZE=007"}, {"NCCL_BUFFSIZE=0"}, {"NCCL_BUFFSIZE= 8"}, {"NCCL_BUFFSIZE=8 "},
		{"NCCL_WIN_STRIDE=9223372036854775807"}, {"NCCL_WIN_STRIDE=-9223372036854775808"}, {"NCCL_SOCKET_MAGIC=0xffffffffffffffff"},
		{"NCCL_IB_DISABLE=true", "wrong NCCL_IB_DISABLE=true (-x): it takes a number", opposite, " / write NCCL_IB_DISABLE=1"},
		{"NCCL_IB_DISABLE=YES", "wrong", opposite}, {"NCCL_P2P_DISABLE=on", "wrong", opposite}, {"NCCL_CUMEM_ENABLE=Enabled", "wrong", opposite},
		{"NCCL_IB_DISABLE=false", "warn", "a word as 0", " / write NCCL_IB_DISABLE=0"}, {"NCCL_SHM_DISABLE=no", "warn"}, {"NCCL_SHM_DISABLE=Off", "warn"},
		{"NCCL_IB_GID_INDEX=auto", "wrong", " / leave it unset"}, {"NCCL_IB_TC=x106", "wrong", "reads this as 0"}, {"NCCL_IB_TC=-", "wrong"},
		{"NCCL_BUFFSIZE=4GB", "wrong", "NCCL reads 4 and nothing behind it", " / NCCL has 32 bits for it: write less than 2147483648"},
		{"NCCL_WIN_STRIDE=4GB", "wrong", "NCCL reads 4 and nothing behind it", " / write NCCL_WIN_STRIDE=4294967296"},
		{"NCCL_BUFFSIZE=4294967296", "wrong", "the number is too large: NCCL has 32 bits for it, and takes it for 0"}, {"NCCL_NTHREADS=0x100000000", "wrong", "takes it for 0"},
		{"NCCL_MIN_NCHANNELS=99999999999", "wrong", "takes it for 1215752191"}, {"NCCL_MAX_CTAS=-2147483649", "wrong", "takes it for 2147483647"},
		{"NCCL_BUFFSIZE=2147483647"}, {"NCCL_MIN_CTAS=-2"}, {"NCCL_MNNVL_UUID=99999999999"}, {"NCCL_P2P_LL_THRESHOLD=99999999999"},
		{"NCCL_BUFFSIZE=4 MiB", "wrong", "=4194304"}, {"NCCL_BUFFSIZE=8k", "wrong", "=8192"}, {"NCCL_BUFFSIZE=9223372036854775807T", "wrong", "nothing behind it"},
		{"NCCL_BUFFSIZE=1.5M", "wrong", "reads 1 and"}, {"NCCL_BUFFSIZE=1e6", "wrong", "reads 1 and"}, {"NCCL_IB_TIMEOUT=20s", "wrong", "reads 20 and"},
		{"NCCL_NTHREADS=512,256", "wrong", "reads 512 and"}, {"NCCL_NTHREADS=1_000", "wrong", "reads 1 and"}, {"NCCL_NTHREADS=0x", "wrong", "reads 0 and"},
		{"NCCL_NTHREADS=4k", "wrong", "reads 4 and"},
		{"NCCL_IB_TC=010", "wrong", "NCCL reads 8", " / write NCCL_IB_TC=10"}, {"NCCL_IB_TC=-010", "wrong", "reads -8", "=-10"}, {"NCCL_IB_TC=08", "wrong", "octal", " / write NCCL_IB_TC=8"},
		{"NCCL_BUFFSIZE=9223372036854775808", "wrong", "too large"}, {"NCCL_BUFFSIZE=-9223372036854775809", "wrong", "too large"},
		{"NCCL_SOCKET_MAGIC=0x1ffffffffffffffff", "wrong", "too large"}, {"NCCL_BUFFSIZE=0xffffffffffffffff", "wrong", "too large"},
		{"NCCL_IB_DISABLE=1\r", "warn", `"1\r"`, "carriage return", " / write NCCL_IB_DISABLE=1"}, {`NCCL_IB_DISABLE="1"`, "wrong", "quotes", " / write NCCL_IB_DISABLE=1"},
		// For debugging, nothing is worth ending a job. Since 2.30.3 some switches take true.
		{"NCCL_SET_THREAD_NAME=true"}, {"NCCL_SET_THREAD_NAME=F"}, {"NCCL_SET_THREAD_NAME=on", "warn"}, {"NCCL_NVTX_DISABLE=true", "warn", opposite}, {"NCCL_PROXY_DUMP_SIGNAL=USR1", "warn"},
	})
}

func TestLintWords(t *testing.T) {
	checkLint(t, [][]string{
		{"NCCL_P2P_LEVEL=NVL"}, {"NCCL_P2P_LEVEL=SYS"}, {"NCCL_P2P_LEVEL=3"}, {"NCCL_P2P_LEVEL="}, {"NCCL_NET_GDR_LEVEL=P2C"}, {"NCCL_NET_MERGE_LEVEL=PORT"},
		{"NCCL_P2P_LEVEL=nvl", "wrong", `does not know "nvl", and ignores it`, " / write NCCL_P2P_LEVEL=NVL"}, {"NCCL_P2P_LEVEL=NVLINK", "wrong", "NCCL_P2P_LEVEL takes LOC, NVL"},
		{"NCCL_NET_GDR_LEVEL=NODE", "wrong", "takes LOC"}, {"NCCL_P2P_LEVEL=PHB ", "wrong", "a blank", " / write NCCL_P2P_LEVEL=PHB"}, {"NCCL_P2P_LEVEL= ", "wrong", "leave it unset"},
		{"NCCL_NET_MERGE_LEVEL=NVL", "wrong"}, {"NCCL_NET_MERGE_POLICY=rail"}, {"NCCL_NET_MERGE_POLICY=rails", "wrong", "write NCCL_NET_MERGE_POLICY=RAIL"},
		{"NCCL_NETDEVS_POLICY=auto"}, {"NCCL_NETDEVS_POLICY=MAX:2"}, {"NCCL_NETDEVS_POLICY=max:12"}, {"NCCL_NETDEVS_POLICY=MAX:0", "wrong", "takes AUTO instead"}, {"NCCL_NETDEVS_POLICY=MAX", "wrong"},
		{"NCCL_SOCKET_FAMILY=AF_INET6"}, {"NCCL_SOCKET_FAMILY=IPv4", "wrong", "ignores it", "takes AF_INET, AF_INET6"}, {"NCCL_SOCKET_FAMILY=af_inet", "wrong", "write NCCL_SOCKET_FAMILY=AF_INET"},
		{"NCCL_IB_ADDR_FAMILY=inet", "wrong"}, {"NCCL_CHECK_MODE=debug_global"}, {"NCCL_CHECK_MODE=GLOBAL", "wrong"}, {"NCCL_CTA_POLICY=zero|EFFICIENCY"}, {"NCCL_CTA_POLICY=2"}, {"NCCL_CTA_POLICY=7", "wrong"},
		{"NCCL_CTA_POLICY=ZERO|EFICIENCY", "wrong", `"EFICIENCY"`, " / write EFFICIENCY"}, {"NCCL_LAUNCH_MODE=group", "warn", "2.9"},
		{"NCCL_DEBUG=info"}, {"NCCL_DEBUG=WARN"}, {"NCCL_DEBUG=NONE"}, {"NCCL_DEBUG=0"}, {"NCCL_DEBUG="},
		{"NCCL_DEBUG=Warning", "warn", "logs nothing", "takes VERSION, WARN"}, {"NCCL_DEBUG=DEBUG", "warn"}, {"NCCL_DEBUG=INF", "warn", "write NCCL_DEBUG=INFO"}, {"NCCL_DEBUG=1", "warn"},
		{"NCCL_DEBUG_SUBSYS=INIT,net"}, {"NCCL_DEBUG_SUBSYS=^COLL,P2P"}, {"NCCL_DEBUG_SUBSYS=ALL"}, {"NCCL_DEBUG_SUBSYS=INIT,GRAHP", "warn", " / write GRAPH"},
		{"NCCL_DEBUG_SUBSYS=INIT,^NET", "warn"}, {"NCCL_DEBUG_TIMESTAMP_LEVELS=ALL"}, {"NCCL_DEBUG_TIMESTAMP_LEVELS=WARNING", "warn"},
	})
}

func TestLintGrammar(t *testing.T) {
	checkLint(t, [][]string{
		{"NCCL_ALGO=Ring"}, {"NCCL_ALGO=ring,tree"}, {"NCCL_ALGO=^nvls,nvlstree"}, {"NCCL_ALGO="}, {"NCCL_ALGO=PAT"}, {"NCCL_ALGO=ring;allreduce:tree,nvls;broadcast:ring"},
		{"NCCL_ALGO=allreduce:^tree"}, {"NCCL_ALGO=Ring;"}, {"NCCL_ALGO=collnetchain,"}, {"NCCL_PROTO=ll128,Simple"}, {"NCCL_PROTO=^LL"}, {"NCCL_PROTO=allgather:simple"},
		{"NCCL_ALGO=Star", "wrong", `refuses "Star"`, "it knows Tree, Ring"}, {"NCCL_ALGO=Rnig", "wrong", " / write Ring"}, {"NCCL_ALGO=ring, tree", "wrong", "blank is part"},
		{"NCCL_ALGO=Collnet", "warn", "CollnetDirect"}, {"NCCL_ALGO=^ring,^tree", "wrong", "write one ^"}, {"NCCL_ALGO=allreduce:tree;ring", "wrong", "stands behind another list"},
		{"NCCL_ALGO=alreduce:tree", "wrong", "does not know the collective"}, {"NCCL_ALGO=allreduce:tree:ring", "wrong"}, {"NCCL_ALGO=LL", "wrong"},
		{"NCCL_PROTO=ring", "wrong", "LL, LL128, Simple"}, {"NCCL_PROTO=LL,LL28", "wrong", " / write LL128"}, {"NCCL_PROTO=Simple\r", "wrong", "carriage return", "=Simple"}, {"NCCL_PROTO=Collnet", "wrong"},
		{"NCCL_PROTO='Simple'", "wrong", "the quotes", " / write NCCL_PROTO=Simple"},
	})
}

func TestLintPlaces(t *testing.T) {
	checkLint(t, [][]string{
		{"NCCL_SOCKET_IFNAME=eth0"}, {"NCCL_SOCKET_IFNAME=eth,ib"}, {"NCCL_SOCKET_IFNAME==eth0,eth1"}, {"NCCL_SOCKET_IFNAME=^docker,lo"}, {"NCCL_SOCKET_IFNAME=^=lo,docker0"}, {"NCCL_SOCKET_IFNAME="},
		{"NCCL_SOCKET_IFNAME=eth0.100,bond0:1"}, {"NCCL_SOCKET_IFNAME=^l,docker"},
		{"NCCL_SOCKET_IFNAME===eth0", "wrong", "once and in front", "write NCCL_SOCKET_IFNAME==eth0"}, {"NCCL_SOCKET_IFNAME==eth0,=eth1", "wrong", " / write NCCL_SOCKET_IFNAME==eth0,eth1"},
		{"NCCL_SOCKET_IFNAME=^lo,^docker", "wrong", " / write NCCL_SOCKET_IFNAME=^lo,docker"}, {"NCCL_SOCKET_IFNAME==^lo", "wrong", "=^=lo"}, {"NCCL_SOCKET_IFNAME=!lo", "wrong", "^ excludes", "=^lo"},
		{"NCCL_SOCKET_IFNAME=eth0, eth1", "wrong", "takes the blank", "=eth0,eth1"}, {"NCCL_SOCKET_IFNAME= eth0", "wrong", "blank"}, {"NCCL_SOCKET_IFNAME=eth0;eth1", "wrong", "commas", "=eth0,eth1"},
		{"NCCL_SOCKET_IFNAME=eth*", "wrong", "patterns"}, {"NCCL_SOCKET_IFNAME=eth[0-3]", "wrong", "patterns"}, {"NCCL_SOCKET_IFNAME=e", "wrong", "one character"}, {"NCCL_SOCKET_IFNAME==", "wrong", "one character"},
		{"NCCL_SOCKET_IFNAME=^docker0", "warn", "leaves lo", " / write NCCL_SOCKET_IFNAME=^docker0,lo"}, {"NCCL_SOCKET_IFNAME=^=docker0,l", "warn", "leaves lo"},
		{`NCCL_SOCKET_IFNAME="lo"`, "wrong", "quotes"}, {"NCCL_SOCKET_IFNAME=eth0\r", "wrong", "carriage return"}, {"NCCL_OOB_NET_IFNAME=^mlx5_0"}, {"NCCL_OOB_NET_IFNAME=a b", "wrong"},
		{"NCCL_IB_HCA=mlx5_0"}, {"NCCL_IB_HCA=mlx5"}, {"NCCL_IB_HCA==mlx5_1:1,mlx5_2"}, {"NCCL_IB_HCA=^mlx5_1"}, {"NCCL_IB_HCA=mlx5_0:1:2:0"}, {"NCCL_IB_HCA=mlx5_10,mlx5_11"}, {"NCCL_IB_HCA="},
		{"NCCL_IB_HCA=mlx5_0,mlx5_1:1", "warn", "mlx5_10 to mlx5_19", " / write NCCL_IB_HCA==mlx5_0,mlx5_1:1"}, {"NCCL_IB_HCA=mlx5_0;mlx5_1", "wrong"}, {"NCCL_IB_HCA=mlx5_[0-3]", "wrong", "patterns"},
		{"NCCL_CONF_FILE=/dev/null"}, {"NCCL_CONF_FILE=~/nccl.conf", "wrong", "takes ~ for part"}, {"NCCL_TOPO_FILE=$HOME/topo.xml", "warn", "takes $"}, {"NCCL_TOPO_DUMP_FILE=~/t.xml", "warn"},
		{"NCCL_DEBUG_FILE=/tmp/nccl.%h.%p"}, {"NCCL_DEBUG_FILE=/dev/stderr"}, {"NCCL_DEBUG_FILE=log", "warn", "write over", "%h.%p"}, {"NCCL_DEBUG_FILE=log.%h", "warn"}, {"NCCL_DEBUG_FILE="},
		{"NCCL_COMM_ID=10.0.0.1:5000"}, {"NCCL_COMM_ID=[fd00::1]:5000"}, {"NCCL_COMM_ID=[fe80::1%eth0]:5000"}, {"NCCL_COMM_ID=node0:5000"},
		{"NCCL_COMM_ID=", "wrong", "empty"}, {"NCCL_COMM_ID=10.0.0.1", "wrong", "no port", "[fd00::1]:5000"}, {"NCCL_COMM_ID=node0:", "wrong", "no port"}, {"NCCL_COMM_ID=fd00::1", "wrong", "needs brackets"},
		{"NCCL_COMM_ID=fd00::1:5000", "wrong", "needs brackets"}, {"NCCL_COMM_ID=[fd00::1]", "wrong", "no port"}, {"NCCL_COMM_ID=[fd00::1", "wrong"}, {"NCCL_COMM_ID=node0:x", "wrong", `"x" is no port`},
		{"NCCL_COMM_ID=node0:0", "wrong"}, {"NCCL_COMM_ID=node0:65536", "wrong"}, {"NCCL_COMM_ID=:5000", "wrong"}, {"NCCL_COMM_ID=a:1:2", "wrong"}, {"NCCL_COMM_ID=a,b:1", "wrong"}, {"NCCL_COMM_ID=[a]x1", "wrong"},
		{"NCCL_RAS_ADDR=localhost:28028"}, {"NCCL_RAS_ADDR=localhost", "warn", "no port"}, {"NCCL_RAS_ADDR="},
		{"NCCL_NET=IB"}, {"NCCL_NET=", "wrong", "name of no network"}, {"NCCL_NET=Socket ", "wrong", "blank"}, {`NCCL_NET="IB"`, "wrong", "quotes"},
		{"NCCL_IB_ADDR_RANGE=10.0.0.0/8"}, {"NCCL_IB_ADDR_RANGE=fd00::/16"}, {"NCCL_IB_ADDR_RANGE=10.0.0.1", "wrong", "ignores it"}, {"NCCL_IB_ADDR_RANGE="},
		{"NCCL_THREAD_THRESHOLDS=1 2 3 4 5 6"}, {"NCCL_THREAD_THRESHOLDS=1,2", "wrong"}, {"NCCL_HOSTID='a b' "}, {"NCCL_NET_PLUGIN=none"}, {`NCCL_NET_PLUGIN="none"`, "wrong"},
	})
}

func TestLintNames(t *testing.T) {
	checkLint(t, [][]string{
		{"PATH=/bin"}, {"UCX_TLS=all"}, {"NCCL="}, {"RCCL_MSCCL_ENABLE=1"}, {"NCCL_INSPECTOR_ENABLE=yes"}, {"NCCL_TUNER_CONFIG_FILE=x"}, {"NCCL_UCX_TLS=a"},
		{"NCCL_DEBUGG=INFO", "warn", "has no such variable", " / did you mean NCCL_DEBUG?"}, {"NCCL_SOCKET_IFNAM=eth0", "warn", "NCCL_SOCKET_IFNAME?"}, {"NCCL_IB_QPS_PER_CONECTION=4", "warn", "NCCL_IB_QPS_PER_CONNECTION?"},
		{"NCCL_debug=INFO", "warn", "NCCL_DEBUG?"}, {"nccl_debug=INFO", "warn", "write NCCL_DEBUG"}, {"NCLL_DEBUG=INFO", "warn", "write NCCL_DEBUG"}, {"NCL_IB_HCA=x", "warn", "write NCCL_IB_HCA"}, {"NCL_X=1"},
		{"NCCL_OF_TOMORROW=1", "warn", "NCCL 2.30.7 has no such variable"}, {"NCCL_=1", "warn"}, {"NCCL_FOO=1", "warn", "2.30.7"}, {"NCCL_ALGO =Ring", "wrong", "a blank is part of the name"}, {"NCCL_FOO\t=Ring", "wrong", `"NCCL_FOO\t"`},
		{"NCCL_RINGS=1", "warn", "2.4.8"}, {"NCCL_LL_BUFF_SIZE=1", "warn", "NCCL_LL_BUFFSIZE"}, {"NCCL_MIN_NRINGS=1", "warn", "called NCCL_MIN_NCHANNELS"}, {"NCCL_IB_GDR_LEVEL=1", "warn", "NCCL_NET_GDR_LEVEL"},
		{"NCCL_BUFFER_SIZE=1", "warn", "NCCL_BUFFSIZE"}, {"NCCL_MAX_P2P_PEERS=1", "warn", "NCCL_P2P_MAX_PEERS"}, {"NCCL_TIMEOUT=1800", "warn", "--timeout"}, {"NCCL_ASYNC_ERROR_HANDLING=1", "warn", "TORCH_NCCL_ASYNC_ERROR_HANDLING"},
	})
	if got := lintText("NCCL_API_TOKEN=hunter2"); strings.Contains(got, "hunter2") || got == "" {
		t.Errorf("got %q", got)
	}
}

// Each row of otherNames is a name that the table has not, and what it advises is there.
func TestOtherNames(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range otherNames {
		if isVariable("NCCL_"+o.name) || seen[o.name] {
			t.Errorf("%s is a variable, or there twice", o.name)
		}
		seen[o.name] = true
		for _, w := range strings.FieldsFunc(o.hint, func(r rune) bool { return r != '_' && !unicode.IsUpper(r) && !unicode.IsDigit(r) }) {
			if strings.HasPrefix(w, "NCCL_") && !isVariable(w) {
				t.Errorf("%s: %s is no variable", o.name, w)
			}
		}
	}
	for _, r := range ncclTable {
		if Hidden("NCCL_" + r.name) {
			t.Errorf("%s looks like a secret", r.name)
		}
		if r.kind == Words && vocabularyOf("NCCL_"+r.name).words == nil {
			t.Errorf("%s has no words", r.name)
		}
	}
}

func TestLintTogether(t *testing.T) {
	for _, tt := range [][]string{
		{"", "NCCL_MIN_NCHANNELS=4", "NCCL_MAX_NCHANNELS=4"},
		{"", "NCCL_MIN_CTAS=4", "NCCL_MAX_NCHANNELS=2"},
		{"warn NCCL_MIN_CTAS=8 (-x): more than NCCL_MAX_CTAS=4 (-x)", "NCCL_MAX_CTAS=4", "NCCL_MIN_CTAS=8"},
		{"warn NCCL_MIN_P2P_NCHANNELS=0x10 (-x): more than NCCL_MAX_P2P_NCHANNELS=4 (-x)", "NCCL_MIN_P2P_NCHANNELS=0x10", "NCCL_MAX_P2P_NCHANNELS=4"},
		{"", "NCCL_P2P_DISABLE=0", "NCCL_P2P_LEVEL=NVL"},
		{"warn NCCL_P2P_LEVEL=NVL (-x): has no effect beside NCCL_P2P_DISABLE=1 (-x)", "NCCL_P2P_DISABLE=1", "NCCL_P2P_LEVEL=NVL"},
		{"warn NCCL_NET=ib (-x): NCCL_IB_DISABLE=1 (-x) switches that network off", "NCCL_IB_DISABLE=1", "NCCL_NET=ib"},
		{"", "NCCL_IB_DISABLE=1", "NCCL_NET=Socket"},
		{"", "NCCL_IB_DISABLE=true", "NCCL_IB_DISABLE=1"}, // the later counts
	} {
		if got := lintText(tt[1:]...); got != tt[0] {
			t.Errorf("%q: got %q; want %q", tt[1:], got, tt[0])
		}
	}
}

func TestJudge(t *testing.T) {
	found := []Finding{
		{Var{"NCCL_A", "1", "-x"}, false, "may be", "try b"},
		{Var{"NCCL_B", "2", "f:3"}, true, "is", ""},
	}
	for s, want := range map[Rigor]string{
		Usual:  `[{warn NCCL_A=1 (-x): may be; try b}] NCCL_B=2 (f:3): is`,
		Strict: "[] NCCL_A=1 (-x): may be\nNCCL_B=2 (f:3): is",
		Lax:    `[{warn NCCL_A=1 (-x): may be; try b} {warn NCCL_B=2 (f:3): is}] <nil>`,
	} {
		notes, err := Judge(found, s)
		if got := fmt.Sprint(notes, err); got != want {
			t.Errorf("%v: got %s; want %s", s, got, want)
		}
	}
	if notes, err := Judge(nil, Strict); notes != nil || err != nil {
		t.Errorf("got %v, %v", notes, err)
	}
}

// FuzzLint looks for findings that disturb a terminal, tell a secret, or are too long to read.
func FuzzLint(f *testing.F) {
	for _, r := range ncclTable {
		f.Add("NCCL_"+r.name, "^=a,b:1;c|~\"x\" 08GB", "NCCL_MAX_CTAS", "-1")
	}
	f.Add("NCCL_COMM_ID", "[::1]:99", "NCCL_P2P_DISABLE", "1")
	f.Add("NCCL_ALGO ", "\x1b[31m\xff", "nccl_debug", "a\rb")
	f.Add("NCCL_PROTO", " "+strings.Repeat("\xff", 400)+" ", "NCCL_ALGO", "\""+strings.Repeat("\xff", 400)+"\"")
	f.Add("NCCL_TOKEN", "hunter2hunter2", "NCCL_IB_HCA", "mlx5_1,\x00")
	f.Fuzz(func(t *testing.T, name, value, other, second string) {
		vars := []Var{{name, value, "environment"}, {other, second, "a\nb:3"}}
		found := Lint(vars)
		for _, s := range []Rigor{Usual, Strict, Lax} {
			notes, err := Judge(found, s)
			if stop := err != nil; stop != (s == Strict && len(found) > 0 || s == Usual && slices.ContainsFunc(found, func(f Finding) bool { return f.Wrong })) {
				t.Errorf("%v: got %v of %v", s, err, found)
			}
			for _, n := range notes {
				checkLine(t, n.Text)
			}
		}
		for _, f := range found {
			checkLine(t, f.String())
			checkLine(t, f.Hint)
			if Hidden(f.Var.Name) && len(f.Var.Value) > 12 && strings.Contains(f.String()+f.Hint, f.Var.Value) {
				t.Errorf("%q tells a secret", f.String())
			}
		}
	})
}

func checkLine(t *testing.T, line string) {
	t.Helper()
	if !utf8.ValidString(line) || strings.ContainsFunc(line, unicode.IsControl) || len(line) > 1000 {
		t.Errorf("%q is not a line for people", line)
	}
}
