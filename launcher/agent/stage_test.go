package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/bcast"
	"gorun/launcher/wire"
)

// cargo is files that a head has.
type cargo struct {
	t     *testing.T
	job   wire.Stage
	bytes map[int][]byte
}

func newCargo(t *testing.T) *cargo {
	id := fmt.Sprintf("%016x", rand.Uint64())
	t.Cleanup(func() {
		for _, dir := range ownDepots(id) {
			if exists(dir) {
				t.Errorf("%s is left behind", dir)
				os.RemoveAll(dir)
			}
		}
	})
	return &cargo{t: t, job: wire.Stage{JobID: id, Key: bytes.Repeat([]byte{7}, 32), Dir: wire.Bytes("/no/such/dir")}, bytes: map[int][]byte{}}
}

// add adds a file and returns its number.
func (c *cargo) add(name string, content []byte, exec bool) int {
	f := wire.File{Name: wire.Bytes(name), Path: wire.Bytes("/no/such/dir/" + name), Size: int64(len(content)), Exec: exec, Needed: true}
	list, err := bcast.List(context.Background(), bytes.NewReader(content), f.Size, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	root := bcast.RootOf(f.Size, list)
	f.Root = root[:]
	c.job.Files = append(c.job.Files, f)
	c.bytes[len(c.job.Files)-1] = content
	return len(c.job.Files) - 1
}

// plan is a plan of the same job.
func (c *cargo) plan(ranks ...[]string) *wire.Plan {
	p := newPlan(c.t, ranks...)
	p.JobID, p.Dir, p.Env = c.job.JobID, c.job.Dir, []wire.Bytes{wire.Bytes("GORUN_JOB_ID=" + c.job.JobID)}
	return p
}

// stage tells an agent of the files, and returns what it says.
func (h *head) stage(c *cargo) *wire.Have {
	h.t.Helper()
	h.tell(wire.Message{Files: &wire.Files{List: c.job.Files}})
	h.tell(wire.Message{Stage: &c.job})
	return message(h, "have", func(m wire.Message) *wire.Have { return m.Have })
}

// fetch has the agent get the files and returns what it says at the end.
func (h *head) fetch(c *cargo, from string) *wire.Staged {
	h.t.Helper()
	h.tell(wire.Message{Fetch: &wire.Fetch{From: from, Host: "other"}})
	return h.serve(c)
}

// serve sends what the agent wants, if it does, until it has all files.
func (h *head) serve(c *cargo) *wire.Staged {
	h.t.Helper()
	served := false
	var staged *wire.Staged
	h.until("want or staged", func() bool {
		for _, m := range h.msgs {
			if m.Want != nil && !served {
				served = true
				go h.send1(c, m.Want)
			}
			if m.Staged != nil {
				staged = m.Staged
			}
		}
		return staged != nil
	})
	return staged
}

// send1 sends what is wanted, as far as there is credit.
func (h *head) send1(c *cargo, w *wire.Want) {
	sent := 0
	h.files(c, w, func(file int, p []byte) {
		h.until("credit for files", func() bool { return w.Credit+h.credit[wire.FileStream]-sent >= len(p) })
		sent += len(p)
		h.send.SendBulk(wire.Frame{Kind: wire.Content, Stream: uint32(file), Payload: p})
	})
}

// files calls send with everything that is wanted, in order.
func (h *head) files(c *cargo, w *wire.Want, send func(file int, p []byte)) {
	first := w.Piece
	for _, n := range w.Files {
		list, _ := bcast.List(context.Background(), bytes.NewReader(c.bytes[n]), int64(len(c.bytes[n])), nil)
		for p := range slices.Chunk(slices.Concat(list, c.bytes[n][first*bcast.PieceSize:]), wire.MaxPayload) {
			send(n, p)
		}
		first = 0
	}
}

// homely starts an agent whose home is dir.
func homely(t *testing.T, dir string) *head {
	return startAgent(t, launch{env: []string{"HOME=" + dir}})
}

func blobs(home string) []string { return named(cacheDir(home), blobPrefix) }

// wantOnlyBlobs checks that a depot holds no trace of a job.
func wantOnlyBlobs(t *testing.T, home string, n int) {
	t.Helper()
	entries, _ := os.ReadDir(cacheDir(home))
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), blobPrefix) {
			t.Errorf("%s is left in the depot", e.Name())
		}
	}
	if got := len(blobs(home)); got != n {
		t.Errorf("the depot holds %d contents; want %d", got, n)
	}
}

func noise(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(n)}).Read(b)
	return b
}

func TestStage(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	c := newCargo(t)
	script := []byte("#!/bin/sh\ncd \"$GORUN_FILES\" && pwd && cat sub/text && wc -c < big && find . | sort && cmp sub/text twin && test ! -s none && ! test -x big && echo fine\n")
	prog := c.add("prog", script, true)
	big := c.add("big", noise(3*bcast.PieceSize+5), false)
	text := c.add("sub/text", []byte("hello\n"), false)
	c.add("twin", []byte("hello\n"), false)
	c.add("none", nil, false)
	c.job.Files = append(c.job.Files, wire.File{Name: wire.Bytes("a/b"), Path: wire.Bytes("/no/such/dir/a/b"), Empty: true})

	for i, want := range [][]int{{prog, big, text}, nil} { // the second job finds it all
		h := homely(t, home)
		if have := h.stage(c); !slices.Equal(have.Missing, want) || have.Text != "" || have.Port != 0 {
			t.Fatalf("job %d: got %+v; want %v missing", i, have, want)
		}
		if staged := h.fetch(c, ""); staged.Text != "" {
			t.Fatal(staged.Text)
		}
		p := c.plan(nil)
		p.Ranks[0].Args, p.Ranks[0].Shipped = []wire.Bytes{wire.Bytes("./as typed")}, wire.Bytes("prog")
		h.run(p)
		dir := cacheDir(home) + "/job-" + c.job.JobID + ".0"
		want := dir + "\nhello\n3145733\n.\n./a\n./a/b\n./big\n./none\n./prog\n./sub\n./sub/text\n./twin\nfine\n"
		if got := h.text(0, wire.Out); got != want {
			t.Errorf("got %q; want %q", got, want)
		}
		h.stop(0)
		wantOnlyBlobs(t, home, 4)
	}
}

// TestStageFindsOriginals: what a host has where the head has it is not sent, and ranks
// run where they always do.
func TestStageFindsOriginals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil   func(path string) error
		missing bool
		given   bool // the rank has a directory of its own
		strays  bool
	}{
		"same":            {func(string) error { return nil }, false, false, false},
		"other-content":   {func(p string) error { return os.WriteFile(p, []byte("HELLO\n"), 0o600) }, true, false, true},
		"other-size":      {func(p string) error { return os.WriteFile(p, []byte("hello"), 0o600) }, true, false, true},
		"missing":         {os.Remove, true, false, true},
		"directory":       {func(p string) error { os.Remove(p); return os.Mkdir(p, 0o700) }, true, false, true},
		"pipe":            {func(p string) error { os.Remove(p); return syscall.Mkfifo(p, 0o600) }, true, false, true},
		"given-directory": {os.Remove, true, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, dir := t.TempDir(), t.TempDir()
			c := newCargo(t)
			c.add("text", []byte("hello\n"), false)
			c.job.Dir, c.job.Files[0].Path = wire.Bytes(dir), wire.Bytes(dir+"/text")
			write(t, dir+"/text", "hello\n", 0o600)
			if err := tt.spoil(dir + "/text"); err != nil {
				t.Fatal(err)
			}
			h := homely(t, home)
			if have := h.stage(c); (len(have.Missing) == 1) != tt.missing || have.Text != "" {
				t.Fatalf("got %+v; want missing: %v", have, tt.missing)
			}
			if staged := h.fetch(c, ""); staged.Text != "" {
				t.Fatal(staged.Text)
			}
			p := c.plan(sh("pwd; cat $GORUN_FILES/text"))
			if tt.given {
				p.Ranks[0].Dir = p.Dir
			}
			h.run(p)
			want := dir
			if tt.strays {
				want = cacheDir(home) + "/job-" + c.job.JobID + ".0"
			}
			if got := h.text(0, wire.Out); got != want+"\nhello\n" {
				t.Errorf("got %q; want the rank in %s", got, want)
			}
			h.stop(0)
		})
	}
}

// TestRanksFilesStay: what ranks write into the job's directory is theirs.
func TestRanksFilesStay(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	c := newCargo(t)
	c.add("mod.py", []byte("x = 1\n"), false)
	c.add("data/replaced", []byte("old"), false)
	h := homely(t, home)
	h.stage(c)
	h.fetch(c, "")
	h.run(c.plan(sh("mkdir __pycache__ out empty && echo > __pycache__/mod.pyc && echo mine > out/result && rm data/replaced && echo new > data/replaced; echo done")))
	h.shows(0, "done")
	dir := cacheDir(home) + "/job-" + c.job.JobID + ".0"
	if done := h.stop(0); done.Kept != dir {
		t.Errorf("got %q; want %s kept", done.Kept, dir)
	}
	var left []string
	filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error {
		left = append(left, strings.TrimPrefix(path, dir))
		return nil
	})
	if want := []string{"", "/data", "/data/replaced", "/out", "/out/result"}; !slices.Equal(left, want) {
		t.Errorf("left: %q; want %q", left, want)
	}
	if exists(dir + listSuffix) {
		t.Error("the list is left")
	}
}

// TestHomeThatDoesNotDo: another directory is taken, and removed.
func TestHomeThatDoesNotDo(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/file"
	write(t, file, "", 0o600)
	for _, home := range []string{file, "/proc", "", "not/absolute"} {
		c := newCargo(t)
		c.add("prog", []byte("#!/bin/sh\npwd\n"), true)
		h := homely(t, home)
		h.stage(c)
		if staged := h.fetch(c, ""); staged.Text != "" {
			t.Fatal(staged.Text)
		}
		h.run(c.plan(sh("$GORUN_FILES/prog")))
		if got, want := h.text(0, wire.Out), ownDepots(c.job.JobID)[0]+"/job-"+c.job.JobID+".0\n"; got != want {
			t.Errorf("home %q: got %q; want %q", home, got, want)
		}
		h.stop(0)
	}
}

// relay is two agents of which the second may get files from the first.
func relay(t *testing.T, size int) (c *cargo, first, second *head, addr string) {
	c = newCargo(t)
	c.add("small", []byte("small"), false)
	c.add("big", noise(size), false)
	c.job.Listen = "127.0.0.1"
	first, second = homely(t, t.TempDir()), homely(t, t.TempDir())
	have := first.stage(c)
	if have.Port == 0 {
		t.Fatalf("got %+v; want a port", have)
	}
	c.job.Node = 1
	second.stage(c)
	return c, first, second, fmt.Sprintf("127.0.0.1:%d", have.Port)
}

func (h *head) wanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.msgs, func(m wire.Message) bool { return m.Want != nil })
}

// TestPassOn: the second agent gets everything from the first, also while that one still
// waits for its own.
func TestPassOn(t *testing.T) {
	t.Parallel()
	c, first, second, addr := relay(t, 3*bcast.PieceSize+9)
	second.tell(wire.Message{Fetch: &wire.Fetch{From: addr, Host: "first"}})
	first.tell(wire.Message{Fetch: &wire.Fetch{}})
	for _, h := range []*head{first, second} {
		if staged := h.serve(c); staged.Text != "" {
			t.Fatal(staged.Text)
		}
	}
	if second.wanted() {
		t.Error("the second asked the head")
	}
	for node, h := range []*head{first, second} {
		p := c.plan(sh("wc -c < big"))
		p.JobID = c.job.JobID
		if node == 0 { // both are on this machine, which only one can claim
			h.run(p)
			if got := h.text(0, wire.Out); got != "3145737\n" {
				t.Errorf("got %q", got)
			}
		}
		h.stop(0)
	}
	if c, err := net.DialTimeout("tcp", addr, time.Second); err == nil {
		c.Close()
		t.Error("the first agent listens on after the plan")
	}
}

// TestPassOnFails: whatever happens to the other host, the head helps.
func TestPassOnFails(t *testing.T) {
	t.Parallel()
	key := bytes.Repeat([]byte{7}, 32)
	tests := map[string]func(c *cargo, conn net.Conn){
		"closes":   func(*cargo, net.Conn) {},
		"stranger": func(_ *cargo, conn net.Conn) { bcast.Answer(conn, make([]byte, 32)) },
		"not-gorun": func(_ *cargo, conn net.Conn) {
			io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n"+strings.Repeat("x", 1000))
		},
		"no-frames":  func(_ *cargo, conn net.Conn) { bcast.Answer(conn, key); conn.Write(noise(1000)) },
		"other-file": func(_ *cargo, conn net.Conn) { bcast.Answer(conn, key); sendFrames(conn, 17, noise(100)) },
		"corrupt":    func(_ *cargo, conn net.Conn) { bcast.Answer(conn, key); sendFrames(conn, 0, noise(100)) },
		"half": func(c *cargo, conn net.Conn) {
			bcast.Answer(conn, key)
			n := 0
			(&head{}).files(c, &wire.Want{Files: []int{0, 1}}, func(file int, p []byte) {
				if n++; n < 70 { // more than two pieces
					sendFrames(conn, file, p)
				}
			})
		},
	}
	for name, do := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCargo(t)
			c.add("small", []byte("small"), false)
			c.add("big", noise(3*bcast.PieceSize+9), false)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				conn.SetDeadline(time.Now().Add(testLimit))
				do(c, conn)
				conn.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, conn)
				conn.Close()
			}()
			home := t.TempDir()
			h := homely(t, home)
			h.stage(c)
			if staged := h.fetch(c, ln.Addr().String()); staged.Text != "" {
				t.Fatal(staged.Text)
			}
			log := message(h, "why the head must help", func(m wire.Message) *wire.Log { return m.Log })
			if !strings.HasPrefix(log.Text, "files of other (127.0.0.1:") || log.Level != "info" {
				t.Errorf("got %q", log.Text)
			}
			want := message(h, "want", func(m wire.Message) *wire.Want { return m.Want })
			if name == "half" && (len(want.Files) != 1 || want.Piece != 2) {
				t.Errorf("got %+v; want to go on with piece 2 of the second file", want)
			}
			h.run(c.plan(sh("wc -c < big")))
			if got := h.text(0, wire.Out); got != "3145737\n" {
				t.Errorf("got %q", got)
			}
			h.stop(0)
			wantOnlyBlobs(t, home, 2)
		})
	}
}

func sendFrames(w io.Writer, file int, p []byte) {
	s := wire.NewSender(w)
	sendContent(s, file, p)
	s.Close()
}

// TestStrangers: who does not know the key gets nothing, is dropped, and is in nobody's way.
func TestStrangers(t *testing.T) {
	t.Parallel()
	c, first, second, addr := relay(t, 100)
	var conns []net.Conn
	for i := range 40 {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			conn.Write(noise(i))
		}
		conns = append(conns, conn)
	}
	first.tell(wire.Message{Fetch: &wire.Fetch{}})
	if staged := first.serve(c); staged.Text != "" {
		t.Fatal(staged.Text)
	}
	for i, conn := range conns {
		conn.SetReadDeadline(time.Now().Add(testLimit))
		if n, err := io.Copy(io.Discard, conn); n > 32 || os.IsTimeout(err) {
			t.Errorf("stranger %d got %d bytes, then %v", i, n, err)
		}
	}
	if staged := second.fetch(c, addr); staged.Text != "" || second.wanted() {
		t.Errorf("after the strangers: got %q, asked the head: %v", staged.Text, second.wanted())
	}
	first.stop(0)
	second.stop(0)
}

// TestSenselessWish: also one of the job's own may ask for nonsense.
func TestSenselessWish(t *testing.T) {
	t.Parallel()
	c, first, second, addr := relay(t, 100)
	for _, w := range []*wire.Want{{Files: []int{2}}, {Files: []int{-1}}, {Files: []int{1}, Piece: 1}, {Files: []int{0}, Piece: -1}} {
		err := takeFrom(t.Context(), addr, c.job.Key, 1, w, func(wire.Frame) (bool, error) { t.Error("something came"); return true, nil })
		if err == nil {
			t.Errorf("%+v was taken", w)
		}
	}
	first.stop(0)
	second.stop(0)
}

// TestTransferBrokenOff: nothing of a file that is not whole is left, however the agent ends.
func TestTransferBrokenOff(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"stop", "link", "kill"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			c := newCargo(t)
			c.add("big", noise(3*bcast.PieceSize), false)
			h := homely(t, home)
			h.stage(c)
			h.tell(wire.Message{Fetch: &wire.Fetch{}})
			want := message(h, "want", func(m wire.Message) *wire.Want { return m.Want })
			n := 0
			h.files(c, want, func(file int, p []byte) {
				if n++; n < 40 {
					h.send.SendBulk(wire.Frame{Kind: wire.Content, Stream: uint32(file), Payload: p})
				}
			})
			eventually(t, "a part of the file", func() bool { return len(named(cacheDir(home), tmpPrefix)) == 1 })
			switch how {
			case "stop":
				h.stop(0)
			case "link":
				h.stdin.Close()
				h.code()
			case "kill":
				h.cmd.Process.Kill()
				h.code()
				if len(named(cacheDir(home), tmpPrefix)) != 1 {
					t.Error("nothing is left to be swept")
				}
				sweepDepots(home, c.job.JobID)
			}
			wantOnlyBlobs(t, home, 0)
		})
	}
}

func TestSweepSparesTheLiving(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	c := newCargo(t)
	c.add("text", []byte("hello"), false)
	h := homely(t, home)
	h.stage(c)
	h.fetch(c, "")
	sweepDepots(home, c.job.JobID)
	if !exists(cacheDir(home) + "/job-" + c.job.JobID + ".0/text") {
		t.Error("the files of an agent that lives were swept")
	}
	h.stop(0)
}

// TestLook: agents find out whether they keep their files in the same directory.
func TestLook(t *testing.T) {
	t.Parallel()
	shared := t.TempDir()
	c := newCargo(t)
	c.add("text", []byte("hello"), false)
	first := homely(t, shared)
	one := first.stage(c)
	for name, home := range map[string]string{"same": shared, "other": t.TempDir()} {
		c.job.Node++
		second := homely(t, home)
		two := second.stage(c)
		second.tell(wire.Message{Look: &wire.Look{Node: 0}})
		seen := message(second, "seen", func(m wire.Message) *wire.Seen { return m.Seen })
		if same := name == "same"; seen.Yes != same || (one.Place == two.Place) != same {
			t.Errorf("%s: seen %v, places %q and %q", name, seen.Yes, one.Place, two.Place)
		}
		second.stop(0)
	}
	first.stop(0)
}

func TestPrune(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	d, err := openDepot(cacheDir(home), false, "0123456789abcdef", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.remove()
	file := func(name string, size int64, age time.Duration) string {
		path := d.root + "/" + name
		write(t, path, "", 0o600)
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	taken := file("blob-0", keepBytes+1, 0)
	newest := file("blob-1", keepBytes/2, time.Hour)
	older := file("blob-2", keepBytes/2, 2*time.Hour)
	oldest := file("blob-3", 10, 3*time.Hour)
	used := file("blob-4", 10, 4*time.Hour)
	if err := os.Link(used, d.dir()+"/used"); err != nil {
		t.Fatal(err)
	}
	coming := file("tmp.0123456789abcdef.5.0", 10, time.Hour)
	stray := file("tmp.0123456789abcdef.6.0", 10, 48*time.Hour)
	write(t, d.root+"/job-0123456789abcdef.7/text", "left", 0o600)
	write(t, d.root+"/job-0123456789abcdef.7.list", "", 0o600)
	fi, _ := os.Stat(d.root + "/job-0123456789abcdef.7/text")
	write(t, d.root+"/job-0123456789abcdef.7.list", fmt.Sprintf("%s\n%d \"text\"\n", hostName(), inode(fi)), 0o600)
	os.Chtimes(d.root+"/job-0123456789abcdef.7.list", time.Time{}, time.Now().Add(-48*time.Hour))
	write(t, d.root+"/job-0123456789abcdef.8.list", "\"another host\"\n", 0o600) // whose lock may not be seen
	os.Chtimes(d.root+"/job-0123456789abcdef.8.list", time.Time{}, time.Now().Add(-48*time.Hour))
	write(t, d.root+"/job-0123456789abcdef.9.list", "\"another host\"\n", 0o600)
	os.Chtimes(d.root+"/job-0123456789abcdef.9.list", time.Time{}, time.Now().Add(-2*listAge))
	d.prune()
	for path, want := range map[string]bool{
		taken: true, newest: true, older: true, oldest: false, used: true, coming: true, stray: false,
		d.root + "/job-0123456789abcdef.8.list": true, d.root + "/job-0123456789abcdef.9.list": false,
		d.root + "/job-0123456789abcdef.7": false, d.root + "/job-0123456789abcdef.7.list": false, d.listPath(): true,
	} {
		if exists(path) != want {
			t.Errorf("%s is there: %v; want %v", path, !want, want)
		}
	}
}

// TestBlobThatWasWrittenTo is no blob: root can write to any file.
func TestBlobThatWasWrittenTo(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	c := newCargo(t)
	c.add("text", []byte("hello"), false)
	h := homely(t, home)
	h.stage(c)
	h.fetch(c, "")
	h.stop(0)
	for _, redated := range []bool{false, true} { // the second as if it had never come to the disk
		blob := blobs(home)[0]
		fi, err := os.Stat(blob)
		if err != nil {
			t.Fatal(err)
		}
		os.Chmod(blob, 0o600)
		if err := os.WriteFile(blob, []byte("HELLO"), 0o600); err != nil {
			t.Fatal(err)
		}
		if redated {
			os.Chtimes(blob, time.Time{}, fi.ModTime())
		}
		h = homely(t, home)
		if have := h.stage(c); len(have.Missing) != 1 {
			t.Errorf("redated %v: got %+v; want the file missing", redated, have)
		}
		if staged := h.fetch(c, ""); staged.Text != "" {
			t.Fatal(staged.Text)
		}
		h.run(c.plan(sh("cat text")))
		if got := h.text(0, wire.Out); got != "hello" {
			t.Errorf("redated %v: got %q", redated, got)
		}
		h.stop(0)
	}
}

func TestNoRoom(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	if err := unix.Mount("none", home, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("cannot mount a small file system:", err)
	}
	t.Cleanup(func() { unix.Unmount(home, unix.MNT_DETACH) })
	c := newCargo(t)
	c.add("big", noise(3*bcast.PieceSize), false)
	s := &stager{job: &c.job, home: home, here: make([]bool, 1)}
	d, err := openDepot(cacheDir(home), false, c.job.JobID, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.fits(d); err == nil || !strings.Contains(err.Error(), "3145728 bytes are needed") {
		t.Errorf("got %v; want how many bytes are needed", err)
	}
	if _, err := d.create(t.Context(), 0, &c.job.Files[0]); err == nil {
		t.Error("space was found that is not there")
	}
	d.remove()
	wantOnlyBlobs(t, home, 0)
}

func TestStageRefuses(t *testing.T) {
	t.Parallel()
	good := func() *wire.Stage {
		return &wire.Stage{JobID: "0123456789abcdef", Key: make([]byte, 32), Files: []wire.File{
			{Name: wire.Bytes("a"), Path: wire.Bytes("/a"), Root: make([]byte, 32)}}}
	}
	if err := checkStage(good()); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *wire.Stage){
		"id":       func(s *wire.Stage) { s.JobID = "../x" },
		"node":     func(s *wire.Stage) { s.Node = -1 },
		"key":      func(s *wire.Stage) { s.Key = nil },
		"up":       func(s *wire.Stage) { s.Files[0].Name = wire.Bytes("../a") },
		"absolute": func(s *wire.Stage) { s.Files[0].Name = wire.Bytes("/a") },
		"empty":    func(s *wire.Stage) { s.Files[0].Name = nil },
		"unclean":  func(s *wire.Stage) { s.Files[0].Name = wire.Bytes("a/../b") },
		"nul":      func(s *wire.Stage) { s.Files[0].Name = wire.Bytes("a\x00") },
		"relative": func(s *wire.Stage) { s.Files[0].Path = wire.Bytes("a") },
		"size":     func(s *wire.Stage) { s.Files[0].Size = -1 },
		"root":     func(s *wire.Stage) { s.Files[0].Root = nil },
	} {
		s := good()
		spoil(s)
		if checkStage(s) == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
}

// TestTakerMeetsRename: a file may get its name between a look at the shelf and its opening.
func TestTakerMeetsRename(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir+"/whole", "hello", 0o600)
	for name, tt := range map[string]struct {
		next string
		ok   bool
	}{"renamed": {dir + "/whole", true}, "gone": {dir + "/gone", false}} {
		t.Run(name, func(t *testing.T) {
			h := newShelf([]int64{5})
			h.change(0, func(f *shelved) { f.path = dir + "/tmp" })
			k := &taker{ctx: t.Context(), shelf: h, files: []int{0}, alive: func() error { return nil }}
			k.idle = func(chan struct{}) error { h.whole(0, tt.next); return nil }
			defer k.close()
			if list, err := k.List(0); (err == nil && len(list) == bcast.HashSize) != tt.ok {
				t.Errorf("got %x, %v; want a list: %v", list, err, tt.ok)
			}
		})
	}
}

// TestTakerShowsLife: to make the list of a big file takes longer than the other end waits
// for a silent one.
func TestTakerShowsLife(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/file"
	write(t, path, "", 0o600)
	if err := os.Truncate(path, 3*bcast.PieceSize); err != nil {
		t.Fatal(err)
	}
	h := newShelf([]int64{3 * bcast.PieceSize})
	h.whole(0, path)
	dead := errors.New("dead")
	beats := 0
	k := &taker{ctx: t.Context(), shelf: h, files: []int{0}, alive: func() error {
		if beats++; beats == 2 {
			return dead
		}
		return nil
	}}
	defer k.close()
	if _, err := k.List(0); err != dead || beats != 2 {
		t.Errorf("got %v after %d signs of life; want the error of the second", err, beats)
	}
}
