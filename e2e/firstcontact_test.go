package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestLoginShells(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	for _, host := range nodes {
		testbed(t, "home", host, "private")
	}
	t.Cleanup(func() {
		for _, host := range nodes {
			testbed(t, "home", host, "normal")
		}
	})
	for _, user := range []string{"rank", "noisy", "tcsh", "fish", "zsh", "ash"} {
		t.Run(user, func(t *testing.T) {
			file := hostfile(t, nodes, "slots=2 user="+user)
			for _, launch := range []string{"first", "second"} { // with and without the binary's transfer
				e := gorun(t, sh([]string{"-hostfile", file, "-wdir", "/"}, `echo $USER $GORUN_RANK; cat`), input(strings.NewReader("")))
				e.want(t, 0)
				for rank := range 4 {
					if n := strings.Count(e.stdout, fmt.Sprintf("%s %d\n", user, rank)); n != 1 {
						t.Errorf("%s launch: rank %d as %s %d times; want 1:\n%s", launch, rank, user, n, e.stdout)
					}
				}
				if strings.Contains(e.stdout+e.stderr, "noise") {
					t.Errorf("%s launch: the dot files' noise is shown:\n%s%s", launch, e.stdout, e.stderr)
				}
			}
		})
	}
}

// With busybox for /bin/sh as well, as on Alpine.
func TestBusyboxHost(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	testbed(t, "home", nodes[0], "private")
	testbed(t, "root", nodes[0], "sh", "-c", "mount --bind $(command -v busybox) $(readlink -f /bin/sh)")
	t.Cleanup(func() {
		testbed(t, "root", nodes[0], "/bin/bash", "-c", "umount $(readlink -f /bin/sh)")
		testbed(t, "home", nodes[0], "normal")
	})
	file := hostfile(t, nodes, "slots=1 user=ash")
	e := gorun(t, sh([]string{"-hostfile", file, "-wdir", "/"}, `echo ran as $USER`))
	e.want(t, 0)
	if e.stdout != "ran as ash\n" {
		t.Errorf("got %q; want %q", e.stdout, "ran as ash\n")
	}
}

func TestHomes(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 1)
	host := nodes[0]
	for _, kind := range []string{"private", "readonly", "full", "noexec"} {
		t.Run(kind, func(t *testing.T) {
			testbed(t, "home", host, kind)
			t.Cleanup(func() { testbed(t, "home", host, "normal") })
			for range 2 {
				e := gorun(t, []string{"-H", host, "-wdir", "/", "hostname"})
				e.want(t, 0)
				if e.stdout != host+"\n" {
					t.Errorf("got %q; want %q", e.stdout, host+"\n")
				}
				checkClean(t, host) // also of the directory that was used instead of the home
			}
		})
	}
}

func TestNoPlaceToInstall(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	testbed(t, "home", nodes[0], "noexec")
	for _, dir := range volatile {
		testbed(t, "root", nodes[0], "mount", "-o", "remount,noexec", dir)
	}
	t.Cleanup(func() {
		for _, dir := range volatile {
			testbed(t, "root", nodes[0], "mount", "-o", "remount,exec", dir)
		}
		testbed(t, "home", nodes[0], "normal")
	})
	e := gorun(t, []string{"-hostfile", hostfile(t, nodes, ""), "-ppn", "1", "-wdir", "/", "hostname"})
	e.want(t, 125, nodes[0], "/home/rank/.cache/gorun", "/tmp", "noexec")
	if e.stdout != "" {
		t.Errorf("stdout %q; want nothing started", e.stdout)
	}
}

func TestOtherArchitecture(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	dir := shared(t)
	fake := write(t, dir, "uname", "#!/bin/sh\ncase \"$*\" in *s*m*) echo Linux aarch64 ;; *m*) echo aarch64 ;; *) echo Linux ;; esac\n")
	if err := os.Chmod(fake, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	testbed(t, "home", nodes[1], "private")
	testbed(t, "root", nodes[1], "mount", "--bind", fake, "/usr/bin/uname")
	t.Cleanup(func() {
		testbed(t, "root", nodes[1], "umount", "/usr/bin/uname")
		testbed(t, "home", nodes[1], "normal")
	})
	e := gorun(t, []string{"-hostfile", hostfile(t, nodes, ""), "-ppn", "1", "hostname"})
	e.want(t, 125, nodes[1], "aarch64", "GOARCH=arm64")
	if e.stdout != "" {
		t.Errorf("stdout %q; want nothing started on %s", e.stdout, nodes[0])
	}
}
