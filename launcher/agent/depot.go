package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// depot is where a host keeps the files that were sent to it. It may be in a home
// directory that other hosts of the job, and other jobs, use at the same time:
//
//	blob-ROOT, blob-ROOT-x  a content, read-only; x: executable
//	tmp.JOB.NODE.N          a content that is on its way
//	job-JOB.NODE            the job's directory, where files have their names: links to contents
//	job-JOB.NODE.list       the host, and what was put there, a line each; locked while the agent lives
//
// A blob has its name only when it is whole, and then bears a date that any later write
// would change: so a big one needs not be read again to be trusted. Small ones are, which
// takes less time than to wait, for each of many, until it is on the disk.
type depot struct {
	root  string
	own   bool // the root is this job's, and goes with it
	id    string
	list  *os.File
	files []placed
}

// placed is a file in the job's directory. By its inode it is known from what a rank
// may have put in its place.
type placed struct {
	name string
	ino  uint64
}

// stamp is the date of every whole blob: 2000-01-01.
const stamp = 946684800

const (
	blobPrefix = "blob-"
	tmpPrefix  = "tmp."
	jobPrefix  = "job-"
	listSuffix = ".list"
)

// cacheDir is the depot in a home directory.
func cacheDir(home string) string { return home + "/.cache/gorun-files" }

// ownDepots are depots of one job, for hosts whose home directory does not do. Only
// file systems on disks come into question: there are gigabytes to be taken.
func ownDepots(jobID string) []string {
	return []string{"/var/tmp/gorun-files-" + jobID, "/tmp/gorun-files-" + jobID}
}

// openDepot makes the job's directory in the depot at root.
func openDepot(root string, own bool, jobID string, node int) (*depot, error) {
	d := &depot{root: root, own: own, id: jobID + "." + strconv.Itoa(node)}
	mkdir := os.MkdirAll
	if own {
		mkdir = os.Mkdir // nobody can have made it for us
	}
	if err := mkdir(root, 0o700); err != nil {
		return nil, bare(err)
	}
	var err error
	if d.list, err = os.OpenFile(d.listPath(), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600); err != nil {
		d.remove()
		return nil, bare(err)
	}
	unix.Flock(int(d.list.Fd()), unix.LOCK_EX|unix.LOCK_NB) // where that is not possible, nobody sweeps
	if _, err = fmt.Fprintln(d.list, hostName()); err == nil {
		err = os.Mkdir(d.dir(), 0o700)
	}
	if err != nil {
		d.remove()
		return nil, bare(err)
	}
	return d, nil
}

func (d *depot) dir() string      { return d.root + "/" + jobPrefix + d.id }
func (d *depot) listPath() string { return d.dir() + listSuffix }

// path is where the job finds the file of that name.
func (d *depot) path(name string) string { return d.dir() + "/" + name }

func (d *depot) tmp(number int) string {
	return fmt.Sprintf("%s/%s%s.%d", d.root, tmpPrefix, d.id, number)
}

func (d *depot) blob(f *wire.File) string { return blobPath(d.root, f) }

func blobPath(root string, f *wire.File) string {
	path := root + "/" + blobPrefix + hex.EncodeToString(f.Root)
	if f.Exec {
		path += "-x"
	}
	return path
}

// hasBlob reports whether the depot at root has f's content, by its looks.
func hasBlob(root string, f *wire.File) bool {
	fi, err := os.Lstat(blobPath(root, f))
	return err == nil && fi.Mode().IsRegular() && fi.Size() == f.Size && fi.ModTime().Unix() == stamp
}

// small reports whether f's blob is read before it is trusted.
func small(f *wire.File) bool { return f.Size <= bcast.PieceSize }

// has reports whether the depot has f's content.
func (d *depot) has(f *wire.File) bool {
	if !hasBlob(d.root, f) || !small(f) {
		return hasBlob(d.root, f)
	}
	b, err := os.ReadFile(d.blob(f))
	if err != nil || int64(len(b)) != f.Size {
		return false
	}
	list, err := bcast.List(context.Background(), bytes.NewReader(b), f.Size, nil)
	return err == nil && bcast.RootOf(f.Size, list) == bcast.Root(f.Root)
}

// sees reports whether another node of this job keeps its files here. That file was
// never asked for before: a file server's client has no outdated answer.
func (d *depot) sees(jobID string, node int) bool {
	_, err := os.Lstat(fmt.Sprintf("%s/%s%s.%d%s", d.root, jobPrefix, jobID, node, listSuffix))
	return err == nil
}

// place puts f's blob into the job's directory.
func (d *depot) place(f *wire.File) error {
	blob, path := d.blob(f), d.path(string(f.Name))
	d.date(f)
	return d.put(f, func() error {
		err := os.Link(blob, path)
		if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			return err
		}
		return copyFile(blob, path, mode(f)) // a file system without links
	})
}

// placeOriginal puts a file that this host has outside of the depot into the job's directory.
func (d *depot) placeOriginal(f *wire.File) error {
	return d.put(f, func() error { return os.Symlink(string(f.Path), d.path(string(f.Name))) })
}

// put has a name made in the job's directory, and notes what it is.
func (d *depot) put(f *wire.File, do func() error) error {
	path := d.path(string(f.Name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	fi, err := os.Lstat(path)
	if err != nil {
		return err
	}
	p := placed{string(f.Name), inode(fi)}
	d.files = append(d.files, p)
	_, err = fmt.Fprintf(d.list, "%d %s\n", p.ino, strconv.Quote(p.name))
	return err
}

func (d *depot) mkdir(name string) error { return os.MkdirAll(d.path(name), 0o700) }

// create begins a content. The space for it is taken now, where the file system can.
func (d *depot) create(ctx context.Context, number int, f *wire.File) (*os.File, error) {
	w, err := os.OpenFile(d.tmp(number), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := reserve(ctx, w, f.Size); err != nil {
		w.Close()
		os.Remove(d.tmp(number))
		return nil, err
	}
	return w, nil
}

// reserveStep is how much space is taken at once: a file system in memory clears it.
const reserveStep = 64 << 20

// reserve takes space for a file. That a file system cannot do that is no error.
func reserve(ctx context.Context, w *os.File, size int64) error {
	for at := int64(0); at < size && ctx.Err() == nil; at += reserveStep {
		err := unix.Fallocate(int(w.Fd()), 0, at, min(reserveStep, size-at))
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return err
		}
		if err != nil {
			break
		}
	}
	return ctx.Err()
}

// keep makes a blob of a content that is whole, and closes w. A big one is on the disk
// before it has its name: it is trusted also after the host's power has failed.
func (d *depot) keep(w *os.File, number int, f *wire.File) error {
	err := w.Chmod(mode(f))
	if err == nil && !small(f) {
		err = w.Sync()
	}
	err = errors.Join(err, w.Close())
	if err == nil {
		err = os.Rename(d.tmp(number), d.blob(f))
	}
	if err == nil { // now: with that date another job would take a tmp for an old one
		err = d.date(f)
	}
	return err
}

// date gives f's blob the date by which it is trusted, and notes that it is used.
func (d *depot) date(f *wire.File) error {
	now := unix.NsecToTimespec(time.Now().UnixNano())
	return unix.UtimesNanoAt(unix.AT_FDCWD, d.blob(f), []unix.Timespec{now, {Sec: stamp}}, unix.AT_SYMLINK_NOFOLLOW)
}

func mode(f *wire.File) os.FileMode {
	if f.Exec {
		return 0o555
	}
	return 0o444
}

func copyFile(from, to string, mode os.FileMode) error {
	r, err := os.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, r)
	if err = errors.Join(err, w.Chmod(mode), w.Close()); err != nil {
		os.Remove(to)
	}
	return err
}

// remove takes everything of the job out of the depot but what ranks have put into its
// directory themselves: that stays, and the directory is returned.
func (d *depot) remove() (kept string, err error) {
	for _, path := range named(d.root, tmpPrefix+d.id+".") {
		os.Remove(path)
	}
	others, err := removeJobDir(d.dir(), d.files)
	if others {
		kept = d.dir()
	}
	if d.list != nil {
		os.Remove(d.listPath())
		d.list.Close()
	}
	if d.own {
		for _, path := range named(d.root, blobPrefix) {
			os.Remove(path)
		}
		if !others {
			err = errors.Join(err, noent(os.Remove(d.root)))
		}
	}
	return kept, err
}

func noent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// removeJobDir removes the files from dir, what Python has made of them, and the
// directories that are empty then. It reports whether files of others remain.
func removeJobDir(dir string, files []placed) (others bool, err error) {
	for _, f := range files {
		path := dir + "/" + f.name
		if fi, err := os.Lstat(path); err == nil && inode(fi) == f.ino {
			os.Remove(path)
		}
	}
	var dirs []string
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return noent(err)
		case e.IsDir() && e.Name() == "__pycache__":
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			return fs.SkipDir
		case e.IsDir():
			dirs = append(dirs, path)
		default:
			others = true
		}
		return nil
	})
	for _, path := range slices.Backward(dirs) {
		if e := os.Remove(path); e != nil && !errors.Is(e, syscall.ENOTEMPTY) {
			err = errors.Join(err, noent(e))
		}
	}
	return others, err
}

func inode(fi os.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ino
	}
	return 0
}

// Limits of what a depot in a home directory holds beside what jobs use.
const (
	keepBytes = 2 << 30
	tmpAge    = 24 * time.Hour
	listAge   = 30 * 24 * time.Hour // for what another host has left: its locks may not be seen here
	takeTime  = time.Minute         // from when a job has a content to when it uses it
)

// prune removes what the depot need not hold: contents that were used longest ago, when
// no job uses them and there are more than keepBytes, and what agents have left whose
// host went down.
func (d *depot) prune() {
	type blob struct {
		path string
		size int64
		used time.Time
	}
	var blobs []blob
	entries, _ := os.ReadDir(d.root)
	for _, e := range entries {
		fi, err := e.Info()
		path := d.root + "/" + e.Name()
		switch {
		case err != nil:
		case strings.HasPrefix(e.Name(), blobPrefix):
			st := fi.Sys().(*syscall.Stat_t)
			if used := time.Unix(max(st.Atim.Sec, st.Mtim.Sec), 0); st.Nlink == 1 && time.Since(used) > takeTime {
				blobs = append(blobs, blob{path, fi.Size(), used})
			}
		case time.Since(fi.ModTime()) < tmpAge:
		case strings.HasPrefix(e.Name(), tmpPrefix):
			os.Remove(path)
		case strings.HasSuffix(e.Name(), listSuffix):
			sweepList(path)
		}
	}
	slices.SortFunc(blobs, func(a, b blob) int { return b.used.Compare(a.used) })
	var sum int64
	for _, b := range blobs {
		if sum += b.size; sum > keepBytes {
			os.Remove(b.path)
		}
	}
}

// sweepDepots removes what a killed agent of the job has left in this host's depots.
func sweepDepots(home, jobID string) error {
	var errs []error
	for _, root := range ownDepots(jobID) {
		if checkOwn(root) != nil {
			continue
		}
		sweepDepot(root, jobID)
		if named(root, jobPrefix) == nil {
			errs = append(errs, os.RemoveAll(root))
		}
	}
	if filepath.IsAbs(home) {
		sweepDepot(cacheDir(home), jobID)
	}
	return errors.Join(errs...)
}

func sweepDepot(root, jobID string) {
	for _, path := range named(root, jobPrefix+jobID+".") {
		if strings.HasSuffix(path, listSuffix) {
			sweepList(path)
		}
	}
}

// sweepList removes what a list names, unless the agent lives that wrote it. That may be
// one on another host, whose lock a file server may not pass on.
func sweepList(path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	host, files := readList(f)
	if fi, err := f.Stat(); err != nil || host != hostName() && time.Since(fi.ModTime()) < listAge {
		return
	}
	dir := strings.TrimSuffix(path, listSuffix)
	id := strings.TrimPrefix(filepath.Base(dir), jobPrefix)
	for _, t := range named(filepath.Dir(path), tmpPrefix+id+".") {
		os.Remove(t)
	}
	removeJobDir(dir, files)
	os.Remove(path)
}

func hostName() string {
	name, _ := os.Hostname()
	return strconv.Quote(name)
}

// readList reads a list: the host that wrote it, and the files.
func readList(r io.Reader) (host string, files []placed) {
	in := bufio.NewScanner(r)
	in.Scan()
	for host = in.Text(); in.Scan(); {
		ino, quoted, _ := strings.Cut(in.Text(), " ")
		n, err := strconv.ParseUint(ino, 10, 64)
		name, err2 := strconv.Unquote(quoted)
		if err == nil && err2 == nil && filepath.IsLocal(name) {
			files = append(files, placed{name, n})
		}
	}
	return host, files
}

// named lists what in dir has a name that begins so.
func named(dir, prefix string) []string {
	entries, _ := os.ReadDir(dir)
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			out = append(out, dir+"/"+e.Name())
		}
	}
	return out
}

// room is how many bytes a user may still write to the file system of dir.
func room(dir string) int64 {
	var fs unix.Statfs_t
	if unix.Statfs(dir, &fs) != nil {
		return 0
	}
	return int64(fs.Bavail) * fs.Bsize
}

// noexec reports whether programs in dir cannot be run.
func noexec(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && fs.Flags&unix.ST_NOEXEC != 0
}
