package envsync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// found reads what a host has: "KIND[?]: NAME=value, ..." separated by ";". A "?" says
// that the place could not be read.
func found(text string) Found {
	short := map[string]string{"login": FromLogin, "session": FromSession, "user": FromUser, "host": FromHost}
	var out Found
	for part := range strings.SplitSeq(text, ";") {
		kind, list, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			continue
		}
		kind, unknown := strings.CutSuffix(kind, "?")
		p := Place{Kind: short[kind], Name: "/" + kind, Unknown: unknown}
		for i, s := range strings.Fields(list) {
			name, value, _ := strings.Cut(s, "=")
			line := i + 1
			if kind == "login" || kind == "session" {
				line = 0
			}
			p.Set = append(p.Set, ConfSetting{name, value, line})
		}
		out = append(out, p)
	}
	return out
}

// written is what Reconcile decided: the job map, then each host's own, then conflicts.
func written(o Own) string {
	parts := []string{strings.Join(texts(o.Job), " ")}
	for _, vars := range o.Hosts {
		parts = append(parts, strings.Join(texts(vars), " "))
	}
	for _, c := range o.Conflicts {
		parts = append(parts, "conflict "+c.Name+" "+c.brief(called))
	}
	return strings.Join(parts, "|")
}

func texts(vars []Var) (out []string) {
	for _, v := range vars {
		place, _, _ := strings.Cut(v.Origin, " of ")
		out = append(out, fmt.Sprintf("%s=%s@%s", v.Name, v.Value, place))
	}
	return out
}

func called(hosts []int) string { return fmt.Sprint(hosts) }

func TestReconcile(t *testing.T) {
	tests := []struct {
		name    string
		hosts   []string
		decided string // names that the job has decided for all, or NAME@HOST
		want    string
	}{
		{"nothing", []string{"", ""}, "", "||"},
		{"equal", []string{"host: NCCL_ALGO=Ring", "host: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=Ring@/host:1||"},
		{"equal-elsewhere", []string{"host: NCCL_ALGO=Ring", "user: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=Ring@/host:1, /user:1||"},
		{"differs", []string{"host: NCCL_ALGO=Ring", "host: NCCL_ALGO=Tree", "host: NCCL_ALGO=Ring"}, "",
			"||||conflict NCCL_ALGO Ring on [0 2], Tree on [1]"},
		{"on-some", []string{"", "host: NCCL_ALGO=Ring"}, "", "|||conflict NCCL_ALGO not set on [0], Ring on [1]"},
		{"empty-is-no-value", []string{"host: NCCL_ALGO=", ""}, "", "|||conflict NCCL_ALGO empty on [0], not set on [1]"},
		{"unknown-name", []string{"host: NCCL_TOMORROW=1", ""}, "", "|NCCL_TOMORROW=1@/host:1|"},
		{"misspelt-name", []string{"host: NCCL_SOKET_IFNAME=eth0", ""}, "", "|NCCL_SOKET_IFNAME=eth0@/host:1|"},
		{"other-letters", []string{"host: NCCL_ALGO=ring", "host: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=ring@/host:1||"},
		{"other-digits", []string{"host: NCCL_BUFFSIZE=4194304", "user: NCCL_BUFFSIZE=0x400000"}, "", "NCCL_BUFFSIZE=4194304@/host:1, /user:1||"},
		{"word-for-number", []string{"host: NCCL_IB_DISABLE=true", "host: NCCL_IB_DISABLE=0"}, "", "|||conflict NCCL_IB_DISABLE true on [0], 0 on [1]"},
		{"decided", []string{"host: NCCL_ALGO=Ring", ""}, "NCCL_ALGO", "||"},
		{"decided-for-one", []string{"host: NCCL_ALGO=Ring", ""}, "NCCL_ALGO@1", "NCCL_ALGO=Ring@/host:1||"},
		{"one-host", []string{"host: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=Ring@/host:1|"},
		{"user-before-host", []string{"host: NCCL_ALGO=Tree; user: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=Ring@/user:1|"},
		{"session-before-user", []string{"user: NCCL_ALGO=Tree; session: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=Ring@/session|"},
		{"login-before-session", []string{"session: NCCL_ALGO=Tree; login: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=Ring@/login|"},
		{"host-scoped", []string{"user: NCCL_IB_HCA=mlx5_1", "host: NCCL_IB_HCA=mlx5_2", ""}, "",
			"|NCCL_IB_HCA=mlx5_1@/user:1|NCCL_IB_HCA=mlx5_2@/host:1|"},
		{"host-scoped-decided", []string{"user: NCCL_IB_HCA=mlx5_1", "host: NCCL_IB_HCA=mlx5_2"}, "NCCL_IB_HCA@0", "||NCCL_IB_HCA=mlx5_2@/host:1"},
		{"debugging", []string{"user: NCCL_DEBUG=INFO", ""}, "", "|NCCL_DEBUG=INFO@/user:1|"},
		{"within-host-only", []string{"host: NCCL_P2P_LEVEL=NVL", ""}, "", "|NCCL_P2P_LEVEL=NVL@/host:1|"},
		{"plugin", []string{"user: UCX_TLS=rc", ""}, "", "|UCX_TLS=rc@/user:1|"},
		{"plugin-equal", []string{"user: UCX_TLS=rc", "user: UCX_TLS=rc"}, "", "UCX_TLS=rc@/user:1||"},
		{"installed", []string{"session: NCCL_ROOT=/a NCCL_VERSION=2.19", "session: NCCL_ROOT=/b"}, "", "||"},
		{"foreign", []string{"user: FOO=1 LD_PRELOAD=/x NCCL_CONF_FILE=/y"}, "", "|"},
		{"login-unknown", []string{"login?:", "login: NCCL_ALGO=Ring", "login: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=Ring@/login|||"},
		{"login-unknown-file-known", []string{"login?:; host: NCCL_ALGO=Tree", "login: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=Ring@/login||"},
		{"login-unknown-no-matter", []string{"login?:; host: NCCL_ALGO=Tree", "host: NCCL_ALGO=Ring"}, "",
			"|||conflict NCCL_ALGO Tree on [0], Ring on [1]"},
		{"file-unknown", []string{"user?:", "user: NCCL_ALGO=Ring"}, "", "NCCL_ALGO=Ring@/user:1||"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var hosts []Found
			for _, text := range tt.hosts {
				hosts = append(hosts, found(text))
			}
			decided := func(host int, name string) (string, bool) {
				return "-x", slices.Contains(strings.Fields(tt.decided), name) || slices.Contains(strings.Fields(tt.decided), fmt.Sprintf("%s@%d", name, host))
			}
			if got := written(Reconcile(hosts, Usual, decided, called)); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestReconcileNotes(t *testing.T) {
	undecided := func(int, string) (string, bool) { return "", false }
	all := func(int, string) (string, bool) { return "-x", true }
	trap := Found{{Kind: FromUser, Name: "/u", Traps: []ConfTrap{{3, "NCCL_A = 1", "without effect"}}}}
	tests := []struct {
		name    string
		hosts   []Found
		decided func(int, string) (string, bool)
		want    []string
	}{
		{"sent", []Found{found("host: NCCL_ALGO=Ring"), found("host: NCCL_ALGO=Ring")}, undecided,
			[]string{"info sent: NCCL_ALGO=Ring (/host:1 of [0 1])"}},
		{"sent-to-unsure", []Found{found("login?:"), found("login: NCCL_ALGO=Ring")}, undecided,
			[]string{"info sent: NCCL_ALGO=Ring (/login of [1]); [0] cannot tell, and gets it too"}},
		{"kept", []Found{found("host: NCCL_IB_HCA=m"), found("host: NCCL_IB_HCA=m")}, undecided,
			[]string{"info sent to [0 1]: NCCL_IB_HCA=m (/host:1)"}},
		{"overridden", []Found{found("host: NCCL_ALGO=Ring"), found("")}, all,
			[]string{"info NCCL_ALGO=Ring of [0] (/host:1) does not count: NCCL_ALGO is set by -x"}},
		{"within-host-only", []Found{found("host: NCCL_P2P_LEVEL=NVL"), found("")}, undecided, []string{
			"warn NCCL_P2P_LEVEL differs between hosts: NVL on [0], not set on [1]; -x NCCL_P2P_LEVEL=VALUE sets one for all",
			"info sent to [0]: NCCL_P2P_LEVEL=NVL (/host:1)"}},
		{"plugin-differs", []Found{found("user: UCX_TLS=rc"), found("user: UCX_TLS=tcp")}, undecided, []string{
			"warn UCX_TLS differs between hosts: rc on [0], tcp on [1]; -x UCX_TLS=VALUE sets one for all",
			"info sent to [0]: UCX_TLS=rc (/user:1)", "info sent to [1]: UCX_TLS=tcp (/user:1)"}},
		{"unknown-name", []Found{found("host: NCCL_TOMORROW=1"), found("")}, undecided, []string{
			"warn NCCL_TOMORROW differs between hosts: 1 on [0], not set on [1]; -x NCCL_TOMORROW=VALUE sets one for all",
			"info sent to [0]: NCCL_TOMORROW=1 (/host:1)"}},
		{"misspelt-name", []Found{found("host: NCCL_SOKET_IFNAME=eth0"), found("")}, undecided, // Lint tells of it
			[]string{"info sent to [0]: NCCL_SOKET_IFNAME=eth0 (/host:1)"}},
		{"trap-of-several", []Found{trap, found(""), trap}, undecided, []string{"warn [0 2]: /u:3: NCCL_A = 1: without effect"}},
		{"foreign-user", []Found{found("user: FOO=1")}, undecided,
			[]string{"warn [0]: /user:1: FOO is no variable of NCCL's, and ranks do not get it from there; -x FOO=VALUE sends it"}},
		{"foreign-host", []Found{found("host: FOO=1")}, undecided,
			[]string{"info [0]: /host:1: FOO is no variable of NCCL's, which sets it for what reads it later in the same process"}},
		{"like-nccl", []Found{found("host: nccl_debug=WARN NCLL_ALGO=Ring"), found("user: nccl_debug=WARN")}, undecided, []string{
			"warn [0]: /host:1: nccl_debug: NCCL has no such variable, and says nothing about that; write NCCL_DEBUG",
			"warn [0]: /host:2: NCLL_ALGO: NCCL has no such variable, and says nothing about that; write NCCL_ALGO",
			"warn [1]: /user:1: nccl_debug: NCCL has no such variable, and says nothing about that; write NCCL_DEBUG"}},
		{"preload", []Found{found("host: LD_PRELOAD=1")}, undecided,
			[]string{"warn [0]: /host:1: LD_PRELOAD is no variable of NCCL's, which sets it for what reads it later in the same process"}},
		{"conf-file", []Found{found("host: NCCL_CONF_FILE=/x")}, undecided, []string{"warn [0]: /host:1: NCCL_CONF_FILE is without effect in a file"}},
		{"secret", []Found{found("host: NCCL_X_TOKEN=hunter2"), found("host: NCCL_X_TOKEN=hunter2")}, undecided,
			[]string{"info sent: NCCL_X_TOKEN=<hidden> (/host:1 of [0 1])"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, n := range Reconcile(tt.hosts, Usual, tt.decided, called).Notes {
				got = append(got, n.Level+" "+n.Text)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(tt.want, "\n  "))
			}
		})
	}
}

// Of very many oddities only some are warnings.
func TestReconcileManyRemarks(t *testing.T) {
	var traps []ConfTrap
	for i := range 30 {
		traps = append(traps, ConfTrap{i + 1, "x", "odd"})
	}
	own := Reconcile([]Found{{{Kind: FromHost, Name: "/f", Traps: traps}}}, Usual, func(int, string) (string, bool) { return "", false }, called)
	warned := 0
	for _, n := range own.Notes {
		if n.Level == "warn" {
			warned++
		}
	}
	if last := own.Notes[len(own.Notes)-1]; warned != maxRemarks+1 || !strings.HasPrefix(last.Text, "22 more") {
		t.Errorf("got %d warnings, the last %q", warned, last.Text)
	}
}

// What is taken for a place of installation is no variable of NCCL's.
func TestHostSetting(t *testing.T) {
	for _, v := range ncclTable {
		if name := "NCCL_" + v.name; !HostSetting(name) && name != "NCCL_CONF_FILE" {
			t.Errorf("%s is a variable of NCCL's", name)
		}
	}
	for _, name := range []string{"NCCL_ROOT", "NCCL_CONF_FILE", "PATH", "NCCL_A B", "ROOT", ""} {
		if HostSetting(name) {
			t.Errorf("%q: got true", name)
		}
	}
}

// Who knows better lets each host have its own, and is warned.
func TestReconcileLaxly(t *testing.T) {
	hosts := []Found{found("host: NCCL_ALGO=Ring"), found("")}
	own := Reconcile(hosts, Lax, func(int, string) (string, bool) { return "", false }, called)
	if got, want := written(own), "|NCCL_ALGO=Ring@/host:1|"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	if n := own.Notes[0]; n.Level != "warn" || !strings.HasPrefix(n.Text, "NCCL_ALGO differs between hosts: ") {
		t.Errorf("got %v; want a warning", n)
	}
}

func TestReconcileStrictly(t *testing.T) {
	hosts := []Found{found("host: UCX_TLS=rc NCCL_P2P_LEVEL=NVL NCCL_IB_HCA=a NCCL_IB_HCAS=a"), found("host: NCCL_IB_HCA=b")}
	got := written(Reconcile(hosts, Strict, func(int, string) (string, bool) { return "", false }, called))
	want := "|NCCL_IB_HCA=a@/host:3 NCCL_IB_HCAS=a@/host:4|NCCL_IB_HCA=b@/host:1|conflict NCCL_P2P_LEVEL NVL on [0], not set on [1]|conflict UCX_TLS rc on [0], not set on [1]"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
