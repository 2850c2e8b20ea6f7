package envsync

import (
	"bytes"
	"slices"
	"strings"
)

// DefaultForward are the prefixes of names that go to every rank without being asked for.
func DefaultForward() []string {
	return []string{"NCCL_", "UCX_", "GLOO_", "OMP_", "KMP_", "TORCH_", "PYTHON"}
}

// Leftover reports whether name is taken out of a session's environment before a rank
// gets it: NCCL settings of some dot file, and the ranks, sizes and addresses that
// another launcher or scheduler has left, and the place of gorun's own rank in a mesh.
func Leftover(name string) bool {
	switch name {
	case "RANK", "WORLD_SIZE", "GORUN_FILES", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEPID":
		return true
	}
	return hasPrefix(name, "NCCL_", "OMPI_", "LOCAL_", "MASTER_", "TORCHELASTIC_", "SLURM_STEP_") || ofMesh(name) ||
		strings.HasPrefix(name, "PMI") && strings.Contains(name, "_")
}

// bound reports whether name describes this host, this session or one process, so
// that its value is wrong elsewhere.
func bound(name string) bool {
	switch name {
	case "HOME", "USER", "LOGNAME", "SHELL", "MAIL", "HOST", "HOSTNAME", "HOSTTYPE", "MACHTYPE", "PWD", "OLDPWD", "SHLVL", "_",
		"TERM", "COLUMNS", "LINES", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WINDOWID", "TMUX", "TMUX_PANE", "STY",
		"TMPDIR", "TMP", "TEMP", "KRB5CCNAME", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "INVOCATION_ID", "JOURNAL_STREAM",
		"NCCL_HOSTID", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
		"GPU_DEVICE_ORDINAL", "SLURMD_NODENAME", "SLURM_TASK_PID", "SLURM_GTIDS", "SLURM_TOPOLOGY_ADDR", "SLURM_CPUS_ON_NODE",
		"SLURM_LAUNCH_NODE_IPADDR", "PBS_NODENUM", "PBS_TASKNUM", "PBS_VNODENUM":
		return true
	}
	if hasPrefix(name, "NCCL_") {
		return false
	}
	if hasPrefix(name, "OMPI_MCA_") && !hasPrefix(name, "OMPI_MCA_orte_", "OMPI_MCA_ess") {
		return false
	}
	return Leftover(name) || RankName(name) || hasPrefix(name, "SSH_", "XDG_", "SUDO_")
}

// RankName reports whether gorun sets name for each rank.
func RankName(name string) bool {
	switch name {
	case "GORUN_JOB_ID", "GORUN_RANK", "GORUN_SIZE", "GORUN_LOCAL_RANK", "GORUN_LOCAL_SIZE", "GORUN_NODE_RANK", "GORUN_NODES",
		"GORUN_STORE", "GORUN_EXE", "GORUN_FILES", "GORUN_BACKEND", "GORUN_ENV_DIGEST", "GORUN_HOST_ADDR",
		"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT",
		"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
		"OMPI_COMM_WORLD_NODE_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
		"PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_PORT", "PMI_ID":
		return true
	}
	return ofMesh(name)
}

// MeshName is the variable that tells a rank what it is along an axis of its job's mesh, as
// GORUN_TP_RANK; what is RANK, SIZE or GROUP.
func MeshName(axis, what string) string { return "GORUN_" + strings.ToUpper(axis) + "_" + what }

// ofMesh reports whether name is GORUN_MESH, or may be one of MeshName's.
func ofMesh(name string) bool {
	rest, ok := strings.CutPrefix(name, "GORUN_")
	if !ok || rest == "MESH" {
		return ok
	}
	axis, what, _ := strings.Cut(rest, "_")
	return axis != "" && (what == "RANK" || what == "SIZE" || what == "GROUP")
}

// meeting reports whether name says where ranks meet. gorun sets it for each rank, unless
// the user names it.
func meeting(name string) bool { return name == "MASTER_ADDR" || name == "MASTER_PORT" }

// missed reports whether name is one that people expect to be sent, as another
// launcher does, and gorun sends only when asked.
func missed(name string) bool {
	return name == "PATH" || name == "LD_LIBRARY_PATH" || hasPrefix(name, "OMPI_MCA_", "I_MPI_", "CUDA_")
}

func hasPrefix(name string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// validName reports whether name can be set by -x: letters, digits and _, no digit first.
func validName(name string) bool {
	for i := range len(name) {
		if !inName(name[i]) {
			return false
		}
	}
	return name != "" && (name[0] < '0' || name[0] > '9')
}

// validNames reports whether list is names with commas between.
func validNames(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if !validName(name) {
			return false
		}
	}
	return true
}

func inName(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// Hidden reports whether the value of name is a secret that no text of gorun's shows.
func Hidden(name string) bool {
	name = strings.ToUpper(name)
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.Contains(name, w) }) || endsAsKey(name)
}

// secretWords are what names of secrets have in them.
var secretWords = []string{"TOKEN", "PASSWORD", "SECRET", "CREDENTIAL"}

// endsAsKey reports whether name, in upper case, ends as names of secrets do.
func endsAsKey(name string) bool {
	return strings.HasSuffix(name, "_KEY") || strings.HasSuffix(name, "_PAT")
}

// Conceal returns text, in which a mistake may have put a secret's name and value
// together in any way, without what follows the first such name and a mark behind it.
// The time that takes is in proportion to the text, which may be a whole file.
func Conceal(text string) string {
	name := []byte(text) // in upper case, as a variable would be
	for i, c := range name {
		switch {
		case 'a' <= c && c <= 'z':
			name[i] = c - 'a' + 'A'
		case c == '-':
			name[i] = '_'
		}
	}
	word := len(text) // where the first of secretWords ends
	for _, w := range secretWords {
		if i := bytes.Index(name, []byte(w)); i >= 0 {
			word = min(word, i+len(w))
		}
	}
	start := len(text) - len(strings.TrimLeft(text, "- \t"))
	end := start // of the name, without dashes and blanks behind it
	for i := start; i+1 < len(text); i++ {
		if !inName(text[i]) && (i >= word || endsAsKey(string(name[max(start, end-4):end]))) {
			return text[:i+1] + hidden
		}
		if !strings.ContainsRune("- \t", rune(text[i])) {
			end = i + 1
		}
	}
	return text
}

// hidden stands where a secret's value would.
const hidden = "<hidden>"
