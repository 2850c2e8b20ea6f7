// Package envsync decides which variables each rank gets, and why.
//
// The idea: one job map, made once at the head from the launch environment and from
// -x and -genv, is sent to every host; the agent merges it over its own session's
// environment, from which what another launcher left has been taken out. Everything
// here is a function of values: nothing reads or changes this process's environment.
// Values are bytes and need not be UTF-8.
//
// Three kinds of names are kept apart. A leftover (see Leftover) never survives from
// a session. A bound name belongs to this host or to one process ("HOME",
// "SSH_AUTH_SOCK", "SLURM_PROCID"): it is sent only when it is named by itself. A
// rank's own name (see RankVars) is gorun's to set, but for MASTER_ADDR and MASTER_PORT,
// which a user may name.
package envsync

import "strings"

// Origins of a Var besides the flag of a Setting.
const (
	FromEnvironment = "environment" // forwarded from the launch environment
	FromGorun       = "gorun"       // made by gorun
)

// Var is an environment variable and where its value comes from.
type Var struct {
	Name, Value string
	Origin      string // a Setting's flag or place ("-x", "gorun.toml:7"), FromEnvironment or FromGorun
}

// split cuts NAME=value; ok is false when there is no name.
func split(entry string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(entry, "=")
	return name, value, ok && name != ""
}
