package e2e

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Several programs on hosts of their own: rank 0 need not be on the first host, and all
// of them meet in one store.
func TestPrograms(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	const meet = `; $GORUN_EXE store put k$RANK $RANK && $GORUN_EXE store barrier b && echo met $($GORUN_EXE store get k0)$($GORUN_EXE store get k2) $MASTER_ADDR >&2`
	args := []string{"-hostfile", hostfile(t, nodes, "slots=2"), "-genv", "FOR_ALL", "1"}
	args = sh(append(args, "-np", "1", "-H", nodes[1], "-x", "OWN=a"), sayPlace+meet+`; echo own a$OWN$FOR_ALL >&2`)
	args = sh(append(args, ":", "-np", "3", "-wdir", "/tmp"), sayPlace+meet+`; echo own b$OWN$FOR_ALL$(pwd) >&2`)
	e := gorun(t, args)
	e.want(t, 0)
	want := []place{{0, 4, 0, 2, 0, nodes[1]}, {1, 4, 0, 2, 1, nodes[0]}, {2, 4, 1, 2, 1, nodes[0]}, {3, 4, 1, 2, 0, nodes[1]}}
	if got := places(t, e.stdout); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v; want %v", got, want)
	}
	said := lines(e.stderr)
	met := ""
	for _, l := range said {
		if strings.HasPrefix(l, "met ") {
			met = l
		}
	}
	if !strings.HasPrefix(met, "met 02 ") || strings.Count(e.stderr, met+"\n") != 4 {
		t.Errorf("got %q; want all four ranks to have met, with one MASTER_ADDR", said)
	}
	if strings.Count(e.stderr, "own aa1\n") != 1 || strings.Count(e.stderr, "own b1/tmp\n") != 3 {
		t.Errorf("got %q; want each program's own variables and directory", said)
	}
}

// The program of one of the parts is missing on one host: nothing starts.
func TestProgramMissing(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	e := gorun(t, append(sh([]string{"-H", nodes[0], "-np", "1"}, "echo started"), ":", "-H", nodes[1], "-np", "1", "/usr/bin/no-such"))
	e.want(t, 127, nodes[1]+`: program "/usr/bin/no-such" not found`, "nothing was started")
	if strings.Contains(e.stdout, "started") {
		t.Errorf("rank 0 was started: %q", e.stdout)
	}
	path := headDir(t) + "/prog"
	fill(t, onHost(t, "node0", "/"), map[string]string{path + "*": "#!/bin/sh\necho started\n"})
	args := []string{"-hostfile", hostfile(t, nodes, "slots=1"), path}
	e = gorun(t, args)
	e.want(t, 127, "  "+nodes[0]+", "+nodes[1]+": program ", path+" is on this machine; --bcast brings it to the hosts")
	e = gorun(t, append([]string{"--bcast", "-wdir", "/tmp"}, args...))
	e.want(t, 0)
	if e.stdout != "started\nstarted\n" {
		t.Errorf("got %q; want the program to run where the hint has it brought", e.stdout)
	}
}

func TestMapping(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	file := hostfile(t, nodes, "slots=2")
	say := sayPlace + `; echo ompi $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_LOCAL_RANK $OMPI_COMM_WORLD_NODE_RANK $OMPI_COMM_WORLD_LOCAL_SIZE $NODE_RANK $LOCAL_WORLD_SIZE >&2`
	tests := []struct {
		name, args string
		want       []place
	}{
		{"by-node", "-np 3 --map-by node", []place{{0, 3, 0, 2, 0, nodes[0]}, {1, 3, 0, 1, 1, nodes[1]}, {2, 3, 1, 2, 0, nodes[0]}}},
		{"by-node-ranked-by-slot", "-bynode --rank-by slot -np 3", []place{{0, 3, 0, 2, 0, nodes[0]}, {1, 3, 1, 2, 0, nodes[0]}, {2, 3, 0, 1, 1, nodes[1]}}},
		{"per-host", "--map-by ppr:1:node", []place{{0, 2, 0, 1, 0, nodes[0]}, {1, 2, 0, 1, 1, nodes[1]}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := gorun(t, sh(append([]string{"-v", "-hostfile", file}, strings.Fields(tt.args)...), say))
			e.want(t, 0)
			if got := places(t, e.stdout); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got %v; want %v", got, tt.want)
			}
			for _, p := range tt.want {
				if want := fmt.Sprintf("ompi %d %d %d %d %d %d\n", p.rank, p.local, p.local, p.localSize, p.node, p.localSize); !strings.Contains(e.stderr, want) {
					t.Errorf("no %q in %q", want, e.stderr)
				}
			}
			if told := strings.Contains(e.stderr, "not numbered host by host"); told != (tt.name == "by-node") {
				t.Errorf("told that ranks are not host by host: %v", told)
			}
		})
	}
}

func TestBinding(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	cpus := runtime.NumCPU() // of every host, as they are this machine
	args := []string{"-hostfile", hostfile(t, nodes, fmt.Sprintf("slots=%d", cpus)), "--bind-to", "hwthread", "--report-bindings"}
	e := gorun(t, sh(args, `echo $RANK $(sed -n 's/Cpus_allowed_list://p' /proc/self/status)`))
	e.want(t, 0)
	for _, line := range lines(e.stdout) {
		var rank, cpu int
		if _, err := fmt.Sscanf(line, "%d %d", &rank, &cpu); err != nil {
			t.Fatalf("rank may run on %q: %v", line, err)
		}
		told := regexp.MustCompile(fmt.Sprintf(`rank %d on %s \(local %d\): core %d\b|rank %d on .*, CPU %d\b`, rank, nodes[rank/cpus], rank%cpus, cpu, rank, cpu))
		if !told.MatchString(e.stderr) {
			t.Errorf("rank %d runs on CPU %d; told was\n%s", rank, cpu, e.stderr)
		}
	}
	if n := strings.Count(e.stderr, "(local 0)"); len(lines(e.stdout)) != 2*cpus || n != 2 {
		t.Errorf("got %q and %q", e.stdout, e.stderr)
	}
	// Where it cannot be done: one line for both hosts.
	e = gorun(t, append([]string{"-H", nodes[0] + ":500," + nodes[1] + ":500", "-ppn", fmt.Sprint(cpus + 1), "--bind-to", "core"}, "true"))
	slices.Sort(nodes)
	e.want(t, 0, "gorun: warning: ranks on "+nodes[0]+", "+nodes[1]+fmt.Sprintf(" are not bound: %d ranks for ", cpus+1))
	if len(lines(e.stderr)) != 1 {
		t.Errorf("got %q; want one line", e.stderr)
	}
}
