package transport

import (
	"slices"
	"strings"
	"testing"

	"gorun/hostfile"
)

func TestSplitWords(t *testing.T) {
	tests := []struct {
		name, line string
		want       []string
		err        string
	}{
		{"blanks", "  ssh\t-o  BatchMode=yes\n", []string{"ssh", "-o", "BatchMode=yes"}, ""},
		{"quotes", `a 'b c' "d e"f'g'`, []string{"a", "b c", "d efg"}, ""},
		{"empty-words", `a '' ""`, []string{"a", "", ""}, ""},
		{"backslashes", `a\ b "\"\\\$x\y" '\z'`, []string{"a b", `"\$x\y`, `\z`}, ""},
		{"quoted-shell-characters", `'$HOME|*' "a;b"`, []string{"$HOME|*", "a;b"}, ""},
		{"inner-hash-and-tilde", "a#b a~b", []string{"a#b", "a~b"}, ""},
		{"nothing", " ", nil, ""},
		{"open-quote", "a 'b", nil, `no ' behind "'b"`},
		{"open-double-quote", `a "b`, nil, "behind"},
		{"last-backslash", `a \`, nil, `it ends in \`},
		{"variable", "$HOME/bin/ssh", nil, "no shell reads this line"},
		{"quoted-variable", `"$HOME"`, nil, "no shell reads this line"},
		{"pipe", "a | b", nil, `'|': no shell`},
		{"home", "~/bin/ssh", nil, "no shell"},
		{"comment", "ssh # mine", nil, "no shell"},
		{"nul", "a\x00", nil, "NUL"},
		{"quoted-nul", "'a\x00'", nil, "NUL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := splitWords(tt.line)
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %q; want %q", got, tt.want)
			}
			wantText(t, err, tt.err)
		})
	}
}

// wantText checks that err has text in it, or is nil if that is empty.
func wantText(t *testing.T, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("got error %v; want %q in it", err, text)
	}
}

func TestRshLine(t *testing.T) {
	tests := []struct {
		name, line string
		host       hostfile.Host
		want       string // words with | between
		err        string
	}{
		{"ssh", "ssh -o BatchMode=yes {host}", hostfile.Host{Name: "n1"}, "ssh|-o|BatchMode=yes|n1|CMD", ""},
		{"appended", "ssh -x", hostfile.Host{Name: "n1"}, "ssh|-x|n1|CMD", ""},
		{"kubectl", "kubectl exec -i {host} --", hostfile.Host{Name: "n1"}, "kubectl|exec|-i|n1|--|/bin/sh|-c|CMD", ""},
		{"path", "/usr/bin/docker exec -i", hostfile.Host{Name: "n1"}, "/usr/bin/docker|exec|-i|n1|/bin/sh|-c|CMD", ""},
		{"sudo", "sudo -n podman exec -i {host}", hostfile.Host{Name: "n1"}, "sudo|-n|podman|exec|-i|n1|/bin/sh|-c|CMD", ""},
		{"env", "env A=b ssh", hostfile.Host{Name: "n1"}, "env|A=b|ssh|n1|CMD", ""},
		{"only-wrappers", "sudo -n", hostfile.Host{Name: "n1"}, "sudo|-n|n1|CMD", ""},
		{"docker-as-an-argument", "ssh docker {host}", hostfile.Host{Name: "n1"}, "ssh|docker|n1|CMD", ""},
		{"said-to-be-direct", "./enter {host} {sh} --quick", hostfile.Host{Name: "n1"}, "./enter|n1|/bin/sh|-c|CMD|--quick", ""},
		{"said-to-be-a-shell", "docker shell {host} {command}", hostfile.Host{Name: "n1"}, "docker|shell|n1|CMD", ""},
		{"user-and-port", "ssh -p {port} {user}@{host}", hostfile.Host{Name: "n1", User: "u", Port: 2222}, "ssh|-p|2222|u@n1|CMD", ""},
		{"brace", "x {{host}} {host}", hostfile.Host{Name: "n1"}, "x|{host}}|n1|CMD", ""},
		{"quoted-word", "ssh -o 'ProxyCommand nc %h %p' {host}", hostfile.Host{Name: "n1"}, "ssh|-o|ProxyCommand nc %h %p|n1|CMD", ""},
		{"placeholder-text-in-a-value", "x {host}", hostfile.Host{Name: "{sh}"}, "x|{sh}|CMD", ""},

		{"empty", " ", hostfile.Host{}, "", "there is no command"},
		{"empty-name", "'' {host}", hostfile.Host{}, "", "there is no command"},
		{"unknown", "ssh {hst}", hostfile.Host{}, "", "unknown placeholder {hst}"},
		{"open-brace", "ssh {host", hostfile.Host{}, "", `no } behind "{host"`},
		{"host-as-command", "{host}", hostfile.Host{}, "", "cannot be in the command's name"},
		{"command-in-a-word", "ssh {host} x{command}", hostfile.Host{}, "", "word of its own"},
		{"command-first", "{command} {host}", hostfile.Host{}, "", "word of its own"},
		{"two-commands", "ssh {host} {command} {sh}", hostfile.Host{}, "", "one place only"},
		{"command-without-host", "ssh {command}", hostfile.Host{}, "", "{host} must be, too"},
		{"port-without-place", "ssh {host}", hostfile.Host{Name: "n1", Port: 2222}, "", "the hostfile gives this host port=2222, and there is no {port}"},
		{"user-without-place", "ssh", hostfile.Host{Name: "n1", User: "u"}, "", "user=u, and there is no {user}"},
		{"place-without-port", "ssh -p {port} {host}", hostfile.Host{Name: "n1"}, "", "there is {port}, and the hostfile gives this host no port="},
		{"dash", "ssh {host}", hostfile.Host{Name: "-oProxyCommand=x"}, "", "not a host name"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := parseRsh(tt.line)
			var argv []string
			if err == nil {
				argv, err = r.argv(tt.host, "CMD")
			}
			if got := strings.Join(argv, "|"); got != tt.want {
				t.Errorf("got %s; want %s", got, tt.want)
			}
			wantText(t, err, tt.err)
		})
	}
}

func TestCheckRsh(t *testing.T) {
	here := hostfile.Host{Name: "localhost"}
	if err := CheckRsh("ssh -p {port} {host}", here, hostfile.Host{Name: "n1", Port: 22}); err != nil {
		t.Errorf("a host that is this machine needs no port: %v", err)
	}
	wantText(t, CheckRsh("ssh {host}", here, hostfile.Host{Name: "n2", User: "u"}), "n2: the hostfile gives this host user=u")
	wantText(t, CheckRsh("ssh '"), "no ' behind")
}

// FuzzRsh: a line is refused, or makes a command line of the words that a quoting of
// them splits into again.
func FuzzRsh(f *testing.F) {
	for _, line := range []string{
		"ssh -o BatchMode=yes {host}", "kubectl exec -i {host} --", `a 'b c' "d\"e" \f {{x}`, "x {port}", "'", `\`, "{sh} {host}", "a {host} {sh}",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitWords(line)
		if err != nil {
			return
		}
		var again strings.Builder
		for _, w := range words {
			again.WriteString("'" + strings.ReplaceAll(w, "'", `'\''`) + "' ")
		}
		if got, err := splitWords(again.String()); err != nil || !slices.Equal(got, words) {
			t.Errorf("%q, which is %q quoted: got %q, %v", again.String(), words, got, err)
		}
		r, err := parseRsh(line)
		if err != nil {
			return
		}
		host := hostfile.Host{Name: "n1"}
		if r.count(holdUser) > 0 {
			host.User = "u"
		}
		if r.count(holdPort) > 0 {
			host.Port = 2222
		}
		argv, err := r.argv(host, "exec true")
		switch {
		case err != nil:
			t.Errorf("%q was taken, but is of no use: %v", line, err)
		case argv[0] != words[0] && !strings.Contains(words[0], "{{"):
			t.Errorf("%q runs %q", line, argv[0])
		case !slices.Contains(argv, "exec true"):
			t.Errorf("%q: %q lacks the command", line, argv)
		}
	})
}
