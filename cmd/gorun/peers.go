package main

import "strings"

// A peer is a group of flags that other launchers have and gorun has not, with what
// to do instead, or why nothing is needed.
type peer struct {
	words string // without dashes, "-" for "_", one space between
	hint  string
}

// peers lists what users of Open MPI's mpirun, MPICH's Hydra, srun, torchrun,
// DeepSpeed, horovodrun and pdsh are used to type. It is built only when a flag is
// unknown. A word belongs to one group.
func peers() []peer {
	return []peer{
		// Where to run.
		{"ntasks num-proc nprocs numprocs", "write -np N"},
		{"ntasks-per-node tasks-per-node nproc-per-node perhost grr num-gpus slots-per-host npersocket npernuma local-size",
			"write -ppn N, the number of ranks on each host"},
		{"pernode", "write -ppn 1"},
		{"nnodes num-nodes nodes", "the hosts are those of -hostfile FILE or -H LIST; -ppn N sets the ranks on each"},
		{"hosts hostlist machine machines machinelist nodelist w", "write -H host1,host2 (host:4 for four slots)"},
		{"default-hostfile nodefile hosts-file F", "write -hostfile FILE"},
		{"include i", "write -H host1,host2: with -hostfile it selects from the file"},
		{"exclude", "name the hosts to use: with -hostfile, -H host1,host2 selects from the file"},
		{"add-host add-hostfile min-np max-np host-discovery-script elastic-training",
			"the hosts and ranks of a job are fixed when it starts"},
		{"nolocal skip-launch-node localhost", "ranks run only on the hosts of -hostfile or -H; without both, here"},
		{"map-by mapby rank-by rankby bynode byslot bycore distribution m rankmap order-nodes loadbalance rankfile rf",
			"ranks are numbered host by host in the order of the hostfile, as many as a host has slots; -ppn N sets the number per host"},
		{"bind-to bindto bind-to-core bind-to-socket bind-to-none binding cpu-bind mem-bind membind numa-binding cpu-set cpu-list cpus-per-proc cpus-per-rank cpus-per-task topolib report-bindings bind-cores-to-rank hint",
			"gorun binds no rank to cores; start the program by numactl or taskset, or let it bind itself by LOCAL_RANK"},
		{"gpus-per-proc gpus-per-task gpu-bind gpus gpus-per-node gres",
			"every rank sees all GPUs of its host; choose by LOCAL_RANK in the program"},
		{"nooversubscribe no-oversubscribe", "that is gorun's default"},
		{"overcommit O", "write --oversubscribe"},
		{"iface ifname network-interface network-interfaces local-addr", "write --interface NAME"},
		{"partition account qos job-name J jobid exclusive mem constraint reservation",
			"gorun asks no scheduler: give the hosts with -hostfile or -H"},

		// ssh and the agent.
		{"launcher launcher-exec launcher-args bootstrap bootstrap-exec rmk rsh ssh plm-rsh-agent no-ssh no-ssh-check jsrun",
			"gorun makes its ssh connections itself, with the settings of ~/.ssh/config"},
		{"p port ssh-port", "write port=N in the hostfile, or Port in ~/.ssh/config"},
		{"user username", "write user=NAME in the hostfile, or User in ~/.ssh/config"},
		{"identity ssh-identity-file", "write IdentityFile in ~/.ssh/config, or add the key to ssh-agent"},
		{"start-timeout spawn-timeout", "write --connect-timeout TIME"},
		{"prefix noprefix enable-mpirun-prefix-by-default launch-agent path",
			"not needed: gorun brings itself to the hosts; for the program's own lookup write -x PATH=..."},
		{"allow-run-as-root", "not needed: gorun runs as whoever starts it"},
		{"preload-binary preload-files bcast s", "gorun copies only itself to the hosts; the program must be there"},

		// Environment.
		{"env", "write -x NAME=VALUE or -genv NAME VALUE"},
		{"genvlist envlist export", "write -x NAME once for each variable; -x 'NCCL_*' sends many"},
		{"envall", "write -genvall"},
		{"genvnone envnone unset-env", "only NCCL_ and a few other prefixes are sent by themselves; unset a variable here to send it not"},
		{"prepend-env append-env", "write -x NAME=VALUE with the whole value"},
		{"mca gmca omca prtemca pmixmca am tune",
			"gorun has no MCA parameters; one for the program's own MPI goes as -x OMPI_MCA_NAME=VALUE"},
		{"mpi use-mpi gloo use-gloo mpi-args pmi-port personality usize nameserver ompi-server",
			"not needed: gorun starts every program in the same way"},
		{"rdzv-backend rdzv-endpoint rdzv-id rdzv-conf standalone master-addr master-port node-rank role use-env",
			"not needed: gorun sets MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE and LOCAL_RANK for every rank"},

		// What to run.
		{"chdir D cwd workdir", "write -wdir DIR"},
		{"set-cwd-to-session-dir", "write -wdir DIR; a job has no directory of its own for files of yours"},
		{"module no-python run-path", "gorun starts any program: gorun -np 4 python3 -m MODULE"},
		{"app configfile multi-prog", "gorun starts one program per job; let it branch on RANK"},
		{"start-method monitor-interval", "gorun starts the program itself, once per rank"},

		// Output.
		{"label prepend-rank prepend-pattern tag-output-detailed", "write -l: every line begins with [rank host]"},
		{"timestamp-output prefix-output-with-timestamp prefix-timestamp",
			"gorun adds no times; -l marks lines with rank and host"},
		{"output-filename outfile-pattern errfile-pattern outfile errfile output error o e log-dir redirects r tee t enable-each-rank-log local-ranks-filter",
			"write --output-dir DIR: one file per rank and stream"},
		{"input", "write --stdin none, --stdin all or --stdin RANK; the default is rank 0"},
		{"unbuffered u", "gorun passes whole lines on at once; buffering is the program's own (PYTHONUNBUFFERED=1 is set)"},
		{"xml parseable json print-all-exitcodes", "write --result FILE: JSON with every rank's end"},
		{"quiet q silent", "gorun is silent unless something goes wrong"},
		{"pty xterm", "ranks have no terminal; --stdin RANK gives one rank gorun's input"},

		// Failure.
		{"time time-limit", "write --timeout TIME"},
		{"report-state-on-timeout get-stack-traces", "write --timeout TIME; gorun takes no stack traces"},
		{"kill-on-bad-exit K", "that is gorun's default: a failed rank ends the job"},
		{"no-kill disable-auto-cleanup enable-recovery continuous", "write --keep-going: a failed rank leaves the others running"},
		{"wait W", "write --kill-grace TIME, the time between TERM and KILL"},
		{"max-restarts", "gorun restarts no ranks; --keep-going leaves the others running"},

		// Diagnosis.
		{"display-map display-allocation display-devel-map display-topo display do-not-launch donotlaunch test-only",
			"write --dry-run: it prints the layout and every rank's environment"},
		{"debug-daemons leave-session-attached report-pid report-uri show-progress d debug profile",
			"write -v, or -vv for more"},
		{"info check-build", "write --version"},
	}
}

// peerHint is what peers say about word, or "".
func peerHint(word string) string {
	for _, p := range peers() {
		for w := range strings.FieldsSeq(p.words) {
			if w == word {
				return p.hint
			}
		}
	}
	return ""
}
