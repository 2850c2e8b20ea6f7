package main

import (
	"fmt"
	"slices"

	"gorun/launcher"
)

// groups is the table of flags. A new flag is a row here and an entry in help.txt;
// `make docs` brings it into the manual.
func (o *options) groups() []group {
	return []group{o.whereFlags(), o.whatFlags(), o.environmentFlags(), o.outputFlags(), o.preflightFlags(), o.failureFlags(), o.diagnosisFlags(), o.peerFlags()}
}

func (o *options) whereFlags() group {
	return group{"Where to run", slices.Concat(o.hostFlags(), o.placeFlags(), o.layoutFlags(), o.reachFlags()),
		`Without -hostfile and -H the ranks run on this machine, without ssh: one for each GPU or,
		without GPUs, core; with -np up to 64. A host that is this machine, by its name or address
		and without a user or port of its own, is started without ssh, too.`}
}

// hostFlags say which hosts there are.
func (o *options) hostFlags() []flag {
	return []flag{
		{
			words: "-np -n -c", arg: "N", value: value(&o.np, hinted(ranks, "give the number of ranks, as in -np 16; without -np every slot gets one")), key: "np", each: true,
			text: `Number of ranks. Without it every slot gets one.`,
		},
		{
			words: "-hostfile -machinefile -f", arg: "FILE", value: value(&o.hostfile, text), complete: aFile, key: "hostfile",
			text: `The hosts; see HOSTFILES. Ranks are numbered host by host in the order of the file.`,
		},
		{
			words: "-H -host -hosts", arg: "LIST", value: value(&o.hosts, text), complete: someHosts, key: "hosts", each: true,
			text: `The hosts, with commas between: gpu1:8,gpu2:8. A bare name is one slot, or with -ppn
			as many as that says; repeats add. Together with -hostfile the file says what hosts
			there are, and the list selects from it: a bare name is then all slots that the file
			gives the host, +n0 is the first host of the file, +n1:4 four slots of the second. An
			item ^gpu3 leaves that host out: of the list, or of the file if the list names no host
			to use.`,
		},
		{
			words: "--exclude", arg: "LIST", value: value(&o.exclude, text), complete: someHosts, key: "exclude",
			text: `Hosts to leave out of those of -hostfile and -H. A name that is not among them is an
			error.`,
		},
		{
			words: "-ppn -npernode -N -perhost", arg: "N", value: value(&o.ppn, hinted(ranks, "give the number of ranks on each host, as in -ppn 8")), key: "ppn",
			text: `Number of ranks on each host; with several programs, of each of them.`,
		},
	}
}

// placeFlags say which ranks a host gets, and what they run on there.
func (o *options) placeFlags() []flag {
	return []flag{
		{
			words: "--map-by -mapby", arg: "HOW", value: value(&o.mapBy, parseMapping), complete: "slot node ppr:1:node", key: "map-by",
			text: `Which hosts get the ranks. With *slot*, the default, a host is filled before the next one
			gets a rank; with *node* the hosts get a rank in turn; ppr:2:node is the same as -ppn 2.
			As in mpirun, modifiers may follow after a colon: PE=4 is --cpus-per-rank 4, OVERSUBSCRIBE
			and NOOVERSUBSCRIBE are about --oversubscribe. With
			several programs, one is laid out after the other. With -v gorun says when ranks are not
			numbered host by host, which some programs take for granted.`,
		},
		{
			words: "-bynode", value: yes(&o.byNode),
			text: `The same as --map-by node.`,
		},
		{
			words: "-byslot", value: yes(&o.bySlot),
			text: `The same as --map-by slot.`,
		},
		{
			words: "--rank-by -rankby", arg: "HOW", value: value(&o.rankBy, parseRanking), complete: "slot node", key: "rank-by",
			text: `How the ranks are numbered: host by host with *slot*, from host to host in turn with
			*node*. The default is as they are mapped.`,
		},
		{
			words: "--oversubscribe", value: yes(&o.oversubscribe), key: "oversubscribe",
			text: `Allow more ranks than slots.`,
		},
		{
			words: "--bind-to -bindto", arg: "WHAT", value: value(&o.bindTo, parseBinding), complete: "none core hwthread numa socket", key: "bind-to",
			text: `What a rank may run on. *none*, the default: whatever its host lets it. *core*: the cores
			of a host are dealt out evenly to its ranks, in the order of NUMA nodes, and where that can
			be avoided no rank gets cores of two nodes; core:2 is two cores each. *hwthread*: the
			same with hardware threads. *numa* and *socket*: all cores of a NUMA node or socket,
			which several ranks share. Only CPUs count that gorun may use there. Ranks that are more
			than slots or cores are not bound; a line says so, and the job runs.`,
		},
		{
			words: "--cpus-per-rank -cpus-per-proc", arg: "N", value: value(&o.coresPerRank, coreCount), key: "cpus-per-rank",
			text: `Bind each rank to so many cores, or with --bind-to hwthread hardware threads. The
			same as --map-by slot:PE=N.`,
		},
		{
			words: "--report-bindings", value: yes(&o.reportBindings), key: "report-bindings",
			text: `Say on standard error what every rank may run on, as in "rank 3 on gpu1 (local 1): cores
			2-3 (NUMA 0)". A core is called by the lowest of its CPUs.`,
		},
	}
}

// reachFlags say how hosts are reached, and how ranks reach each other.
func (o *options) reachFlags() []flag {
	return []flag{
		{
			words: "--interface -iface", arg: "NAME", value: value(&o.iface, text), key: "interface",
			text: `Network interface whose address the ranks use.`,
		},
		{
			words: "--connect-timeout", arg: "TIME", value: value(&o.connectTimeout, positive), key: "ssh.connect-timeout",
			text: `Limit, for each host, for resolving its name, connecting, the key exchange,
			authentication and the start of gorun there. The default is 20 seconds.`,
		},
		{
			words: "--fanout", arg: "N", value: value(&o.fanout, hinted(count, fmt.Sprintf("give a number of connections; without it there are %d at once", launcher.DefaultFanout))), key: "ssh.fanout",
			text: `Number of connections made at the same time. The default is 64.`,
		},
		{
			words: "--accept-new-host-keys", value: yes(&o.acceptNew), key: "ssh.accept-new-host-keys", guarded: true,
			text: `Trust hosts whose keys are not in the known_hosts files, and add them. A key that
			has changed is an error nevertheless.`,
		},
		{
			words: "--retry-hosts", arg: "TIME", value: value(&o.retryHosts, positive), key: "ssh.retry-hosts",
			text: `Try for so long to reach hosts that may be coming up: those that refuse a connection,
			do not answer, or whose names are not known yet, and those behind such a jump host.
			Each try may take --connect-timeout. A wrong key or a host key that is not known
			is no reason to wait. Without this flag a refusing host is tried for some seconds.`,
		},
		{
			words: "--ssh-port", arg: "N", value: value(&o.sshPort, hinted(port, "a port is a number from 1 to 65535; without it ssh_config names one, or it is 22")), key: "ssh.port",
			text: `Port of the hosts' ssh servers, unless -hostfile or -H names another. As with ssh,
			the flag counts more than ~/.ssh/config.`,
		},
		{
			words: "--ssh-config", arg: "FILE", value: value(&o.sshConfig, text), complete: aFile, key: "ssh.config", guarded: true,
			text: `Read this file instead of ~/.ssh/config and /etc/ssh/ssh_config; none reads nothing.`,
		},
		{
			words: "--rsh", arg: "COMMAND", value: value(&o.rsh, rshCommand), key: "ssh.rsh", guarded: true,
			text: `Reach hosts by this command instead of by gorun's own ssh; see OTHER REMOTE SHELLS.`,
		},
	}
}

func (o *options) whatFlags() group {
	return group{"What to run", []flag{
		{
			words: "-wdir -wd", arg: "DIR", value: value(&o.wdir, text), complete: aDirectory, key: "wdir", each: true,
			text: `Working directory of the ranks. The default is the directory gorun is started in,
				by its name there; it must exist on every host, unless
				--bcast or --preload is used.`,
		},
		{
			words: "--app -configfile", arg: "FILE", value: value(&o.appFile, text), complete: aFile,
			text: `The programs of the job stand in *file*; see SEVERAL PROGRAMS.`,
		},
		{
			words: "--stdin", arg: "WHO", value: value(&o.stdin, stdinTarget), complete: "none all 0", key: "stdin",
			text: `Which rank reads the standard input of gorun: the number of a rank, *none* or *all*.
				The default is 0. The other ranks read /dev/null. In a loop of a shell that reads a
				list, *none* leaves the list to the loop.`,
		},
		{
			words: "--bcast --preload-binary", value: yes(&o.bcast), key: "bcast",
			text: `Bring the program, as it is here, to every host that has not the same, and run it
				there; see FILES FOR THE RANKS.`,
		},
		{
			words: "--preload", arg: "FILE", value: &repeated{&o.preload}, complete: aFile, key: "preload",
			text: `Bring a file, or all that is in a directory, to every host that has not the same.
				May be repeated; see FILES FOR THE RANKS.`,
		},
	}, ""}
}

func (o *options) environmentFlags() group {
	return group{"Environment", []flag{
		{
			words: "-x", arg: "NAME[=VALUE]", value: &settings{"-x", &o.settings}, complete: aVariable, each: true,
			text: `Give a variable to the ranks, with its value here, or with *value*. A pattern such as
				'NCCL_*' stands for all variables here whose names match. May be repeated.`,
		},
		{
			words: "-env", arg: "NAME VALUE|NAME=VALUE", value: &settings{"-env", &o.settings}, complete: aVariable, each: true,
			text: `The same, as it is written for Hydra.`,
		},
		{
			words: "-genv", arg: "NAME VALUE|NAME=VALUE", value: &settings{"-genv", &o.settings}, complete: aVariable, each: true,
			text: `The same, for the ranks of every program of the job.`,
		},
		{
			words: "-envlist", arg: "NAMES", value: &nameList{"-envlist", &o.settings}, complete: aVariable, each: true,
			text: `Give the ranks the variables of these names, with commas between, as -x does.`,
		},
		{
			words: "-genvlist", arg: "NAMES", value: &nameList{"-genvlist", &o.settings}, complete: aVariable, each: true,
			text: `The same, for the ranks of every program of the job.`,
		},
		{
			words: "-genvall -envall", value: yes(&o.envAll), key: "genvall",
			text: `Send the whole environment of gorun, but for what belongs to this host.`,
		},
		{
			words: "-genvnone -envnone", value: yes(&o.envNone),
			text: `Send nothing that is not asked for, not even NCCL_*.`,
		},
		{
			words: "--env-strict", value: yes(&o.envStrict), key: "env-strict",
			text: `End the job where gorun would only warn of settings that NCCL may not take for what is
				meant, and of settings and libraries of NCCL, and of its plugins, that differ between
				hosts or ranks.`,
		},
		{
			words: "--env-lax", value: yes(&o.envLax), key: "env-lax",
			text: `Warn of settings by which the job would otherwise end: those that NCCL is known to take
				for something else than is written, and those that differ between hosts or ranks and
				must not. For a newer NCCL, which may know better. Programs that compare the settings
				of their ranks (gorun store check-env, the CPU backend) do so all the same.`,
		},
		{
			words: "--backend", arg: "NAME", value: value(&o.backend, backendName), complete: "cpu", key: "backend",
			text: `Value of GORUN_BACKEND for every rank, by which a program written for package
				gorun/backend chooses its communicator. The default is cpu.`,
		},
		{
			words: "--pmi", arg: "HOW", value: value(&o.pmi, pmiWay), complete: "fd port none", key: "pmi",
			text: `How MPI programs reach gorun: by a file descriptor that they inherit (*fd*, the default),
				by a TCP port of their host's loopback interface (*port*), for wrappers that close
				descriptors, or not at all (*none*); see MPI PROGRAMS.`,
		},
	}, ""}
}

func (o *options) outputFlags() group {
	return group{"Output", []flag{
		{
			words: "-l --tag-output", value: yes(&o.tag), key: "output.tag",
			text: `Begin every line of output with the rank and its host, as in [3 gpu1].`,
		},
		{
			words: "--timestamp-output", value: yes(&o.stamp), key: "output.timestamp",
			text: `Begin every line of output with the local time at which it came, as in
				2026-01-31T23:59:59.999. With -l rank and host follow.`,
		},
		{
			words: "--fold", value: yes(&o.fold), key: "output.fold",
			text: `Join equal lines of several ranks into one that begins with the set of them, as in
				[0-7,9]. A line waits for the ranks that have not given it until they have gone on to
				another, have ended, or a second has passed. Each rank's lines keep their order; the
				standard output and the standard error are not joined with each other. With -l the
				host follows the ranks, or the number of their hosts.`,
		},
		{
			words: "--no-status", value: yes(&o.noStatus), key: "output.no-status",
			text: `On a terminal, show no line below the output that says where the job stands. There is
				none either when the standard error is no terminal, when the standard output is a
				pipe, or when TERM is dumb.`,
		},
		{
			words: "--output-dir", arg: "DIR", value: value(&o.outputDir, pattern), complete: aDirectory, key: "output.dir",
			text: `Write the output of every rank, byte by byte, to the files rank.N.out and rank.N.err
				in *dir*, and not to gorun's own output; it cannot be combined with -l,
				--timestamp-output and --fold. Directories that are missing are made; files of such
				names that an earlier job has left there are removed.
				In *dir* %r stands for the rank, %l for the local rank, %h for the host, %j for the ID
				of the job, %a for the number of the program (from 0) and %% for a percent sign.
				When the last part of the path has %r or %l in it, it is the name of the files,
				without their endings: logs/%j/%h/rank-%r makes logs/ID/gpu1/rank-3.out and
				rank-3.err. Such files replace those of the same name, and nothing else is removed.
				That two ranks have the same name is an error before any is started.`,
		},
		{
			words: "--pty", value: yes(&o.pty), key: "output.pty",
			text: `Give every rank a pseudo terminal for its standard output and error, as programs
				want that print at once, in columns or with a progress bar only there. The two are one
				then, on the output of gorun. Its size is that of gorun's terminal, or 24 lines of 80
				columns. Bytes pass unchanged. Standard input is as without it, and signals too: it is no
				controlling terminal.`,
		},
	}, `A progress bar is a line that a program overwrites again and again. On a terminal that of
		the lowest rank that draws one is shown below the output, and of every bar its last state
		stays; files and pipes get every byte of it.`}
}

func (o *options) failureFlags() group {
	return group{"Failure", []flag{
		{
			words: "--timeout", arg: "TIME", value: value(&o.timeout, positive), key: "timeouts.job",
			text: `End the job when its ranks have run for so long.
What they were doing is shown before; see WHERE A JOB HANGS.`,
		},
		{
			words: "--kill-grace", arg: "TIME", value: value(&o.grace, duration), key: "timeouts.kill-grace",
			text: `When a job is stopped, its processes get TERM, and so much later KILL. The default is
				5 seconds.`,
		},
		{
			words: "--lost-after", arg: "TIME", value: value(&o.lostAfter, silence), key: "timeouts.lost-after",
			text: `A host that has given no sign of life for so long is lost, and the job is ended. The
				ranks on such a host end by themselves in the same time. The default is 30 seconds.
				It is noticed up to 2 seconds later, as hosts give a sign every 2 seconds; then 5 seconds
				are spent on finding out whether anything is left there.
				One that most of the other hosts cannot reach either is lost after 5 seconds; see
				HOSTS THAT WATCH EACH OTHER.`,
		},
		{
			words: "--no-gossip", value: yes(&o.noGossip), key: "no-gossip",
			text: `Do not let the hosts watch each other: no port is opened for that.`,
		},
		{
			words: "--keep-going", value: yes(&o.keepGoing), key: "keep-going",
			text: `Leave the other ranks running when one fails.`,
		},
	}, ""}
}

func (o *options) diagnosisFlags() group {
	return group{"Diagnosis", []flag{
		{
			words: "-v --verbose -vv", value: yes(&o.verbose), key: "output.verbose",
			text: `Say what is done, and what each host does.`,
		},
		{
			words: "--config", arg: "FILE", value: value(&o.configFile, text), complete: aFile,
			text: `Configuration file to read in the place of ./gorun.toml; *none* reads no configuration
				file at all; see CONFIGURATION.`,
		},
		{
			words: "--show-config", value: yes(&o.showConfig),
			text: `Print the configuration, each value with its origin, and connect to nobody. Values of
				variables that look secret are hidden.`,
		},
		{
			words: "--show-env", value: yes(&o.showEnv),
			text: `Print the variables that ranks get, by program and by host, and connect to nobody:
				the value, its origin, among which ranks it must be equal, and of NCCL's variables what
				they are about, since which version there are such, and what is wrong with them; see
				ENVIRONMENT. No program and no slots are needed. Values of variables that look
				secret are hidden.`,
		},
		{
			words: "--dry-run", value: yes(&o.dryRun),
			text: `Print the layout and the environment of every rank, and connect to nobody. Every
				host's slots must be known: a hostfile of plain names is an error, unless -ppn says how
				many ranks each gets. Values of variables that look secret are hidden.`,
		},
		{
			words: "--result", arg: "FILE", value: value(&o.result, text), complete: aFile, key: "output.result", guarded: true,
			text: `Write how the job ended to *file*, as JSON; see RESULT.`,
		},
		{
			words: "--events", arg: "FILE", value: value(&o.events, text), complete: aFile, key: "output.events", guarded: true,
			text: `Write what happens to *file* while it happens, a line of JSON for each event: phases,
				hosts that are reached and lost, ranks that start and end, and the exit code. See
				docs/events.md. The file may be a pipe that has a reader, and - is the standard output.`,
		},
		{
			words: "--version -V", value: yes(&o.version),
			text: `Print the version.`,
		},
		{
			words: "--completion", arg: "SHELL", value: value(&o.completion, shellName), complete: "bash zsh fish",
			text: `Print what makes a shell complete gorun's command line: *bash*, *zsh* or *fish*. The
				script says in its first lines how to load it.`,
		},
		{
			words: "--help -h", value: yes(&o.help),
			text: `Print a summary of the flags.`,
		},
	}, ""}
}
