package launcher

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// stage is a scene under construction: a job of four ranks, two on host a and two on b,
// of which all sleep and printed "step N" half a minute ago.
type stage struct{ scene }

func newStage() *stage {
	s := &stage{scene{when: "at the timeout of 1m29s", at: 90 * time.Second, limit: lookLimit}}
	for i, name := range []string{"a", "b"} {
		addrs := []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), netip.MustParseAddr("172.17.0.1")}
		s.hosts = append(s.hosts, sceneHost{name: name, addrs: addrs})
	}
	for rank := range 4 {
		s.ranks = append(s.ranks, sceneRank{
			host: rank / 2, end: RankResult{Rank: rank, State: StateWaiting}, took: time.Second,
			line: fmt.Sprintf("step %d", 120+rank), age: 30 * time.Second,
			sight: &wire.Sight{Rank: rank, PID: 100 + rank, Name: "train", State: "S", Call: "futex", Channel: "futex_wait_queue", Processes: 1, Threads: 8},
		})
	}
	return s
}

// each changes what was seen of some ranks.
func (s *stage) each(change func(*wire.Sight), ranks ...int) *stage {
	for _, r := range ranks {
		change(s.ranks[r].sight)
	}
	return s
}

func (s *stage) busy(percent int, ranks ...int) *stage {
	return s.each(func(w *wire.Sight) {
		w.State, w.Call, w.Channel, w.CPU = "R", "", "", time.Duration(percent)*10*time.Millisecond
	}, ranks...)
}

func (s *stage) inState(state string, ranks ...int) *stage {
	return s.each(func(w *wire.Sight) { w.State, w.Call, w.Channel = state, "", "" }, ranks...)
}

func (s *stage) call(call, file string, ranks ...int) *stage {
	return s.each(func(w *wire.Sight) { w.Call, w.File, w.Channel = call, file, "" }, ranks...)
}

// wants has ranks wait in the store, where others are missing.
func (s *stage) wants(op string, from []int, ranks ...int) *stage {
	for i, r := range ranks {
		w := wire.StoreWait{Op: op, Name: `"x"`, For: time.Duration(31+i) * time.Second}
		s.ranks[r].sight.Store = append(s.ranks[r].sight.Store, w)
	}
	s.wanted = append(s.wanted, rendezvous.Wanted{Op: op, Name: `"x"`, From: from, Text: op + ` "x": the store's own words`})
	return s
}

// connect connects two ranks, from port 40000+from to 5000+to, where to listens.
func (s *stage) connect(from, to int, change func(*wire.Conn)) *stage {
	end := func(rank, port int) netip.AddrPort {
		return netip.AddrPortFrom(s.hosts[s.ranks[rank].host].addrs[0], uint16(port+rank))
	}
	c := wire.Conn{Local: end(from, 40000), Remote: end(to, 5000)}
	other := wire.Conn{Local: c.Remote, Remote: c.Local}
	change(&c)
	w := s.ranks[from].sight
	w.Conns = append(w.Conns, c)
	if w = s.ranks[to].sight; w != nil && c.State == "" {
		w.Conns = append(w.Conns, other)
		w.Listens = []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), other.Local.Port())}
	}
	return s
}

func (s *stage) lose(host int) *stage {
	for i := range s.ranks {
		if s.ranks[i].host == host {
			s.ranks[i].sight, s.ranks[i].end.State = nil, StateLost
		}
	}
	return s
}

func (s *stage) end(rank, code, signal int) *stage {
	s.ranks[rank].sight, s.ranks[rank].end = nil, RankResult{State: StateExited, Code: code, Signal: signal}
	return s
}

// meets has ranks wait for rank 0 where PyTorch's meet.
func (s *stage) meets(ranks ...int) *stage {
	s.meet = 5000
	for _, r := range ranks {
		s.connect(r, 0, waited).call("recv", "a socket", r)
	}
	return s.call("nanosleep", "", 0)
}

func waited(c *wire.Conn) { c.Waited = true }

// pictures are the scenes whose text is in testdata/picture.
func pictures() map[string]*stage {
	m := map[string]*stage{
		"all-sleep":       newStage(),
		"all-work":        newStage().busy(98, 0, 1).busy(100, 2, 3),
		"odd-sleeps":      newStage().busy(100, 0, 1, 2),
		"odd-works":       newStage().busy(100, 3),
		"two-and-two":     newStage().busy(100, 0, 1),
		"odd-call":        newStage().call("read", "its standard input", 2),
		"little-cpu-time": newStage().inState("R", 0, 1, 2, 3),

		"stopped":     newStage().inState("T", 1).busy(50, 0),
		"debugged":    newStage().inState("t", 1, 2),
		"stuck":       newStage().call("read", "/nfs/data/x", 3).each(func(w *wire.Sight) { w.State, w.Channel = "D", "rpc_wait_bit_killable" }, 3),
		"late":        newStage().busy(99, 3).wants("barrier", []int{3}, 0, 1, 2),
		"stopped-one": newStage().inState("T", 1).wants("barrier", []int{1, 3}, 0, 2).busy(60, 3),
		"store-knows": newStage().call("epoll_wait", "", 1).inState("R", 2).wants("barrier", []int{3}, 0, 1, 2),
		"ended-one":   newStage().end(1, 0, 0).wants("barrier", []int{1}, 0, 2, 3),
		"killed-one":  newStage().end(1, 0, 9).busy(100, 0, 2, 3),
		"sleepy-one":  newStage().call("read", "its standard input", 2).wants("get", []int{2}, 0, 1, 3),
		"nobody-puts": newStage().wants("get", nil, 0, 1, 2, 3),

		"each-other":   newStage().call("recv", "a socket", 0, 2).connect(0, 2, waited).connect(2, 0, waited).busy(0),
		"chain":        newStage().call("recv", "a socket", 0, 1).connect(0, 1, waited).connect(1, 3, waited).busy(100, 3),
		"not-accepted": newStage().connect(0, 3, func(c *wire.Conn) { c.State = wire.ConnOpening }).each(func(w *wire.Sight) { w.Listens = []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:5003")} }, 3),
		"not-taken":    newStage().connect(0, 3, func(c *wire.Conn) { c.Unsent = 2 << 20 }).each(func(w *wire.Sight) { w.Conns[0].Unread = 6 << 20 }, 3),
		"closed":       newStage().connect(0, 3, func(c *wire.Conn) { c.State = wire.ConnClosed }),
		"lost":         newStage().lose(1).call("recv", "a socket", 0).connect(0, 2, waited),
		"other-servers": newStage().each(func(w *wire.Sight) {
			w.Conns = []wire.Conn{{Local: end("10.0.0.1:40000"), Remote: end("10.0.0.9:2049")}, {Local: end("10.0.0.1:40001"), Remote: end("10.0.0.2:22")}, {Local: end("10.0.0.1:40002"), Remote: end("172.17.0.1:80")}}
			w.More = 5
		}, 0),
	}
	m["meets"] = newStage().meets(1, 3)
	m["meets-by-polling"] = newStage().meets(1, 3).inState("R", 1)
	m["meets-a-worker"] = newStage().meets(1, 3).busy(100, 2)
	m["meets-one-stopped"] = newStage().meets(1, 3).inState("T", 2)
	m["meets-one-ended"] = newStage().meets(1, 3).end(2, 0, 0)
	m["meets-one-out-of-sight"] = newStage().meets(1).silent(1)
	m["met"] = newStage().meets(1, 2, 3)
	m["met-and-rank-0-works"] = newStage().meets(1, 3).busy(100, 0)
	m["met-and-rank-0-stopped"] = newStage().meets(1, 3).inState("T", 0)
	m["met-and-rank-1-works"] = newStage().meets(1, 3).busy(100, 1)
	m["met-and-rank-0-waits"] = newStage().meets(1, 3).connect(0, 2, waited)
	m["met-not-all-told"] = newStage().meets(1, 3).each(func(w *wire.Sight) { w.More = 1 }, 2)
	m["late-and-printing"] = m["late"].copyOf().fresh(3)
	m["alike"] = newStage().busy(11, 0, 2).busy(9, 1, 3)
	m["alike-in-calls"] = newStage().busy(7, 0, 1, 2, 3).call("read", "a pipe", 2).call("wait4", "", 0, 1, 3)
	m["prints-alone"] = newStage().copyOf().mute(1, 2, 3).fresh(0)
	m["hangs-among-printers"] = newStage().copyOf().fresh(0).fresh(1).fresh(3)
	m["not-started"] = newStage()
	m["not-started"].hosts[1].begins = true
	m["not-started"].ranks[3].sight = nil
	m["not-told"] = newStage().silent(1)
	m["alone"] = newStage().call("read", "its standard input", 0).only(1)
	m["nothing-known"] = newStage().lose(0).silent(1)
	m["silent-ranks"] = newStage().mute(0, 1)
	m["ipv6"] = newStage()
	m["ipv6"].hosts[1].addrs = append(m["ipv6"].hosts[1].addrs, netip.MustParseAddr("2001:db8::2"))
	m["ipv6"].each(func(w *wire.Sight) {
		w.Conns = []wire.Conn{{Local: end("[2001:db8::1]:40000"), Remote: end("[2001:db8::2]:53")}}
	}, 0)
	m["loopback"] = newStage()
	for _, r := range []int{0, 2} { // the same two addresses on both hosts
		m["loopback"].each(func(w *wire.Sight) {
			w.Conns = []wire.Conn{{Local: end("127.0.0.1:40000"), Remote: end("127.0.0.1:5000")}}
		}, r)
		m["loopback"].each(func(w *wire.Sight) {
			w.Conns = []wire.Conn{{Local: end("127.0.0.1:5000"), Remote: end("127.0.0.1:40000")}}
		}, r+1)
	}
	return m
}

func end(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func (s *stage) copyOf() *stage {
	c := *s
	c.ranks = append([]sceneRank(nil), s.ranks...)
	return &c
}

func (s *stage) fresh(rank int) *stage {
	s.ranks[rank].fresh, s.ranks[rank].age, s.ranks[rank].line = true, 400*time.Millisecond, "a\x1b[1mb"
	return s
}

func (s *stage) silent(host int) *stage {
	s.hosts[host].silent = true
	for i := range s.ranks {
		if s.ranks[i].host == host {
			s.ranks[i].sight = nil
		}
	}
	return s
}

func (s *stage) only(ranks int) *stage {
	s.ranks = s.ranks[:ranks]
	return s
}

func (s *stage) mute(ranks ...int) *stage {
	for _, r := range ranks {
		s.ranks[r].line, s.ranks[r].age = "", -1
	}
	return s
}

// TestPicture compares what is said of each scene with a file. Rewrite them with:
// go test ./launcher -run TestPicture -rewrite
func TestPicture(t *testing.T) {
	for name, s := range pictures() {
		t.Run(name, func(t *testing.T) {
			p := paint(&s.scene)
			got := strings.Join(p.lines(s.limit), "\n") + "\n"
			file := filepath.Join("testdata", "picture", name+".txt")
			want, err := os.ReadFile(file)
			if *rewrite {
				err = os.WriteFile(file, []byte(got), 0o644)
			} else if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// A rank is called odd only if there is a clear gap between it and the others.
func TestApart(t *testing.T) {
	const never = -1
	for name, c := range map[string]struct {
		work, sleep      int
		printed, unheard time.Duration
		want             bool
	}{
		"nearly the same":           {10, 9, never, never, false},
		"twice as much":             {20, 9, never, never, false},
		"three times, but little":   {27, 9, never, never, false},
		"much, but not three times": {95, 50, never, never, false},
		"clear":                     {60, 9, never, never, true},
		"full against nothing":      {100, 0, never, never, true},
		"prints, others long not":   {1, 0, time.Second, time.Minute, true},
		"prints, others lately":     {1, 0, time.Second, 10 * time.Second, false},
		"prints, others never":      {1, 0, time.Second, never, false},
		"all long silent":           {12, 0, time.Minute, time.Minute, false},
	} {
		ranks := []RankPicture{{CPU: c.work, OutputAge: c.printed}, {Rank: 1, CPU: c.sleep, OutputAge: c.unheard}}
		if got := apart(ranks, []int{0}, []int{1}); got != c.want {
			t.Errorf("%s: got %v; want %v", name, got, c.want)
		}
	}
}

// What is written to --result names the same things.
func TestPictureAsJSON(t *testing.T) {
	p := paint(&pictures()["chain"].scene)
	b, err := json.Marshal(p.Ranks[1])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"rank":1,"host":"a","doing":"sleeping","pid":101,"program":"train","state":"S","call":"recv","file":"a socket",` +
		`"processes":1,"threads":8,"cpu_percent":0,"listens":["port 5001"],"peers":["connected to ranks 0,3"],"waits_for":[3],` +
		`"last_line":"step 121","output_age_ns":30000000000}`
	if string(b) != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
}

// threadTime is how long the thread of this goroutine has worked.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A big job's picture is made quickly, and its text is short.
func TestBigPicture(t *testing.T) {
	const size, perHost = MaxRanks, 8
	s := &stage{scene{limit: lookLimit}}
	var missing []int
	for rank := range size {
		if rank%perHost == 0 {
			s.hosts = append(s.hosts, sceneHost{name: fmt.Sprint("h", len(s.hosts)), addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, byte(rank >> 16), byte(rank >> 8), byte(rank)})}})
		}
		sight := &wire.Sight{Rank: rank, State: "S", Call: fmt.Sprint("call", rank%50), Processes: 1, Threads: 1}
		if rank%3 == 0 {
			missing = append(missing, rank)
		} else {
			sight.Store = []wire.StoreWait{{Op: "barrier", Name: `"x"`}}
		}
		s.ranks = append(s.ranks, sceneRank{host: rank / perHost, end: RankResult{State: StateWaiting}, took: time.Second, sight: sight, age: -1})
	}
	s.wanted = []rendezvous.Wanted{{Op: "barrier", Name: `"x"`, From: missing, Text: "barrier"}}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begun := threadTime(t)
	p := paint(&s.scene)
	lines := p.lines(s.limit)
	if took := threadTime(t) - begun; took > 20*time.Second { // of work, however busy the machine is
		t.Errorf("took %v", took)
	}
	if len(lines) > maxGroups+maxWanted+3 {
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		if len(l) > 1000 {
			t.Errorf("a line of %d bytes: %s…", len(l), l[:200])
		}
	}
	if n := len(p.Ranks[1].WaitsFor); n != maxWaitsFor {
		t.Errorf("rank 1 waits for %d ranks; want the first %d", n, maxWaitsFor)
	}
}
