package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// mpiProgram compiles testdata/mpi.c with Debian's MPICH, once, into every host's PATH.
var mpiProgram = sync.OnceValue(func() error {
	out, err := exec.Command("mpicc.mpich", "-Wall", "-Werror", "-o", programs+"/mpi-e2e", "testdata/mpi.c").CombinedOutput()
	if err != nil {
		return fmt.Errorf("mpicc.mpich: %w\n%s", err, out)
	}
	return nil
})

// needMPI returns the program's name, or skips the test where there is no MPICH.
func needMPI(t *testing.T) string {
	t.Helper()
	need(t)
	if _, err := exec.LookPath("mpicc.mpich"); err != nil && os.Getenv("CI") == "" {
		t.Skip("no mpicc.mpich (packages mpich and libmpich-dev)")
	}
	if err := mpiProgram(); err != nil {
		t.Fatal(err)
	}
	return "mpi-e2e"
}

// wantPrinted checks what the ranks printed, in any order.
func wantPrinted(t *testing.T, e ended, want ...string) {
	t.Helper()
	got := lines(e.stdout)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q; want %q; stderr:\n%s", got, want, e.stderr)
	}
}

// each is a line for every rank.
func each(size int, text func(rank int) string) []string {
	var out []string
	for rank := range size {
		out = append(out, text(rank))
	}
	return out
}

// A program built with MPICH runs as it is.
func TestMPI(t *testing.T) {
	t.Parallel()
	program := needMPI(t)
	nodes := hosts(t, 2)
	file := hostfile(t, nodes, "slots=4")
	e := gorun(t, []string{"-np", "8", "-hostfile", file, program, "hello"})
	e.want(t, 0)
	wantPrinted(t, e, each(8, func(rank int) string { return fmt.Sprintf("rank %d of 8", rank) })...)

	e = gorun(t, []string{"-np", "4", "--map-by", "node", "-hostfile", file, program, "split", "leave"})
	e.want(t, 0)
	wantPrinted(t, e, each(4, func(rank int) string { return fmt.Sprintf("rank %d: %d of 2 on its host", rank, rank/2) })...)
}

func TestMPIAbort(t *testing.T) {
	t.Parallel()
	program := needMPI(t)
	nodes := hosts(t, 2)
	e := gorun(t, []string{"-H", nodes[0] + ":1," + nodes[1] + ":2", program, "abort"})
	e.want(t, 7, "gorun: rank 2 on "+nodes[1]+" called MPI_Abort(7), ", "; 2 other ranks stopped")
}

// What MPI's own messages do not tell is said.
func TestMPIMisused(t *testing.T) {
	t.Parallel()
	program := needMPI(t)
	nodes := hosts(t, 1)
	twice := program + " hello; " + program + " hello; exit $?"
	args := []string{"-H", nodes[0]}
	e := gorun(t, sh(args, twice))
	e.want(t, 141, "warning: rank 0 on "+nodes[0]+" was ended by SIGPIPE after MPI_Finalize, as a second MPI program in a rank is: it may be one once in its life")
	wantPrinted(t, e, "rank 0 of 1")
	e = gorun(t, sh(append(args, "--pmi", "port"), twice))
	e.want(t, e.code, "warning: "+nodes[0]+": rank 0 begins MPI a second time, which is refused: it may be an MPI program once in its life")
	e = gorun(t, append(args, "bash", "-c", "exec 30>&-; exec "+program+" hello"))
	e.want(t, e.code, "hint: what starts the program has closed descriptor 30, by which MPI reaches gorun; --pmi port does without")
}

func TestSlowMPI(t *testing.T) {
	t.Parallel()
	program := needMPI(t)
	nodes := hosts(t, 2)
	file := hostfile(t, nodes, "slots=4")
	sums := each(8, func(rank int) string { return fmt.Sprintf("rank %d: sum 36", rank) })
	for _, tt := range []struct {
		name string
		args string
		want []string
	}{
		{"allreduce", "-np 8 -hostfile FILE PROGRAM allreduce leave", sums},
		{"port", "--pmi port -np 8 -hostfile FILE PROGRAM allreduce leave", sums},
		{"by-node", "--map-by node -np 8 -hostfile FILE PROGRAM allreduce leave", sums},
		{"wrapper", "-np 8 -hostfile FILE bash -c", sums},
		{"sent", "-np 8 -hostfile FILE --bcast PROGRAMS/PROGRAM allreduce leave", sums},
		{"ring", "-np 8 -hostfile FILE PROGRAM ring leave", []string{"ring: 28"}},
		{"pi", "-np 8 -hostfile FILE PROGRAM pi leave", []string{"pi: 3.141593"}},
		{"split", "-np 6 -hostfile FILE PROGRAM split leave", []string{
			"rank 0: 0 of 4 on its host", "rank 1: 1 of 4 on its host", "rank 2: 2 of 4 on its host", "rank 3: 3 of 4 on its host",
			"rank 4: 0 of 2 on its host", "rank 5: 1 of 2 on its host"}},
		{"programs", "-hostfile FILE -np 1 PROGRAM number leave : -np 2 PROGRAM number leave", []string{
			"rank 0: program 0", "rank 1: program 1", "rank 2: program 1"}},
		{"one-host", "-np 8 --oversubscribe PROGRAM allreduce", sums},
		{"one-host-by-port", "-np 8 --oversubscribe --pmi port PROGRAM allreduce", sums},
		{"alone", "-np 1 PROGRAM pi", []string{"pi: 3.141593"}},
		{"none", "--pmi none -np 2 PROGRAM hello", []string{"rank 0 of 1", "rank 0 of 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := strings.Fields(strings.NewReplacer("FILE", file, "PROGRAMS", programs, "PROGRAM", program).Replace(tt.args))
			if tt.name == "wrapper" {
				args = append(args, "exec 3>/dev/null; "+program+" allreduce leave; exit $?")
			}
			e := gorun(t, args)
			e.want(t, 0)
			wantPrinted(t, e, tt.want...)
		})
	}
}

// A rank that ends while the others are in MPI_Finalize is named, and nobody hangs.
func TestSlowMPIQuits(t *testing.T) {
	t.Parallel()
	program := needMPI(t)
	nodes := hosts(t, 2)
	for _, way := range []string{"fd", "port"} {
		e := gorun(t, []string{"--pmi", way, "-H", nodes[0] + ":1," + nodes[1] + ":1", program, "quit"})
		e.want(t, 1, "gorun: rank 1 on "+nodes[1]+" ended without MPI_Finalize while others wait for it, ")
	}
}

// Debian's own launcher runs inside of a rank as ever.
func TestSlowMPIExec(t *testing.T) {
	t.Parallel()
	program := needMPI(t)
	if _, err := exec.LookPath("mpiexec.hydra"); err != nil {
		t.Skip("no mpiexec.hydra")
	}
	e := gorun(t, []string{"-np", "1", "--", "mpiexec.hydra", "-n", "2", program, "hello"})
	e.want(t, 0)
	wantPrinted(t, e, "rank 0 of 2", "rank 1 of 2")
}
