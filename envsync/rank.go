package envsync

import "strconv"

// RankInfo is what a rank is told of itself and of its job.
type RankInfo struct {
	JobID      string
	Rank, Size int    // in the job
	Local      int    // rank within its host
	LocalSize  int    // ranks on its host
	Node       int    // number of its host
	Nodes      int    // hosts with ranks
	MasterAddr string // address of rank 0's host; "": not known, MASTER_ADDR is not set
	MasterPort int    // 0: not known, MASTER_PORT is not set
	Backend    string // "": GORUN_BACKEND is not set
	EnvDigest  Digest // of the rank's environment; the zero Digest: GORUN_ENV_DIGEST is not set
	Dir        string // the job's directory on the host
}

// RankVars returns the names that are a rank's own: gorun's, PyTorch's, Open MPI's and
// MPICH's. GORUN_EXE is not among them: only the agent knows it. They are merged last.
func RankVars(r RankInfo) []Var {
	var vars []Var
	text := func(name, value string) {
		if value != "" {
			vars = append(vars, Var{name, value, FromGorun})
		}
	}
	number := func(n int, names ...string) {
		for _, name := range names {
			text(name, strconv.Itoa(n))
		}
	}
	text("GORUN_JOB_ID", r.JobID)
	number(r.Rank, "GORUN_RANK", "RANK", "OMPI_COMM_WORLD_RANK")
	number(r.Size, "GORUN_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE")
	// Open MPI's NODE_RANK is the rank within the host, PyTorch's is the host's number.
	number(r.Local, "GORUN_LOCAL_RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_NODE_RANK", "MPI_LOCALRANKID")
	number(r.LocalSize, "GORUN_LOCAL_SIZE", "LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
	number(r.Node, "GORUN_NODE_RANK", "GROUP_RANK", "NODE_RANK")
	number(r.Nodes, "GORUN_NODES")
	if r.Dir != "" {
		text("GORUN_STORE", "unix:"+r.Dir+"/store")
	}
	text("GORUN_BACKEND", r.Backend)
	text("GORUN_ENV_DIGEST", r.EnvDigest.String())
	text("MASTER_ADDR", r.MasterAddr)
	if r.MasterPort != 0 {
		number(r.MasterPort, "MASTER_PORT")
	}
	return vars
}
