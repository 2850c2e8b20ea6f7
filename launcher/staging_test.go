package launcher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gorun/hostfile"
	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// stage says hello and waits to be told of files.
func (f *fake) stage() *wire.Stage {
	f.hello()
	list := f.until(func(m wire.Message) bool { return m.Files != nil }).Files
	st := f.until(func(m wire.Message) bool { return m.Stage != nil }).Stage
	st.Files = list.List
	return st
}

func (f *fake) fetch() *wire.Fetch {
	return f.until(func(m wire.Message) bool { return m.Fetch != nil }).Fetch
}

// staged says that all is there, and goes on as if there were no files.
func (f *fake) staged() {
	f.send(wire.Message{Staged: &wire.Staged{}})
	f.waitPlan()
	p := &wire.Prepared{}
	if f.plan.Bind != nil {
		f.ranks(func(rank int) {
			p.Bindings = append(p.Bindings, wire.Binding{Ranks: []int{rank}, CPUs: "1", Cores: "1"})
		})
	}
	f.send(wire.Message{Prepared: p})
	f.begin()
	f.exitAll()
	f.waitStop()
	f.finish()
}

// content reads so many bytes of files.
func (f *fake) content(n int) []byte {
	var b []byte
	for len(b) < n {
		if fr := f.read(); fr.Kind == wire.Content {
			b = append(b, fr.Payload...)
		}
	}
	return b
}

// idle does nothing but live, until it is stopped.
func (f *fake) idle() {
	go f.beats()
	f.waitStop()
	f.finish()
}

// stagers are what fake agents do about a job with one file of two pieces, as behaviours
// named "files-…". want is why the job does not run; "": it runs well.
var stagers = map[string]struct {
	hosts int
	do    func(*fake)
	want  string
}{
	"all-there": {2, func(f *fake) {
		f.stage()
		f.send(wire.Message{Have: &wire.Have{}})
		f.fetch()
		f.staged()
	}, ""},
	"sent": {2, func(f *fake) {
		st := f.stage()
		f.send(wire.Message{Have: &wire.Have{Missing: []int{0}}})
		f.fetch()
		f.send(wire.Message{Want: &wire.Want{Files: []int{0}, Credit: 1 << 20}})
		size := int(st.Files[0].Size)
		n := 2*bcast.HashSize + size
		b := f.content(bcast.HashSize * 2)
		f.send(wire.Message{Got: &wire.Got{Bytes: 1}})
		f.out.Send(wire.CreditFrame(wire.FileStream, 1<<20))
		b = append(b, f.content(n-len(b))...)
		if len(b) == n && bcast.RootOf(int64(size), b[:2*bcast.HashSize]) == bcast.Root(st.Files[0].Root) {
			f.mark(fmt.Sprintf("right.%d", st.Node))
		}
		f.staged()
	}, ""},
	"one-shares": { // the second sees what the first keeps, the third does not
		3, func(f *fake) {
			st := f.stage()
			f.send(wire.Message{Have: &wire.Have{Missing: []int{0}, Place: "home"}})
			if st.Node > 0 {
				look := f.until(func(m wire.Message) bool { return m.Look != nil }).Look
				f.send(wire.Message{Seen: &wire.Seen{Yes: st.Node == 1 && look.Node == 0}})
			}
			f.fetch()
			switch st.Node {
			case 0:
				time.Sleep(100 * time.Millisecond) // the second would come too early
				f.mark("first-done")
			case 1:
				if f.has("first-done") {
					f.mark("second-waited")
				}
			}
			f.staged()
		}, ""},
	"no-room": {2, func(f *fake) {
		st := f.stage()
		f.send(wire.Message{Have: &wire.Have{Text: fmt.Sprintf("no room %d", st.Node)}})
		f.waitStop()
		f.finish()
	}, "localhost: no room 0, 127.0.0.1: no room 1"},
	"cannot-write": {2, func(f *fake) {
		if st := f.stage(); st.Node == 1 {
			f.send(wire.Message{Have: &wire.Have{Missing: []int{0}}})
			f.fetch()
			f.send(wire.Message{Staged: &wire.Staged{Text: "disk full"}})
		} else {
			f.send(wire.Message{Have: &wire.Have{}})
		}
		f.waitStop()
		f.finish()
	}, "127.0.0.1: disk full"},
	"says-nothing": {2, func(f *fake) {
		if st := f.stage(); st.Node == 0 {
			f.send(wire.Message{Have: &wire.Have{}})
		}
		f.idle()
	}, "localhost: reached, but bringing files there made no progress for 300ms, 127.0.0.1: reached, but bringing files there made no progress for 300ms"},
	"takes-nothing": {1, func(f *fake) {
		f.stage()
		f.send(wire.Message{Have: &wire.Have{Missing: []int{0}}})
		f.fetch()
		f.send(wire.Message{Want: &wire.Want{Files: []int{0}, Credit: 10}})
		f.idle()
	}, "localhost: reached, but bringing files there made no progress for 300ms"},
	"waits": {1, func(f *fake) {
		f.stage()
		f.send(wire.Message{Have: &wire.Have{Missing: []int{0}}})
		f.fetch()
		f.send(wire.Message{Want: &wire.Want{Files: []int{0}, Credit: 4 << 20}})
		f.idle()
	}, "localhost: reached, but bringing files there made no progress for 300ms"},
	"dies": {2, func(f *fake) {
		if st := f.stage(); st.Node == 1 {
			f.send(wire.Message{Have: &wire.Have{Missing: []int{0}}})
			f.die()
		}
		f.idle()
	}, "127.0.0.1: gorun's agent was lost: killed by SIGKILL"},

	// Lies.
	"answers-twice": {1, func(f *fake) {
		f.stage()
		f.send(wire.Message{Have: &wire.Have{}})
		f.send(wire.Message{Have: &wire.Have{}})
		f.idle()
	}, "localhost: its agent broke the protocol: files at port 0"},
	"lacks-nonsense": {1, func(f *fake) { f.stage(); f.send(wire.Message{Have: &wire.Have{Missing: []int{1}}}); f.idle() },
		"localhost: its agent broke the protocol: it lacks file 1"},
	"lacks-too-much": {1, func(f *fake) { f.stage(); f.send(wire.Message{Have: &wire.Have{Missing: []int{0, 0}}}); f.idle() },
		"localhost: its agent broke the protocol: it speaks of 2 files"},
	"bad-port": {1, func(f *fake) { f.stage(); f.send(wire.Message{Have: &wire.Have{Port: 70000}}); f.idle() },
		"localhost: its agent broke the protocol: files at port 70000"},
	"endless-credit": {1, func(f *fake) {
		f.stage()
		f.send(wire.Message{Want: &wire.Want{Files: []int{0}, Credit: 1 << 40}})
		f.idle()
	}, "localhost: its agent broke the protocol: it wants files from piece 0 on, 1099511627776 bytes at once"},
	"wants-twice": {1, func(f *fake) {
		f.stage()
		f.send(wire.Message{Want: &wire.Want{Files: []int{0}}})
		f.send(wire.Message{Want: &wire.Want{Files: []int{0}}})
		f.idle()
	}, "localhost: its agent broke the protocol: it wants files"},
	"prepared-too-early": {1, func(f *fake) {
		f.stage()
		f.send(wire.Message{Prepared: &wire.Prepared{}})
		f.send(wire.Message{Started: &wire.Started{PIDs: []int{1}}})
		f.idle()
	}, "localhost: reached, but bringing files there made no progress for 300ms"},
	"sees-unasked": {1, func(f *fake) {
		f.stage()
		f.send(wire.Message{Seen: &wire.Seen{Yes: true}})
		f.idle()
	}, "localhost: reached, but bringing files there made no progress for 300ms"},
}

// fileWorld is a job with one file of two pieces.
func fileWorld(t *testing.T, name string) *world {
	w := newWorld(t, "files-"+name, []int{1, 1, 1}[:stagers[name].hosts]...)
	w.job.Dir = w.dir
	w.job.Preload = []string{"file"}
	if err := os.WriteFile(w.dir+"/file", bytes.Repeat([]byte("x"), bcast.PieceSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	return w
}

func TestStaging(t *testing.T) {
	for name, s := range stagers {
		t.Run(name, func(t *testing.T) {
			w := fileWorld(t, name)
			if strings.Contains(s.want, "300ms") {
				w.waits.stage = 300 * time.Millisecond
			}
			res, err := w.run()
			if s.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				w.wantStates(res, strings.TrimSuffix(strings.Repeat("exited 0, ", s.hosts), ", "))
				for _, m := range map[string][]string{"sent": {"right.0", "right.1"}, "one-shares": {"second-waited"}}[name] {
					if !w.has(m) {
						t.Errorf("no agent came to %q", m)
					}
				}
				return
			}
			var why []string
			if e, ok := errors.AsType[*HostsError](err); ok {
				for _, h := range e.Hosts {
					why = append(why, h.Host+": "+h.Err.Error())
				}
			}
			if e, ok := errors.AsType[*PrepareError](err); ok {
				for _, f := range e.Failures {
					why = append(why, f.Host+": "+f.Text)
				}
			}
			if got := strings.Join(why, ", "); !strings.HasPrefix(got, s.want) {
				t.Errorf("got %q, %v; want %q", got, err, s.want)
			}
		})
	}
}

// TestBindingsAfterFiles: what hosts say of their ranks' bindings counts then, too.
func TestBindingsAfterFiles(t *testing.T) {
	w := fileWorld(t, "all-there")
	w.job.ReportBindings = true
	res, err := w.run()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Ranks {
		if r.CPUs != "1" {
			t.Errorf("rank %d is bound to %q; want 1", r.Rank, r.CPUs)
		}
	}
}

func TestInterruptWhileFilesCome(t *testing.T) {
	w := fileWorld(t, "takes-nothing")
	go func() {
		time.Sleep(500 * time.Millisecond)
		w.signals <- syscall.SIGINT
	}()
	res, err := w.run()
	if err != nil || res.Signal != int(syscall.SIGINT) {
		t.Errorf("got %+v, %v; want the end by SIGINT", res, err)
	}
}

// TestFileCannotBeRead: who reads it may never come back.
func TestFileCannotBeRead(t *testing.T) {
	w := fileWorld(t, "waits")
	w.waits.stage = 300 * time.Millisecond
	var room chan struct{}
	w.tweak = func(r *run) {
		room = r.cargo.room
		for range cap(room) { // as if so many others hung
			room <- struct{}{}
		}
	}
	_, err := w.run()
	if err == nil {
		t.Error("got no error; want one about no progress")
	}
	for range cap(room) {
		<-room
	}
}

func TestFileRemovedMeanwhile(t *testing.T) {
	w := fileWorld(t, "all-there")
	w.tweak = func(*run) { os.Remove(w.dir + "/file") }
	_, err := w.run()
	if e, ok := errors.AsType[*FileError](err); !ok || e.Path != w.dir+"/file" {
		t.Errorf("got %v; want the file that is not there", err)
	}
}

// TestSayWhere: who waits for long is told for whom.
func TestSayWhere(t *testing.T) {
	s := &staging{
		r: placeable(t), cargo: &cargo{files: []freight{{size: 1000}}}, layout: Layout{Count: []int{1, 1}}, told: time.Now(),
		have: []*wire.Have{{Missing: []int{0}}, {Missing: []int{0}}}, got: []int64{400, 200}, ready: make([]bool, 2), leader: []int{-1, -1},
	}
	if got, want := s.where(), "files are brought to 2 hosts; 0 have them; the slowest, b, has 200 bytes of 1.0 kB"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	s.ready[1] = true
	if got, want := s.where(), "files are brought to 2 hosts; 1 have them; the slowest, a, has 400 bytes of 1.0 kB"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

// TestManifestIsEncodedOnce: a long list of files costs the head no more with many hosts.
func TestManifestIsEncodedOnce(t *testing.T) {
	const hosts, files = 200, 2000
	r := &run{m: newMachine(make([]string, hosts), Job{Bcast: true}, defaultWaits())}
	s := &staging{r: r, cargo: &cargo{}, read: true, nodes: make([]int, hosts), layout: Layout{Count: make([]int, hosts)}}
	for i := range hosts {
		h := newHost(i, hostfile.Host{Name: "gpu"})
		h.send = wire.NewSender(io.Discard)
		defer h.send.Close()
		r.hosts, s.layout.Count[i] = append(r.hosts, h), 1
	}
	for i := range files {
		s.cargo.files = append(s.cargo.files, freight{name: fmt.Sprint("file", i), path: fmt.Sprint("/somewhere/file", i)})
	}
	manifest, err := s.cargo.manifest()
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.begin()
	for _, h := range r.hosts {
		if err := h.send.Close(); err != nil {
			t.Error(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(hosts*len(manifest.Payload)/2); got > most {
		t.Errorf("the head allocates %d bytes for a list of %d, to %d hosts; want at most %d", got, len(manifest.Payload), hosts, most)
	}
}
