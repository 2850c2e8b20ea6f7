package envsync

import "strings"

// otherName is a name that NCCL does not read, or not for long.
type otherName struct {
	name string // without NCCL_
	msg  string
	hint string
}

// otherNames are names of old versions, wrong ones that people write, and names that
// look like NCCL's.
var otherNames = []otherName{
	// Of old versions.
	{"RINGS", "no version after 2.4.8 reads it", ""},
	{"IB_GDR_LEVEL", "no version after 2.3 reads it", "NCCL_NET_GDR_LEVEL is its name since 2.4.0"},
	{"IB_CUDA_SUPPORT", "no version after 2.3 reads it", "NCCL_NET_GDR_LEVEL=LOC switches GPUDirect RDMA off"},
	{"SINGLE_RING_THRESHOLD", "no version since 2.3 reads it", ""},
	{"LL_THRESHOLD", "no version since 2.5 reads it", "NCCL_PROTO chooses protocols"},
	{"TREE_THRESHOLD", "no version since 2.5 reads it", "NCCL_ALGO chooses algorithms"},
	{"THREAD_THRESHOLD", "no version since 2.5 reads it", "there is NCCL_THREAD_THRESHOLDS"},
	{"LL_BUFF_SIZE", "no version since 2.7 reads it", "NCCL_LL_BUFFSIZE is its name since"},
	{"LL128_BUFF_SIZE", "no version since 2.7 reads it", "NCCL_LL128_BUFFSIZE is its name since"},
	{"CHECKS_DISABLE", "it has no effect since 2.2.12", "NCCL_CHECK_POINTERS, and NCCL_CHECK_MODE since 2.29.7, switch checks on"},
	{"MAX_NTHREADS", "no version after 2.7.8 reads it", "NCCL_NTHREADS sets the threads of a block"},
	{"SHARED_BUFF_COUNT", "no version after 2.8.4 reads it", ""},
	{"MAX_DEV_ARITY", "no version after 2.9.9 reads it", ""},
	{"AGG_CHANNEL_SIZE", "no version after 2.19.4 reads it", ""},
	{"AGG_ALLOC_MODE", "no version after 2.12.12 reads it", ""},
	{"MAX_OPS", "no version after 2.12.12 reads it", ""},
	{"WORK_FIFO_DEPTH", "no version after 2.21.5 reads it", "NCCL_WORK_FIFO_BYTES sets its size since 2.22"},
	{"DIRECT_READ", "no version after 2.23.4 reads it", ""},
	{"PROXY_PROFILE", "no version after 2.22.3 reads it", "NCCL_PROFILER_PLUGIN loads a profiler since 2.23"},
	{"GDRCOPY_TAIL_ENABLE", "no version after 2.11.4 reads it", ""},
	{"SHM_USE_CUDA_MEMCPY", "no version after 2.30.4 reads it", ""},
	{"SHM_MEMCPY_MODE", "no version after 2.30.4 reads it", ""},
	{"CREATE_THREAD_CONTEXT", "no version after 2.30.4 reads it", ""},
	{"GIN_NCONTEXTS", "no version after 2.29.7 reads it", ""},
	{"GIN_SIGNAL_POOL_SIZE", "no version after 2.29.7 reads it", ""},
	{"GIN_COUNTER_POOL_SIZE", "no version after 2.29.7 reads it", ""},
	{"GIN_EXCLUSIVE_CONTEXTS", "no version after 2.29.7 reads it", ""},

	// Wrong ones.
	{"MAX_P2P_PEERS", misspelt, "write NCCL_P2P_MAX_PEERS"},
	{"SOCKET_NSOCKS_PERTHREAD", misspelt, "write NCCL_NSOCKS_PERTHREAD"},
	{"BUFFER_SIZE", misspelt, "write NCCL_BUFFSIZE"},
	{"BUFSIZE", misspelt, "write NCCL_BUFFSIZE"},
	{"SOCKET_IF_NAME", misspelt, "write NCCL_SOCKET_IFNAME"},
	{"SOCKET_IFNAMES", misspelt, "write NCCL_SOCKET_IFNAME"},
	{"IFNAME", misspelt, "write NCCL_SOCKET_IFNAME"},
	{"IB_HCAS", misspelt, "write NCCL_IB_HCA"},
	{"IB_SCA", misspelt, "write NCCL_IB_HCA"},
	{"IB_DEVICE", misspelt, "write NCCL_IB_HCA"},
	{"IB_GID_IDX", misspelt, "write NCCL_IB_GID_INDEX"},
	{"GID_INDEX", misspelt, "write NCCL_IB_GID_INDEX"},
	{"IB_ENABLE", misspelt, "NCCL_IB_DISABLE=1 switches InfiniBand off; it is on without that"},
	{"IB_DISABLED", misspelt, "write NCCL_IB_DISABLE"},
	{"P2P_DISABLED", misspelt, "write NCCL_P2P_DISABLE"},
	{"P2P_ENABLE", misspelt, "NCCL_P2P_DISABLE=1 switches it off; it is on without that"},
	{"SHM_ENABLE", misspelt, "NCCL_SHM_DISABLE=1 switches it off; it is on without that"},
	{"DEBUG_LEVEL", misspelt, "write NCCL_DEBUG"},
	{"DEBUG_SUBSYSTEM", misspelt, "write NCCL_DEBUG_SUBSYS"},
	{"NTHREAD", misspelt, "write NCCL_NTHREADS"},
	{"NET_GDR_ENABLE", misspelt, "NCCL_NET_GDR_LEVEL says where GPUDirect RDMA is used"},

	// What others read.
	{"TIMEOUT", "NCCL has no time limit", "PyTorch's is the argument timeout of init_process_group, gorun's is --timeout"},
	{"ASYNC_ERROR_HANDLING", "it is an old name of PyTorch's, not one of NCCL's", "write TORCH_NCCL_ASYNC_ERROR_HANDLING"},
	{"BLOCKING_WAIT", "it is an old name of PyTorch's, not one of NCCL's", "write TORCH_NCCL_BLOCKING_WAIT"},
	{"DESYNC_DEBUG", "it is an old name of PyTorch's, not one of NCCL's", "write TORCH_NCCL_DESYNC_DEBUG"},
}

const misspelt = "NCCL has no such variable, and says nothing about that"

// name looks at a name that the table has not.
func (l *linter) name(v Var) {
	bare := strings.TrimSpace(v.Name)
	rest, nccl := strings.CutPrefix(bare, "NCCL_")
	if !nccl {
		l.likeNCCL(v, bare)
		return
	}
	if bare != v.Name {
		l.wrong(v, "", "a blank is part of the name, by which NCCL does not look for it")
		return
	}
	switch o, strange := strangeName(rest); {
	case strange:
		l.warn(v, o.hint, "%s", o.msg)
	case !pluginName(v.Name):
		l.warn(v, "", "NCCL 2.30.7 has no such variable; a newer version may have it")
	}
}

// strangeName finds what is known of rest, a name without NCCL_ that the table lacks, if NCCL
// is not to have such a variable: most likely another is meant.
func strangeName(rest string) (o otherName, strange bool) {
	for _, o := range otherNames {
		if o.name == rest {
			return o, true
		}
	}
	near := ""
	if !pluginName("NCCL_" + rest) {
		near = nearestVariable(rest)
	}
	return otherName{rest, misspelt, "did you mean " + near + "?"}, near != ""
}

// likeNCCL is about names that NCCL's may be meant by.
func (l *linter) likeNCCL(v Var, bare string) {
	if name := meantByName(bare); name != "" {
		l.warn(v, "write "+name, "%s", misspelt)
	}
}

// meantByName is the variable of NCCL's that is meant by a name that does not begin as NCCL's
// do; "" if none is.
func meantByName(bare string) string {
	for _, prefix := range []string{"NCCL_", "NCLL_", "NNCL_", "NCL_", "NCC_", "NCCLL_", "NCCL-"} {
		if len(bare) < len(prefix) || !strings.EqualFold(bare[:len(prefix)], prefix) {
			continue
		}
		if name := "NCCL_" + strings.ToUpper(bare[len(prefix):]); isVariable(name) {
			return name
		}
		return ""
	}
	return ""
}

func isVariable(name string) bool { _, ok := Lookup(name); return ok }

// nearestVariable is the variable of NCCL's that rest, a name without NCCL_, is nearest
// to, or "" if none is near.
func nearestVariable(rest string) string {
	names := make([]string, len(ncclTable))
	for i, r := range ncclTable {
		names[i] = r.name
	}
	if near := nearestOf(rest, names, 3); near != "" {
		return "NCCL_" + near
	}
	return ""
}

// oldName warns of names that are still read, but are not the ones to use.
func (l *linter) oldName(v Var) {
	switch v.Name {
	case "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS":
		l.warn(v, "", "since 2.5 it is called %s", strings.Replace(v.Name, "NRINGS", "NCHANNELS", 1))
	case "NCCL_LAUNCH_MODE":
		l.warn(v, "", "not to be used since 2.9")
	}
}
