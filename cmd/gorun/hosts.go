package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"gorun/hostfile"
	"gorun/launcher/transport"
)

// readHosts reads -hostfile, -H and --exclude; without the first two it is this machine,
// no host. All of them can be reached by --rsh as far as can be said.
func readHosts(o options, env environment) ([]hostfile.Host, error) {
	hosts, err := chosenHosts(o, env)
	if err != nil || o.rsh == "" {
		return hosts, err
	}
	for i := range hosts {
		hosts[i].Port = cmp.Or(hosts[i].Port, o.sshPort)
	}
	if err := transport.CheckRsh(o.rsh, hosts...); err != nil {
		return nil, &usageError{"--rsh: " + err.Error(), []string{"{user} and {port} stand for what the hostfile says, as in --rsh 'ssh -p {port} {user}@{host}'"}}
	}
	return hosts, nil
}

// chosenHosts are those of -hostfile and -H without those of --exclude.
func chosenHosts(o options, env environment) ([]hostfile.Host, error) {
	hosts, err := namedHosts(o, env)
	if err != nil {
		return nil, err
	}
	return o.withoutExcluded(hosts)
}

// withoutExcluded leaves the hosts of --exclude out. One that is configured is for whatever
// hosts a job has.
func (o *options) withoutExcluded(hosts []hostfile.Host) ([]hostfile.Host, error) {
	uses := o.said["exclude"]
	configured := len(uses) > 0 && !strings.HasPrefix(uses[0].origin, "-")
	switch {
	case o.exclude == "" || hosts == nil && configured:
		return hosts, nil
	case o.laterThan("host", "exclude") || o.laterThan("hostfile", "exclude"):
		return hostfile.ExcludeIfThere(hosts, o.exclude)
	case hosts == nil:
		return nil, &usageError{"--exclude without hosts", []string{"name the hosts by -hostfile FILE or -H LIST"}}
	}
	return hostfile.Exclude(hosts, o.exclude)
}

// namedHosts are the hosts of -hostfile and -H. With -ppn, a name that stands alone in
// the list has as many slots: nobody has said that it has one.
func namedHosts(o options, env environment) ([]hostfile.Host, error) {
	if o.hostfile == "" && o.hosts == "" {
		return nil, nil
	}
	if o.hostfile != "" {
		hosts, err := readHostfile(o.hostfile, env)
		if err != nil || o.hosts == "" {
			return hosts, err
		}
		return hostfile.Filter(hosts, o.hosts)
	}
	hosts, err := hostfile.ParseList(o.hosts)
	for i, h := range hosts {
		if h.Bare && o.ppn > 0 {
			hosts[i].Slots = o.ppn
		}
	}
	return hosts, err
}

// findDefault is the hostfile when the command line names no host, and what names
// it; "" if nothing does.
func (o *options) findDefault(env environment) (path, origin string) {
	named := func(p options) bool { return p.hosts != "" }
	if o.hostfile != "" || slices.ContainsFunc(o.programs(), named) {
		return "", ""
	}
	if o.defaultHostfile != "" {
		return o.defaultHostfile, "--default-hostfile"
	}
	for _, name := range []string{"OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"} {
		if path := env.get(name); path != "" {
			return path, name
		}
	}
	return "", ""
}

// readHostfile reads the hostfile at path.
func readHostfile(path string, env environment) ([]hostfile.Host, error) {
	read := hostfile.ParseFile
	if ofBatchSystem(path, env) {
		read = hostfile.ParseNodefile
	}
	hosts, err := read(path)
	if err != nil {
		return nil, hostfileError(err)
	}
	return hosts, nil
}

// ofBatchSystem reports whether path is the file in which a batch system names a host
// once for each of the job's slots.
func ofBatchSystem(path string, env environment) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, name := range nodefiles() {
		its, err := os.Stat(env.get(name))
		if err == nil && os.SameFile(info, its) {
			return true
		}
	}
	return false
}

// nodefiles are the variables that name such files.
func nodefiles() []string { return []string{"PBS_NODEFILE", "LSB_DJOB_HOSTFILE", "OAR_NODEFILE"} }

// unused warns of a job that is for this machine alone, as nobody has named hosts, though
// a batch system has others for it; "" if none has. One of many processes that a launcher
// has started is not meant for all hosts.
func unused(env environment) string {
	if env.get("GORUN_RANK") != "" || cmp.Or(env.get("SLURM_STEP_NUM_TASKS"), "1") != "1" {
		return ""
	}
	name, by := "SLURM_JOB_NODELIST", `-H "$SLURM_JOB_NODELIST" -ppn N`
	hosts, err := hostfile.ParseList(env.get(name))
	for _, file := range nodefiles() {
		if path := env.get(file); path != "" {
			name, by = file, "-hostfile $"+file
			hosts, err = hostfile.ParseNodefile(path)
		}
	}
	if err != nil || len(hosts) == 0 || len(hosts) == 1 && thisMachine(hosts[0].Name, env) {
		return ""
	}
	return fmt.Sprintf("the ranks run on this machine alone, though %s names %s: %s has them run there; -H localhost:N says that this machine is meant", name, plural(len(hosts), "host"), by)
}

// thisMachine reports whether a batch system's name for a host is this machine's.
func thisMachine(name string, env environment) bool {
	own, _ := os.Hostname()
	short := func(name string) string { first, _, _ := strings.Cut(strings.ToLower(name), "."); return first }
	return short(name) == short(own) || name == env.get("SLURMD_NODENAME")
}
