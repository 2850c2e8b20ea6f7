package facts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// collectDisks looks at each directory by itself: a server that does not answer hides
// nothing but its own.
func collectDisks(o Order) func(context.Context, *source, *Host) error {
	return func(ctx context.Context, s *source, h *Host) error {
		places := []Disk{{Use: DiskShm, Path: "/dev/shm"}, {Use: DiskTmp, Path: "/tmp"}}
		if strings.HasPrefix(o.Dir, "/") {
			places = append(places, Disk{Use: DiskWork, Path: o.Dir})
		}
		if home := os.Getenv("HOME"); strings.HasPrefix(home, "/") {
			places = append(places, Disk{Use: DiskHome, Path: home})
		}
		var err error
		h.Disks, err = lookAtDisks(ctx, places, func(d Disk) Disk { return lookAtDisk(s, d) })
		lookForStale(ctx, s, h.Disks)
		return err
	}
}

// lookAtDisks looks at all at once. Those that hang are left to themselves.
func lookAtDisks(ctx context.Context, places []Disk, look func(Disk) Disk) (out []Disk, err error) {
	var found []<-chan Disk
	for _, place := range places {
		found = append(found, async(func() Disk { return look(place) }, func(why error) Disk {
			place.Trouble = why.Error()
			return place
		}))
	}
	var troubles []error
	for i, place := range places {
		if d, ok := await(ctx, found[i]); ok {
			place = d
		} else {
			place.Trouble = context.Cause(ctx).Error()
		}
		if place.Trouble != "" {
			troubles = append(troubles, fmt.Errorf("%s: %s", place.Path, place.Trouble))
		}
		out = append(out, place)
	}
	return out, errors.Join(troubles...)
}

// lookAtDisk takes as long as the file system does.
func lookAtDisk(s *source, d Disk) Disk {
	info, err := os.Stat(s.at(d.Path)) // which mounts what is mounted on use
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		d.Missing = true
		return d
	}
	dir := s.real(d.Path)
	var st unix.Statfs_t
	if err == nil {
		err = unix.Statfs(s.at(dir), &st)
	}
	if err != nil {
		d.Trouble = reason(err)
		return d
	}
	size := int64(cmp.Or(st.Frsize, st.Bsize))
	d.Size, d.Free = product(st.Blocks, size), product(st.Bavail, size)
	d.Inodes, d.InodesOK = product(st.Files, 1), product(st.Ffree, 1)
	d.ReadOnly = st.Flags&unix.ST_RDONLY != 0
	if m, ok := s.mountAt(dir, info.Sys().(*syscall.Stat_t).Dev); ok {
		d.Type, d.Source, d.ID = brief(m.fstype), brief(m.source), plain(m.identity(dir), 4096)
		d.ReadOnly = d.ReadOnly || m.readOnly
	}
	d.Writable = !d.ReadOnly && s.openable(dir, unix.W_OK|unix.X_OK) == nil
	if d.Writable && (d.Use == DiskShm || d.Use == DiskTmp) {
		d.Writable = holdsFile(s.at(dir))
	}
	return d
}

// reason is what an error says without the operation and the path.
func reason(err error) string {
	if no, ok := errors.AsType[unix.Errno](err); ok {
		return no.Error()
	}
	return brief(err.Error())
}

// product is n × size, as far as numbers go.
func product(n uint64, size int64) int64 {
	if size <= 0 || n > uint64(1<<62/size) {
		return 1 << 62
	}
	return int64(n) * size
}

// holdsFile tries with a file that has no name and so leaves nothing. Where there are no
// such files, the rights that have been looked at must do.
func holdsFile(dir string) bool {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EINVAL)
	}
	defer unix.Close(fd)
	_, err = unix.Write(fd, []byte{0})
	return err == nil
}

// lookForStale looks for what jobs have left in /dev/shm, by a goroutine of its own: the
// memory maps of a process that hangs cannot be read.
func lookForStale(ctx context.Context, s *source, disks []Disk) {
	at := -1
	for i, d := range disks {
		if d.Use == DiskShm && !d.Missing && d.Trouble == "" {
			at = i
		}
	}
	if at < 0 || ctx.Err() != nil {
		return
	}
	type result struct {
		names []string
		use   int64
	}
	done := async(func() result {
		names, use := staleShm(ctx, s, time.Now())
		return result{names, use}
	}, func(error) result { return result{} })
	if r, ok := await(ctx, done); ok {
		disks[at].Stale, disks[at].StaleUse = r.names, r.use
	}
}
