package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// stager brings the files of a Stage to this host, by a goroutine of its own that does
// what the head orders, one thing after the other. When the job is over it takes them
// away again.
type stager struct {
	job    *wire.Stage
	home   string
	send   func(wire.Message) // must not block
	in     *inbox
	shelf  *shelf
	orders chan wire.Message // capacity 2: a Look and a Fetch may come
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{} // closed when the goroutine has ended

	// Owned by the goroutine, and by others when it has ended.
	depot  *depot
	giver  *giver
	here   []bool // files that this host has where the head has them
	placed []bool // files that are in the job's directory
	strays string // why ranks cannot run in Stage.Dir; "": they can
	bytes  int64  // checked or, since Fetch, received
	told   time.Time
	ok     bool // everything is there
}

// stageEnd is for a write to end that is under way. The head waits a little longer for
// the host.
const stageEnd = 4 * time.Second

// removeLimit is for the job's files to be removed. The head waits a little longer for
// a host whose ranks have run.
const removeLimit = 10 * time.Second

var errDeadFiles = errors.New("a file system does not answer: files that were sent may be left on it")

// bigStage is from how many bytes on a host uses more than one CPU to get them.
const bigStage = 64 << 20

// stage begins to bring files here.
func (a *agent) stage(st *wire.Stage) error {
	if a.stager.Load() != nil || a.job.Load() != nil {
		return fmt.Errorf("%w: files a second time, or after the plan", errFrame)
	}
	if err := checkStage(st); err != nil {
		return fmt.Errorf("%w: %v", errFrame, err)
	}
	home, _ := lookup(a.cfg.Environ, "HOME")
	s := &stager{
		job: st, home: home, send: func(m wire.Message) { a.out.SendMessage(m) }, in: newInbox(a.out.Send),
		orders: make(chan wire.Message, 2), ended: make(chan struct{}), here: make([]bool, len(st.Files)), placed: make([]bool, len(st.Files)),
	}
	var sizes []int64
	var sum int64
	for _, f := range st.Files {
		sizes, sum = append(sizes, f.Size), sum+f.Size
	}
	if sum >= bigStage && a.cfg.Threads > 1 {
		runtime.GOMAXPROCS(a.cfg.Threads)
	}
	s.shelf = newShelf(sizes)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	a.stager.Store(s)
	if isClosed(a.end.begun) { // who removes files may have found none to remove
		close(s.ended)
		return nil
	}
	go s.run()
	return nil
}

// checkStage refuses what would lead out of the job's directory, or is senseless.
func checkStage(st *wire.Stage) error {
	if !validID(st.JobID) || st.Node < 0 || len(st.Key) != bcast.KeySize {
		return errors.New("senseless list of files")
	}
	for _, f := range st.Files {
		name := string(f.Name)
		if !filepath.IsLocal(name) || filepath.Clean(name) != name || strings.ContainsRune(name, 0) || !filepath.IsAbs(string(f.Path)) ||
			f.Size < 0 || f.Size > bcast.MaxSize || !f.Empty && len(f.Root) != bcast.HashSize {
			return fmt.Errorf("bad file %q in the list", name)
		}
	}
	return nil
}

// order passes a Look or a Fetch on.
func (a *agent) order(m wire.Message) error {
	if s := a.stager.Load(); s != nil {
		select {
		case s.orders <- m:
			return nil
		default:
		}
	}
	return fmt.Errorf("%w: an order about files out of turn", errFrame)
}

// useFiles has the job's ranks find what was brought here. Nobody takes files from this
// host any more: all others have theirs, or there would be no plan.
func (a *agent) useFiles(j *job) error {
	s := a.stager.Load()
	if s == nil {
		return nil
	}
	s.cancel()
	if !joined(s.ended, nil, joinLimit) || !s.ok || j.id != s.job.JobID {
		return errors.New("the plan came before the files were here")
	}
	if s.giver != nil {
		s.giver.close()
	}
	j.files = s.depot.dir()
	if s.strays == "" {
		return nil
	}
	moved := 0
	for _, r := range j.ranks {
		if len(r.plan.Dir) == 0 {
			r.dir = j.files
			moved++
		}
	}
	if moved > 0 {
		s.log("info", "ranks run in %s: %s", j.files, s.strays)
	}
	return nil
}

// removeFiles removes what was brought here, and returns where files of ranks stay.
func (a *agent) removeFiles() (kept string, err error) {
	s := a.stager.Load()
	if s == nil {
		return "", nil
	}
	return s.close()
}

// close ends what is under way and removes the job's files. It returns the job's
// directory if files of ranks stay there.
func (s *stager) close() (kept string, err error) {
	s.cancel()
	if !joined(s.ended, nil, stageEnd) {
		return "", errDeadFiles
	}
	if s.giver != nil {
		s.giver.close()
	}
	if s.depot == nil {
		return "", nil
	}
	removed := make(chan func() (string, error), 1)
	go func() {
		kept, err := s.depot.remove()
		removed <- func() (string, error) { return kept, err }
	}()
	select {
	case result := <-removed:
		return result()
	case <-time.After(removeLimit):
		return "", errDeadFiles
	}
}

func (s *stager) run() {
	defer close(s.ended)
	have := s.have()
	s.send(wire.Message{Have: &have})
	for {
		select {
		case m := <-s.orders:
			if m.Look != nil {
				s.send(wire.Message{Seen: &wire.Seen{Yes: s.depot != nil && s.depot.sees(s.job.JobID, m.Look.Node)}})
				continue
			}
			var staged wire.Staged
			if err := s.fetch(m.Fetch); err != nil {
				staged.Text = cut(clean(err.Error()))
			}
			s.ok = staged.Text == ""
			s.send(wire.Message{Staged: &staged})
		case <-s.ctx.Done():
			return
		}
	}
}

// have finds out what is here, puts it into the job's directory, and says what is not.
func (s *stager) have() wire.Have {
	s.findOriginals()
	if err := s.openDepot(); err != nil {
		return wire.Have{Text: cut(clean(err.Error()))}
	}
	missing, err := s.look()
	if err != nil {
		return wire.Have{Text: cut(clean(err.Error()))}
	}
	have := wire.Have{Missing: missing}
	if len(missing) == 0 {
		return have
	}
	if !s.depot.own {
		have.Place = placeOf(s.depot.root)
		s.depot.prune()
	}
	if s.job.Listen != "" {
		if s.giver, err = startGiver(s.job.Listen, s.job.Key, s.shelf); err == nil {
			have.Port = s.giver.port()
		} else {
			s.log("info", "files cannot be passed on: %v", err)
		}
	}
	return have
}

// placeOf names a directory so that hosts which share it say the same. Others may, too.
func placeOf(dir string) string {
	fi, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s %d", dir, inode(fi))
}

// findOriginals finds the files that are at the same place as with the head, and says
// whether the ranks can run in their working directory.
func (s *stager) findOriginals() {
	dir := string(s.job.Dir)
	if err := checkDir(dir); err != nil {
		s.strays = err.Error()
	}
	for i := range s.job.Files {
		f := &s.job.Files[i]
		if f.Empty {
			continue
		}
		s.here[i] = s.isOriginal(f)
		if s.strays == "" && f.Needed && (!s.here[i] || string(f.Path) != within(dir, string(f.Name))) {
			s.strays = fmt.Sprintf("%q is not there, or is another file", within(dir, string(f.Name)))
		}
	}
}

func (s *stager) isOriginal(f *wire.File) bool {
	path := string(f.Path)
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() != f.Size || f.Exec && unix.Access(path, unix.X_OK) != nil {
		return false
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer r.Close()
	list, err := bcast.List(s.ctx, r, f.Size, s.progress)
	return err == nil && bcast.RootOf(f.Size, list) == bcast.Root(f.Root)
}

// openDepot finds a place for what this host has not.
func (s *stager) openDepot() error {
	type place struct {
		root string
		own  bool
	}
	var places []place
	if filepath.IsAbs(s.home) {
		places = append(places, place{cacheDir(s.home), false})
	}
	for _, root := range ownDepots(s.job.JobID) {
		places = append(places, place{root, true})
	}
	var why []string
	need := s.needed("")
	for _, p := range places {
		d, err := openDepot(p.root, p.own, s.job.JobID, s.job.Node)
		if err == nil {
			if err = s.fits(d); err == nil {
				s.depot = d
				return nil
			}
			d.remove()
		}
		why = append(why, fmt.Sprintf("%s: %v", p.root, err))
	}
	return fmt.Errorf("no directory takes the files, %d bytes: %s", need, strings.Join(why, "; "))
}

// fits reports why a depot cannot take what this host has not.
func (s *stager) fits(d *depot) error {
	if slices.ContainsFunc(s.job.Files, func(f wire.File) bool { return f.Exec }) && noexec(d.root) {
		return errNoexec
	}
	if need, free := s.needed(d.root), room(d.root); need > free {
		return fmt.Errorf("%d bytes are needed, %d are free", need, free)
	}
	return nil
}

// needed is how many bytes of files are neither with this host nor in the depot at root.
func (s *stager) needed(root string) (bytes int64) {
	seen := map[string]bool{}
	for i := range s.job.Files {
		f := &s.job.Files[i]
		if key := blobPath("", f); !f.Empty && !s.here[i] && !seen[key] && (root == "" || !hasBlob(root, f)) {
			seen[key] = true
			bytes += f.Size
		}
	}
	return bytes
}

// look puts what this host has into the job's directory, and returns the numbers of the
// files that it has not. Of equal files it returns one.
func (s *stager) look() (missing []int, err error) {
	seen := map[string]bool{}
	for i := range s.job.Files {
		f := &s.job.Files[i]
		key := blobPath("", f)
		if s.placed[i] || seen[key] {
			continue
		}
		ok, err := s.put(i, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.depot.path(string(f.Name)), bare(err))
		}
		s.placed[i] = ok
		if ok && f.Size > 0 {
			s.shelf.whole(i, s.depot.path(string(f.Name)))
		}
		if !ok {
			seen[key] = true
			missing = append(missing, i)
		}
	}
	return missing, nil
}

// put puts file i into the job's directory, if this host has it.
func (s *stager) put(i int, f *wire.File) (ok bool, err error) {
	switch {
	case f.Empty:
		return true, s.depot.mkdir(string(f.Name))
	case s.here[i]:
		return true, s.depot.placeOriginal(f)
	case f.Size == 0 && !s.depot.has(f):
		w, err := s.depot.create(s.ctx, i, f)
		if err == nil {
			err = s.depot.keep(w, i, f)
		}
		if err != nil {
			return false, err
		}
	case !s.depot.has(f):
		return false, nil
	}
	err = s.depot.place(f)
	if errors.Is(err, os.ErrNotExist) && f.Size > 0 { // another job has just removed it
		return false, nil
	}
	return true, err
}

// progress notes n more bytes, and tells the head from time to time.
func (s *stager) progress(n int) {
	s.bytes += int64(n)
	if now := time.Now(); now.Sub(s.told) > time.Second {
		s.told = now
		s.send(wire.Message{Got: &wire.Got{Bytes: s.bytes}})
	}
}

func (s *stager) log(level, format string, args ...any) {
	s.send(wire.Message{Log: &wire.Log{Level: level, Text: cut(clean(fmt.Sprintf(format, args...)))}})
}

// fetch gets what is missing: from another host if that can be had, else from the head.
func (s *stager) fetch(from *wire.Fetch) error {
	if s.depot == nil {
		return errors.New("files were ordered in spite of all")
	}
	missing, err := s.look()
	if err != nil || len(missing) == 0 {
		return err
	}
	s.bytes = 0
	t := &transfer{s: s, missing: missing}
	defer t.close()
	if from.From != "" {
		if err = t.fromHost(from.From); err != nil && t.failed == nil && s.ctx.Err() == nil {
			s.log("info", "files of %s (%s) cannot be had, gorun sends them: %v", from.Host, from.From, plainNet(err))
		}
	}
	if t.failed == nil && len(t.missing) > 0 {
		err = t.fromHead()
	}
	if t.failed != nil {
		err = t.failed
	}
	if err == nil {
		missing, err = s.look() // equal files
	}
	if err == nil && len(missing) > 0 {
		f := s.job.Files[missing[0]]
		err = fmt.Errorf("%s: it was removed as soon as it was there", s.depot.path(string(f.Name)))
	}
	return err
}

// plainNet takes what is known already off an error of package net.
func plainNet(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}
