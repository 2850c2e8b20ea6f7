package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorun/preflight"
	"gorun/preflight/facts"
	"gorun/preflight/facts/factstest"
	"gorun/preflight/probe"
)

// savedOf are saved facts of so many hosts with GPUs.
func savedOf(n int) savedFacts {
	s := savedFacts{Version: savedVersion, Input: preflight.Input{Mode: preflight.Full, Job: preflight.Job{Ranks: 8 * n, GPU: true}}}
	for i := range n {
		h := preflight.Host{Name: fmt.Sprintf("gpu%02d", i), Ranks: 8}
		h.Facts = factstest.H100(h.Name, i+1)
		for k := range n {
			if k != i {
				h.Links = append(h.Links, probe.Link{Host: k, Latency: 1000, BytesPerSecond: 1e9, MTU: 1500})
			}
		}
		s.Input.Hosts, s.Shape.Slots = append(s.Input.Hosts, h), append(s.Shape.Slots, 8)
	}
	return s
}

// judgeText judges a file of facts and renders what is found in all ways.
func judgeText(data []byte) (page, error) {
	o := options{preflight: preflightOptions{only: true}}
	s, err := parseFacts(data)
	if err != nil {
		return page{}, err
	}
	p, err := o.judgeFacts(s)
	if err != nil {
		return p, err
	}
	o.preflight.html = "/dev/null"
	for _, err := range p.write(o.preflight) {
		return p, err
	}
	for _, o := range []options{{verbose: true}, {preflight: preflightOptions{json: true}}} {
		if err := p.print(io.Discard, o, true, 80); err != nil {
			return p, err
		}
	}
	verdictReport(&verdictError{page: p}, o)
	return p, nil
}

// What is wrong with a file is said, and what no host can tell does no harm.
func TestSavedFacts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*savedFacts)
		want   string // of the headline, or the error
	}{
		{"good", func(*savedFacts) {}, "go: 3 hosts, 24 ranks"},
		{"negative-slots", func(s *savedFacts) { s.Shape.Slots[0] = -1 }, "-1 slots, ranks or hosts"},
		{"huge-slots", func(s *savedFacts) { s.Shape.Slots[0] = 1e9 }, "1000000000 slots, ranks or hosts"},
		{"huge-multiple", func(s *savedFacts) { s.Shape.Multiple = 1e15 }, "slots, ranks or hosts"},
		{"too-many-slots", func(s *savedFacts) { s.Shape.Slots = make([]int, 4) }, "slots or ranks of more hosts than the 3"},
		{"huge-ranks", func(s *savedFacts) { s.Input.Hosts[1].Ranks = 1e9 }, `1000000000 ranks on "gpu01"`},
		{"no-name", func(s *savedFacts) { s.Input.Hosts[1].Name = "" }, "host 2 has no name"},
		{"twice", func(s *savedFacts) { s.Input.Hosts[1].Name = "gpu00" }, `the host "gpu00" is in it twice`},
		{"newer-facts", func(s *savedFacts) { s.Input.Hosts[1].Facts.Version = 9 }, "are of version 9"},
		{"links-to-nowhere", func(s *savedFacts) {
			s.Input.Hosts[0].Links = []probe.Link{{Host: -1}, {Host: 99}, {Host: 0}, {Host: 1e9, Failure: probe.Failure("?")}}
		}, ""},
		{"gpus-that-are-not", func(s *savedFacts) { s.Input.Hosts[0].GPUs = []int{-5, 1e9} }, ""},
		{"mode", func(s *savedFacts) { s.Input.Mode = "everything" }, "go: 3 hosts"},
		{"no-facts", func(s *savedFacts) { s.Input.Hosts[0].Facts = facts.Host{} }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := savedOf(3)
			tt.change(&s)
			data, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			p, err := judgeText(data)
			got := p.decision.Headline()
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

// What is no file of facts is an error of usage that says where it is none.
func TestNoFacts(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "f.json")
	for _, tt := range []struct{ name, text, want string }{
		{"empty", " \n", ": it is empty"},
		{"null", "null", ": no facts of hosts are in it"},
		{"hostfile", "# hosts\ngpu01 slots=8\n", ":1: not JSON: `# hosts`"},
		{"second-line", "{\"version\": 1,\n \"input\": {\"hosts\": [}}\n", ":2: not JSON: `}}`"},
		{"cut", "{\"version\": 1,\n \"input\": {\"hosts\":\n\n", ":2: not JSON: the file ends behind ` \"input\": {\"hosts\":`; is it whole?"},
		{"two", `{"version": 1} {"x": 1}`, ":1: not JSON: `{\"x\": 1}`"},
		{"long-line", strings.Repeat("x", 500), ":1: not JSON: `" + strings.Repeat("x", 40) + "`"},
		{"binary", "\x00\xff\x1b[31m", `:1: not JSON: "\x00?\x1b[31m"`},
		{"deep", strings.Repeat("[", 20000), ":1: nested too deeply"},
		{"list", "[]", ":1: the whole: a value of the wrong kind: array"},
		{"kind", "{\n\"version\": 1.5}", ":2: version: a value of the wrong kind: number 1.5"},
		{"kind-inside", `{"input": {"hosts": [{"name": "a", "ranks": "x"}]}}`, ":1: input.hosts.ranks: a value of the wrong kind: string"},
		{"no-version", `{"input": {"hosts": [{"name": "a"}]}}`, ": it is of version 0, which there is not"},
		{"later-version", `{"version": 2, "input": {"hosts": [{"name": "a"}]}}`, ": it is of version 2, and this gorun knows up to 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			wantNoFacts(t, file, tt.want)
		})
	}
	t.Run("directory", func(t *testing.T) { wantNoFacts(t, dir, ": is a directory") })
	t.Run("missing", func(t *testing.T) { wantNoFacts(t, filepath.Join(dir, "none"), ": no such file or directory") })
	t.Run("device", func(t *testing.T) { wantNoFacts(t, "/dev/zero", ": not a regular file") })
	t.Run("huge", func(t *testing.T) {
		if err := os.Truncate(file, maxSaved+1); err != nil {
			t.Fatal(err)
		}
		wantNoFacts(t, file, ": larger than 1 GiB, which such a file is not")
	})
}

func wantNoFacts(t *testing.T, file, want string) {
	t.Helper()
	_, err := loadFacts(file)
	e, ok := errors.AsType[*usageError](err)
	if !ok || e.msg != "--facts "+file+want || len(e.hints) != 1 || !strings.Contains(e.hints[0], "--save-facts FILE") {
		t.Errorf("got %+v; want --facts %s%s", err, file, want)
	}
}

// Saved facts are judged for another number of ranks.
func TestReplan(t *testing.T) {
	for _, tt := range []struct {
		o    options
		want string
	}{
		{options{np: 8}, "go: 1 host, 8 ranks"},
		{options{np: 24}, "go: 3 hosts, 24 ranks"},
		{options{np: 25}, "need 25 slots, hosts offer 24"},
		{options{np: 25, oversubscribe: true}, "go: 3 hosts, 25 ranks"},
		{options{np: 16, preflight: preflightOptions{spares: 1}}, "go: 2 hosts, 16 ranks"},
	} {
		s := savedOf(3)
		s.Shape.Ranks = []int{8, 0, 0}
		p, err := tt.o.judgeFacts(s)
		got := p.decision.Headline()
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%d ranks: got %q; want %q", tt.o.np, got, tt.want)
		}
	}
}

func FuzzSavedFacts(f *testing.F) {
	for _, n := range []int{1, 2, 3} {
		data, err := json.Marshal(savedOf(n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("# hosts\ngpu01 slots=8\n"))
	f.Add([]byte(`{"version": 1.5}`))
	f.Add([]byte(`{"version":1,"input":{"hosts":[{"name":"a","facts":null,"gpus":[-1],"links":[{"host":-1}]},{"name":"b","unreached":"x"}]},"shape":{"Slots":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < 1<<20 {
			judgeText(data)
		}
	})
}
