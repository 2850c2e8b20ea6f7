package transport

import (
	"os/exec"
	"strings"
	"testing"
)

// Every keyword that the installed ssh knows has its place in the table.
func TestKeywords(t *testing.T) {
	out, err := exec.Command("ssh", "-G", "-F", "none", "host").Output()
	if err != nil {
		skip(t, "needs ssh")
	}
	for line := range strings.Lines(string(out)) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name = strings.ToLower(name); name != "host" && keywords[name].usage == 0 {
			t.Errorf("%s is not in the table", name)
		}
	}
	for name, k := range keywords {
		if strings.ToLower(k.name) != name {
			t.Errorf("%s is written %s", name, k.name)
		}
	}
	for name := range strings.FieldsSeq(silent) {
		if keywords[name].usage != 0 || otherNames[name] != "" || name != strings.ToLower(name) {
			t.Errorf("%s has another place in the table", name)
		}
	}
	for old, name := range otherNames {
		if keywords[name].usage == 0 || keywords[old].usage != 0 {
			t.Errorf("%s stands for %s, which is not in the table, or stands there itself", old, name)
		}
	}
}
