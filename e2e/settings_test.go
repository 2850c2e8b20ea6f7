package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// ownEtc gives hosts an /etc of their own, until the test ends, with files in it.
func ownEtc(t *testing.T, node string, files map[string]string) {
	t.Helper()
	dir := state + "/" + node + "/etc"
	testbed(t, "root", node, "sh", "-c", "rm -rf "+dir+" && cp -a /etc "+dir+" && mount --bind "+dir+" /etc")
	t.Cleanup(func() { testbed(t, "root", node, "sh", "-c", "umount -l /etc && rm -rf "+dir) })
	for name, text := range files {
		testbed(t, "root", node, "sh", "-c", `printf %s "$1" >/etc/`+name+` && chmod 644 /etc/`+name, "sh", text)
	}
}

// ownHome gives a host a home of its own for user rank, with files in it.
func ownHome(t *testing.T, node string, files map[string]string) {
	t.Helper()
	testbed(t, "home", node, "private")
	t.Cleanup(func() { testbed(t, "home", node, "normal") })
	for name, text := range files {
		testbed(t, "root", node, "sh", "-c", `printf %s "$1" >/home/rank/`+name+` && chown rank: /home/rank/`+name, "sh", text)
	}
}

// show prints a rank's host and NCCL settings in one line.
const show = `echo $(hostname) $(env | grep ^NCCL_ | grep -v CONF_FILE=/dev/null | sort)`

// wantLines checks what the ranks have printed, in any order.
func (e ended) wantLines(t *testing.T, want ...string) {
	t.Helper()
	got := lines(e.stdout)
	slices.Sort(got)
	slices.Sort(want)
	if e.code != 0 || !slices.Equal(got, want) {
		t.Errorf("exit code %d, got %q; want %q\nstderr: %s", e.code, got, want, shorten(e.stderr))
	}
}

func TestHostSettingsDiffer(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 3)
	ownEtc(t, nodes[1], map[string]string{"nccl.conf": "# site\nNCCL_DEBUG=WARN\nNCCL_ALGO=Ring\n"})
	list := strings.Join(nodes, ",")
	e := gorun(t, sh([]string{"-H", list, "--tag-output"}, "echo started"))
	e.want(t, 125, "NCCL_ALGO differs between hosts", "NCCL_ALGO on "+nodes[1]+": Ring (/etc/nccl.conf:3)", "not set", "-x NCCL_ALGO=Ring", "-x NCCL_ALGO= ")
	if e.stdout != "" {
		t.Errorf("stdout %q; want nothing started", e.stdout)
	}

	// The user has decided, for all.
	e = gorun(t, sh([]string{"-v", "-H", list, "-x", "NCCL_ALGO=Tree"}, show))
	e.want(t, 0, "NCCL_ALGO=Ring of "+nodes[1]+" (/etc/nccl.conf:3) does not count: NCCL_ALGO is set by -x")
	e.wantLines(t, nodes[0]+" NCCL_ALGO=Tree", nodes[1]+" NCCL_ALGO=Tree NCCL_DEBUG=WARN", nodes[2]+" NCCL_ALGO=Tree")

	// A host without ranks is not asked.
	gorun(t, sh([]string{"-H", list, "-np", "1"}, show)).wantLines(t, nodes[0])
}

func TestHostSettingsAgree(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	ownEtc(t, nodes[0], map[string]string{"nccl.conf": "NCCL_ALGO=Ring\nNCCL_PROTO = LL\n"})
	ownEtc(t, nodes[1], map[string]string{"nccl.conf": "NCCL_ALGO=Tree\n"})
	ownHome(t, nodes[1], map[string]string{".nccl.conf": "NCCL_ALGO=Ring\nNCCL_IB_HCA=mlx5_3\n"})
	e := gorun(t, sh([]string{"-v", "-H", strings.Join(nodes, ",")}, show))
	e.want(t, 0, nodes[0]+`: /etc/nccl.conf:2: NCCL_PROTO = LL: without effect: a blank is part of the name`, "NCCL_IB_HCA=mlx5_3 (/home/rank/.nccl.conf:2)")
	e.wantLines(t, nodes[0]+" NCCL_ALGO=Ring", nodes[1]+" NCCL_ALGO=Ring NCCL_IB_HCA=mlx5_3")
}

// An interface by which no host reaches another gives no rank its address, and is told
// wherever it is named.
func TestHostSettingsOfLoopback(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	list := strings.Join(nodes, ",")
	const meet = `[ $MASTER_ADDR = $GORUN_HOST_ADDR ] && echo first; case $MASTER_ADDR$GORUN_HOST_ADDR in *127*) exit 1; esac`
	const other = "; MASTER_ADDR and GORUN_HOST_ADDR are another interface's\n"
	e := gorun(t, sh([]string{"-H", list, "--interface", "lo"}, meet))
	e.want(t, 0, "warning: "+strings.Join(nodes, ", ")+": --interface lo means 127.0.0.1, by which other hosts reach only themselves"+other)
	e.wantLines(t, "first")
	ownEtc(t, nodes[0], map[string]string{"nccl.conf": "NCCL_SOCKET_IFNAME=lo\n"})
	e = gorun(t, sh([]string{"-H", list}, meet))
	e.want(t, 0, "warning: "+nodes[0]+": NCCL_SOCKET_IFNAME=lo means 127.0.0.1, by which other hosts reach only themselves: NCCL hangs"+other)
	e.wantLines(t, "first")
	gorun(t, sh([]string{"-H", list, "--env-strict"}, "echo started")).want(t, 125, nodes[0]+": NCCL_SOCKET_IFNAME=lo means 127.0.0.1")
	gorun(t, sh([]string{"-H", nodes[0] + ":2"}, meet)).want(t, 1) // 127.0.0.1 is right there
}

// A file that the user names is left to NCCL, and what is in it must be equal all the same.
func TestHostSettingsOfConfFile(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	ownHome(t, nodes[0], map[string]string{".nccl.conf": "NCCL_ALGO=Ring\n"})
	dir := shared(t)
	conf := write(t, dir, "nccl.conf", "NCCL_PROTO=LL\n")
	list := strings.Join(nodes, ",")
	e := gorun(t, sh([]string{"-H", list, "-x", "NCCL_CONF_FILE=" + conf}, show))
	e.wantLines(t, nodes[0]+" NCCL_CONF_FILE="+conf+" NCCL_PROTO=LL", nodes[1]+" NCCL_CONF_FILE="+conf+" NCCL_PROTO=LL")

	gorun(t, sh([]string{"-H", list, "-x", "NCCL_CONF_FILE=/dev/null"}, show)).wantLines(t, nodes[0], nodes[1])
	gorun(t, sh([]string{"-H", list, "-x", "NCCL_CONF_FILE="}, show)).want(t, 125, "NCCL_ALGO on "+nodes[0]+": Ring (/home/rank/.nccl.conf:1)")
}

func TestHostSettingsOfShells(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	for _, n := range nodes {
		// .bashrc is read by each shell that sshd starts, .bash_profile by a login shell only.
		ownHome(t, n, map[string]string{".bashrc": "export NCCL_PROTO=LL\n", ".bash_profile": "echo hello\n(setsid sleep 1000 &)\nexport NCCL_ALGO=Ring\n"})
	}
	e := gorun(t, sh([]string{"-v", "-H", strings.Join(nodes, ",")}, show))
	e.want(t, 0, "NCCL_ALGO=Ring (login shell of ", "NCCL_PROTO=LL (ssh session of ")
	e.wantLines(t, nodes[0]+" NCCL_ALGO=Ring NCCL_PROTO=LL", nodes[1]+" NCCL_ALGO=Ring NCCL_PROTO=LL")

	ownHome(t, nodes[1], map[string]string{".bashrc": "", ".bash_profile": "NCCL_x= sleep 1000\n"})
	e = gorun(t, sh([]string{"-v", "-H", nodes[1]}, show))
	e.want(t, 0, nodes[1]+": not known what NCCL settings a login shell has: ", "bash did not begin within 4s")
	e.wantLines(t, nodes[1])
	e.wantWithin(t, soon)
}

// What hosts have is judged as what is typed is.
func TestHostSettingsAreLinted(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	for _, n := range nodes {
		ownEtc(t, n, map[string]string{"nccl.conf": "NCCL_IB_DISABLE=yes\nNCCL_SOCKET_IFNAM=eth0\nNCCL_HOSTID=same\n"})
	}
	list := strings.Join(nodes, ",")
	e := gorun(t, sh([]string{"-H", list}, "echo started"))
	e.want(t, 125, "NCCL_IB_DISABLE=yes (/etc/nccl.conf:1 of ", "it takes a number; ", "warning: NCCL_SOCKET_IFNAM=eth0 (/etc/nccl.conf:2 of ", "did you mean NCCL_SOCKET_IFNAME?",
		"warning: NCCL_HOSTID=same (/etc/nccl.conf:3 of ", "all hosts get the same")
	if e.stdout != "" {
		t.Errorf("stdout %q; want nothing started", e.stdout)
	}
	gorun(t, sh([]string{"-H", list, "-x", "NCCL_IB_DISABLE=1"}, show)).want(t, 0)
	gorun(t, sh([]string{"-H", list, "--env-lax"}, show)).want(t, 0, "warning: NCCL_IB_DISABLE=yes (/etc/nccl.conf:1 of ")
	gorun(t, sh([]string{"-H", list, "-x", "NCCL_IB_DISABLE=1", "--env-strict"}, show)).want(t, 125, "NCCL_SOCKET_IFNAM=eth0")
}

// Files of settings that cannot be read hold nobody up.
func TestHostSettingsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	for what, make := range map[string]string{
		"is no regular file": "mkfifo /home/rank/.nccl.conf",
		"is a directory":     "mkdir /home/rank/.nccl.conf",
		"has 1000000 bytes":  "truncate -s 1000000 /home/rank/.nccl.conf",
	} {
		testbed(t, "home", nodes[0], "private")
		testbed(t, "root", nodes[0], "sh", "-c", make)
		e := gorun(t, sh([]string{"-H", nodes[0]}, show))
		testbed(t, "home", nodes[0], "normal")
		e.want(t, 0, "warning: "+nodes[0]+": NCCL settings of /home/rank/.nccl.conf are not known: it "+what)
		e.wantLines(t, nodes[0])
		e.wantWithin(t, 10*time.Second)
	}
}

// A plugin that NCCL would load on one host only is told, and which version of NCCL itself is where.
func TestHostLibraries(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	for i, files := range []string{"libnccl.so.2.19.3", "libnccl.so.2.30.7 libnccl-net.so"} {
		testbed(t, "root", nodes[i], "sh", "-c", "mkdir /tmp/lib && cd /tmp/lib && touch "+files+" && ln -s libnccl.so.2.* libnccl.so.2")
		t.Cleanup(func() { testbed(t, "root", nodes[i], "rm", "-r", "/tmp/lib") })
	}
	e := gorun(t, sh([]string{"-H", strings.Join(nodes, ","), "-x", "LD_LIBRARY_PATH=/tmp/lib"}, show))
	e.want(t, 0, "warning: libnccl-net.so: build sha256-", " on "+nodes[1]+", none on "+nodes[0],
		"warning: libnccl.so.2: version 2.19.3 (/tmp/lib/libnccl.so.2) on "+nodes[0]+", version 2.30.7 (/tmp/lib/libnccl.so.2) on "+nodes[1])
	e.wantLines(t, nodes[0], nodes[1])
}
