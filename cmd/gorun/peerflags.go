package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"gorun/envsync"
)

// peerFlags are those that gorun has for the sake of lines for other launchers.
func (o *options) peerFlags() group {
	return group{"For lines of other launchers", []flag{
		{
			words: "--mca --omca", arg: "NAME VALUE", value: &parameters{flag: "--mca", prefix: "OMPI_MCA_", dst: &o.settings}, each: true,
			text: `Give the ranks OMPI_MCA_*name*, as mpirun does. A parameter that is about launching is
				taken as the flag of gorun with its meaning, or is an error that says what to write;
				see MCA PARAMETERS.`,
		},
		{
			words: "--gmca --gomca", arg: "NAME VALUE", value: &parameters{flag: "--gmca", prefix: "OMPI_MCA_", dst: &o.settings}, each: true,
			text: `The same, for the ranks of every program of the job.`,
		},
		{
			words: "--prtemca", arg: "NAME VALUE", value: &parameters{flag: "--prtemca", prefix: "PRTE_MCA_", dst: &o.settings}, each: true,
			text: `The same with PRTE_MCA_*name*.`,
		},
		{
			words: "--pmixmca --gpmixmca", arg: "NAME VALUE", value: &parameters{flag: "--pmixmca", prefix: "PMIX_MCA_", dst: &o.settings}, each: true,
			text: `The same with PMIX_MCA_*name*.`,
		},
		{
			words: "--prefix", arg: "DIR", value: value(&o.prefix, absoluteDir), complete: aDirectory, key: "prefix",
			text: `Put *dir*/bin before the PATH and *dir*/lib before the LD_LIBRARY_PATH of every rank, as
				mpirun does.`,
		},
		{
			words: "--default-hostfile", arg: "FILE", value: value(&o.defaultHostfile, text), complete: aFile,
			text: `The hosts if neither -hostfile nor -H names any. Without it that is the hostfile which
				OMPI_MCA_orte_default_hostfile, PRTE_MCA_prte_default_hostfile, HYDRA_HOST_FILE or
				I_MPI_HYDRA_HOST_FILE names, as the MPI operator of Kubernetes sets them; -v says so.`,
		},
		{
			words: "--display-map --display-allocation --display-devel-map", value: yes(&o.layout),
			text: `Print the layout, as --dry-run does, when every host is reached, and run.`,
		},
		{
			words: "--display", arg: "WHAT", value: value(&o.layout, displayed), complete: "map allocation",
			text: `The same; *map* and *allocation* are what there is.`,
		},
		{
			words: "--report-pid", arg: "WHERE", value: value(&o.pidTo, text), complete: aFile,
			text: `Write the number of gorun's process to a file, or with - to the standard output, with +
				to the standard error.`,
		},
		{
			words: "-q --quiet", value: yes(&o.quiet),
			text: `Say nothing unless something goes wrong, which is so anyway.`,
		},
		{
			words: "--nooversubscribe", value: yes(&o.noOversubscribe),
			text: `Allow no more ranks than slots, which is so anyway.`,
		},
		{
			words: "--allow-run-as-root", value: yes(new(bool)),
			text: `Taken from lines for mpirun: gorun runs as whoever starts it.`,
		},
		{
			words: "-launcher -bootstrap", arg: "ssh", value: value(new(string), launcherName), complete: "ssh",
			text: `How hosts are reached, as Hydra is told; *ssh* is the only way here.`,
		},
	}, ""}
}

// nameList is -genvlist: what -x does for each of the names.
type nameList struct {
	flag string
	dst  *[]envsync.Setting
}

func (v *nameList) Set(s string) error {
	for name := range strings.SplitSeq(s, ",") {
		if strings.Contains(name, "=") {
			return &usageError{fmt.Sprintf("%q: a list has names only", envsync.Conceal(name)), []string{"write -x NAME=VALUE to give a variable a value"}}
		}
		*v.dst = append(*v.dst, envsync.Setting{Flag: v.flag, Text: name})
	}
	return nil
}

func (v *nameList) String() string { return "" }
func (v *nameList) Type() string   { return "names" }

// launcherName is how Hydra is told to reach hosts.
func launcherName(s string) (string, error) {
	if s != "ssh" {
		return "", &usageError{fmt.Sprintf("gorun does not start by %q", s), []string{"gorun makes its ssh connections itself and asks no scheduler; leave the flag out"}}
	}
	return s, nil
}

// displayed is what mpirun's --display asks for; gorun shows the layout.
func displayed(s string) (bool, error) {
	for word := range strings.SplitSeq(strings.ToLower(s), ",") {
		switch word {
		case "map", "map-devel", "allocation", "alloc":
		case "bind":
			return false, &usageError{`gorun does not show "bind" here`, []string{"write --report-bindings"}}
		default:
			return false, &usageError{fmt.Sprintf("gorun does not show %q", word), []string{"write --display map: the layout; --dry-run also prints every rank's environment"}}
		}
	}
	return true, nil
}

// absoluteDir is a directory on every host.
func absoluteDir(s string) (string, error) {
	s, err := text(s)
	if err == nil && (!filepath.IsAbs(s) || strings.Contains(s, ":")) {
		err = &usageError{fmt.Sprintf("%q is not an absolute path without a colon", s), nil}
	}
	return s, err
}
