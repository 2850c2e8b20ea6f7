package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// from runs gorun in that directory of node0.
func from(dir string) setup {
	return func(j *job) {
		args := j.cmd.Args // testbed exec node0 gorun ...
		j.cmd.Args = append([]string{args[0], "exec", "node0", "sh", "-c", `cd "$1" && shift && exec "$@"`, "sh", dir}, args[3:]...)
	}
}

// headDir makes a directory that only node0 has.
func headDir(t *testing.T) string {
	t.Helper()
	need(t)
	dir, err := os.MkdirTemp(onHost(t, "node0", "/tmp"), "project")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	own(t, dir)
	return "/tmp/" + filepath.Base(dir)
}

// fill writes files of rank's below dir, by name; a name that ends in * is executable.
func fill(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name, exec := strings.CutSuffix(name, "*")
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		path := write(t, dir, name, text)
		if err := os.Chmod(path, map[bool]os.FileMode{true: 0o755, false: 0o644}[exec]); err != nil {
			t.Fatal(err)
		}
	}
}

// privateHomes gives each host a home of its own until the test ends. Then it checks that
// nothing of a job is left there.
func privateHomes(t *testing.T, nodes []string, kind string) {
	t.Helper()
	for _, host := range nodes {
		testbed(t, "home", host, kind)
	}
	t.Cleanup(func() {
		for _, host := range nodes {
			within(t, sshdGrace, "only contents left in the depot of "+host, func() bool { return len(notBlobs(t, host)) == 0 })
			testbed(t, "home", host, "normal")
		}
	})
}

const depot = "/home/rank/.cache/gorun-files"

// notBlobs lists what is in a host's depot beside whole contents.
func notBlobs(t *testing.T, host string) (names []string) {
	t.Helper()
	for _, name := range files(t, host, depot) {
		if !strings.HasPrefix(name, "blob-") {
			names = append(names, name)
		}
	}
	return names
}

// unique is text that no host has.
func unique() string { return rand.Text() + "\n" }

func TestBcast(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	privateHomes(t, nodes, "private")
	dir := headDir(t)
	fill(t, onHost(t, "node0", dir), map[string]string{
		"prog*":      "#!/bin/sh\nexec data/tool \"$@\"\n",
		"data/tool*": "#!/bin/sh\necho $(cat cfg data/deep/more) $1 in $(pwd)\n",
		"cfg":        unique(), "data/deep/more": unique(),
	})
	if err := os.Symlink("../cfg", onHost(t, "node0", dir)+"/data/link"); err != nil {
		t.Fatal(err)
	}
	args := []string{"-v", "-hostfile", hostfile(t, nodes, "slots=2"), "--bcast", "--preload", "cfg", "--preload", "data", "./prog", "ran"}
	for _, said := range []string{"to 2 of 2 hosts, from here", "files: every host has them"} {
		e := gorun(t, args, from(dir))
		e.want(t, 0, said)
		cfg, _ := os.ReadFile(onHost(t, "node0", dir+"/cfg"))
		more, _ := os.ReadFile(onHost(t, "node0", dir+"/data/deep/more"))
		want := strings.ReplaceAll(string(cfg)+string(more), "\n", " ") + "ran in " + depot + "/job-"
		if n := strings.Count(e.stdout, want); n != 4 {
			t.Errorf("%d of 4 ranks found their files:\n%s", n, e.stdout)
		}
	}
}

// TestBcastAlone: with nothing on the hosts, and also where the directory is.
func TestBcastAlone(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	privateHomes(t, nodes, "private")
	dir := headDir(t)
	fill(t, onHost(t, "node0", dir), map[string]string{"prog*": "#!/bin/sh\n# " + unique() + "echo $0 in $(pwd)\n"})
	if err := os.Mkdir(onHost(t, nodes[0], dir), 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(onHost(t, nodes[0], dir))
	e := gorun(t, []string{"-l", "-H", strings.Join(nodes, ","), "--bcast", "./prog"}, from(dir))
	e.want(t, 0)
	for rank, in := range []string{dir, depot + `/job-\w+\.1`} {
		want := regexp.MustCompile(fmt.Sprintf(`(?m)^\[%d \S+\] %s/job-\w+\.%d/prog in %s$`, rank, depot, rank, in))
		if !want.MatchString(e.stdout) {
			t.Errorf("got %q; want %s", e.stdout, want)
		}
	}
}

// TestBcastShared: hosts with the same home get one copy; hosts that see gorun's own
// directory get none, and ranks run there as ever.
func TestBcastShared(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	list := strings.Join(nodes, ",")
	dir := headDir(t)
	fill(t, onHost(t, "node0", dir), map[string]string{"cfg": unique()})
	gorun(t, []string{"-v", "-H", list, "--preload", "cfg", "cat", "cfg"}, from(dir)).want(t, 0, "to 1 of 3 hosts")

	dir = shared(t)
	fill(t, dir, map[string]string{"cfg": unique(), "prog*": "#!/bin/sh\necho $(pwd; cat cfg $GORUN_FILES/cfg)\n"})
	e := gorun(t, []string{"-v", "-H", list, "--bcast", "--preload", "cfg", "./prog"}, from(dir))
	e.want(t, 0, "every host has them")
	cfg, _ := os.ReadFile(dir + "/cfg")
	text := strings.TrimSpace(string(cfg))
	if n := strings.Count(e.stdout, dir+" "+text+" "+text+"\n"); n != 3 {
		t.Errorf("%d of 3 ranks ran in %s:\n%s", n, dir, e.stdout)
	}
}

// TestBcastFull: no room is found before anything is sent, and nothing is left.
func TestBcastFull(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	privateHomes(t, nodes[:1], "private")
	testbed(t, "home", nodes[1], "full")
	for _, dir := range []string{"/tmp", "/var/tmp"} {
		testbed(t, "root", nodes[1], "mount", "-o", "remount,size=12m", dir) // gorun itself needs some
	}
	t.Cleanup(func() {
		for _, dir := range []string{"/tmp", "/var/tmp"} {
			testbed(t, "root", nodes[1], "mount", "-o", "remount,size=50%", dir)
		}
		testbed(t, "home", nodes[1], "normal")
	})
	dir := headDir(t)
	big := onHost(t, "node0", dir) + "/big"
	fill(t, filepath.Dir(big), map[string]string{"big": unique()})
	if err := os.Truncate(big, 20_000_000); err != nil {
		t.Fatal(err)
	}
	e := gorun(t, []string{"-H", strings.Join(nodes, ","), "--preload", "big", "hostname"}, from(dir))
	e.want(t, 125, nodes[1]+": no directory takes the files, 20000000 bytes", depot, "/var/tmp", "20000000 bytes are needed")
	if e.stdout != "" {
		t.Errorf("a rank ran: %s", e.stdout)
	}
	checkClean(t, nodes[1])
	if left := files(t, nodes[0], depot); len(left) > 0 {
		t.Errorf("%s has %q; want nothing sent", nodes[0], left)
	}
}

// bigFile makes a file that is worth passing on from host to host, and takes no space on
// node0.
func bigFile(t *testing.T, dir string, size int64) {
	t.Helper()
	path := onHost(t, "node0", dir) + "/big"
	fill(t, filepath.Dir(path), map[string]string{"big": unique()})
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// relayed is a size that is passed on between two hosts.
const relayed = 140 << 20

func TestBcastBehindFirewall(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	privateHomes(t, nodes, "private")
	testbed(t, "root", nodes[0], "nft", "add table inet wall; add chain inet wall in { type filter hook input priority 0; }; add rule inet wall in ct state new tcp dport != 22 drop")
	t.Cleanup(func() { testbed(t, "root", nodes[0], "nft", "delete table inet wall") })
	dir := headDir(t)
	bigFile(t, dir, relayed)
	e := gorun(t, []string{"-v", "--preflight", "off", "-H", strings.Join(nodes, ","), "--preload", "big", "sh", "-c", "wc -c < big"}, from(dir))
	e.want(t, 0, "from host to host", nodes[1]+": files of "+nodes[0], "cannot be had, gorun sends them")
	if want := strings.Repeat(fmt.Sprintln(relayed), 2); e.stdout != want {
		t.Errorf("got %q; want %q", e.stdout, want)
	}
}

// TestBcastBrokenOff: nothing is left of a transfer that is ended in the middle.
func TestBcastBrokenOff(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	privateHomes(t, nodes, "private")
	dir := headDir(t)
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(fmt.Sprint(int(s)), func(t *testing.T) {
			bigFile(t, dir, 400<<20)
			j := start(t, []string{"-H", strings.Join(nodes, ","), "--preload", "big", "hostname"}, from(dir))
			awaitTransfer(t, nodes[1])
			j.signal(s)
			if e := j.wait(soon); e.code != 128+int(s) || e.stdout != "" {
				t.Errorf("code %d, stdout %q; want %d and nothing started", e.code, e.stdout, 128+int(s))
			}
			within(t, grace, "no part of a file", func() bool { return len(parts(t, nodes[0]))+len(parts(t, nodes[1])) == 0 })
		})
	}
}

// parts are what host's depot has but whole contents.
func parts(t *testing.T, host string) []string {
	return slices.DeleteFunc(files(t, host, depot), func(name string) bool { return strings.HasPrefix(name, "blob-") })
}

// awaitTransfer waits until some of a file has come to host.
func awaitTransfer(t *testing.T, host string) {
	t.Helper()
	within(t, soon, "a transfer to "+host, func() bool {
		for _, name := range files(t, host, depot) {
			if strings.HasPrefix(name, "tmp.") {
				return true
			}
		}
		return false
	})
}

// TestSlowBcastHostLost: the job ends, and the other hosts are clean. One that had all of a
// file before the end keeps it for the next job.
func TestSlowBcastHostLost(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	privateHomes(t, nodes, "private")
	dir := headDir(t)
	for _, how := range []string{"cut", "mute", "agent"} {
		t.Run(how, func(t *testing.T) {
			bigFile(t, dir, 1<<30)
			j := start(t, []string{"--lost-after", "5", "-H", strings.Join(nodes, ","), "--preload", "big", "hostname"}, from(dir))
			awaitTransfer(t, nodes[2])
			if how == "agent" {
				for _, p := range agents(t, nodes[1]) {
					syscall.Kill(p.pid, syscall.SIGKILL)
				}
			} else {
				testbed(t, how, nodes[1])
			}
			e := j.wait(60 * time.Second)
			testbed(t, "mend", nodes[1])
			e.want(t, 125, nodes[1])
			if e.stdout != "" {
				t.Errorf("a rank ran: %s", e.stdout)
			}
			for _, host := range nodes {
				within(t, sshdGrace, fmt.Sprintf("no part of a file on %s: %q", host, files(t, host, depot)), func() bool { return len(parts(t, host)) == 0 })
			}
		})
	}
}

// TestSlowBcastBig brings a gigabyte to six hosts; the head sends it once.
func TestSlowBcastBig(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 6)
	privateHomes(t, nodes, "private")
	dir := headDir(t)
	const size = 1_000_000_000
	testbed(t, "exec", "node0", "sh", "-c", fmt.Sprintf("head -c %d /dev/urandom > %s/big", size, dir))
	want := strings.Fields(testbed(t, "exec", "node0", "sha256sum", dir+"/big"))[0]
	e := start(t, []string{"-v", "-H", strings.Join(nodes, ","), "--preload", "big", "sha256sum", "big"}, from(dir)).wait(300 * time.Second)
	e.want(t, 0, "up to 1.0 GB to 6 of 6 hosts, from host to host")
	if n := strings.Count(e.stdout, want); n != len(nodes) {
		t.Errorf("%d of %d ranks have the file:\n%s", n, len(nodes), e.stdout)
	}
	said := regexp.MustCompile(`files: sent \S+ GB \((\d+) bytes\) from here in (\S+) s`).FindStringSubmatch(e.stderr)
	if said == nil {
		t.Fatalf("no line says what was sent:\n%s", e.stderr)
	}
	t.Logf("%d bytes to %d hosts: %s bytes left the head, %s s", size, len(nodes), said[1], said[2])
	if len(said[1]) != len("1000000000") || said[1] > "1010000000" {
		t.Errorf("%s bytes left the head; want one copy", said[1])
	}
}
