// Package gorun_test checks what holds for the module as a whole: which package may
// import which, and that the programs are linked as promised.
package gorun_test

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "gorun"

// rule lists packages for those under a path, and says why.
// "./x" is this module's package x, "x/..." is x and everything under it.
type rule struct {
	of     string
	list   []string
	reason string
}

// rules lists what a package may import besides the standard library. The rule with the
// longest path counts; every package needs one.
var rules = []rule{
	{"cmd/gorun", []string{"./hostfile", "./launcher/...", "./envsync", "./rendezvous/...", "./preflight/...", "github.com/spf13/pflag", "github.com/BurntSushi/toml", "golang.org/x/..."},
		"the command uses every part but backend, which belongs into ranks"},
	{"hostfile", nil, "hosts are read without any other part"},
	{"launcher", []string{"./hostfile", "./envsync", "./rendezvous", "./rendezvous/pmi", "./preflight/topo", "golang.org/x/sync/...", "golang.org/x/sys/unix", "./launcher/wire", "./launcher/transport", "./launcher/output", "./launcher/bcast"},
		"the head never contains the agent's code: what it knows of a host comes by wire"},
	{"launcher/bcast", nil, "what a file is, and who passes it on, is a pure function of values"},
	{"launcher/wire", nil, "frames and messages know nothing of ssh or processes"},
	{"launcher/transport", []string{"./hostfile", "./envsync", "./launcher/wire", "golang.org/x/crypto/...", "golang.org/x/term", "golang.org/x/sys/unix", "github.com/skeema/knownhosts", "github.com/kevinburke/ssh_config"},
		"a transport gives a byte stream (past wire's first line) and knows nothing of jobs"},
	{"launcher/agent", []string{"./launcher/wire", "./launcher/bcast", "./envsync", "./rendezvous/...", "./preflight/facts", "./preflight/probe", "golang.org/x/sys/..."},
		"the agent starts in milliseconds on every host, and never contains the head"},
	{"launcher/output", nil, "output merges bytes, whoever sends them"},
	{"envsync", nil, "the environment is a pure function of values"},
	{"rendezvous", []string{"./envsync"}, "ranks link it, and should link little else"},
	{"rendezvous/pmi", []string{"./rendezvous"}, "PMI is a dialect of the same store"},
	{"rendezvous/gossip", []string{"github.com/hashicorp/memberlist"}, "gossip is independent of the ssh connections"},
	{"preflight", []string{"./hostfile", "./preflight/facts", "./preflight/probe", "./preflight/topo"}, "checks judge facts, wherever these come from"},
	{"preflight/child", []string{"golang.org/x/sys/..."}, "it runs programs, and knows none"},
	{"preflight/facts", []string{"./preflight/topo", "./preflight/child", "golang.org/x/sys/..."}, "facts are collected on every host"},
	{"preflight/facts/factstest", []string{"./preflight/facts"}, "it makes facts for tests"},
	{"preflight/topo", nil, "topology is a pure function of text"},
	{"preflight/probe", []string{"./preflight/child", "golang.org/x/sys/..."}, "probes run between agents"},
	{"preflight/report", []string{"./hostfile", "./envsync", "./preflight", "./preflight/facts", "./preflight/topo"}, "a report renders findings, and what hosts look like"},
	{"backend", []string{"./rendezvous", "./envsync"}, "ranks link it, and should link little else"},
	{"backend/cpu", []string{"./backend", "./rendezvous", "./envsync", "golang.org/x/sys/..."}, "ranks link it, and should link little else"},
	{"backend/nccl", []string{"./backend", "./rendezvous", "./envsync"}, "ranks link it, and should link little else"},
	{"backend/backendtest", []string{"./backend"}, "the suite knows no single backend"},
	{"examples", []string{"./backend", "./backend/cpu", "./backend/nccl", "./rendezvous"}, "an example uses what an outside program can use"},
	{"scripts/simhosts", []string{"./launcher/wire", "golang.org/x/..."}, "it speaks the agent's part and knows nothing of the head"},
	{"scripts/storebench", []string{"./rendezvous"}, "it is a rank, and uses what an outside program can use"},
	{"scripts", []string{"golang.org/x/..."}, "a bench stands beside gorun, not on it"},
	{"e2e", nil, "end-to-end tests use the programs, not the packages"},
}

// never lists what a package must not contain even through others.
var never = []rule{
	{"launcher/agent", []string{"./launcher", "./launcher/transport", "golang.org/x/crypto/..."}, "the agent starts in milliseconds on every host, and never contains the head"},
	{"rendezvous", []string{"golang.org/x/crypto/...", "./launcher/...", "github.com/hashicorp/...", "net/http"}, "ranks link it, and should link little else"},
	{"launcher", []string{"./launcher/agent"}, "the head never contains the agent's code"},
	{"backend", []string{"golang.org/x/crypto/...", "./launcher/...", "github.com/hashicorp/memberlist", "net/http"}, "a rank program links neither ssh nor memberlist"},
	{"backend/cpu", []string{"golang.org/x/crypto/...", "./launcher/...", "github.com/hashicorp/memberlist", "net/http"}, "a rank program links neither ssh nor memberlist"},
	{"examples", []string{"golang.org/x/crypto/...", "./launcher/...", "github.com/hashicorp/memberlist", "net/http"}, "a rank program links neither ssh nor memberlist"},
}

type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

func TestImportRules(t *testing.T) {
	packages := list(t)
	for _, p := range packages {
		if !ours(p.ImportPath) {
			continue
		}
		r, ok := ruleFor(rules, p.ImportPath)
		if !ok {
			t.Errorf("%s has no rule: say in imports_test.go what it may import, and why", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if !packages[imported].Standard && !matches(r.list, imported) {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, r.reason)
			}
		}
	}
}

func TestLinkedPackages(t *testing.T) {
	for _, p := range list(t) {
		r, ok := ruleFor(never, p.ImportPath)
		// A rule for launcher says nothing of its sub-packages, which have their own.
		if !ok || (p.ImportPath != module+"/"+r.of && r.of != "examples") {
			continue
		}
		for _, dep := range p.Deps {
			if dep != p.ImportPath && matches(r.list, dep) {
				t.Errorf("%s contains %s: %s", p.ImportPath, dep, r.reason)
			}
		}
	}
}

func TestStaticBinary(t *testing.T) {
	noticeChanges(t)
	out := filepath.Join(t.TempDir(), "gorun")
	cmd := exec.Command("go", "build", "-o", out, "./cmd/gorun")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, text)
	}
	binary, err := elf.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer binary.Close()
	for _, segment := range binary.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("gorun asks for a dynamic linker: it must run on any host it is copied to")
		}
	}
}

// list returns every package that this module's packages contain, tests excluded.
func list(t *testing.T) map[string]pkg {
	t.Helper()
	noticeChanges(t)
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", "./...")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	packages := map[string]pkg{}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		packages[p.ImportPath] = p
	}
}

// noticeChanges reads every directory, which makes go test run these tests anew, instead
// of telling what it remembers, when a file of any package has changed.
func noticeChanges(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.Name() == ".git" {
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func ours(path string) bool {
	return strings.HasPrefix(path, module+"/")
}

// ruleFor finds the rule with the longest path that path is, or lies under.
func ruleFor(rules []rule, path string) (rule, bool) {
	var best rule
	for _, r := range rules {
		if under(module+"/"+r.of, path) && len(r.of) > len(best.of) {
			best = r
		}
	}
	return best, best.of != ""
}

// matches reports whether one of the patterns names path.
func matches(patterns []string, path string) bool {
	for _, pattern := range patterns {
		if name, ok := strings.CutPrefix(pattern, "./"); ok {
			pattern = module + "/" + name
		}
		if pattern == path {
			return true
		}
		if dir, ok := strings.CutSuffix(pattern, "/..."); ok && under(dir, path) {
			return true
		}
	}
	return false
}

func under(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
