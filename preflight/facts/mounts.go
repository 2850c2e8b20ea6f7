package facts

import (
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	mountinfo = "/proc/self/mountinfo"
	maxMounts = 1 << 20 // bytes of it that are read
)

// mount is a line of mountinfo.
type mount struct {
	device   uint64 // as stat tells it; 0: unknown
	dir      string // where it is
	root     string // what of the file system is there
	fstype   string
	source   string
	options  string // of the file system
	readOnly bool
}

func (s *source) readMounts() []mount {
	text, _ := s.read(mountinfo, maxMounts)
	return parseMounts(string(text))
}

// parseMounts reads mountinfo. Lines that are wrong are left out.
func parseMounts(text string) (out []mount) {
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(head), strings.Fields(tail)
		if !ok || len(fields) < 6 || len(rest) < 2 {
			continue
		}
		m := mount{device: parseDevice(fields[2]), root: unescape(fields[3]), dir: unescape(fields[4]), fstype: rest[0], source: unescape(rest[1])}
		if len(rest) > 2 {
			m.options = rest[2]
		}
		m.readOnly = hasWord(fields[5], "ro") || hasWord(m.options, "ro")
		if strings.HasPrefix(m.dir, "/") {
			out = append(out, m)
		}
	}
	return out
}

// parseDevice reads "major:minor".
func parseDevice(text string) uint64 {
	a, b, _ := strings.Cut(text, ":")
	major, err := strconv.ParseUint(a, 10, 32)
	minor, err2 := strconv.ParseUint(b, 10, 32)
	if err != nil || err2 != nil {
		return 0
	}
	return unix.Mkdev(uint32(major), uint32(minor))
}

// unescape undoes what the kernel does to blanks in paths: \040.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountOf returns the mount that holds a path without symbolic links. Of those at one
// place the last counts, for it hides the others.
func mountOf(mounts []mount, file string) (best mount, ok bool) {
	for _, m := range mounts {
		if _, in := below(file, path.Clean(m.dir)); in && (!ok || len(m.dir) >= len(best.dir)) {
			best, ok = m, true
		}
	}
	return best, ok
}

// network reports whether hosts share what such a file system holds.
func (m mount) network() bool {
	switch m.fstype {
	case "nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "ceph", "glusterfs", "wekafs", "panfs", "orangefs", "pvfs2",
		"afs", "9p", "virtiofs", "fuse.glusterfs", "fuse.sshfs", "fuse.ceph", "fuse.juicefs", "fuse.beegfs", "fuse.s3fs", "fuse.gcsfuse",
		"fuse.moosefs", "fuse.mfs", "fuse.dfs":
		return true
	}
	return false
}

// identity names a directory of a network file system: it is equal on hosts that see the
// same one, also below different mounts of one export. It is "" for others. 9p and
// virtiofs have sources that the host of a virtual machine invents, so that they are no
// identity.
func (m mount) identity(dir string) string {
	rest, ok := below(dir, path.Clean(m.dir))
	if !ok || !m.network() || m.fstype == "9p" || m.fstype == "virtiofs" {
		return ""
	}
	kind := strings.TrimSuffix(m.fstype, "4") // nfs4 is nfs
	inside := path.Join(m.root, rest)
	if server, exported, ok := strings.Cut(m.source, ":/"); ok {
		return kind + " " + server + ":" + path.Join("/", exported, inside)
	}
	return kind + " " + m.source + " " + inside
}
