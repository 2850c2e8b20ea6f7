package main

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

// flagWord finds flags in text: a dash or two, then a letter, not inside a word.
var flagWord = regexp.MustCompile(`(^|[\s"'(,])(--?[A-Za-z][A-Za-z-]*)`)

// rshLine finds examples of --rsh, in which the flags are another command's.
var rshLine = regexp.MustCompile(`[a-z]+ [^'\n]*\{host\}[^'\n]*`)

// flagsIn returns the flags that text names, without dashes.
func flagsIn(text string) []string {
	var words []string
	text = rshLine.ReplaceAllString(text, "")
	for _, m := range flagWord.FindAllStringSubmatch(text, -1) {
		words = append(words, strings.TrimLeft(m[2], "-"))
	}
	return words
}

func TestPeersFlagsGetAnAnswer(t *testing.T) {
	tests := map[string]struct{ flags, hint string }{
		"open-mpi":   {"--am --tune", "--mca NAME VALUE"},
		"binding":    {"--cpu-bind --bind-to-core --numa-binding", "--bind-to"},
		"mapping":    {"-m --distribution --rankfile -rf", "host by host"},
		"per-node":   {"--nproc-per-node --nproc_per_node -grr --ntasks-per-node --num_gpus", "-ppn"},
		"one-each":   {"-pernode --pernode", "-ppn 1"},
		"hosts":      {"-hostlist -w --nodelist", "-H "},
		"files":      {"-outfile-pattern --output-filename --log-dir --log_dir -o", "--output-dir"},
		"labels":     {"-prepend-rank --label", "-l"},
		"env":        {"--export", "-x NAME"},
		"paths":      {"--noprefix --enable-mpirun-prefix-by-default", "not needed"},
		"rendezvous": {"--rdzv-backend --rdzv_endpoint --master-addr --master_port --node_rank --standalone", "MASTER_ADDR"},
		"horovod":    {"--network-interface --network-interfaces", "--interface"},
		"ssh":        {"--bootstrap-exec -launcher-exec", "~/.ssh/config"},
		"ssh-port":   {"-p --port", "--ssh-port N"},
		"manager":    {"-rmk --rmk", "-hostfile $PBS_NODEFILE"},
		"slots":      {"--slots", "slots=N in the hostfile"},
		"partition":  {"-p --partition -C -A", "no scheduler"},
		"modules":    {"-m --module", "python3 -m MODULE"},
		"time-limit": {"-t --time -t10 -t1:30:00", "--timeout"},
		"attached":   {"-G8 --gpus-per-task", "LOCAL_RANK"},
		"stdin":      {"-i --input -s", "--stdin"},
		"debuggers":  {"-tv -gdb", "gdbserver"},
		"signals":    {"--forward-signals --signals-to-handle", "USR1"},
		"srun":       {"--ntasks", "-np N"},
		"overcommit": {"-O --overcommit", "--oversubscribe"},
		"dry":        {"--display-topo --do-not-launch --test-only", "--dry-run"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			for f := range strings.FieldsSeq(tt.flags) {
				_, err := parseOptions([]string{f, "value", "./app"})
				e, ok := err.(*usageError)
				if !ok || e.msg != "unknown flag "+f || !strings.Contains(strings.Join(e.hints, "\n"), tt.hint) {
					t.Errorf("%s: got %#v; want a hint with %q", f, err, tt.hint)
				}
			}
		})
	}
}

func TestLinesOfOtherLaunchers(t *testing.T) {
	text, err := os.ReadFile("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for l := range strings.Lines(string(text)) {
		line, want, ok := strings.Cut(strings.TrimSpace(l), " => ")
		if strings.HasPrefix(l, "#") || l == "\n" {
			continue
		} else if !ok {
			t.Fatalf("testdata/lines.txt: %q", l)
		}
		n++
		_, err := parseOptions(strings.Fields(line))
		e, isUsage := errors.AsType[*usageError](err)
		switch {
		case want == "ok" && err != nil:
			t.Errorf("%s: got error %v; want none", line, err)
		case want != "ok" && (!isUsage || !strings.Contains(strings.Join(e.hints, "\n"), want)):
			t.Errorf("%s: got %#v; want a hint with %q", line, err, want)
		}
	}
	if n < 100 {
		t.Errorf("got %d lines; want at least 100", n)
	}
}

func TestPeersTableIsConsistent(t *testing.T) {
	words := spellings()
	seen := map[string]bool{}
	for _, p := range peers() {
		for _, w := range p.words {
			if words[w] != "" {
				t.Errorf("%s is a flag of gorun's and stands in the table of others'", w)
			}
			if seen[w] && !strings.HasPrefix(p.hint, "for ") {
				t.Errorf("%s stands in the table twice", w)
			}
			seen[w] = true
		}
		if len(p.hint) > 240 || strings.HasSuffix(strings.TrimSuffix(p.hint, "..."), ".") || strings.ToLower(p.hint[:1]) != p.hint[:1] && !strings.HasPrefix(p.hint, "Horovod") {
			t.Errorf("the hint for %q does not look like one: %q", p.words, p.hint)
		}
		hint := strings.ReplaceAll(p.hint, "python3 -m MODULE", "")
		for _, w := range flagsIn(hint) {
			if words[w] == "" {
				t.Errorf("the hint for %q names -%s, which gorun has not", p.words, w)
			}
		}
	}
}

// Every line of the table is read.
func TestPeersTableHasNoOddLines(t *testing.T) {
	lines := 0
	for l := range strings.Lines(peersText) {
		if !strings.HasPrefix(l, "#") && l != "\n" {
			lines++
		}
	}
	if got := len(peers()); got != lines || got < 50 {
		t.Errorf("%d groups of %d lines", got, lines)
	}
}

func TestHelpAndManualNameEveryFlag(t *testing.T) {
	page, err := os.ReadFile("../../docs/gorun.1")
	if err != nil {
		t.Fatal(err)
	}
	manual := regexp.MustCompile(`\\f[A-Z]|\\&`).ReplaceAllString(strings.ReplaceAll(string(page), `\-`, "-"), "")
	words := spellings()
	texts := map[string]string{"help": helpText, "manual": manual}
	for where, text := range texts {
		named := map[string]bool{}
		for _, w := range flagsIn(text) {
			named[w] = true
		}
		for w := range words {
			if !named[w] {
				t.Errorf("%s: the flag %s is missing", where, dashed(w))
			}
		}
		for w := range named {
			if words[w] == "" {
				t.Errorf("%s: names -%s, which gorun has not", where, w)
			}
		}
	}
}

func TestHelpFitsTheTerminal(t *testing.T) {
	for _, text := range []string{helpText, cleanHelp} {
		for l := range strings.Lines(text) {
			if l = strings.TrimSuffix(l, "\n"); len(l) > 80 || strings.ContainsAny(l, "\t\r") || strings.TrimRight(l, " ") != l {
				t.Errorf("line of %d columns, or with blanks that do not belong: %q", len(l), l)
			}
		}
	}
}
