package rendezvous

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestServerManyRanks(t *testing.T) {
	const ranks, rounds = 200, 2
	j := newTestJob(t, ranks, 1)
	clients := j.clients()
	each(t, clients, func(c *Client) error {
		for round := range rounds {
			if c.Rank() == ranks {
				if err := c.Put(t.Context(), fmt.Sprint("k", round), []byte("v")); err != nil {
					return err
				}
			}
			if _, err := c.GetFrom(t.Context(), fmt.Sprint("k", round), ranks); err != nil {
				return err
			}
			if err := c.Barrier(t.Context(), "b"); err != nil {
				return err
			}
		}
		return nil
	})
	// Of the large host: a get and a barrier per round, and, if the machine is slow,
	// a few reports of who is missing.
	if n, most := j.messages(), rounds*(2+2+1)+40; n > most {
		t.Errorf("%d messages to the head for %d requests; want at most %d", n, 2*rounds*ranks, most)
	}
}

// Several clients of a rank share its place in barriers, and nothing else.
func TestServerManyClientsOfARank(t *testing.T) {
	j := newTestJob(t, 2)
	other := j.client(1)
	for i := range 100 {
		c := j.client(0)
		done := make(chan error)
		go func() { done <- other.Barrier(t.Context(), "b") }()
		if err := c.Barrier(t.Context(), "b"); err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	eventually(t, "old connections are forgotten", func() bool { return j.peers(0) == 1 })
	var clients []*Client
	for range maxSessions {
		clients = append(clients, j.client(0))
	}
	_, err := dial(t.Context(), j.paths[0], 0, 2)
	if want := "rank 0 has 64 connections already"; code(err) != CodeLimit || err.Error() != want {
		t.Errorf("one too many: got %v; want %s", err, want)
	}
	if err := other.Put(t.Context(), "k", nil); err != nil {
		t.Errorf("the other rank: %v", err)
	}
	clients[0].Close()
	eventually(t, "there is room again", func() bool { return j.peers(0) == maxSessions })
	j.client(0)
}

func (j *testJob) peers(host int) int {
	s := j.servers[host]
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.peers)
}

// A client that goes away while it waits has left; another may enter for its rank.
func TestServerClientKilled(t *testing.T) {
	j := newTestJob(t, 2, 1)
	c := j.clients()
	results := make(chan error, 3)
	go func() { results <- c[2].Barrier(t.Context(), "b") }()
	for range 20 {
		victim := j.client(0)
		gone := make(chan error)
		go func() { gone <- victim.Barrier(t.Context(), "b") }()
		eventually(t, "the victim waits", func() bool { return j.waits(0) == 1 })
		victim.Close()
		if err := <-gone; !errors.Is(err, ErrGone) {
			t.Fatalf("the victim: got %v; want ErrGone", err)
		}
		eventually(t, "the victim has left", func() bool { return j.waits(0) == 0 })
	}
	go func() { results <- c[1].Barrier(t.Context(), "b") }()
	eventually(t, "rank 1 waits", func() bool { return j.waits(1) == 1 })
	if err := c[0].Barrier(t.Context(), "b"); err != nil {
		t.Errorf("rank 0: %v", err)
	}
	for range 2 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
}

const helloLine = `{"op":"hello","rank":0,"id":1}` + "\n"

// What a broken client sends, and the codes of the answers it gets before the
// connection is closed.
func TestServerGarbage(t *testing.T) {
	j := newTestJob(t, 1)
	c := j.client(0)
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"http", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", []string{CodeInvalid}},
		{"binary", "\x16\x03\x01\x02\x00\n", []string{CodeInvalid}},
		{"long-line", strings.Repeat("x", MaxLine+1), []string{CodeInvalid}},
		{"no-hello", `{"op":"get","key":"k"}` + "\n", []string{CodeInvalid}},
		{"hello-of-another-host", `{"op":"hello","rank":5}` + "\n", []string{CodeInvalid}},
		{"hello-negative", `{"op":"hello","rank":-1}` + "\n", []string{CodeInvalid}},
		{"hello-with-value", `{"op":"hello","len":3}` + "\nabc", []string{CodeInvalid}},
		{"hello-of-epoch-negative", `{"op":"hello","epoch":-1}` + "\n", []string{CodeInvalid}},
		{"not-utf8", helloLine + `{"op":"put","key":"` + "\xff" + `"}` + "\n", []string{"", CodeInvalid}},
		{"huge-value", helloLine + `{"op":"put","key":"k","len":1e9}` + "\n", []string{"", CodeInvalid}},
		{"larger-value", helloLine + `{"op":"put","key":"k","len":65537}` + "\n" + strings.Repeat("v", 65537), []string{"", CodeLimit}},
		{"negative-value", helloLine + `{"op":"put","key":"k","len":-5}` + "\n", []string{"", CodeInvalid}},
		{"negative-timeout", helloLine + `{"op":"get","key":"k","timeout_ms":-5}` + "\n", []string{"", CodeInvalid}},
		{"null", helloLine + "null\n", []string{"", CodeInvalid}},
		{"empty-line", helloLine + "\n", []string{"", CodeInvalid}},
		{"array", helloLine + strings.Repeat("[", 1000) + "\n", []string{"", CodeInvalid}},
		{"hello-again", helloLine + helloLine, []string{"", CodeInvalid}},
		{"unknown-op-goes-on", helloLine + `{"op":"fly","key":"k"}` + "\n" + `{"op":"try","key":"k"}` + "\n", []string{"", CodeInvalid, codeAbsent}},
		{"unknown-fields-are-fine", helloLine + `{"op":"try","key":"k","colour":"red"}` + "\n", []string{"", codeAbsent}},
	} {
		t.Run(row.name, func(t *testing.T) {
			conn := j.raw(0)
			go conn.Write([]byte(row.text))
			in := bufio.NewReader(conn)
			for i, want := range row.want {
				r, err := readReply(in)
				if err != nil || r.Code != want {
					t.Fatalf("answer %d: got %+v, %v; want code %q", i, r, err, want)
				}
			}
			conn.Close()
			if _, _, err := c.Try(t.Context(), "k"); err != nil {
				t.Errorf("the honest client: %v", err)
			}
		})
	}
	eventually(t, "all are forgotten", func() bool { return j.peers(0) == 1 && j.waits(0) == 0 })
}

// After a line that is no request the connection is closed.
func TestServerClosesAfterGarbage(t *testing.T) {
	conn := newTestJob(t, 1).raw(0)
	conn.Write([]byte(helloLine + "garbage\n"))
	all, err := io.ReadAll(conn)
	if n := bytes.Count(all, []byte("\n")); err != nil || n < 2 || !bytes.Contains(all, []byte(CodeInvalid)) {
		t.Errorf("got %q, %v; want two answers and the end", all, err)
	}
}

// A client that is refused can send all it has, and then read why, and then the end.
func TestServerAnswersBeforeItCloses(t *testing.T) {
	j := newTestJob(t, 1)
	for _, row := range []struct {
		name, text string
		want       string // text of the last answer
	}{
		{"large-value", helloLine + `{"op":"put","key":"k","len":65537}` + "\n" + strings.Repeat("v", 65537), "a value of 65537 bytes"},
		{"long-line", helloLine + strings.Repeat("x", 100_000), "a line of more than 4096 bytes"},
		{"no-hello", strings.Repeat(`{"op":"get","key":"k"}`+"\n", 1000), "before hello"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for range 50 {
				conn := j.raw(0)
				if _, err := io.WriteString(conn, row.text); err != nil {
					t.Fatalf("write: %v", err)
				}
				if all, err := io.ReadAll(conn); err != nil || !bytes.Contains(all, []byte(row.want)) {
					t.Fatalf("got %q, %v; want %q and the end", all, err, row.want)
				}
				conn.Close()
			}
		})
	}
	eventually(t, "all are forgotten", func() bool { return j.peers(0) == 0 })
}

// One that was refused and does not leave has a second, and sends in vain.
func TestServerRefusedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(ServerConfig{Secret: testSecret[:], Ranks: []int{0}, Send: func(Request) {}})
		defer s.shut()
		ours, theirs := net.Pipe()
		defer ours.Close()
		s.serve(theirs, nil)
		io.WriteString(ours, helloLine+"garbage\n")
		in := bufio.NewReader(ours)
		readReply(in)
		if r, err := readReply(in); err != nil || r.Code != CodeInvalid {
			t.Fatalf("got %+v, %v; want a refusal", r, err)
		}
		begin := time.Now()
		n, err := io.Copy(ours, neverEnding{100 * time.Millisecond})
		if took := time.Since(begin); err == nil || n < 500 || took > lastAnswer+100*time.Millisecond {
			t.Errorf("wrote %d bytes in %v, %v; want an error after a second", n, took, err)
		}
		synctest.Wait()
		if len(s.peers) != 0 || s.strangers.Len() != 0 {
			t.Errorf("%d connections, %d strangers are left", len(s.peers), s.strangers.Len())
		}
	})
}

// neverEnding is a hundred bytes now and then.
type neverEnding struct{ pause time.Duration }

func (e neverEnding) Read(p []byte) (int, error) {
	time.Sleep(e.pause)
	return min(len(p), 100), nil
}

// Any bytes at all, cut anywhere, must leave the Server as it was.
func TestServerHalfRequests(t *testing.T) {
	j := newTestJob(t, 2)
	c := j.client(1)
	whole := helloLine + `{"op":"barrier","key":"b"}` + "\n" + `{"op":"get","key":"never"}` + "\n" + `{"op":"put","key":"k","len":5}` + "\nvalue"
	for cut := range len(whole) {
		conn := j.raw(0)
		conn.Write([]byte(whole[:cut]))
		conn.Close()
	}
	eventually(t, "all are forgotten", func() bool { return j.peers(0) == 1 && j.waits(0) == 0 })
	if err := c.Put(t.Context(), "alive", nil); err != nil {
		t.Error(err)
	}
}

// Connections that say nothing are closed after 5 seconds, and so is half a hello.
func TestServerSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(ServerConfig{Secret: testSecret[:], Ranks: []int{0}, Send: func(Request) {}})
		defer s.shut()
		begin := time.Now()
		for _, text := range []string{"", `{"op":"hel`} {
			ours, theirs := net.Pipe()
			defer ours.Close()
			s.serve(theirs, nil)
			if text != "" {
				ours.Write([]byte(text))
			}
			n, err := ours.Read(make([]byte, 100))
			if err != io.EOF {
				t.Errorf("after %q: got %d bytes, %v; want the end", text, n, err)
			}
		}
		if took, want := time.Since(begin), 2*helloTimeout; took != want {
			t.Errorf("took %v; want %v", took, want)
		}

		ours, theirs := net.Pipe()
		defer ours.Close()
		s.serve(theirs, nil)
		ours.Write([]byte(helloLine))
		in := bufio.NewReader(ours)
		if r, err := readReply(in); err != nil || len(r.Value) != SecretLen {
			t.Fatalf("hello: got %+v, %v", r, err)
		}
		time.Sleep(24 * time.Hour)
		ours.Write([]byte(`{"op":"nonsense"}` + "\n"))
		if r, err := readReply(in); err != nil || r.Code != CodeInvalid {
			t.Errorf("after a day of silence: got %+v, %v; want an answer", r, err)
		}
	})
}

// A report of who is missing goes to the head after a second. While the job is
// suspended no deadline comes nearer.
func TestServerReportsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		begin := time.Now()
		s := newServer(ServerConfig{Secret: testSecret[:], Ranks: []int{0, 1, 2}, Send: func(r Request) {
			got = append(got, fmt.Sprint(time.Since(begin), " ", showRequest(r)))
		}})
		s.running.Go(s.tick)
		defer s.shut()
		enter := func(rank int) {
			ours, theirs := net.Pipe()
			t.Cleanup(func() { ours.Close() })
			s.serve(theirs, nil)
			fmt.Fprintf(ours, `{"op":"hello","rank":%d}`+"\n", rank)
			readReply(bufio.NewReader(ours))
			io.WriteString(ours, `{"op":"barrier","key":"b","timeout_ms":10000}`+"\n")
			synctest.Wait()
		}
		enter(0)
		time.Sleep(5 * time.Second)
		s.Pause(true)
		time.Sleep(30 * time.Second)
		s.Pause(true) // again
		enter(1)
		time.Sleep(30 * time.Second)
		s.Pause(false)
		time.Sleep(time.Second)
		s.Pause(false) // nothing
		enter(2)
		want := []string{
			`1s barrier #1 "b" timeout=9s missing=1-2`,
			`1m5.1s barrier #2 "b" timeout=4.9s missing=2`,
			`1m6s barrier #3 "b" timeout=4s`,
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q; want %q", got, want)
		}
	})
}

// A flood of connections that say nothing pushes out only itself.
func TestServerFlood(t *testing.T) {
	j := newTestJob(t, 2)
	c := j.client(0)
	most := j.servers[0].most
	var silent []net.Conn
	for range most + 200 {
		silent = append(silent, j.raw(0))
	}
	late := j.client(1)
	eventually(t, "only so many are kept", func() bool { return j.peers(0) <= most+2 })
	each(t, []*Client{c, late}, func(c *Client) error { return c.Barrier(t.Context(), "b") })
	if _, err := silent[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the oldest: got %v; want the end", err)
	}
	for _, conn := range silent {
		conn.Close()
	}
	eventually(t, "all are forgotten", func() bool { return j.peers(0) == 2 })
}

// A client that asks and never reads stops itself, and holds little memory.
func TestServerClientDoesNotRead(t *testing.T) {
	j := newTestJob(t, 2)
	c := j.client(1)
	if err := c.Put(t.Context(), "k", make([]byte, MaxValue)); err != nil {
		t.Fatal(err)
	}
	conn := j.raw(0)
	conn.Write([]byte(helloLine))
	conn.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
	asked, err := 0, error(nil)
	for ; err == nil; asked++ {
		_, err = conn.Write([]byte(`{"op":"get","key":"k"}` + "\n"))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("after %d requests: got %v; want to be held up", asked, err)
	}
	if queued, most := j.queued(0), maxQueue+2*(MaxValue+answerCost); queued > most {
		t.Errorf("%d bytes are queued; want at most %d", queued, most)
	}
	if _, err := c.Get(t.Context(), "k"); err != nil {
		t.Errorf("the other client: %v", err)
	}
	conn.Close()
	eventually(t, "it is forgotten", func() bool { return j.peers(0) == 1 })
}

// queued is the most bytes that wait for one of a host's connections.
func (j *testJob) queued(host int) (most int) {
	s := j.servers[host]
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		p.mu.Lock()
		most = max(most, p.bytes)
		p.mu.Unlock()
	}
	return most
}

// A rank can have only so much waiting, over all its connections; others do not notice.
func TestServerRankLimits(t *testing.T) {
	j := newTestJob(t, 2)
	conn := j.raw(0)
	in := bufio.NewReader(conn)
	conn.Write([]byte(helloLine))
	readReply(in)
	go func() {
		for i := range maxCalls + 1 {
			fmt.Fprintf(conn, `{"op":"get","key":"never/%d","id":%d}`+"\n", i, i)
		}
	}()
	r, err := readReply(in)
	if want := "rank 0 has 1024 requests waiting already"; err != nil || r.Code != CodeLimit || r.Err != want || r.ID != maxCalls {
		t.Errorf("got %+v, %v; want %s", r, err, want)
	}
	if err := j.client(1).Put(t.Context(), "k", nil); err != nil {
		t.Errorf("the other rank: %v", err)
	}
	conn.Close()
	eventually(t, "all is taken back", func() bool { return j.waits(0) == 0 })
}

// Values on their way to a head that does not answer are bounded too, also when the
// connection is closed and made anew each time.
func TestServerPutLimit(t *testing.T) {
	sent := 0
	h := newHub(testSecret[:], []int{0}, func(r Request) { sent += len(r.Value) })
	refused := 0
	for range 100 {
		s := &session{answer: func(r Reply) {
			if r.Code == CodeLimit {
				refused++
			}
		}}
		h.handle(epochZero, s, Request{Op: opHello})
		h.handle(epochZero, s, Request{Op: opPut, Key: "k", Value: make([]byte, MaxValue)})
		h.leave(epochZero, s)
	}
	if sent != maxPuts || refused != 100-maxPuts/MaxValue {
		t.Errorf("sent %d bytes, refused %d; want %d and %d", sent, refused, maxPuts, 100-maxPuts/MaxValue)
	}
}

// So is what is asked and taken back again before the head has answered.
func TestServerTakeBackLimit(t *testing.T) {
	for _, row := range []struct {
		op   string
		most int // messages to the head
	}{
		{opGet, 2 * maxCalls},
		{opBarrier, 2 * maxCalls},
	} {
		t.Run(row.op, func(t *testing.T) {
			var asked []uint64
			sent, refused, now := 0, 0, epochZero
			h := newHub(testSecret[:], []int{0, 1}, func(r Request) {
				sent++
				if r.Op != opCancel {
					asked = append(asked, r.ID)
				}
			})
			s := &session{answer: func(r Reply) {
				if r.Code == CodeLimit {
					refused++
				}
			}}
			h.handle(now, s, Request{Op: opHello})
			for id := range uint64(maxCalls + 100) {
				h.handle(now, s, Request{ID: id, Op: row.op, Key: "k", Timeout: 2 * time.Millisecond})
				now = now.Add(time.Millisecond)
				h.tick(now)
				h.handle(now, s, Request{ID: id, Op: opCancel})
			}
			if sent != row.most || refused != 100 {
				t.Errorf("sent %d messages, refused %d requests; want %d and 100", sent, refused, row.most)
			}
			for _, id := range asked {
				h.deliver(now, Reply{ID: id, Code: codeWithdrawn})
			}
			h.leave(now, s)
			if m := *h.members[0]; m != (member{}) || len(h.pending) != 0 {
				t.Errorf("all answered: the rank is charged with %+v, %d replies are awaited", m, len(h.pending))
			}
		})
	}
}

func TestServerOtherUser(t *testing.T) {
	path := filepath.Join(privateDir(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	uid := os.Getuid()
	s := newServer(ServerConfig{Secret: testSecret[:], Ranks: []int{0}, UID: uid + 1, Send: func(Request) {}})
	s.listener = l
	s.running.Go(s.accept)
	defer s.Close()
	_, err = dial(t.Context(), path, 0, 1)
	if want := fmt.Sprintf("this store serves user %d; you are user %d", uid+1, uid); err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

func TestListen(t *testing.T) {
	dir := privateDir(t)
	open := filepath.Join(dir, "open")
	link := filepath.Join(dir, "link")
	file := filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(open, 0o755), os.Symlink(dir, link), os.WriteFile(file, nil, 0o700)); err != nil {
		t.Fatal(err)
	}
	good := ServerConfig{Secret: testSecret[:], Ranks: []int{0}, UID: os.Getuid(), Send: func(Request) {}}
	with := func(change func(*ServerConfig)) ServerConfig {
		c := good
		change(&c)
		return c
	}
	for _, row := range []struct {
		name, path string
		cfg        ServerConfig
		want       string
	}{
		{"good", dir + "/s", good, ""},
		{"long-path", dir + "/" + strings.Repeat("x", MaxPath), good, "the limit is 90"},
		{"open-directory", open + "/s", good, "has mode 0755; want 0700"},
		{"no-directory", dir + "/none/s", good, "no such file"},
		{"symlink", link + "/s", good, "is not a directory"},
		{"file", file + "/s", good, "is not a directory"},
		{"in-use", file, good, "address already in use"},
		{"other-owner", dir + "/t", with(func(c *ServerConfig) { c.UID++ }), "does not belong to user"},
		{"short-secret", dir + "/t", with(func(c *ServerConfig) { c.Secret = c.Secret[1:] }), "secret of 31 bytes"},
		{"no-ranks", dir + "/t", with(func(c *ServerConfig) { c.Ranks = nil }), "no ranks"},
		{"no-head", dir + "/t", with(func(c *ServerConfig) { c.Send = nil }), "no way to the head"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s, err := Listen(row.path, row.cfg)
			if row.want != "" {
				if err == nil || !strings.Contains(err.Error(), row.want) {
					t.Errorf("got %v; want %q", err, row.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(row.path); err != nil || info.Mode() != os.ModeSocket|0o600 {
				t.Errorf("got %v, %v; want a socket of mode 0600", info.Mode(), err)
			}
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Errorf("close twice: %v", err)
			}
			if _, err := os.Stat(row.path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("after Close the socket is there: %v", err)
			}
			s.Deliver(Reply{ID: 1})
		})
	}
}
