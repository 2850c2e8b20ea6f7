package preflight

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

// softwareChecks are those of area "software".
func softwareChecks() []Check {
	return []Check{
		{ID: "program", Area: "software", Title: "every host has the job's program", Explain: explainProgram, run: checkProgram},
		{ID: "program-same", Area: "software", Title: "the program is the same on every host", Explain: explainProgramSame, run: checkProgramSame},
		{ID: "libnccl", Area: "software", Title: "every host has the same NCCL library", Explain: explainLibNCCL, run: checkLibNCCL},
		{ID: "nccl-conf", Area: "software", Title: "no host has NCCL settings of its own", Explain: explainConf, run: checkConf},
		{ID: "library-path", Area: "software", Title: "LD_LIBRARY_PATH is the same on every host", Explain: explainLibraryPath, run: checkLibraryPath},
		version{"driver", "GPU driver", "The GPU driver decides which CUDA versions run, and has its own faults and speed.", facts.ItemGPU, func(h *Host) string {
			return phrase(h.Facts.GPU.Driver, when(h.Facts.GPU.CUDA != "", "(CUDA "+h.Facts.GPU.CUDA+")"), when(h.Facts.GPU.Open, "open"))
		}, false}.check(),
		version{"kernel", "kernel", "Kernels differ in RDMA, memory and network behaviour, and modules must fit.", facts.ItemSystem, func(h *Host) string { return h.Facts.System.Kernel }, true}.check(),
		version{"os", "operating system", "Another release has other libraries, other defaults, and other versions of what is installed.", facts.ItemSystem, func(h *Host) string { return h.Facts.System.OS }, true}.check(),
		version{"arch", "architecture", "A program is built for one architecture, and does not run on another.", facts.ItemSystem, func(h *Host) string { return h.Facts.System.Arch }, false}.check(),
		version{"libc", "C library", "A program that was built against a newer C library does not start with an older one.", facts.ItemSystem, func(h *Host) string { return h.Facts.System.Libc }, false}.check(),
		version{"ofed", "RDMA software", "The vendor's drivers (OFED) and libibverbs (rdma-core) must fit each other and the firmware; mixed versions show up as links that are slow or fail.", facts.ItemSystem, func(h *Host) string {
			return phrase(when(h.Facts.System.OFED != "", "OFED "+h.Facts.System.OFED), when(h.Facts.System.RDMACore != "", "rdma-core "+h.Facts.System.RDMACore))
		}, false}.check(),
	}
}

// version is a check that a version is the same on all hosts.
type version struct {
	id, what string
	why      string
	item     string
	of       func(*Host) string // "" the host has none
	loose    bool               // versions with the same two numbers in front differ little
}

func (s version) check() Check {
	return Check{
		ID: s.id, Area: "software", Title: "the " + s.what + " is the same on every host",
		Explain: s.why + ` Each host is compared with the majority of those that have it. ` +
			`A host that differs is a warning: the job may well run, but is no longer the same program everywhere. ` +
			when(s.loose, `Versions that only differ behind the second number (5.15.0-105 and 5.15.0-107) are mentioned. `) +
			`With two hosts, or without a majority, nobody is blamed. ` +
			`Bring the hosts to one version, or leave the odd ones out.`,
		run: func(v *view) ([]Finding, string, string) { return v.sameVersion(s) },
	}
}

func (v *view) sameVersion(s version) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, s.item)
	known = slices.DeleteFunc(known, func(i int) bool { return s.of(&v.Hosts[i]) == "" })
	if len(known) == 0 {
		return nil, "", "no host has one"
	}
	c := contrast{
		of: s.of, what: s.what, subject: "the " + s.what, blame: Warn, differ: Warn, remedy: "bring HOST to the version of the others", align: "bring all hosts to one version",
		grade: func(odd, most *Host) Verdict {
			if s.loose && release(s.of(odd)) == release(s.of(most)) {
				return Info
			}
			return Warn
		},
	}
	if s.loose && len(v.groups(known, func(h *Host) string { return release(s.of(h)) })) == 1 {
		c.differ = Info
	}
	found = append(found, v.odd(known, c)...)
	return found, s.of(&v.Hosts[known[0]]), ""
}

var numbersOfVersion = regexp.MustCompile(`\d+(\.\d+)?`)

// release is a version up to its second number, with what stands around the version.
func release(version string) string {
	first := numbersOfVersion.FindStringIndex(version)
	if first == nil {
		return version
	}
	rest := strings.TrimLeft(version[first[1]:], "0123456789.-+~abcdefghijklmnopqrstuvwxyz_")
	return version[:first[1]] + rest
}

const explainProgram = `The job's programs are looked up on each host as a rank would: by their path, or in the rank's PATH. ` +
	`A host that does not have one is excluded; if no host has it, the job cannot run anywhere. ` +
	`On a host where the working directory is missing, a program inside it is missing, too. ` +
	`Copy it there (gorun --bcast does), install it, or mount what holds it.`

func checkProgram(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemPrograms)
	args := v.programs(known)
	if len(args) == 0 && len(found) == 0 {
		return nil, "", "no program was looked for"
	}
	for _, arg := range args {
		var lack, have []int
		for _, i := range known {
			if p := programOf(&v.Hosts[i], arg); p != nil && p.Path == "" {
				lack = append(lack, i)
			} else if p != nil {
				have = append(have, i)
			}
		}
		switch {
		case len(lack) == 0:
		case len(have) == 0:
			found = append(found, v.finding(NoCluster, lack, fmt.Sprintf("no host has the program %s", arg), "install it on HOST, or send it: gorun --bcast", nil))
		default:
			found = append(found, v.finding(NoHost, lack, v.say(lack, "lacks the program "+arg), "install it on HOST, or send it: gorun --bcast", nil))
		}
	}
	return found, strings.Join(args, ", "), ""
}

// programs lists what programs hosts looked for, each once.
func (v *view) programs(hosts []int) (args []string) {
	seen := map[string]bool{}
	for _, i := range hosts {
		for _, p := range v.Hosts[i].Facts.Programs {
			if !seen[p.Arg] {
				seen[p.Arg] = true
				args = append(args, p.Arg)
			}
		}
	}
	return args
}

func programOf(h *Host, arg string) *facts.Program {
	for k := range h.Facts.Programs {
		if h.Facts.Programs[k].Arg == arg {
			return &h.Facts.Programs[k]
		}
	}
	return nil
}

const explainProgramSame = `Ranks that run different builds of a program speak different protocols, or compute different things; such jobs hang, or give wrong results without a word. ` +
	`The content's hash (size, for files over 1 GiB) is compared with the majority of hosts. ` +
	`A program that is named by a path is the job's own: a host that differs is excluded, and without a majority the hosts cannot run it together. ` +
	`One that is found in PATH or lies where systems keep programs (/usr), and an interpreter such as python3 wherever it lies, is the system's: a difference is a warning. So it is between hosts of different architectures. ` +
	`Copy one file to all: gorun --bcast.`

func checkProgramSame(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemPrograms)
	compared := 0
	for _, arg := range v.programs(known) {
		var have []int
		for _, i := range known {
			if p := programOf(&v.Hosts[i], arg); p != nil && p.Path != "" {
				have = append(have, i)
			}
		}
		compared = max(compared, len(have))
		c := contrast{
			of: func(h *Host) string { return contentOf(programOf(h, arg)) }, what: arg + " with", again: "it with", subject: "the content of " + arg,
			blame: NoHost, differ: NoCluster, remedy: "copy one file to all hosts: gorun --bcast",
		}
		if ofSystem(arg) || len(v.groups(have, func(h *Host) string { return h.Facts.System.Arch })) > 1 {
			c.blame, c.differ, c.remedy = Warn, Warn, "install the same version of "+arg+" on HOST"
		}
		found = append(found, v.odd(have, c)...)
	}
	if compared == 0 && len(found) == 0 {
		return nil, "", "no program was found"
	}
	return found, "the same on " + count(compared, "host"), ""
}

// ofSystem reports whether a program is the system's rather than the job's own, whose
// builds differ from host to host without harm.
func ofSystem(arg string) bool {
	if !strings.Contains(arg, "/") {
		return true
	}
	for _, dir := range []string{"/bin/", "/sbin/", "/lib", "/usr/", "/nix/", "/snap/", "/gnu/"} {
		if strings.HasPrefix(arg, dir) && !strings.HasPrefix(arg, "/usr/local/") {
			return true
		}
	}
	name := strings.TrimRight(path.Base(arg), "0123456789.")
	return slices.Contains([]string{"python", "pypy", "bash", "sh", "dash", "zsh", "perl", "ruby", "julia", "R", "Rscript", "java", "node", "env"}, name)
}

// contentOf names the content of a program: the start of its hash, and its size.
func contentOf(p *facts.Program) string {
	if p.SHA256 == "" {
		return fmt.Sprintf("%d bytes", p.Size)
	}
	return fmt.Sprintf("sha256 %s (%d bytes)", p.SHA256[:min(len(p.SHA256), 16)], p.Size)
}

const explainLibNCCL = `NCCL refuses, or hangs, if ranks use different versions of it. ` +
	`Compared is the libnccl that the loader finds first in its usual places, by version and build. ` +
	`If the job's program is linked with libnccl, a host with another version than the majority is excluded, and without a majority the hosts cannot run together. ` +
	`For other programs it is a warning, as is the same version in another build: many bring their own (PyTorch's wheels do). ` +
	`Hosts that have no libnccl there are a warning if the program is linked with it, and else only mentioned. ` +
	`Install the same package everywhere, or name the library by LD_LIBRARY_PATH: gorun -x LD_LIBRARY_PATH.`

func checkLibNCCL(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemNCCL)
	var have, lack []int
	for _, i := range known {
		if len(v.Hosts[i].Facts.NCCL) > 0 {
			have = append(have, i)
		} else {
			lack = append(lack, i)
		}
	}
	if len(have) == 0 {
		return found, "", when(len(found) == 0, "no host has libnccl where the loader looks")
	}
	c := contrast{of: ncclVersion, what: "libnccl", subject: "the version of libnccl", blame: Warn, differ: Warn, remedy: "install the same libnccl on HOST"}
	absent := Info
	if v.loadsNCCL(known) {
		c.blame, c.differ, absent = NoHost, NoCluster, Warn
	}
	found = append(found, v.odd(have, c)...)
	for _, g := range v.groups(have, ncclVersion) {
		c := contrast{of: ncclBuild, what: "libnccl " + g.value + ", build", subject: "the build of libnccl " + g.value, blame: Warn, differ: Warn, remedy: c.remedy}
		found = append(found, v.odd(g.hosts, c)...)
	}
	if len(lack) > 0 && hasAnyGPU(v, lack) {
		found = append(found, v.finding(absent, lack, v.say(lack, "has no libnccl where the loader looks, others have"), "install the same libnccl on HOST", nil))
	}
	return found, ncclVersion(&v.Hosts[have[0]]) + " on " + count(len(have), "host"), ""
}

// loadsNCCL reports whether a program of the job is linked with libnccl.
func (v *view) loadsNCCL(hosts []int) bool {
	return slices.ContainsFunc(hosts, func(i int) bool {
		return slices.ContainsFunc(v.Hosts[i].Facts.Programs, func(p facts.Program) bool { return p.NCCL })
	})
}

func hasAnyGPU(v *view, hosts []int) bool {
	return slices.ContainsFunc(hosts, func(i int) bool { return hasGPU(&v.Hosts[i].Facts) })
}

func ncclVersion(h *Host) string {
	lib := &h.Facts.NCCL[0]
	return cmp.Or(lib.Version, "of a version that is not known")
}

func ncclBuild(h *Host) string { return clip(h.Facts.NCCL[0].Build, 16) }

const explainConf = `NCCL reads /etc/nccl.conf and ~/.nccl.conf on each host, and NCCL_ variables that a login sets there (a dot file, a container image). ` +
	`A job of gorun gets what is equal on all hosts. Where hosts differ in what must be equal, it is not started until -x or the configuration decides; programs that are started otherwise get the settings as they are. ` +
	`Hosts that differ are a warning here; settings that are equal on all hosts are only mentioned. ` +
	`Remove them, or put them into gorun's configuration, where all ranks get them.`

func checkConf(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemConf)
	all := v.groups(known, foreign)
	switch {
	case len(all) > 1:
		found = append(found, v.odd(known, contrast{
			of: foreign, verb: "has", what: "NCCL settings", subject: "their own NCCL settings", blame: Warn, differ: Warn,
			remedy: "remove them on HOST, or decide for all hosts with -x or in gorun's configuration: a job does not start where they must be equal",
		})...)
	case len(all) == 1 && all[0].value != "":
		found = append(found, v.finding(Info, known, v.say(known, "has NCCL settings of its own: ")+clip(all[0].value, 120), "", v.compared(all)))
	}
	return found, "no NCCL settings on any host", ""
}

// foreign says what NCCL settings a host has by itself.
func foreign(h *Host) string {
	var parts []string
	for _, f := range h.Facts.Conf {
		parts = append(parts, cmp.Or(strings.Join(f.Set, " "), "nothing")+" in "+f.Path)
	}
	if set := session(h, "NCCL_"); len(set) > 0 {
		parts = append(parts, strings.Join(set, " ")+" from the login")
	}
	return strings.Join(parts, "; ")
}

// session lists what the login sets of names that begin with prefix, sorted.
func session(h *Host, prefix string) (set []string) {
	for _, line := range h.Facts.Session {
		if strings.HasPrefix(line, prefix) {
			set = append(set, line)
		}
	}
	slices.Sort(set)
	return set
}

const explainLibraryPath = `Ranks inherit LD_LIBRARY_PATH from the login on their host, unless the job sets it: where it differs, the same program may load other libraries. ` +
	`It is compared with the majority of hosts, and a difference is a warning. ` +
	`With two hosts, or without a majority, nobody is blamed. ` +
	`Set it for the job (gorun -x LD_LIBRARY_PATH), or make the dot files alike.`

func checkLibraryPath(v *view) (found []Finding, good, skip string) {
	of := func(h *Host) string {
		return cmp.Or(strings.Join(session(h, "LD_LIBRARY_PATH="), " "), "no LD_LIBRARY_PATH")
	}
	found = v.odd(v.reached, contrast{of: of, subject: "LD_LIBRARY_PATH", blame: Warn, differ: Warn, remedy: "set it for the job with -x LD_LIBRARY_PATH, or make the dot files of HOST like the others'"})
	return found, "the same on " + count(len(v.reached), "host"), ""
}
