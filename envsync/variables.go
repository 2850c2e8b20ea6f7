package envsync

import "strings"

// Class says among which processes of a job a variable must have one value.
type Class string

const (
	ClassUnknown Class = ""                 // nothing is known of the variable
	ClassJob     Class = "equal in the job" // all ranks; also every NCCL_ name that the table lacks
	ClassHost    Class = "per host"         // the ranks of each host: it is about the host's devices, networks, files
	ClassProcess Class = "per process"      // none
	ClassDebug   Class = "debugging"        // none: it changes what is logged, written or called
)

// Kind says how NCCL reads a variable.
type Kind string

const (
	Integer    Kind = "integer"    // strtoll with base 0: a word is 0, what follows a number is not looked at
	Switch     Kind = "switch"     // such an integer that turns something off (0) or on (1); some know 2 or -1
	Boolean    Kind = "boolean"    // a switch that takes true and false since 2.30.3
	Size       Kind = "size"       // such an integer of bytes
	Words      Kind = "words"      // one of some words, or a list of them
	Grammar    Kind = "grammar"    // words with exceptions, also by collective
	Interfaces Kind = "interfaces" // prefixes of names, or with "=" names, with "^" all others
	Devices    Kind = "devices"    // the same, with ports
	Path       Kind = "path"       // a file, by a name that no shell expands
	Address    Kind = "address"    // host:port
	Plugin     Kind = "plugin"     // a name or path of a library, or none
	Text       Kind = "text"
)

// Variable is what the table knows of a variable of NCCL's.
type Variable struct {
	Name     string
	Kind     Kind
	Default  string // what holds without it, for people; "": nothing, or not one value for all
	Class    Class
	SameHost bool   // ClassJob, but only ranks of one host that talk to each other must agree
	Since    string // the first version with a tag that has it; "": 2.3.5 or an older one
	Meaning  string // one line
}

// row is a Variable as the table has it.
type row struct {
	name    string // without NCCL_
	kind    Kind
	usual   string
	class   byte
	since   string
	meaning string
}

// Lookup returns the variable of that name, if NCCL 2.30.7 reads it. It looks through
// the table, which takes less than a microsecond and nothing at a program's start.
func Lookup(name string) (v Variable, known bool) {
	rest, nccl := strings.CutPrefix(name, "NCCL_")
	if !nccl {
		return v, false
	}
	for i := range ncclTable {
		if r := &ncclTable[i]; r.name == rest {
			return Variable{name, r.kind, r.usual, classes(r.class), r.class == 'H', r.since, r.meaning}, true
		}
	}
	return v, false
}

func classes(letter byte) Class {
	switch letter {
	case 'N':
		return ClassHost
	case 'P':
		return ClassProcess
	case 'D':
		return ClassDebug
	}
	return ClassJob
}

// ClassOf returns the class of any name. A name of NCCL's that is not known is taken
// to matter in the whole job. Of other names those are known that steer what NCCL
// loads, how it and its plugins talk, and where PyTorch's ranks meet.
func ClassOf(name string) Class {
	if !strings.HasPrefix(name, "NCCL_") {
		return classOfOthers(name)
	}
	if v, ok := Lookup(name); ok {
		return v.Class
	}
	if hasPrefix(name, "NCCL_INSPECTOR_", "NCCL_PROFILE_", "NCCL_PROFILER_") {
		return ClassDebug
	}
	return ClassJob
}

// classOfOthers is ClassOf for names that are not NCCL's.
func classOfOthers(name string) Class {
	switch name {
	case "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_DEVICE_ORDER", "CUDA_MODULE_LOADING", "MASTER_ADDR", "MASTER_PORT":
		return ClassJob
	case "UCX_NET_DEVICES", "GLOO_SOCKET_IFNAME":
		return ClassHost
	case "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING":
		return ClassProcess
	case "UCX_LOG_LEVEL", "UCX_LOG_FILE", "FI_LOG_LEVEL", "SHARP_COLL_LOG_LEVEL":
		return ClassDebug
	}
	if hasPrefix(name, "UCX_", "SHARP_", "OFI_", "FI_", "TORCH_NCCL_") {
		return ClassJob
	}
	return ClassUnknown
}

// PerHost reports whether a user may give name another value on some hosts: all but the
// variables of NCCL's that must be equal in the job. NCCL compares no settings: where
// these differ, a job hangs.
func PerHost(name string) bool {
	return !isVariable(name) || ClassOf(name) != ClassJob
}

// pluginName reports whether name, which begins with NCCL_, is one that plugins and
// programs beside NCCL read, as far as they are known.
func pluginName(name string) bool {
	return name == "NCCL_PLUGIN_P2P" || name == "NCCL_TUNER_CONFIG_FILE" ||
		hasPrefix(name, "NCCL_INSPECTOR_", "NCCL_PROFILE_", "NCCL_PROFILER_CE_", "NCCL_EP_", "NCCL_RESHARD_", "NCCL_CHECKPOINT_KVS_",
			"NCCL_SHARP_", "NCCL_UCX_", "NCCL_GPUDIRECTTCPX_", "NCCL_FASTRAK_", "NCCL_TESTS_")
}
