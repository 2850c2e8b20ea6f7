package transport

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorun/hostfile"
)

// What gorun makes of random ssh_config files is compared with what the installed ssh
// makes of them.

// TestAgainstSSH compares some files, TestSlowAgainstSSH many.
func TestAgainstSSH(t *testing.T)     { compareFiles(t, 25) }
func TestSlowAgainstSSH(t *testing.T) { compareFiles(t, 500) }

// compareFiles runs compareSSH in this program, started in a mount namespace with an
// /etc/hosts for CanonicalizeHostname.
func compareFiles(t *testing.T, n int) {
	if _, err := exec.LookPath("ssh"); err != nil {
		skip(t, "needs ssh")
	}
	if os.Getuid() != 0 {
		skip(t, "needs root for namespaces")
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "hosts"), "127.0.0.1 localhost\n10.0.0.1 a.lan. gpu1.lan.\n10.0.0.2 real.lan b.lan. alias\nfd00::7 gpu2.far.\n", 0o644)
	write(t, filepath.Join(dir, "nsswitch"), "hosts: files\npasswd: files\n", 0o644)
	seed := rand.Uint64()
	if os.Getenv("CI") != "" {
		seed = 1 // a difference that nobody's change has made must not stop a change
	}
	script := fmt.Sprintf("mount --bind %[1]s/hosts /etc/hosts; mount --bind %[1]s/nsswitch /etc/nsswitch.conf; exec /proc/%[2]d/exe compare %[1]s %[3]d %[4]d", dir, os.Getpid(), seed, n)
	cmd := exec.CommandContext(t.Context(), "unshare", "-m", "sh", "-ec", script)
	cmd.Env = append(os.Environ(), "SHELL=/bin/sh", "CONFIG_DIR=/dir")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("seed %d: %v\n%s", seed, err, out)
	}
	t.Logf("%s", out)
}

// compareSSH makes n files and compares; it says how many it compared.
func compareSSH(dir string, seed uint64, n int) error {
	g := &configMaker{Rand: rand.New(rand.NewPCG(seed, 0)), dir: dir}
	g.probe()
	hosts := []string{"a", "gpu1", "gpu2", "GPU1", "b.lan", "10.0.0.1", "alias", "x.y.z", "fd00::1"}
	me, err := user.Current()
	if err != nil {
		return err
	}
	same := 0
	for i := range n {
		name := g.file(fmt.Sprintf("config%d", i), 0)
		h := hosts[g.IntN(len(hosts))]
		wrong, why := differences(name, me, h)
		if why != nil || len(wrong) > 0 {
			return fmt.Errorf("file %d, host %s: %v\n%s\n%s", i, h, why, strings.Join(wrong, "\n"), whole(name))
		}
		same++
	}
	fmt.Printf("%d files are the same to ssh and to gorun; %s\n", same, strings.Join(g.lacks, ", "))
	return nil
}

// whole is a file with those that it includes.
func whole(name string) string {
	text, _ := os.ReadFile(name)
	all := name + ":\n" + string(text)
	for word := range strings.FieldsSeq(string(text)) {
		if strings.Contains(word, "/part") {
			all += whole(strings.TrimSuffix(word, "*"))
		}
	}
	return all
}

// differences compares all values of one host, or that both refuse the file.
func differences(name string, me *user.User, host string) ([]string, error) {
	opts := Options{Home: me.HomeDir, User: me.Username, Config: []string{name}}
	fillOptions(&opts)
	w := newWorld(opts)
	defer w.close()
	out, refused := exec.Command("ssh", "-G", "-F", name, host, "true").Output()
	var e *evaluation
	var bad *ConfigError
	c, err := loadConfig(opts, w, noFile)
	if err == nil {
		e, bad = c.evaluate(context.Background(), hostfile.Host{Name: host}, map[string]*directive{})
		if bad == nil && len(e.odd) > 0 {
			bad = e.odd[0].errorf("a keyword that ssh might not know, either")
		}
	}
	switch {
	case refused != nil && (err != nil || bad != nil):
		return nil, nil
	case refused != nil:
		exit := refused.(*exec.ExitError)
		if strings.Contains(string(exit.Stderr), "Could not resolve hostname") {
			return nil, nil // for gorun that is no matter of the file
		}
		return nil, fmt.Errorf("ssh: %s%v, gorun takes it", exit.Stderr, refused)
	case err != nil || bad != nil:
		return nil, fmt.Errorf("gorun: %v%v, ssh takes it", err, bad)
	}
	var wrong []string
	for key, got := range effective(e) {
		want := sshValue(string(out), key)
		if key == "proxyjump" {
			want, got = hops(want), hops(got) // ssh leaves out what says nothing
		}
		if want != got {
			wrong = append(wrong, fmt.Sprintf("%s: ssh has %q, gorun %q", key, want, got))
		}
	}
	return wrong, nil
}

func hops(jump string) string {
	hosts, err := parseJump(jump)
	return fmt.Sprint(hosts, err)
}

// effective are the values of an evaluation, as ssh -G prints them.
func effective(e *evaluation) map[string]string {
	v := map[string]string{
		"hostname": e.final, "user": e.user(), "port": e.port(), "hostkeyalias": strings.ToLower(e.value("hostkeyalias")),
		"identityfile": join(e.identities), "certificatefile": join(e.certificates),
		"identitiesonly": cmp.Or(e.value("identitiesonly"), "no"), "hashknownhosts": cmp.Or(e.value("hashknownhosts"), "no"),
		"addressfamily": cmp.Or(e.value("addressfamily"), "any"), "bindaddress": e.value("bindaddress"),
		"proxyjump": "", "proxycommand": "",
	}
	if v["identityfile"] == "" {
		delete(v, "identityfile") // ssh prints its default names
	}
	if d := e.values["proxy"]; d != nil && !strings.EqualFold(d.rest, "none") {
		v[d.key] = d.rest
	}
	if d := e.values["userknownhostsfile"]; d != nil && (e.jumpHost() == "" || !strings.Contains(d.rest, "%C")) { // older ones hash no jump host
		names, err := e.paths("userknownhostsfile")
		v["userknownhostsfile"] = strings.Join(names, " ")
		if err != nil {
			v["userknownhostsfile"] = err.Error()
		}
	}
	return v
}

func join(ds []*directive) string {
	var words []string
	for _, d := range ds {
		words = append(words, d.args[0])
	}
	return strings.Join(words, " ")
}

// sshValue joins the values of a keyword in the output of ssh -G.
func sshValue(out, key string) string {
	var vs []string
	for line := range strings.Lines(out) {
		if k, v, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); k == key {
			vs = append(vs, v)
		}
	}
	return strings.Join(vs, " ")
}

// configMaker makes random ssh_config files of what the installed ssh has.
type configMaker struct {
	*rand.Rand
	dir   string
	lacks []string // what the installed ssh has not
	n     int
}

var criteria = []string{"host", "originalhost", "user", "localuser", "localnetwork", "version", "tagged", "command", "sessiontype", "exec"}

// probe finds the criteria and keywords that the installed ssh lacks.
func (g *configMaker) probe() {
	for _, c := range criteria {
		name := filepath.Join(g.dir, "probe")
		os.WriteFile(name, []byte("Match "+c+" 10.0.0.0/8\n"), 0o600)
		if exec.Command("ssh", "-G", "-F", name, "probe").Run() != nil {
			g.lacks = append(g.lacks, "no Match "+c)
		}
	}
	if exec.Command("ssh", "-G", "-o", "Tag=x", "probe").Run() != nil {
		g.lacks = append(g.lacks, "no Tag")
	}
	// In older versions any ProxyJump, also none, kept CanonicalizeHostname from its work.
	out, _ := exec.Command("ssh", "-G", "-F", "none", "-o", "CanonicalizeHostname=yes", "-o", "CanonicalDomains=lan", "-o", "ProxyJump=none", "a").Output()
	if sshValue(string(out), "hostname") != "a.lan" {
		g.lacks = append(g.lacks, "no ProxyJump none")
	}
}

func (g *configMaker) has(what string) bool { return !slices.Contains(g.lacks, "no "+what) }

func (g *configMaker) one(words ...string) string { return words[g.IntN(len(words))] }

// file writes a file and returns its name.
func (g *configMaker) file(name string, depth int) string {
	var b strings.Builder
	for range 2 + g.IntN(12) {
		switch n := g.IntN(10); {
		case n < 2:
			fmt.Fprintf(&b, "%s %s\n", g.one("Host", "host", "Host ="), g.hosts(" "))
		case n < 5:
			b.WriteString(g.match())
		case n < 6 && depth < 3:
			g.n++
			name := g.file(fmt.Sprintf("part%d", g.n), depth+1)
			fmt.Fprintf(&b, "Include %s\n", g.one(name, name+" /none", filepath.Dir(name)+"/"+filepath.Base(name)+"*", "${CONFIG_DIR}"+"/none"))
		default:
			fmt.Fprintf(&b, "%s%s\n", g.one("", "  ", "\t"), g.setting())
		}
	}
	name = filepath.Join(g.dir, name)
	if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
		panic(err)
	}
	return name
}

func (g *configMaker) hosts(sep string) string {
	var words []string
	for range 1 + g.IntN(3) {
		words = append(words, g.one("", "", "", "!")+g.one("*", "a", "gpu1", "gpu?", "GPU1", "gpu*", "*.lan", "b.lan", "10.0.*", "real.lan", "fd00::1", "alias", "x.*", "node"))
	}
	return strings.Join(words, sep)
}

func (g *configMaker) match() string {
	var words []string
	if g.IntN(5) == 0 {
		return "Match " + g.one("all", "final all", "canonical", "final", "canonical all", "!canonical", "final host "+g.hosts(",")) + "\n"
	}
	for range 1 + g.IntN(3) {
		c := criteria[g.IntN(len(criteria))]
		if !g.has("Match " + c) {
			continue
		}
		words = append(words, g.one("", "", "", "!")+c, g.criterion(c))
	}
	if len(words) == 0 {
		words = []string{"all"}
	}
	return "Match " + strings.Join(words, " ") + g.one("", " # why") + "\n"
}

func (g *configMaker) criterion(name string) string {
	switch name {
	case "host", "originalhost":
		return g.hosts(",")
	case "user", "localuser":
		return g.one("root", "bob", "r*", "!root,*", "bob,root", "*")
	case "localnetwork":
		return g.one("127.0.0.0/8", "203.0.113.0/24", "127.0.0.0/8,fd00::/8", "127.0.0.1")
	case "version":
		return g.one("OpenSSH_*", "OpenSSH_1.*", "*")
	case "tagged":
		return g.one("red", "r*,blue", `""`, "*")
	case "command":
		return g.one("*", "nothing")
	case "sessiontype":
		return g.one("exec", "shell", "!exec,*")
	}
	return g.one("true", "false", `"test %n = a"`, `"test %h = gpu1 -a %p = 22"`, `"test %r = root -o %u = bob"`, `"echo %L %l %d %C %% > /dev/null"`, `"exit 3"`)
}

// setting is a line that is no block.
func (g *configMaker) setting() string {
	lines := []string{
		"HostName " + g.one("%h.lan", "real.lan", "10.0.0.9", "GPU1", "%%h", "fd00::1", "a"),
		"User " + g.one("bob", "root", `"eve"`, "carol # comment"),
		"Port " + g.one("22", "2222", "=77", "65535"),
		"IdentityFile " + g.one("~/k1", "/k2/%h", `"/k 3"`, "none", "/k4"),
		"CertificateFile " + g.one("~/c1", "/c2/%h"),
		"IdentitiesOnly " + g.one("yes", "no"),
		"HashKnownHosts " + g.one("yes", "no"),
		"HostKeyAlias " + g.one("Farm", "other"),
		"UserKnownHostsFile " + g.one("/x", "/x /y", "/t/%d%h%i%k%L%l%n%p%r%u%%", "/c/%C", "${CONFIG_DIR}/%n", `"/q r" '/s t'`, `/b\ c`),
		"AddressFamily " + g.one("inet", "inet6", "any"),
		"BindAddress " + g.one("10.0.0.5", "::1"),
		"ProxyJump " + g.one("j", "me@j1:22,j2", "ssh://u@j3:2200", "[fd00::1]:2"),
		"ProxyCommand " + g.one("nc %h %p", "none", `sh -c "a 'b' %%" # not a comment`, "= x"),
		"CanonicalizeHostname " + g.one("yes", "always", "no"),
		"CanonicalDomains " + g.one("lan", "far lan", "none", "nowhere"),
		"CanonicalizeMaxDots " + g.one("0", "1", "2"),
		"CanonicalizeFallbackLocal " + g.one("yes", "yes", "no"),
		"CanonicalizePermittedCNAMEs " + g.one("*:*", "*.lan:real.lan", "alias:*.lan", "none", "b*:*.far"),
		"ForwardX11 no", "# a comment", "", "Compression=yes",
	}
	if g.IntN(3) == 0 { // seldom enough that most files are not refused
		lines = append(lines, "HostNam x", "Frobnicate x", "FROBNICATE = yes", "Protocol 2", "SkeyAuthentication no")
	}
	if g.IntN(8) == 0 {
		return "IgnoreUnknown " + g.one("*", "frob*", "Frob*,hostna?", "!hostnam,*", "x")
	}
	if g.has("ProxyJump none") {
		lines = append(lines, "ProxyJump none")
	}
	if g.has("Tag") {
		lines = append(lines, "Tag "+g.one("red", "blue"))
	}
	return lines[g.IntN(len(lines))]
}
