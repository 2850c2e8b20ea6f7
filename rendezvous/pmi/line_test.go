package pmi

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct{ name, line, want string }{
		{"init", "cmd=init pmi_version=1 pmi_subversion=1", `init pmi_version="1" pmi_subversion="1"`},
		{"no-fields", "cmd=barrier_in", "barrier_in"},
		{"trailing-blank", "cmd=get_maxes ", "get_maxes"},
		{"blanks", "  cmd=put   kvsname=k  key=a value=b", `put kvsname="k" key="a" value="b"`},
		{"value-with-blanks", `cmd=put kvsname=k key=a value=YWJj " -"`, `put kvsname="k" key="a" value="YWJj \" -\""`},
		{"value-with-fields", "cmd=put key=a value=b key=c", `put key="a" value="b key=c"`},
		{"empty-value", "cmd=put key=a value=", `put key="a" value=""`},
		{"equals-in-value", "cmd=get key=a=b", `get key="a=b"`},
		{"several-lines", "mcmd=spawn", "spawn..."},
		{"empty", "", "error"},
		{"no-command", "key=a", "error"},
		{"cmd-second", "key=a cmd=put", "error"},
		{"http", "GET / HTTP/1.1", "error"},
		{"no-equals", "cmd=put key", "error"},
		{"nul", "cmd=put\x00", "error"},
		{"tab", "cmd=put\tkey=a", "error"},
		{"not-ascii", "cmd=put key=\u00e9", "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := show(parse(tt.line)); got != tt.want {
				t.Errorf("%q: got %s; want %s", tt.line, got, tt.want)
			}
		})
	}
}

func show(c command, err error) string {
	if err != nil {
		return "error"
	}
	text := c.name
	if c.lines {
		text += "..."
	}
	for _, f := range c.fields {
		text += " " + f.name + "=" + `"` + strings.ReplaceAll(f.value, `"`, `\"`) + `"`
	}
	return text
}

func TestRefuse(t *testing.T) {
	got := refuse("put_result", "key \"a=b\"\n of "+strings.Repeat("x", 2000), "value", "unknown")
	if c, err := parse(got); err != nil || len(c.get("msg")) != maxName || c.get("rc") != "-1" || c.get("value") != "unknown" {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("cmd=put kvsname=k key=a value=b c=d")
	f.Add("mcmd=spawn")
	f.Add("cmd=abort exitcode=7 message=abort")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := parse(line)
		if err != nil {
			return
		}
		var pairs []string
		for _, f := range c.fields {
			pairs = append(pairs, f.name, f.value)
		}
		again, err := parse(reply(c.name, pairs...))
		if c.lines = false; err != nil || show(again, nil) != show(c, nil) {
			t.Errorf("%q: got %+v, then %+v, %v", line, c, again, err)
		}
	})
}

func TestMapping(t *testing.T) {
	many := func(n int, node func(i int) int) []int {
		out := make([]int, n)
		for i := range out {
			out[i] = node(i)
		}
		return out
	}
	for _, tt := range []struct {
		name  string
		nodes []int
		want  string
	}{
		{"one", []int{0}, "(vector,(0,1,1))"},
		{"one-host", []int{0, 0, 0}, "(vector,(0,1,3))"},
		{"even", []int{0, 0, 1, 1, 2, 2}, "(vector,(0,3,2))"},
		{"uneven", []int{0, 0, 1}, "(vector,(0,1,2),(1,1,1))"},
		{"cyclic", []int{0, 1, 0, 1}, "(vector,(0,2,1))"},
		{"not-quite-cyclic", []int{0, 1, 2, 0, 1}, "(vector,(0,3,1),(0,2,1))"},
		{"back", []int{1, 0}, "(vector,(1,1,1),(0,1,1))"},
		{"large", many(8000, func(i int) int { return i / 8 }), "(vector,(0,1000,8))"},
		{"large-cyclic", many(8000, func(i int) int { return i % 1000 }), "(vector,(0,1000,1))"},
		{"too-long", many(8000, func(i int) int { return i * i % 997 }), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := Mapping(tt.nodes)
			if got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
			if got != "" {
				checkMapping(t, got, tt.nodes)
			}
		})
	}
}

// checkMapping reads a mapping as MPICH does.
func checkMapping(t *testing.T, text string, nodes []int) {
	t.Helper()
	var blocks []block
	for _, part := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(text, "(vector,("), "))"), "),(") {
		n := strings.Split(part, ",")
		blocks = append(blocks, block{atoi(t, n[0]), atoi(t, n[1]), atoi(t, n[2])})
	}
	for rank := 0; rank < len(nodes); {
		for _, b := range blocks {
			for node := b.first; node < b.first+b.count; node++ {
				for range b.ranks {
					if rank < len(nodes) && nodes[rank] != node {
						t.Fatalf("%s: rank %d is on node %d; want %d", text, rank, node, nodes[rank])
					}
					rank++
				}
			}
		}
	}
}
