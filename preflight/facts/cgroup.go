package facts

import (
	"path"
	"strconv"
	"strings"
)

// pidsMax returns the limit on processes of the cgroup, of those above this process,
// that leaves the least room, and how many are in it; 0 if there is no limit.
func pidsMax(s *source) (limit, now int64) {
	mount, group, ok := pidsGroup(s.mountTable(), s.text("/proc/self/cgroup"))
	if !ok {
		return 0, 0
	}
	for {
		dir := path.Join(mount, group)
		most, err := strconv.ParseInt(s.text(dir+"/pids.max"), 10, 64)
		in, ok := s.number(dir + "/pids.current")
		if err == nil && ok && most > 0 && (limit == 0 || most-in < limit-now) {
			limit, now = most, in
		}
		if group == "/" {
			return limit, now
		}
		group = path.Dir(group)
	}
}

// pidsGroup finds this process's cgroup that counts processes, below the mount of its
// hierarchy. The older kind comes first in cgroups, and then it is the one that counts.
func pidsGroup(mounts []mount, cgroups string) (dir, group string, ok bool) {
	for line := range strings.Lines(cgroups) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		for _, m := range mounts {
			v1 := m.fstype == "cgroup" && hasWord(parts[1], "pids") && hasWord(m.options, "pids")
			v2 := m.fstype == "cgroup2" && parts[0] == "0"
			if v1 || v2 {
				group, found := below(path.Clean(parts[2]), m.root)
				if !found {
					group = "/" // of another namespace: what is mounted is what can be seen
				}
				return m.dir, group, true
			}
		}
	}
	return "", "", false
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// below returns what comes after dir in a clean path: "/" if they are equal.
func below(full, dir string) (string, bool) {
	if dir == "/" {
		return full, true
	}
	rest, ok := strings.CutPrefix(full, dir)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return "/" + strings.TrimPrefix(rest, "/"), true
}
