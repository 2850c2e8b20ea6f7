package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorun/launcher"
)

// dryRun lays the ranks of a command line out, and returns why they do not fit.
func dryRun(t *testing.T, args []string) (options, error) {
	t.Helper()
	c := &command{env: environment{"GORUN_CONFIG=none"}}
	o, err := c.options(args)
	if err != nil {
		return o, err
	}
	job, err := c.newJob(o)
	if err != nil {
		return o, err
	}
	return o, launcher.DryRun(new(strings.Builder), job, 4, 0)
}

func TestSlotsHints(t *testing.T) {
	t.Chdir(t.TempDir())
	writeHosts(t, "2+2", 2, 2)
	writeHosts(t, "4+2", 4, 2)
	writeHosts(t, "8+8", 8, 8)
	tests := map[string]struct{ args, want string }{
		"too-many":           {"-f 2+2 -np 5", "add a host, lower -np to 4, or pass --oversubscribe"},
		"as-typed":           {"-f 2+2 -n 5", "add a host, lower -n to 4, or pass --oversubscribe"},
		"attached":           {"-f 2+2 -n5", "add a host, lower -n to 4, or pass --oversubscribe"},
		"refused":            {"-f 2+2 -np 5 --nooversubscribe", "add a host or lower -np to 4"},
		"refused-mapping":    {"-f 2+2 -np 5 --map-by slot:NOOVERSUBSCRIBE", "add a host or lower -np to 4"},
		"oversubscribed":     {"-f 2+2 -ppn 2 -np 5 --oversubscribe", "add a host, raise -ppn to 3, or lower -np to 4"},
		"per-host":           {"-f 2+2 -N 1 -np 4", "add 2 hosts, raise -N to 2, or lower -np to 2"},
		"beyond-the-slots":   {"-f 2+2 -npernode 1 -np 5", "add 3 hosts or lower -np to 2"},
		"more-than-slots":    {"-f 2+2 -perhost 3", "lower -perhost to 2 or pass --oversubscribe"},
		"uneven":             {"-f 4+2 -ppn 3", "lower -ppn to 2 or pass --oversubscribe"},
		"uneven-with-ranks":  {"-f 4+2 -ppn 2 -np 6", "add a host, raise -ppn to 4, or lower -np to 4"},
		"beyond-one":         {"-f 2+2 -ppn 3 -np 4", "lower -ppn to 2, lower -np to 2, or pass --oversubscribe"},
		"mapping":            {"-f 8+8 --map-by ppr:2:node -np 16", "add 6 hosts, raise --map-by to ppr:8:node, or lower -np to 4"},
		"mapping-with-more":  {"-f 8+8 -mapby PPR:2:node:PE=1 -np 6", "add a host, raise -mapby to PPR:3:node:PE=1, or lower -np to 4"},
		"parameter":          {"-f 8+8 --mca rmaps_ppr_n_pernode 2 -np 6", "add a host, raise --mca rmaps_ppr_n_pernode to 3, or lower -np to 4"},
		"mapping-parameter":  {"-f 8+8 --mca rmaps_base_mapping_policy ppr:2:node -np 6", "add a host, raise --mca rmaps_base_mapping_policy to ppr:3:node, or lower -np to 4"},
		"in-turn":            {"-f 4+2 --map-by node -ppn 1 -np 5", "add 3 hosts, raise -ppn to 3, or lower -np to 2"},
		"of-the-list":        {"-H a:2,b -np 9", "add a host, lower -np to 3, or pass --oversubscribe"},
		"second-program":     {"-f 2+2 -np 3 true : -n 2", "add a host, lower -n to 1, or pass --oversubscribe"},
		"first-program":      {"-f 2+2 -np 5 true : -n 1", "add a host, lower -np to 3, or pass --oversubscribe"},
		"programs-per-host":  {"-f 2+2 -ppn 2 true :", "lower -ppn to 1 or pass --oversubscribe"},
		"without-per-host":   {"-f 4+2 -ppn 3 -np 6 --map-by node", "add a host, leave -ppn out, lower -np to 5, or pass --oversubscribe"},
		"no-way-but-fewer":   {"-f 2+2 -np 70 --oversubscribe -ppn 1", "add 68 hosts, raise -ppn to 35, or lower -np to 2"},
		"more-than-there-is": {"-f 2+2 -np 70000", "a job has at most 65536 ranks"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args := append(strings.Fields(tt.args), "true")
			o, err := dryRun(t, args)
			e, ok := errors.AsType[*launcher.SlotsError](err)
			if !ok {
				t.Fatalf("got %v; want a SlotsError", err)
			}
			got := slotsHint(e, o)
			if got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
			for _, way := range strings.Split(strings.ReplaceAll(strings.ReplaceAll(got, ", or ", ", "), " or ", ", "), ", ") {
				if strings.HasPrefix(way, "a job") {
					continue
				}
				if _, err := dryRun(t, follow(t, args, way)); err != nil {
					t.Errorf("%q, followed in %q: %v", way, follow(t, args, way), err)
				}
			}
		})
	}
}

// A list that is offered in place of the one that was typed has its users, and does.
func TestSlotsHintOfAList(t *testing.T) {
	for list, want := range map[string]string{"ann@a,b": "-H ann@a:3,b:3", "a,b,a": "-H a:3,b:3", "a:1,b": ""} {
		args := []string{"-H", list, "-np", "5", "true"}
		o, err := dryRun(t, args)
		hints := strings.Join(errorReport(err, o).hints, "\n")
		if !strings.HasSuffix(hints, want) || want == "" && strings.Contains(hints, "-H") {
			t.Errorf("%s: got hints %q; want %q", list, hints, want)
		}
		if want != "" {
			args[1] = strings.TrimPrefix(want, "-H ")
			if _, err := dryRun(t, args); err != nil {
				t.Errorf("%q: %v", args, err)
			}
		}
	}
	args := []string{"-H", "a,b", "-np", "3000", "true"} // no list takes 1500 for a number of slots
	o, err := dryRun(t, args)
	if hints := strings.Join(errorReport(err, o).hints, "\n"); strings.Contains(hints, "-H") {
		t.Errorf("got hints %q; want no list", hints)
	}
}

// So does one for a program of several, whose own hosts alone are named.
func TestSlotsHintOfProgramsLists(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("app", []byte("-np 1 x\n-np 3 y\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ args, hosts, want, follow string }{
		"its-own":     {"-host a -n 1 x : -host b,c -n 3 y", "bc", "-H b:2,c:2", "-host a -n 1 x : -H b:2,c:2 -n 3 y"},
		"the-first":   {"-host a -n 2 x : -host b -n 1 y", "a", "-H a:2", "-H a:2 -n 2 x : -host b -n 1 y"},
		"shared":      {"-host a -n 1 x : -host a,b -n 2 y", "ab", "-H a:2,b:2", "-host a -n 1 x : -H a:2,b:2 -n 2 y"},
		"all":         {"-host a,b -n 2 x : -n 1 y", "ab", "", ""},
		"excluded":    {"--exclude b -host a -n 1 x : -host b -n 1 y", "", "--exclude leaves none of its hosts", ""},
		"file":        {"-H a,b --app app", "ab", "-H a:3,b:3", "-H a:3,b:3 --app app"},
		"file-halved": {"-H a,b:4 --app app --exclude b", "a", "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o, err := dryRun(t, strings.Fields(tt.args))
			e, ok := errors.AsType[*launcher.SlotsError](err)
			if !ok {
				t.Fatalf("got %v; want a SlotsError", err)
			}
			hosts := ""
			for _, h := range e.Hosts {
				hosts += h.Name
			}
			hints := strings.Join(errorReport(err, o).hints, "\n")
			if hosts != tt.hosts || !strings.HasSuffix(hints, tt.want) || tt.want == "" && strings.Contains(hints, "-H") {
				t.Errorf("got hosts %q and hints %q; want %q and %q", hosts, hints, tt.hosts, tt.want)
			}
			if tt.follow != "" {
				if _, err := dryRun(t, strings.Fields(tt.follow)); err != nil {
					t.Errorf("%q: %v", tt.follow, err)
				}
			}
		})
	}
}

func writeHosts(t *testing.T, name string, slots ...int) {
	t.Helper()
	var text strings.Builder
	for i, n := range slots {
		fmt.Fprintf(&text, "h%d slots=%d\n", i, n)
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
}

// follow does what one way of a hint says, as who reads it does.
func follow(t *testing.T, args []string, way string) []string {
	t.Helper()
	args = slices.Clone(args)
	words := strings.Fields(way)
	switch words[0] {
	case "raise", "lower": // FLAG to VALUE, where the flag may be --mca NAME
		flag, value := words[1:len(words)-2], words[len(words)-1]
		for i := len(args) - 1; i >= 0; i-- { // that of the last program
			last := i + len(flag)
			if last < len(args) && slices.Equal(args[i:last], flag) {
				args[last] = value
				return args
			}
			if len(flag) == 1 && strings.TrimRight(args[i], "0123456789") == flag[0] {
				args[i] = flag[0] + value
				return args
			}
		}
	case "leave":
		i := slices.Index(args, words[1])
		return slices.Delete(args, i, i+2)
	case "pass":
		return slices.Insert(args, 0, words[1])
	case "add":
		n := 1
		fmt.Sscan(words[1], &n)
		return addHosts(t, args, n)
	}
	t.Fatalf("nobody can follow %q in %q", way, args)
	return nil
}

// addHosts adds hosts to the file or the list that args name.
func addHosts(t *testing.T, args []string, n int) []string {
	t.Helper()
	if i := slices.Index(args, "-H"); i >= 0 {
		args[i+1] += ",new:64"
		return args
	}
	i := slices.Index(args, "-f")
	data, err := os.ReadFile(args[i+1])
	if err != nil {
		t.Fatal(err)
	}
	for k := range n {
		data = fmt.Appendf(data, "new%d slots=64\n", k)
	}
	args[i+1] = filepath.Join(t.TempDir(), "more")
	if err := os.WriteFile(args[i+1], data, 0o666); err != nil {
		t.Fatal(err)
	}
	return args
}

func TestSlotsOfSparesAreTold(t *testing.T) {
	e := &launcher.SlotsError{Need: 6, Have: 4, Hosts: []launcher.HostSlots{{Name: "a", Slots: 4}}}
	const want = "--spares 1 keeps 1 host in reserve, whose slots do not count"
	for _, spares := range []int{0, 1} {
		got := slotsReport(e, options{preflight: preflightOptions{spares: spares}}).hints
		if slices.Contains(got, want) != (spares > 0) {
			t.Errorf("with %d spares got %q", spares, got)
		}
	}
}
