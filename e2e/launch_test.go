package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestAllReduce(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 4)
	e := gorun(t, []string{"-np", "16", "-hostfile", hostfile(t, nodes, "slots=4"), "allreduce"})
	e.want(t, 0)
	said := lines(e.stdout)
	id := regexp.MustCompile(`id [0-9a-f]{16}$`).FindString(said[0])
	for rank := range 16 {
		start := fmt.Sprintf("rank %d of 16 on %s: ", rank, nodes[rank/4])
		i := slices.IndexFunc(said, func(l string) bool { return strings.HasPrefix(l, start) })
		if i < 0 || !strings.Contains(said[i], ": right, ") || id == "" || !strings.HasSuffix(said[i], id) {
			t.Errorf("no line with %q, a right sum and %q in:\n%s", start, id, e.stdout)
		}
	}
}

// place is what a rank says of where it is.
type place struct {
	rank, size, local, localSize, node int
	host                               string
}

const sayPlace = `echo place $GORUN_RANK $GORUN_SIZE $GORUN_LOCAL_RANK $GORUN_LOCAL_SIZE $GORUN_NODE_RANK $(hostname)`

// places reads what sayPlace printed, sorted by rank.
func places(t *testing.T, stdout string) []place {
	t.Helper()
	var all []place
	for _, line := range lines(stdout) {
		var p place
		if _, err := fmt.Sscanf(line, "place %d %d %d %d %d %s", &p.rank, &p.size, &p.local, &p.localSize, &p.node, &p.host); err != nil {
			t.Fatalf("a rank printed %q: %v", line, err)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b place) int { return a.rank - b.rank })
	return all
}

func TestLayout(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	file := hostfile(t, nodes, "slots=4")
	list := strings.Join(nodes, ",")
	tests := []struct {
		name string
		args []string
		want []int // ranks of each host
	}{
		{"hostfile", []string{"-np", "6", "-hostfile", file}, []int{4, 2}},
		{"all-slots", []string{"-hostfile", file}, []int{4, 4}},
		{"per-host", []string{"-ppn", "2", "-hostfile", file}, []int{2, 2}},
		{"host-list", []string{"-H", nodes[0] + ":3," + nodes[1] + ":2"}, []int{3, 2}},
		{"bare-names", []string{"-H", list}, []int{1, 1}},
		{"list-selects-from-file", []string{"-hostfile", file, "-H", nodes[1]}, []int{0, 4}},
		{"oversubscribed", []string{"-np", "4", "--oversubscribe", "-H", list}, []int{2, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := gorun(t, sh(tt.args, sayPlace))
			e.want(t, 0)
			got := map[string]int{}
			for i, p := range places(t, e.stdout) {
				if p.rank != i || p.local != got[p.host] {
					t.Errorf("got %+v; want rank %d, local rank %d: ranks go host by host", p, i, got[p.host])
				}
				got[p.host]++
			}
			want := map[string]int{}
			for i, n := range tt.want {
				if n > 0 {
					want[nodes[i]] = n
				}
			}
			if !maps.Equal(got, want) {
				t.Errorf("ranks by host: got %v; want %v", got, want)
			}
		})
	}
}

func TestLocalAndRemote(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	e := gorun(t, sh([]string{"-H", "localhost," + nodes[0]}, sayPlace))
	e.want(t, 0)
	all := places(t, e.stdout)
	if len(all) != 2 || all[0].host != "node0" || all[1].host != nodes[0] {
		t.Errorf("got %+v; want node0, %s", all, nodes[0])
	}
}

func TestOneEnvironment(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	args := []string{"-hostfile", hostfile(t, nodes, "slots=2"), "-x", "NCCL_DEBUG=INFO", "-genv", "NCCL_IB_HCA", "mlx5_0,mlx5_1"}
	e := gorun(t, sh(args, `echo $GORUN_ENV_DIGEST $NCCL_DEBUG $NCCL_IB_HCA $NCCL_SOCKET_IFNAME $MASTER_PORT $GORUN_BACKEND`), variable("NCCL_SOCKET_IFNAME=eth0"))
	e.want(t, 0)
	got := lines(e.stdout)
	if len(got) != 6 {
		t.Fatalf("got %d lines; want 6:\n%s", len(got), e.stdout)
	}
	for _, line := range got {
		if line != got[0] {
			t.Errorf("ranks differ: %q and %q", got[0], line)
		}
	}
	fields := strings.Fields(got[0])
	if len(fields) != 6 || len(fields[0]) != 33 || !slices.Equal(fields[1:4], []string{"INFO", "mlx5_0,mlx5_1", "eth0"}) {
		t.Errorf("got %q; want two digests of 16 digits, INFO mlx5_0,mlx5_1 eth0, a port, a backend", got[0])
	}
}

func TestArgumentsUnchanged(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	args := []string{"plain", "", "two words", `it's "quoted"`, "new\nline", "$HOME `id` $(id)", `back\slash`, "bang!", "*", "~", "-np", "--", "tab\tand\rreturn",
		"\xff\xfe\x80", "ü€😀", "a=b;c&d|e>f", strings.Repeat("long", 20000)}
	for _, where := range []string{"localhost", nodes[0]} {
		name := "remote"
		if where == "localhost" {
			name = "local"
		}
		t.Run(name, func(t *testing.T) {
			e := gorun(t, append([]string{"-H", where, "printf", `%s\0`}, args...))
			e.want(t, 0)
			if want := strings.Join(args, "\x00") + "\x00"; e.stdout != want {
				t.Errorf("got %q; want %q", shorten(e.stdout), shorten(want))
			}
		})
	}
}

func TestEnvironmentBytesUnchanged(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	const value = "a 'b' \"c\"\n$HOME \xff\\!"
	e := gorun(t, sh([]string{"-H", nodes[0], "-x", "ODD=" + value}, `printf %s "$ODD"`))
	e.want(t, 0)
	if e.stdout != value {
		t.Errorf("got %q; want %q", e.stdout, value)
	}
}

func TestStdin(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	text := strings.Repeat("0123456789abcdef\n", 200_000) // more than any buffer on the way
	list := strings.Join(nodes, ",")
	tests := []struct {
		name string
		args []string
		want string // bytes read by each rank
	}{
		{"rank-0", nil, fmt.Sprintf("0 %d\n1 0\n", len(text))},
		{"rank-1", []string{"--stdin", "1"}, fmt.Sprintf("0 0\n1 %d\n", len(text))},
		{"all", []string{"--stdin", "all"}, fmt.Sprintf("0 %d\n1 %d\n", len(text), len(text))},
		{"none", []string{"--stdin", "none"}, "0 0\n1 0\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := gorun(t, sh(append([]string{"-H", list}, tt.args...), `echo $GORUN_RANK $(wc -c)`), input(strings.NewReader(text)))
			e.want(t, 0)
			got := lines(e.stdout)
			slices.Sort(got)
			if s := strings.Join(got, "\n") + "\n"; s != tt.want {
				t.Errorf("got %q; want %q", s, tt.want)
			}
		})
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	file := hostfile(t, nodes, "slots=4")
	const speak = `i=0; while [ $i -lt 500 ]; do echo "rank $GORUN_RANK says line $i in one piece"; echo "rank $GORUN_RANK errs $i" >&2; i=$((i + 1)); done`

	t.Run("whole-lines", func(t *testing.T) {
		e := gorun(t, sh([]string{"-hostfile", file}, speak))
		e.want(t, 0)
		wantLines(t, e.stdout, 8*500, `rank %d says line %d in one piece`)
		wantLines(t, e.stderr, 8*500, `rank %d errs %d`)
	})
	t.Run("tagged", func(t *testing.T) {
		e := gorun(t, sh([]string{"-hostfile", file, "-l"}, speak))
		e.want(t, 0)
		for rank := range 8 {
			tag := fmt.Sprintf("[%d %s] rank %d says", rank, nodes[rank/4], rank)
			if n := strings.Count(e.stdout, tag); n != 500 {
				t.Errorf("%q begins %d lines; want 500", tag, n)
			}
		}
	})
	t.Run("files", func(t *testing.T) {
		dir := filepath.Join(shared(t), "out")
		e := gorun(t, sh([]string{"-hostfile", file, "--output-dir", dir}, `printf 'no newline \0 %s' $GORUN_RANK; echo err $GORUN_RANK >&2`))
		e.want(t, 0)
		if e.stdout != "" || e.stderr != "" {
			t.Errorf("stdout %q, stderr %q; want nothing", e.stdout, e.stderr)
		}
		for rank := range 8 {
			wantFile(t, filepath.Join(dir, fmt.Sprintf("rank.%d.out", rank)), fmt.Sprintf("no newline \x00 %d", rank))
			wantFile(t, filepath.Join(dir, fmt.Sprintf("rank.%d.err", rank)), fmt.Sprintf("err %d\n", rank))
		}
	})
	t.Run("one-rank-bytes", func(t *testing.T) {
		e := gorun(t, []string{"-H", nodes[0], "head", "-c", "3000000", "/bin/bash"})
		e.want(t, 0)
		binary, err := os.ReadFile("/bin/bash")
		if err != nil {
			t.Fatal(err)
		}
		if e.stdout != string(binary[:min(len(binary), 3000000)]) {
			t.Errorf("%d bytes that are not those of the file", len(e.stdout))
		}
	})
}

// wantLines checks that text has n lines, each made of the format with a rank and a number.
func wantLines(t *testing.T, text string, n int, format string) {
	t.Helper()
	got := lines(text)
	if len(got) != n {
		t.Errorf("%d lines; want %d", len(got), n)
	}
	for _, line := range got {
		var rank, i int
		if _, err := fmt.Sscanf(line, format, &rank, &i); err != nil || fmt.Sprintf(format, rank, i) != line {
			t.Fatalf("%q is no whole line", line)
		}
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s: got %q; want %q", filepath.Base(path), got, want)
	}
}

func TestTwoJobsAtOnce(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	file := hostfile(t, nodes, "slots=2")
	// No rank goes on before all twelve of both jobs run.
	script := `: >"$2/$1.$GORUN_RANK"; while [ "$(ls "$2" | wc -l)" -lt 12 ]; do sleep 0.1; done; ` +
		`$GORUN_EXE store put k.$GORUN_RANK $1 && $GORUN_EXE store barrier && [ "$($GORUN_EXE store get k.0)" = $1 ] && echo job $1`
	dir := shared(t)
	first := start(t, append(sh([]string{"-hostfile", file}, script), "sh", "one", dir))
	second := start(t, append(sh([]string{"-hostfile", file}, script), "sh", "two", dir))
	for name, j := range map[string]*job{"one": first, "two": second} {
		e := j.wait(30 * time.Second)
		e.want(t, 0)
		if n := strings.Count(e.stdout, "job "+name+"\n"); n != 6 {
			t.Errorf("job %s printed its name %d times; want 6:\n%s", name, n, e.stdout)
		}
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=2")},
		`[ $GORUN_RANK = 3 ] && $GORUN_EXE store put greeting "hello from 3"; $GORUN_EXE store get greeting; echo; $GORUN_EXE store uid`))
	e.want(t, 0)
	if n := strings.Count(e.stdout, "hello from 3\n"); n != 4 {
		t.Errorf("%d ranks read the key; want 4:\n%s", n, e.stdout)
	}
	ids := slices.DeleteFunc(lines(e.stdout), func(l string) bool { return l == "hello from 3" })
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) != 1 || len(ids[0]) < 128 {
		t.Errorf("unique IDs %q; want one", ids)
	}
}

// A rank that has ended for good is not waited for, one that goes on in a child is.
func TestStoreRankIsOver(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	file := hostfile(t, nodes, "slots=1")
	e := gorun(t, sh([]string{"-hostfile", file}, `[ $GORUN_RANK = 1 ] && exit 0; $GORUN_EXE store barrier b --timeout 1000`))
	e.want(t, 1, `barrier "b": 1 of 2 ranks has not come: rank 1 on `+nodes[1]+"; it is gone")
	e = gorun(t, sh([]string{"-hostfile", file}, `meet() { $GORUN_EXE store barrier b --timeout 1000; }
		if [ $GORUN_RANK = 1 ]; then (sleep 5; meet) >/dev/null & exit 0; fi; meet && echo met`))
	e.want(t, 0)
	if e.stdout != "met\n" {
		t.Errorf("got %q; want the rank to have met the other's child", e.stdout)
	}
}

// What ranks do wrong with the store is told to them, and names the others.
func TestStoreRefuses(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	list := strings.Join(nodes, ",")
	loopback := "0102030405060708" + "0200" + "1388" + "7f000001" + strings.Repeat("00", 112)
	tests := []struct{ name, script, want string }{
		{"two-values", `if [ $RANK = 0 ]; then $GORUN_EXE store put k one; $GORUN_EXE store barrier; else $GORUN_EXE store barrier; $GORUN_EXE store put k two; fi`,
			`key "k" already has another value, put by rank 0 on ` + nodes[0]},
		{"too-long", `[ $RANK = 0 ] || head -c 65537 /dev/zero | $GORUN_EXE store put k`, "a value of 65537 bytes; the limit is 65536"},
		{"loopback-id", `[ $RANK = 0 ] || echo ` + loopback + ` | $GORUN_EXE store uid put`, "the ID says to meet at 127.0.0.1: a loopback address, and this job has ranks on other hosts"},
		{"never-comes", `if [ $RANK = 0 ]; then $GORUN_EXE store get done; else $GORUN_EXE store barrier --timeout 1; $GORUN_EXE store put done 1; exit 1; fi`,
			`barrier "default": 1 of 2 ranks has not come: rank 0 on ` + nodes[0]},
	}
	for _, tt := range tests {
		gorun(t, sh([]string{"-H", list}, tt.script)).want(t, 1, tt.want)
	}
	// Others wait for one that has died: they are not left waiting.
	e := gorun(t, sh([]string{"-H", list}, `[ $RANK = 1 ] && exit 3; $GORUN_EXE store barrier`))
	e.want(t, 3, "rank 1 on "+nodes[1]+" exited with code 3")
	e.wantWithin(t, soon)
}

func TestInstalledOnce(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 4)
	for _, host := range nodes {
		testbed(t, "home", host, "private")
	}
	t.Cleanup(func() {
		for _, host := range nodes {
			testbed(t, "home", host, "normal")
		}
	})
	first := gorun(t, []string{"-hostfile", hostfile(t, nodes, ""), "-ppn", "1", "-v", "hostname"})
	first.want(t, 0, "install")
	second := gorun(t, []string{"-hostfile", hostfile(t, nodes, ""), "-ppn", "1", "-v", "hostname"})
	second.want(t, 0)
	if strings.Contains(second.stderr, "install") {
		t.Errorf("the second launch installs again:\n%s", second.stderr)
	}
	for _, host := range nodes {
		if got := files(t, host, "/home/rank/.cache/gorun"); len(got) != 1 {
			t.Errorf("%s: %v in ~/.cache/gorun; want one file", host, got)
		}
	}
	_, home := newHome(t) // clean removes the local one, too, which other tests use
	gorun(t, []string{"clean", "-hostfile", hostfile(t, nodes, "")}, home).want(t, 0)
	for _, host := range nodes {
		if got := files(t, host, "/home/rank/.cache/gorun"); len(got) != 0 {
			t.Errorf("%s: %v in ~/.cache/gorun after gorun clean", host, got)
		}
	}
}

func TestSharedHomeInstall(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 4)
	gorun(t, []string{"-hostfile", hostfile(t, nodes, ""), "-ppn", "1", "true"}).want(t, 0)
	// Other tests may be bringing gorun to that home at the moment.
	within(t, 30*time.Second, "one file in ~/.cache/gorun of a shared home", func() bool {
		return len(files(t, nodes[0], "/home/rank/.cache/gorun")) == 1
	})
}

func TestIPv6(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	number, err := strconv.Atoi(strings.TrimPrefix(nodes[1], "node"))
	if err != nil {
		t.Fatal(err)
	}
	file := hostfile(t, []string{nodes[0] + "-v6", fmt.Sprintf("[fd77::%x]:22", number+1)}, "slots=1")
	e := gorun(t, sh([]string{"-hostfile", file}, sayPlace))
	e.want(t, 0)
	if all := places(t, e.stdout); len(all) != 2 || all[0].host != nodes[0] || all[1].host != nodes[1] {
		t.Errorf("got %+v; want %v", all, nodes)
	}
}

// A hostfile may name a host in one way and say by another how ssh reaches it.
func TestPublicAddress(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	file := write(t, shared(t), "hosts", fmt.Sprintf("train[1-2] slots=1\n^train1\n10.9.9.9 slots=1 public_addr=%s\n^10.9.9.9\ntrain3 slots=1 public_addr=%s-v6\n", nodes[0], nodes[1]))
	e := gorun(t, sh([]string{"-l", "-hostfile", file, "--exclude", "train2"}, "hostname"))
	e.want(t, 0)
	if want := fmt.Sprintf("[0 train3] %s\n", nodes[1]); e.stdout != want {
		t.Errorf("got %q; want %q", e.stdout, want)
	}
}

func TestSSHPort(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	e := gorun(t, []string{"--ssh-port", "22", "-H", nodes[0], "hostname"})
	if e.want(t, 0); e.stdout != nodes[0]+"\n" {
		t.Errorf("got %q; want the host's name", e.stdout)
	}
	gorun(t, []string{"--mca", "plm_rsh_args", "-q -p 23", "-H", nodes[0], "--connect-timeout", "1", "true"}).want(t, 125, ":23", "refused")
}

func TestRanges(t *testing.T) {
	t.Parallel()
	need(t)
	e := gorun(t, []string{"--dry-run", "-H", "node[1-3]:2", "-np", "6", "hostname"})
	e.want(t, 0)
	for _, host := range []string{"node1", "node2", "node3"} {
		if !strings.Contains(e.stdout, host) {
			t.Errorf("the layout lacks %s:\n%s", host, e.stdout)
		}
	}
}

// What a job uses of the caches stays, also when the host that is cleaned is another one
// with the same home.
func TestCleanWhileRunning(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	idle, busy := nodes[0], nodes[1]
	list := func(i int) string { return hostfile(t, nodes[i:], "slots=1 user=ash") } // in whose home no other test is
	clean := func(want ...string) {
		t.Helper()
		_, home := newHome(t)
		gorun(t, []string{"clean", "-hostfile", list(0)}, home).want(t, 0, append(want, ": nothing to remove\n")...)
	}
	dir := headDir(t)
	fill(t, onHost(t, "node0", dir), map[string]string{"data": "sent"})
	j := start(t, sh([]string{"-hostfile", list(1), "--preload", "data", "-wdir", "/"},
		`echo up; until [ -e /tmp/go ]; do sleep 0.1; done; $GORUN_EXE store put k v && cat $GORUN_FILES/data`), from(dir))
	within(t, 30*time.Second, "a running rank", func() bool { return strings.Contains(j.out.String(), "up\n") })
	clean(
		idle+": nothing to remove; kept 1 file: a job runs there; kept 1 version of gorun: a job on another host runs it\n",
		busy+": nothing to remove; kept 1 version of gorun and 1 file: a job runs there\n",
	)
	write(t, onHost(t, busy, "/tmp"), "go", "")
	defer os.Remove(onHost(t, busy, "/tmp/go"))
	e := j.wait(30 * time.Second)
	e.want(t, 0)
	if !strings.HasSuffix(e.stdout, "sent") {
		t.Errorf("got %q; want the rank to have used its file and gorun", e.stdout)
	}
	// Which of the two hosts removes what nobody can know; each may take the other's gorun,
	// which cleans there, for a job.
	within(t, 30*time.Second, "an empty cache", func() bool {
		clean()
		return len(files(t, busy, "/home/ash/.cache")) == 0
	})
}
