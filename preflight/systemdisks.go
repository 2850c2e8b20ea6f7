package preflight

import (
	"fmt"
	"slices"
	"strings"

	"gorun/preflight/facts"
)

// disk is a host's directory of that use; nil if it was not looked at.
func disk(h *facts.Host, use string) *facts.Disk {
	for k := range h.Disks {
		if h.Disks[k].Use == use {
			return &h.Disks[k]
		}
	}
	return nil
}

// splitDisk is split for checks of a directory.
func (v *view) splitDisk(use string) (known []int, unknown []Finding) {
	all, unknown := v.split(v.reached, facts.ItemDisks)
	t := v.tally()
	for _, i := range all {
		switch d := disk(&v.Hosts[i].Facts, use); {
		case d == nil && (use == facts.DiskWork || use == facts.DiskHome):
		case d == nil:
			t.add(i, unknownFault(facts.ItemDisks, use+" was not looked at"))
		default:
			known = append(known, i)
		}
	}
	return known, append(unknown, t.findings()...)
}

const explainShm = `Ranks of one host exchange data through files in /dev/shm: NCCL about 10 MB for each pair of those that have a GPU (preflight.shm-per-rank), other programs less, for each rank. ` +
	`If that does not fit, or cannot be written, the job ends with "failed to extend /dev/shm/nccl-…" or a bus error: the host is excluded. ` +
	`Many programs without GPUs need none: in a job without GPUs a host is excluded only if less than a tenth of that is free, and else it is a warning. ` +
	`For jobs with several ranks with GPUs on a host 1 GiB (preflight.shm) is asked for, as NCCL's documentation does; for others less than that is a warning. ` +
	`Containers get 64 MiB by default: docker run --shm-size=1g, or a memory volume at /dev/shm in Kubernetes. ` +
	`Elsewhere: mount -o remount,size=50% /dev/shm.`

func checkShm(v *view) (found []Finding, good, skip string) {
	known, found := v.splitDisk(facts.DiskShm)
	t := v.tally()
	least := int64(-1)
	for _, i := range known {
		d := disk(&v.Hosts[i].Facts, facts.DiskShm)
		if least < 0 || d.Free < least {
			least = d.Free
		}
		if f, ok := v.shmFault(i, d); ok {
			t.add(i, f)
		}
	}
	return append(t.findings(), found...), "at least " + size(max(least, 0)) + " free", ""
}

// scarce is the part of what ranks without GPUs may need of /dev/shm that even those which
// need little should find: many programs need none, and containers get 64 MiB by default.
const scarce = 10

func (v *view) shmFault(host int, d *facts.Disk) (f fault, ok bool) {
	const remedy = "on HOST: mount -o remount,size=50% /dev/shm (needs root); in a container: docker run --shm-size=1g"
	ranks, need := int64(v.ranksOn(host)), v.needShm(host)
	verdict := NoHost
	if ranks == 1 {
		verdict = Warn
	}
	switch {
	case d.Missing:
		return fault{verdict: verdict, what: "has no /dev/shm", remedy: "on HOST: mount -t tmpfs tmpfs /dev/shm (needs root)"}, true
	case d.Trouble != "":
		return fault{verdict: verdict, what: "has a /dev/shm that does not answer", which: d.Trouble, remedy: "on HOST: ls /dev/shm"}, true
	case d.ReadOnly || !d.Writable:
		return fault{verdict: verdict, what: "has a /dev/shm that cannot be written", remedy: "on HOST: mount -o remount,rw /dev/shm; chmod 1777 /dev/shm (needs root)"}, true
	case d.Inodes > 0 && d.InodesOK == 0:
		return fault{verdict: verdict, what: "has no room for another file in /dev/shm", remedy: "on HOST: remove files of jobs that have ended from /dev/shm"}, true
	case d.Free < need:
		verdict = NoHost
		if !v.Job.GPU && d.Free >= need/scarce {
			verdict = Warn
		}
		return fault{verdict: verdict, what: "has too little of /dev/shm free", which: fmt.Sprintf("%s of %s, its %s need %s", size(d.Free), size(d.Size), count(int(ranks), "rank"), size(need)), remedy: remedy}, true
	case d.Free < v.Limits.Shm:
		return fault{verdict: Warn, what: "has little of /dev/shm free", which: fmt.Sprintf("%s of %s", size(d.Free), size(d.Size)), remedy: remedy}, true
	}
	return fault{}, false
}

// needShm is how much of /dev/shm the ranks of a host need.
func (v *view) needShm(host int) int64 {
	ranks := int64(v.ranksOn(host))
	gpus := int64(len(v.used(host)))
	switch {
	case ranks < 2:
		return 0
	case v.Job.GPU && gpus > 0:
		n := min(ranks, gpus)
		return max(n*(n-1)*v.Limits.ShmPerRank, v.Limits.Shm)
	}
	return ranks * v.Limits.ShmPerRank
}

const explainShmStale = `A job that ends badly leaves its shared-memory files behind, which use memory until somebody removes them. ` +
	`Named are files of NCCL and gorun in /dev/shm that no process maps any more, as far as the job's user can see. ` +
	`It is a warning; the room that they take also counts against the job. ` +
	`Remove them if they are yours: rm /dev/shm/nccl-*.`

func checkShmStale(v *view) (found []Finding, good, skip string) {
	known, found := v.splitDisk(facts.DiskShm)
	t := v.tally()
	for _, i := range known {
		d := disk(&v.Hosts[i].Facts, facts.DiskShm)
		if n := len(d.Stale); n > 0 {
			first := strings.Join(d.Stale[:min(n, 4)], " ") + when(n > 4, fmt.Sprintf(" and %d more", n-4))
			t.add(i, fault{
				verdict: Warn, what: "has files of jobs that have ended in /dev/shm", which: count(n, "file") + when(d.StaleUse > 0, ", "+size(d.StaleUse)),
				evidence: []string{first}, remedy: "on HOST: rm those of " + d.Path + " that are named",
			})
		}
	}
	return append(t.findings(), found...), "none", ""
}

const explainTmp = `gorun keeps the socket of the store and the job's own files in /tmp, and so do Python, compilers and NCCL's logs. ` +
	`If it cannot be written, or has less than 64 MiB (preflight.tmp-free) or no file entry left, ranks fail at the start: the host is excluded. ` +
	`Room is what this user may use, quotas of the file system included as far as it tells. ` +
	`Remove what is old, or mount a larger /tmp.`

func checkTmp(v *view) (found []Finding, good, skip string) {
	known, found := v.splitDisk(facts.DiskTmp)
	t := v.tally()
	least := int64(-1)
	for _, i := range known {
		d := disk(&v.Hosts[i].Facts, facts.DiskTmp)
		f := fault{verdict: NoHost, remedy: "on HOST: du -xsh /tmp/* | sort -h | tail, and remove what is old"}
		switch {
		case d.Missing:
			f.what, f.remedy = "has no "+d.Path, "on HOST: mkdir -m 1777 "+d.Path+" (needs root)"
		case d.Trouble != "":
			f.what, f.which = "has a "+d.Path+" that does not answer", d.Trouble
		case d.ReadOnly || !d.Writable:
			f.what, f.remedy = "has a "+d.Path+" that cannot be written", "on HOST: mount -o remount,rw "+d.Path+"; chmod 1777 "+d.Path+" (needs root)"
		case d.Inodes > 0 && d.InodesOK == 0:
			f.what = "has no file entry left in " + d.Path
		case d.Free < v.Limits.TmpFree:
			f.what, f.which = "has a full "+d.Path, fmt.Sprintf("%s free of %s", size(d.Free), size(d.Size))
		}
		if f.what != "" {
			t.add(i, f)
		}
		if least < 0 || d.Free < least {
			least = d.Free
		}
	}
	return append(t.findings(), found...), "at least " + size(max(least, 0)) + " free", ""
}

const explainDisk = `A disk that is nearly full ends a job when it writes its first checkpoint or log. ` +
	`The file systems of the working directory, the home directory and /tmp are looked at: over 95 % in use (preflight.disk-used) with less than 1 TiB free, or without a free file entry, is a warning. ` +
	`A network file system that is full is so on all hosts, and is one finding. ` +
	`Remove what is old (du -xh DIR | sort -h | tail), or write elsewhere.`

// plenty is how much of a disk is room enough, however small a part of it that is.
const plenty = 1 << 40

func checkDisk(v *view) (found []Finding, good, skip string) {
	known, found := v.split(v.reached, facts.ItemDisks)
	t := v.tally()
	for _, i := range known {
		for _, d := range v.Hosts[i].Facts.Disks {
			if d.Use == facts.DiskShm || d.Missing || d.Trouble != "" || d.ReadOnly {
				continue
			}
			f := fault{verdict: Warn, remedy: "on HOST: du -xh " + d.Path + " | sort -h | tail, and remove what is old"}
			used := 1 - float64(d.Free)/float64(max(d.Size, 1))
			switch {
			case d.Size > 0 && used > v.Limits.Disk && d.Free < plenty:
				f.what, f.which = "has a disk that is nearly full at "+d.Path, fmt.Sprintf("%s free of %s", size(d.Free), size(d.Size))
			case d.Inodes > 0 && d.InodesOK == 0:
				f.what = "has a disk without a free file entry at " + d.Path
			default:
				continue
			}
			t.add(i, f)
		}
	}
	return append(t.findings(), found...), "no disk is nearly full", ""
}

const explainWorkDir = `Ranks start in the job's working directory. A host that does not have it, or where it does not answer, is excluded if the job needs it there. ` +
	`On a shared file system it must be the same directory: hosts are compared by type, source and path of what is mounted. ` +
	`A host that has a directory of its own where the others have the shared one has not mounted it, and is excluded; but not the file server itself, and if it has the job's programs there it is a warning. One that has another is a warning, and one that names the server otherwise is mentioned. ` +
	`A directory that is mounted read-only, or that the user cannot write, is a warning: logs and checkpoints fail. ` +
	`Mount it (mount DIR, or systemctl restart autofs), or pass -wdir.`

func checkWorkDir(v *view) (found []Finding, good, skip string) {
	known, found := v.splitDisk(facts.DiskWork)
	if len(known) == 0 && len(found) == 0 {
		return nil, "", "no working directory was looked at"
	}
	verdict := Warn
	if v.Job.SharedDir {
		verdict = NoHost
	}
	t := v.tally()
	var there []int
	for _, i := range known {
		d := disk(&v.Hosts[i].Facts, facts.DiskWork)
		switch {
		case d.Trouble != "":
			t.add(i, fault{verdict: verdict, what: "has a working directory that does not answer", which: d.Path, evidence: []string{d.Path + ": " + d.Trouble}, remedy: "on HOST: see whether the file server answers: mount | grep " + d.Path})
		case d.Missing && v.Job.SharedDir:
			t.add(i, fault{verdict: verdict, what: "does not have the working directory", which: d.Path, remedy: "mount it on HOST, or name another with -wdir"})
		case d.Missing:
		case d.ReadOnly || !d.Writable:
			t.add(i, fault{verdict: Warn, what: "has a working directory that cannot be written", which: d.Path, remedy: "on HOST: mount | grep " + d.Path + "; ls -ld " + d.Path})
			there = append(there, i)
		default:
			there = append(there, i)
		}
	}
	found = append(t.findings(), found...)
	for _, same := range v.byWorkDir(there) {
		found = append(found, v.oddWorkDir(same, verdict)...)
	}
	if len(there) > 0 {
		d := disk(&v.Hosts[there[0]].Facts, facts.DiskWork)
		good = d.Path + " is " + workID(&v.Hosts[there[0]].Facts)
	}
	return found, good, ""
}

// byWorkDir groups hosts by where their working directory is: programs may have several.
func (v *view) byWorkDir(hosts []int) (groups [][]int) {
	at := map[string]int{}
	for _, i := range hosts {
		dir := disk(&v.Hosts[i].Facts, facts.DiskWork).Path
		k, ok := at[dir]
		if !ok {
			k = len(groups)
			at[dir], groups = k, append(groups, nil)
		}
		groups[k] = append(groups[k], i)
	}
	return groups
}

// oddWorkDir finds hosts that have the working directory of the others elsewhere.
func (v *view) oddWorkDir(hosts []int, verdict Verdict) []Finding {
	return v.odd(hosts, contrast{
		of: func(h *Host) string { return workID(&h.Facts) }, verb: "has", what: "the working directory", again: "it", subject: "where the working directory is", blame: Warn, differ: v.differWorkDir(hosts),
		remedy: "mount the shared file system on HOST", align: "mount the same file system on each of HOST",
		grade: func(odd, most *Host) Verdict { return gradeWorkDir(odd, most, verdict) },
	})
}

// gradeWorkDir is the verdict on a host whose working directory is another than that of
// most; verdict is that on one that has not mounted it.
func gradeWorkDir(odd, most *Host, verdict Verdict) Verdict {
	mine, shared := workID(&odd.Facts), workID(&most.Facts)
	_, ours := serverPath(mine)
	server, theirs := serverPath(shared)
	switch {
	case mine == ownDir && isNamed(odd, server), mine != ownDir && shared != ownDir && ours == theirs:
		return Info
	case mine == ownDir && shared != ownDir && !hasPrograms(odd):
		return verdict
	}
	return Warn
}

// differWorkDir is the verdict on hosts whose working directories differ without a
// majority: it is no fault of a file server and its only client.
func (v *view) differWorkDir(hosts []int) Verdict {
	if len(hosts) == 2 {
		a, b := &v.Hosts[hosts[0]], &v.Hosts[hosts[1]]
		if gradeWorkDir(a, b, Warn) == Info || gradeWorkDir(b, a, Warn) == Info {
			return Info
		}
	}
	return Warn
}

// serverPath splits "on nfs server:/path" into the server and the path there.
func serverPath(id string) (server, file string) {
	_, place, _ := strings.Cut(strings.TrimPrefix(id, "on "), " ")
	server, file, _ = strings.Cut(place, ":/")
	return server, file
}

// isNamed reports whether a server's name or address is that of h.
func isNamed(h *Host, server string) bool {
	short, _, _ := strings.Cut(server, ".")
	return server != "" && (isOf(h, server) || slices.Contains([]string{h.Name, h.Facts.System.Hostname}, server) || short == h.Name || short == h.Facts.System.Hostname)
}

// hasPrograms reports whether h has all of the job's programs that are named by a path
// below the working directory, of which there is one at least.
func hasPrograms(h *Host) bool {
	n := 0
	for _, p := range h.Facts.Programs {
		if strings.Contains(p.Arg, "/") && !strings.HasPrefix(p.Arg, "/") {
			if p.Path == "" {
				return false
			}
			n++
		}
	}
	return n > 0
}

const ownDir = "on its own disk"

// workID says what a host's working directory is.
func workID(h *facts.Host) string {
	d := disk(h, facts.DiskWork)
	if d == nil || d.ID == "" {
		return ownDir
	}
	return "on " + d.ID
}
