package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"gorun/envsync"
	"gorun/hostfile"
)

// readConfig is what one file of that text says, and the environment.
func readConfig(t *testing.T, f configFile, text string, env ...string) (config, error) {
	t.Helper()
	f.name = filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(f.name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var conf config
	if err := conf.readFile(f, "/home/me"); err != nil {
		return conf, err
	}
	conf.readEnvironment(env)
	return conf, conf.keep(func(string) bool { return true })
}

func TestConfigKeys(t *testing.T) {
	conf, err := readConfig(t, configFile{}, `
np = 16
hostfile = "hosts"
oversubscribe = true
forward = ["MY_", "NCCL_"]
preload = ["a", "/b", "~"]
stdin = "all"
[env]
A = "x y"
N = 3
[ssh]
fanout = 8
connect-timeout = 1.5
config = "none"
accept-new-host-keys = true
[timeouts]
job = "2h"
lost-after = 10
[output]
dir = "~/logs/%j"
tag = false
`, "GORUN_FANOUT=9", "GORUN_FANOUT=10", "GORUN_TIMEOUT=", "GORUN_TIMEOT=3", "GORUN_RANK=x", "GORUN_JOB_ID=y", "OTHER=1", "GORUN_ALGO=ring")
	if err != nil {
		t.Fatal(err)
	}
	o := defaultOptions()
	if err := o.take(winning(conf.layers...)); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(conf.files[0].name)
	want := defaultOptions()
	want.np, want.hostfile, want.oversubscribe, want.stdin = 16, dir+"/hosts", true, -2
	want.preload = []string{dir + "/a", "/b", "/home/me"}
	want.fanout, want.connectTimeout, want.acceptNew = 9, 1500*time.Millisecond, true
	want.sshConfig = "none"
	want.timeout, want.lostAfter, want.outputDir = 2*time.Hour, 10*time.Second, "/home/me/logs/%j"
	if diff := differ(want, o); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	at := conf.files[0].name
	env := []envsync.Setting{{Flag: at + ":9", Text: "A=x y"}, {Flag: at + ":10", Text: "N=3"}}
	if diff := cmp.Diff(env, conf.env); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	if f := (forwarded{[]string{"MY_", "NCCL_"}, at + ":5"}); fmt.Sprint(conf.forward) != fmt.Sprint(f) {
		t.Errorf("got %v; want %v", conf.forward, f)
	}
	if unknown := []string{"GORUN_TIMEOT says nothing to gorun: did you mean GORUN_TIMEOUT?"}; !cmp.Equal(conf.unknown, unknown) {
		t.Errorf("got %q; want %q", conf.unknown, unknown)
	}
}

func TestConfigErrors(t *testing.T) {
	tests := map[string]struct{ text, want, hint string }{
		"misspelt":       {"fanot = 3", `1:1: unknown key "fanot"`, "did you mean ssh.fanout?"},
		"misspelt-there": {"[ssh]\nconect-timeout = 3", `2:1: unknown key "ssh.conect-timeout"`, "did you mean ssh.connect-timeout?"},
		"underscore":     {"[ssh]\nconnect_timeout = 3", `2:1: unknown key "ssh.connect_timeout"`, "did you mean ssh.connect-timeout?"},
		"flag-as-key":    {"  output-dir = 'x'", `1:3: unknown key "output-dir"`, "did you mean output.dir?"},
		"section":        {"[shs]", `1:1: unknown table "shs"`, "did you mean [ssh]?"},
		"array":          {"[[ssh]]", `1:1: unknown table "ssh"`, "did you mean [ssh]?"},
		"far":            {"frobnicate = 1", `1:1: unknown key "frobnicate"`, "--show-config lists"},
		"not-configured": {"dry-run = true", `1:1: unknown key "dry-run"`, "--show-config lists"},
		"number-word":    {"np = 'four'", `1:1: np: "four" is not a whole number`, "-np 16"},
		"number-bool":    {"np = true", "1:1: np is true, and must be a number, or text in quotes", ""},
		"number-date":    {"np = 1979-05-27", "1:1: np is a date, and must be a number, or text in quotes", ""},
		"zero":           {"np = 0", "1:1: np: 0 is less than 1", ""},
		"float":          {"np = 1.5", `1:1: np: "1.5" is not a whole number`, ""},
		"bool-text":      {"[output]\ntag = 'yes'", "2:1: output.tag is text, and must be true or false, without quotes", ""},
		"text-number":    {"hostfile = 5", `1:1: hostfile is a number, and must be text: "..."`, ""},
		"text-list":      {"hostfile = ['a']", `1:1: hostfile is a list, and must be text: "..."`, ""},
		"time-bool":      {"[timeouts]\njob = true", `2:1: timeouts.job is true, and must be a time: 60, 1.5, "500ms", "2m"`, ""},
		"time-word":      {"[timeouts]\njob = '1:30'", `2:1: timeouts.job: "1:30" is not a time`, "1h30m"},
		"time-nan":       {"[timeouts]\njob = nan", `2:1: timeouts.job: "NaN" is not a time`, "1h30m"},
		"key-as-table":   {"[np]", "1:1: np is a table here, and takes one value", ""},
		"hosts-as-table": {"[[hosts]]\nmatch = 'a'", "1:1: hosts is a table here, and takes one value", "did you mean [[host]]?"},
		"env-true":       {"[env]\nNCCL_IB_DISABLE = true", `2:1: env.NCCL_IB_DISABLE is true, and must be text: "..."`, `write 1; or "true", where a program wants that word`},
		"host-env-false": {"[[host]]\nmatch = 'a'\nenv.NCCL_NET_GDR_READ = false", `3:1: host.env.NCCL_NET_GDR_READ is false, and must be text: "..."`, "write 0"},
		"empty":          {"hostfile = ''", "1:1: hostfile: the value is empty", ""},
		"env-value":      {"env = 3", `1:1: env is a table of variables: [env], and NAME = "value" in it`, ""},
		"env-array":      {"[[env]]", `1:1: env is a table of variables: [env], and NAME = "value" in it`, ""},
		"env-table":      {"[env.A]", `1:1: env.A is a table, and must be text: "..."`, ""},
		"env-deep":       {"[env]\nA.b = 'c'", `2:1: env.A is a table, and must be text: "..."`, ""},
		"env-float":      {"[env]\nA = 1.10", `2:1: env.A is a number, and must be text: "..."`, ""},
		"env-bool":       {"[env]\nA = true", `2:1: env.A is true, and must be text: "..."`, ""},
		"env-name":       {"[env]\n'1A' = 'x'", `2:1: variable "1A": a name cannot start with a digit`, ""},
		"env-equals":     {"[env]\n'A=b' = 'x'", `2:1: variable "A=b": a name cannot have a = in it`, ""},
		"env-glob":       {"[env]\n'A*' = 'x'", `2:1: variable "A*": a pattern cannot be given a value`, ""},
		"env-nul":        {"[env]\nA = \"\\u0000\"", `2:1: variable "A": a value cannot have a zero byte`, ""},
		"env-secret":     {"[env]\n'API_KEY:hunter2' = 'x'", `2:1: variable "API_KEY:<hidden>": not a name`, ""},
		"forward":        {"forward = 'NCCL_'", `1:1: forward is text, and must be a list of prefixes of names: ["NCCL_", "UCX_"]`, ""},
		"forward-item":   {"forward = ['A_', 'B*']", `1:1: forward: "B*" is not the beginning of a variable's name`, ""},
		"guarded":        {"[ssh]\nrsh = 'sh -c evil'", "2:1: ssh.rsh is not taken from a gorun.toml in the current directory", "--config gorun.toml"},
		"guarded-trust":  {"ssh.accept-new-host-keys = true", "1:1: ssh.accept-new-host-keys is not taken from a gorun.toml in the current directory", ""},
		"guarded-file":   {"output.result = '/x'", "1:1: output.result is not taken from a gorun.toml in the current directory", ""},
		"host-table":     {"[host]\nmatch = 'a'", `1:1: host is a list of tables: [[host]], and match = "gpu[01-08]" in it`, ""},
		"host-value":     {"host = 'a'", `1:1: host is a list of tables: [[host]], and match = "gpu[01-08]" in it`, ""},
		"host-unmatched": {"[[host]]\nuser = 'x'", `1:1: a [[host]] that matches no host`, `"*" matches every host`},
		"host-match":     {"[[host]]\nmatch = 3", `2:1: host.match is a number, and must be names of hosts: "gpu[01-08],login*"`, ""},
		"host-range":     {"[[host]]\nmatch = 'gpu[9-3]'", `2:1: host.match: "9-3": bad range: start is after end`, ""},
		"host-blank":     {"[[host]]\nmatch = 'a, ,b'", `2:1: host.match: "a, ,b": a name is missing`, ""},
		"host-backslash": {"[[host]]\nmatch = 'a\\*'", `2:1: host.match: "a\\*" is no list of hosts' names`, ""},
		"host-key":       {"[[host]]\nmatch = 'a'\nslots = 3", `3:1: unknown key "host.slots"`, "match, user, port and env"},
		"host-port":      {"[[host]]\nmatch = 'a'\nport = 70000", `3:1: host.port is a number, and must be a number from 1 to 65535`, ""},
		"host-user":      {"[[host]]\nmatch = 'a'\nuser = 'a b'", `3:1: host.user: "a b" is not the name of a user`, ""},
		"host-env":       {"[[host]]\nmatch = 'a'\nenv = { NCCL_ALGO = 'Ring' }", `3:1: variable "NCCL_ALGO" must be the same on every host`, "write it into [env]"},
		"host-env-rank":  {"[[host]]\nmatch = 'a'\n[host.env]\nRANK = '1'", `4:1: variable "RANK": gorun sets it for each rank`, ""},
		"host-env-deep":  {"[[host]]\nmatch = 'a'\nenv.A.b = '1'", `3:1: host.env.A is a table, and must be text: "..."`, ""},
		"no-toml":        {"np: 4", `1:3: "np: 4": expected '.' or '=', but got ':' instead`, "key = value"},
		"too-large":      {strings.Repeat("#", maxConfig+1), ": larger than 256 KiB, which such a file is not", "--config none"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := readConfig(t, configFile{local: true}, tt.text)
			e, ok := errors.AsType[*usageError](err)
			if !ok {
				t.Fatalf("got error %v; want a usage error", err)
			}
			if _, msg, _ := strings.Cut(e.msg, "c.toml:"); strings.TrimPrefix(msg, " ") != strings.TrimPrefix(tt.want, ": ") {
				t.Errorf("got %q; want %q", msg, tt.want)
			}
			if hints := strings.Join(e.hints, "\n"); !strings.Contains(hints, tt.hint) {
				t.Errorf("got hints %q; want one with %q", hints, tt.hint)
			}
		})
	}
}

// A file that nobody has named must be the user's own.
func TestConfigOfOthers(t *testing.T) {
	conf := config{}
	name := filepath.Join(t.TempDir(), "gorun.toml")
	if err := os.WriteFile(name, []byte("np = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(what string, f configFile, want string) {
		t.Helper()
		f.name = name
		err := conf.readFile(f, "/")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got error %v; want %q", what, err, want)
		}
	}
	check("own", configFile{local: true}, "")
	if err := os.Chmod(name, 0o666); err != nil {
		t.Fatal(err)
	}
	check("open to all", configFile{local: true}, "everybody may write to it")
	check("open to all, in one's home", configFile{}, "everybody may write to it")
	check("open to all, named", configFile{named: true}, "")
	if os.Geteuid() != 0 {
		t.Skip("only root can give a file away")
	}
	if err := errors.Join(os.Chmod(name, 0o600), os.Chown(name, 4242, 4242)); err != nil {
		t.Fatal(err)
	}
	check("a stranger's", configFile{local: true}, "belongs to another user (4242)")
	check("a stranger's, named", configFile{named: true}, "")
}

func TestConfigThatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		dir:                           ": is a directory",
		fifo:                          ": not a regular file",
		"/dev/zero":                   ": not a regular file",
		filepath.Join(dir, "missing"): ": no such file or directory",
	} {
		conf := config{}
		if err := conf.readFile(configFile{name: name, named: true}, "/"); err == nil || err.Error() != name+want {
			t.Errorf("%s: got error %v; want %q", name, err, want)
		}
	}
	conf := config{}
	if err := conf.readFile(configFile{name: filepath.Join(fifo, "gorun.toml")}, "/"); err != nil || conf.files[0].read {
		t.Errorf("got error %v; want no file", err)
	}
}

func TestConfigFiles(t *testing.T) {
	tests := map[string]struct {
		args []string
		env  environment
		want string
	}{
		"all":       {nil, nil, "/etc/gorun/config.toml /h/.config/gorun/config.toml gorun.toml"},
		"named":     {[]string{"--config", "x"}, environment{"GORUN_CONFIG=y"}, "/etc/gorun/config.toml /h/.config/gorun/config.toml x"},
		"variable":  {nil, environment{"GORUN_CONFIG=y"}, "/etc/gorun/config.toml /h/.config/gorun/config.toml y"},
		"none":      {[]string{"--config=none"}, environment{"GORUN_CONFIG=y"}, ""},
		"none-here": {nil, environment{"GORUN_CONFIG=none"}, ""},
		"xdg":       {nil, environment{"XDG_CONFIG_HOME=/x"}, "/etc/gorun/config.toml /x/gorun/config.toml gorun.toml"},
		"xdg-odd":   {nil, environment{"XDG_CONFIG_HOME=x"}, "/etc/gorun/config.toml /h/.config/gorun/config.toml gorun.toml"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			line, err := parseLine(new(options).flagSet(), tt.args)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range configFiles(line, tt.env, "/h") {
				got = append(got, f.name)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got %q; want %q", s, tt.want)
			}
		})
	}
}

func TestWinning(t *testing.T) {
	u := func(name, value string) use { return use{name: name, value: value} }
	tests := map[string]struct {
		layers [][]use
		want   string
	}{
		"later":              {[][]use{{u("np", "1"), u("ppn", "2")}, {u("np", "3")}}, "ppn=2 np=3"},
		"repeated":           {[][]use{{u("x", "1")}, {u("x", "2"), u("x", "3")}}, "x=2 x=3"},
		"excluded":           {[][]use{{u("tag-output", "true"), u("np", "1")}, {u("output-dir", "d")}}, "np=1 output-dir=d"},
		"excluded-other":     {[][]use{{u("output-dir", "d")}, {u("tag-output", "true")}}, "tag-output=true"},
		"not-excluded":       {[][]use{{u("output-dir", "d")}, {u("tag-output", "false")}}, "output-dir=d tag-output=false"},
		"fold":               {[][]use{{u("fold", "true")}, {u("output-dir", "d")}}, "output-dir=d"},
		"mapping":            {[][]use{{u("map-by", "node")}, {u("byslot", "true")}}, "byslot=true"},
		"each-host":          {[][]use{{u("ppn", "2")}, {u("map-by", "PPR:1:node")}}, "map-by=PPR:1:node"},
		"ppn-and-node":       {[][]use{{u("ppn", "2")}, {u("map-by", "node")}}, "ppn=2 map-by=node"},
		"unbound":            {[][]use{{u("cpus-per-rank", "2")}, {u("bind-to", "none")}}, "bind-to=none"},
		"bound":              {[][]use{{u("cpus-per-rank", "2")}, {u("bind-to", "hwthread")}}, "cpus-per-rank=2 bind-to=hwthread"},
		"same-layer":         {[][]use{{u("output-dir", "d"), u("tag-output", "true")}}, "output-dir=d tag-output=true"},
		"cores-over-numa":    {[][]use{{u("bind-to", "numa")}, {u("cpus-per-rank", "2")}}, "cpus-per-rank=2"},
		"cores-over-cores":   {[][]use{{u("bind-to", "core:4")}, {u("cpus-per-rank", "2")}}, "cpus-per-rank=2"},
		"cores-over-mapping": {[][]use{{u("map-by", "slot:PE=4")}, {u("cpus-per-rank", "2")}}, "cpus-per-rank=2"},
		"mapping-over-numa":  {[][]use{{u("bind-to", "socket")}, {u("map-by", "node:PE=2")}}, "map-by=node:PE=2"},
		"ppn-over-mapping":   {[][]use{{u("map-by", "ppr:4:node:PE=2")}, {u("ppn", "2")}}, "ppn=2"},
		"same-ppn":           {[][]use{{u("map-by", "ppr:2:node:PE=2")}, {u("ppn", "2")}}, "map-by=ppr:2:node:PE=2 ppn=2"},
		"same-mapping":       {[][]use{{u("map-by", "node:PE=2")}, {u("bynode", "true")}}, "map-by=node:PE=2 bynode=true"},
		"over":               {[][]use{{u("map-by", "slot:NOOVERSUBSCRIBE")}, {u("oversubscribe", "true")}}, "oversubscribe=true"},
		"not-over":           {[][]use{{u("oversubscribe", "true")}, {u("map-by", "slot:nooversubscribe")}}, "map-by=slot:nooversubscribe"},
		"never-over":         {[][]use{{u("map-by", "slot:OVERSUBSCRIBE")}, {u("nooversubscribe", "true")}}, "nooversubscribe=true"},
		"same-file":          {[][]use{{u("result", "r")}, {u("events", "r")}}, "events=r"},
		"two-files":          {[][]use{{u("result", "r")}, {u("events", "e")}}, "result=r events=e"},
		"app-over-np":        {[][]use{{u("np", "2")}, {u("app", "a")}}, "app=a"},
		"rsh":                {[][]use{{u("ssh-port", "2"), u("ssh-config", "c"), u("retry-hosts", "1")}, {u("rsh", "ssh")}}, "rsh=ssh"},
		"file-over-list":     {[][]use{{u("host", "a")}, {u("hostfile", "f")}}, "hostfile=f"},
		"list-from-file":     {[][]use{{u("hostfile", "f")}, {u("host", "a")}}, "hostfile=f host=a"},
		"wrong-alone":        {[][]use{{u("bind-to", "numa:4")}, {u("np", "2")}}, "bind-to=numa:4 np=2"},
		"three-layers":       {[][]use{{u("bind-to", "numa")}, {u("cpus-per-rank", "2")}, {u("bind-to", "socket")}}, "bind-to=socket"},
		"dropped-drops":      {[][]use{{u("ssh-port", "2")}, {u("rsh", "ssh")}, {u("ssh-config", "c")}}, "ssh-config=c"},
		"dry-run":            {[][]use{{u("result", "r")}, {u("dry-run", "true")}}, "dry-run=true"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, u := range winning(tt.layers...) {
				got = append(got, u.name+"="+u.value)
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("got %q; want %q", s, tt.want)
			}
		})
	}
}

// No flag's variable is one that gorun sets for ranks, but those of the backend and the mesh,
// which say nothing to a gorun that a rank starts.
func TestVariablesAreNotThoseOfRanks(t *testing.T) {
	for _, f := range configured() {
		if name := f.variable(); name != "GORUN_BACKEND" && name != "GORUN_MESH" && (envsync.RankName(name) || name == "GORUN_CONFIG") {
			t.Errorf("%s is a name of ranks", name)
		}
	}
}

// The example has every key, in a line of its own or in a comment, and both ways it is a
// configuration.
func TestConfigExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/gorun.toml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readConfig(t, configFile{local: true}, string(text)); err != nil {
		t.Error(err)
	}
	whole := regexp.MustCompile(`(?m)^#([a-z-]+ = )`).ReplaceAllString(string(text), "$1")
	if _, err := readConfig(t, configFile{}, whole); err != nil {
		t.Error(err)
	}
	entries, err := readTOML("docs/gorun.toml", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, e := range entries {
		there[e.key()] = true
	}
	for _, f := range configured() {
		if !there[f.key] {
			t.Errorf("docs/gorun.toml lacks the key %s", f.key)
		}
	}
	for _, each := range thresholds() {
		if !there["preflight."+each.key] {
			t.Errorf("docs/gorun.toml lacks the key preflight.%s", each.key)
		}
	}
}

// What the documents show as a configuration is one, and NCCL takes its variables as they
// are meant.
func TestConfigInDocuments(t *testing.T) {
	for name, marks := range map[string][2]string{
		"README.md":       {"```toml\n", "```"},
		"docs/gorun.1":    {"in the form of such a file.\n.PP\n.nf\n", ".fi"},
		"docs/gorun.toml": {"", "\x00"},
	} {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, shown, ok := strings.Cut(string(text), marks[0])
		shown, _, _ = strings.Cut(shown, marks[1])
		conf, err := readConfig(t, configFile{local: true}, strings.ReplaceAll(shown, `\-`, "-"))
		if !ok || err != nil || len(conf.env) == 0 || len(conf.hosts) == 0 {
			t.Fatalf("%s has no configuration with variables and hosts between %q and %q: %v", name, marks[0], marks[1], err)
		}
		var vars []envsync.Var
		for _, s := range conf.env {
			name, value, _ := strings.Cut(s.Text, "=")
			vars = append(vars, envsync.Var{Name: name, Value: value})
		}
		for _, h := range conf.hosts {
			for _, f := range envsync.Lint(append(vars[:len(vars):len(vars)], h.env...)) {
				t.Errorf("%s: %s", name, f.Line())
			}
		}
	}
}

func TestConfigOfHosts(t *testing.T) {
	conf, err := readConfig(t, configFile{local: true}, `
[[host]]
match = "gpu[1-2]*, Login*"
user = "me"
env = { NCCL_IB_HCA = "mlx5_0", TMP_TOKEN = "hunter2" }
[[host]]
match = "gpu2"
port = 2222
[host.env]
NCCL_IB_HCA = "mlx5_1"
`)
	if err != nil {
		t.Fatal(err)
	}
	hosts := []hostfile.Host{{Name: "gpu1"}, {Name: "GPU2", User: "other"}, {Name: "gpu3"}, {Name: "login7", Port: 22}}
	conf.complete(hosts)
	want := []hostfile.Host{{Name: "gpu1", User: "me"}, {Name: "GPU2", User: "other", Port: 2222}, {Name: "gpu3"}, {Name: "login7", User: "me", Port: 22}}
	if diff := cmp.Diff(want, hosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	env := conf.hostEnv(hosts)
	var got []string
	for _, h := range hosts {
		for _, v := range env[h.Name] {
			_, line, _ := strings.Cut(v.Origin, "c.toml")
			got = append(got, h.Name+" "+v.Name+"="+v.Value+line)
		}
	}
	wantEnv := []string{
		"gpu1 NCCL_IB_HCA=mlx5_0:5", "gpu1 TMP_TOKEN=hunter2:5", "GPU2 NCCL_IB_HCA=mlx5_0:5", "GPU2 TMP_TOKEN=hunter2:5", "GPU2 NCCL_IB_HCA=mlx5_1:10",
		"login7 NCCL_IB_HCA=mlx5_0:5", "login7 TMP_TOKEN=hunter2:5",
	}
	if diff := cmp.Diff(wantEnv, got); diff != "" {
		t.Errorf("env (-want +got):\n%s", diff)
	}
	o := defaultOptions()
	o.config = conf
	if shown := o.showConfiguration(); strings.Contains(shown, "hunter2") || !strings.Contains(shown, `{ match = "gpu2", port = 2222, env.NCCL_IB_HCA = "mlx5_1" },`) {
		t.Errorf("got\n%s", shown)
	}
}

// FuzzConfig checks that every file is a configuration, or an error that says where.
// What --show-config makes of it is a configuration that says the same.
func FuzzConfig(f *testing.F) {
	for _, s := range []string{"np = 4\n[env]\nA = 'b'\n", "[ssh]\nfanout = 1\n", "forward = []", "preload = ['a', 'b']", "preload = 'a'", "[timeouts]\njob = 1e3", "output.dir = 'a\"b'", "stdin = 'none'", "[[host]]\nmatch = 'a[1-2],b*'\nuser = 'u'\nenv.A = '1'", "fanout = 3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		dir := t.TempDir()
		read := func(text string) (options, error) {
			name := filepath.Join(dir, "gorun.toml")
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			o := defaultOptions()
			if err := o.config.readFile(configFile{name: name}, "/h"); err != nil {
				return o, err
			}
			if err := o.config.keep(func(string) bool { return true }); err != nil {
				return o, err
			}
			return o, o.take(winning(o.config.layers...))
		}
		o, err := read(text)
		if err != nil {
			if _, ok := errors.AsType[*usageError](err); !ok || !strings.Contains(err.Error(), "gorun.toml:") {
				t.Fatalf("%q: error %v", text, err)
			}
			return
		}
		shown := o.showConfiguration()
		again, err := read(shown)
		if err != nil {
			t.Fatalf("%q is shown as %q: %v", text, shown, err)
		}
		values := func(o options) string {
			var b strings.Builder
			for l := range strings.Lines(o.showConfiguration()) {
				value, _, _ := strings.Cut(l, "  # ")
				b.WriteString(strings.TrimRight(value, " ") + "\n")
			}
			return b.String()
		}
		if a, b := values(o), values(again); a != b {
			t.Fatalf("%q is shown as %q, and that as %q", text, a, b)
		}
	})
}
