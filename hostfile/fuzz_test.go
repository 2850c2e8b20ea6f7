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
		if h.Addr != "" && checkAddr(h.Addr) != nil || checkLabel(h.Rack) != nil || checkLabel(h.Switch) != nil || checkLabel(h.Domain) != nil {
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
		"10.0.0.1 slots=8 public_addr=54.1.2.3\n10.0.0.2:4:x", "a rack=r1 switch=s/2 domain=d\nb", "a\na\nb\n", "n[1-4]\n^n[2-3]\n^n4", "^", "rank 0=a slot=0:1",
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
		nodes, nodesErr := parse("hosts", strings.NewReader(text), true)
		if (err == nil) != (nodesErr == nil) || len(nodes) != len(hosts) {
			t.Fatalf("got %v, %v; as a nodefile %v, %v", hosts, err, nodes, nodesErr)
		}
		if err != nil {
			checkWellFormed(t, err)
			return
		}
		checkHosts(t, hosts)
		checkHosts(t, nodes)
		checkNoneLost(t, text, hosts)
	})
}

// FuzzExclude checks that what is left are the hosts that were not named, as they were.
func FuzzExclude(f *testing.F) {
	for _, s := range []string{"a", "a,n[1-2]", "^a", "fd00::3", "a@b:0", "a:0", "n[1", "", ","} {
		f.Add(s, "a slots=8\nb\nn[1-3]:2\nfd00::3")
	}
	f.Add(strings.Repeat("o", 89), "A") // a name longer than what an error quotes
	f.Fuzz(func(t *testing.T, list, file string) {
		hosts, err := Parse("hosts", strings.NewReader(file))
		if err != nil {
			return
		}
		left, err := Exclude(hosts, list)
		if err != nil {
			checkWellFormed(t, err)
			return
		}
		if len(left) == 0 || len(left) >= len(hosts) {
			t.Fatalf("%q: got %v of %v", list, left, hosts)
		}
		for len(left) > 0 && len(hosts) > 0 {
			if hosts[0] == left[0] {
				left = left[1:]
			}
			hosts = hosts[1:]
		}
		if len(left) > 0 {
			t.Fatalf("%q: %v is no host of the file", list, left[0])
		}
	})
}

// checkNoneLost fails if a line of text without comments and ranges that starts with
// a plain name has no host.
func checkNoneLost(t *testing.T, text string, hosts []Host) {
	t.Helper()
	if strings.ContainsAny(text, "#/[^") {
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
	for _, s := range []string{"a:4,b", "a: 2, b: 2", "n[1-3,2]:2,ann@c", "[fd00::2]:2222,fd00::3", "a,", "a:*,b:auto", "a=2", "#@a", "n[1", "]", ":", "@", "+n2,+n0:1", "^b", "n[1-3],^n2", "+n", "+e:2", "10.0.0.3:4:x"} {
		f.Add(s, "a slots=8\nb\nn[1-3]:2\nfd00::3")
	}
	f.Add(strings.Repeat("o", 89), "A") // a name longer than what an error quotes
	f.Fuzz(func(t *testing.T, list, file string) {
		if hosts, err := Parse("hosts", strings.NewReader(file)); err == nil {
			checkFilter(t, hosts, list)
		}
		hosts, err := ParseList(list)
		if err != nil {
			checkWellFormed(t, err)
			return
		}
		checkHosts(t, hosts)
	})
}

// checkFilter fails unless Filter gives hosts of the file, in its order, with no more
// slots than there: exactly the list's, if that is a list by itself and leaves none out.
func checkFilter(t *testing.T, file []Host, text string) {
	t.Helper()
	hosts, err := Filter(file, text)
	if err != nil {
		checkWellFormed(t, err)
		return
	}
	list, err := ParseList(text)
	if err == nil && len(hosts) != len(list) && !strings.Contains(text, "^") {
		t.Fatalf("got %d hosts; want %d", len(hosts), len(list))
	}
	next := 0
	for _, h := range hosts {
		for next < len(file) && file[next].Name != h.Name {
			next++
		}
		if next == len(file) || file[next].Slots >= 0 && h.Slots > file[next].Slots {
			t.Fatalf("%q: got %+v of %+v", text, h, file)
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
