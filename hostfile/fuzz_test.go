package hostfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkWellFormed fails unless err is a *SyntaxError fit for one line of text.
func checkWellFormed(t *testing.T, err error) {
	t.Helper()
	se, ok := errors.AsType[*SyntaxError](err)
	if !ok {
		t.Fatalf("got %T %v; want a *SyntaxError", err, err)
	}
	if se.Msg == "" || len(se.Text) > maxText+len("...") || strings.ContainsAny(se.Error(), "\n\r\x00\x1b") {
		t.Fatalf("got error %q", se.Error())
	}
}

// checkHosts fails unless hosts keep what the package promises, and mean the same
// when they are written as a hostfile and read again.
func checkHosts(t *testing.T, hosts []Host) {
	t.Helper()
	if len(hosts) == 0 || len(hosts) > MaxHosts {
		t.Fatalf("got %d hosts", len(hosts))
	}
	var text strings.Builder
	seen := map[string]bool{}
	for i, h := range hosts {
		if checkName(h.Name) != nil && checkIPv6(h.Name) != nil || h.User != "" && checkUser(h.User) != nil {
			t.Fatalf("got host %+v", h)
		}
		if h.Port < 0 || h.Port > 65535 || h.Slots < -1 || h.Slots > MaxSlots || h.MaxSlots < 0 || h.MaxSlots > 0 && h.Slots > h.MaxSlots || h.Line < 1 {
			t.Fatalf("got host %+v", h)
		}
		if key := sameHost(h.Name); seen[key] {
			t.Fatalf("got %s twice", h.Name)
		} else {
			seen[key] = true
		}
		hosts[i].Bare = false
		text.WriteString(strings.Replace(render(hosts[i:i+1]), " max=", " max_slots=", 1))
	}
	again, err := Parse("again", strings.NewReader(text.String()))
	if err != nil {
		t.Fatalf("%q: %v", text.String(), err)
	}
	if got, want := render(again), render(hosts); got != want {
		t.Fatalf("read again\n%swant\n%s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a slots=2 max_slots=4 port=22 user=ann\nb:3\n", "\ufeffa\r\nb\r\n", "[fd00::2]:2222\nfe80::1%eth0", "n[1-3,2]\nn2\n",
		"a /* x\ny */ b=2", "a # c\n// d\nb//e", "a slots = 2\n", "a@b@c", "\xff\xfea\x00", "a\rb", "a:*\nb max_slots=3", " = ", "a slots=", "a:99999",
	} {
		f.Add(s)
	}
	samples, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(samples) == 0 {
		f.Fatalf("got samples %v, %v", samples, err)
	}
	for _, path := range samples {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		hosts, err := Parse("hosts", strings.NewReader(text))
		if err != nil {
			checkWellFormed(t, err)
			return
		}
		checkHosts(t, hosts)
		checkNoneLost(t, text, hosts)
	})
}

// checkNoneLost fails if a line of text without comments and ranges that starts with
// a plain name has no host.
func checkNoneLost(t *testing.T, text string, hosts []Host) {
	t.Helper()
	if strings.ContainsAny(text, "#/[") {
		return
	}
	have := map[string]bool{}
	for _, h := range hosts {
		have[sameHost(h.Name)] = true
	}
	for line := range strings.SplitSeq(strings.TrimPrefix(text, "\ufeff"), "\n") {
		word := strings.TrimLeft(line, " \t\r")
		if i := strings.IndexAny(word, " \t\r:@="); i >= 0 && word[i] != ':' && word[i] != '@' {
			word = word[:i]
		}
		if word != "" && !strings.ContainsAny(word, ":@") && !have[sameHost(word)] {
			t.Fatalf("%q: lost %q; got %v", text, word, hosts)
		}
	}
}

func FuzzParseList(f *testing.F) {
	for _, s := range []string{"a:4,b", "a: 2, b: 2", "n[1-3,2]:2,ann@c", "[fd00::2]:2222,fd00::3", "a,", "a:*,b:auto", "a=2", "n[1", "]", ":", "@"} {
		f.Add(s, "a slots=8\nb\nn[1-3]:2\nfd00::3")
	}
	f.Fuzz(func(t *testing.T, list, file string) {
		hosts, err := ParseList(list)
		if err != nil {
			checkWellFormed(t, err)
			return
		}
		want, err := Parse("hosts", strings.NewReader(file))
		if err == nil {
			checkFilter(t, want, hosts)
		}
		checkHosts(t, hosts)
	})
}

// checkFilter fails unless Filter gives exactly the list's hosts, with no more slots
// than the file's.
func checkFilter(t *testing.T, file, list []Host) {
	t.Helper()
	hosts, err := Filter(file, list)
	if err != nil {
		checkWellFormed(t, err)
		return
	}
	if len(hosts) != len(list) {
		t.Fatalf("got %d hosts; want %d", len(hosts), len(list))
	}
	slots := map[string]int{}
	for _, h := range file {
		slots[h.Name] = h.Slots
	}
	for _, h := range hosts {
		if s, ok := slots[h.Name]; !ok || s >= 0 && h.Slots > s {
			t.Fatalf("got %+v; want at most %d slots", h, s)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	for i := range MaxHosts {
		fmt.Fprintf(&text, "node%05d.cluster slots=8 port=222\n", i)
	}
	for b.Loop() {
		if _, err := Parse("hosts", strings.NewReader(text.String())); err != nil {
			b.Fatal(err)
		}
	}
}
