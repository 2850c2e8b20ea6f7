package main

import (
	_ "embed"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

//go:embed help.txt
var helpText string

const cleanHelp = `gorun clean removes what gorun keeps in ~/.cache/gorun, its own program, and in
~/.cache/gorun-files, files that were sent for ranks: here, and on the hosts
that are named.

Usage: gorun clean [-hostfile FILE] [-H LIST] [--exclude LIST]

  gorun clean                     this machine only
  gorun clean -hostfile hosts     this machine and every host of the file

It also takes --connect-timeout, --fanout, --accept-new-host-keys, --ssh-port,
--ssh-config, --rsh, --config and -v, as gorun itself does. It says what it has
removed, and what it has kept as a job uses it. Where hosts share a home, name
all that jobs run on: what runs is seen only on the host that runs it. Files are
also kept for a day after a job whose host went down.
`

// version is set by the linker for a release: -ldflags "-X main.version=v1.2.3".
var version string

// versionLine is what --version prints: version, commit, Go and platform.
func versionLine() string {
	return fmt.Sprintf("gorun %s %s %s/%s\n", ownVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// ownVersion is the version of this binary.
func ownVersion() string {
	info, _ := debug.ReadBuildInfo()
	return versionText(info)
}

// versionText is the version with the commit that info tells of, if any.
func versionText(info *debug.BuildInfo) string {
	v := version
	if v == "" {
		v = "devel"
	}
	if info == nil {
		return v
	}
	if version == "" && strings.HasPrefix(info.Main.Version, "v") {
		v = info.Main.Version
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	if revision == "" {
		return v
	}
	return fmt.Sprintf("%s (%s%s)", v, revision, modified)
}
