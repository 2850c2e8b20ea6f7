package probe

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// helperVar makes the test binary a host's agent, in whatever namespace it is started.
const helperVar = "GORUN_PROBE_TEST_HELPER"

// ask is one line to a helper, and reply its answer.
type ask struct {
	Listen *listenAt
	Order  *Order
	Source netip.Addr
	Self   int
}

type listenAt struct {
	Self Identity
	Addr netip.Addr
}

type reply struct {
	Port   uint16
	Result Result
	Error  string
}

// helper carries out what it is asked for until in ends.
func helper(in io.Reader, out io.Writer) int {
	var listeners []*Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	encode := json.NewEncoder(out)
	for decode := json.NewDecoder(in); ; {
		var a ask
		if decode.Decode(&a) != nil {
			return 0
		}
		var r reply
		if a.Listen != nil {
			l, err := Listen(a.Listen.Self, a.Listen.Addr, testSecret)
			if err != nil {
				r.Error = err.Error()
			} else {
				listeners = append(listeners, l)
				r.Port = l.Port()
			}
		}
		if a.Order != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			r.Result = Run(ctx, a.Self, testSecret, a.Source, *a.Order)
			cancel()
		}
		if encode.Encode(r) != nil {
			return 1
		}
	}
}

// machine is a process with a network of its own. Both end with the test.
type machine struct {
	pid int
	in  io.WriteCloser
	out *bufio.Reader
}

// newMachine starts one, or skips the test where that is not permitted.
func newMachine(t *testing.T) *machine {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), helperVar+"=1", "GORACE=atexit_sleep_ms=0") // else each takes a second to end
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	m := &machine{cmd.Process.Pid, in, bufio.NewReader(out)}
	m.set(t, "ipv6/conf/default/accept_dad=0")
	m.ip(t, "link set lo up")
	return m
}

// needNamespaces skips the test where it cannot make networks.
func needNamespaces(t *testing.T) {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "it needs root"
	}
	for _, tool := range []string{"ip", "nft", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			why = err.Error()
		}
	}
	if why == "" {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}

// run runs a command in the machine's network.
func (m *machine) run(t *testing.T, input string, args ...string) {
	t.Helper()
	args = append([]string{"--net", "--target", strconv.Itoa(m.pid)}, args...)
	cmd := exec.Command("nsenter", args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd, err, input, out)
	}
}

func (m *machine) ip(t *testing.T, lines ...string) {
	t.Helper()
	m.run(t, strings.Join(lines, "\n")+"\n", "ip", "-batch", "-")
}

func (m *machine) ip6(t *testing.T, lines ...string) {
	t.Helper()
	m.run(t, strings.Join(lines, "\n")+"\n", "ip", "-6", "-batch", "-")
}

// set sets kernel parameters, NAME=VALUE below /proc/sys/net.
func (m *machine) set(t *testing.T, settings ...string) {
	t.Helper()
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		m.run(t, "", "sh", "-c", `echo "$1" >/proc/sys/net/"$2"`, "sh", value, name)
	}
}

func (m *machine) nft(t *testing.T, chain, hook string, rules ...string) {
	t.Helper()
	m.run(t, fmt.Sprintf("table inet %s { chain c { type filter hook %s priority 0; %s; }; }\n", chain, hook, strings.Join(rules, "; ")), "nft", "-f", "-")
}

func (m *machine) ask(t *testing.T, a ask) reply {
	t.Helper()
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.in.Write(append(b, '\n')); err != nil {
		t.Fatal(err)
	}
	var r reply
	line, err := m.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil || r.Error != "" {
		t.Fatalf("helper: %v %s", err, r.Error)
	}
	return r
}

// cluster is two hosts and a router between them, in networks of their own.
type cluster struct {
	host   [2]*machine
	router *machine
	addr   [2]netip.Addr // IPv4
	addr6  [2]netip.Addr
	port   [2]uint16
	port6  [2]uint16
}

const hostMTU = 9000

// newCluster starts one, with a listener at each address of both hosts.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	needNamespaces(t)
	t.Parallel()
	c := &cluster{router: newMachine(t)}
	c.router.set(t, "ipv4/ip_forward=1", "ipv6/conf/all/forwarding=1", "ipv4/icmp_ratelimit=0", "ipv6/icmp/ratelimit=0")
	for i := range c.host {
		c.host[i] = newMachine(t)
		c.addr[i] = netip.MustParseAddr(fmt.Sprintf("10.78.%d.2", i))
		c.addr6[i] = netip.MustParseAddr(fmt.Sprintf("fd78:%d::2", i))
		c.host[i].ip(t,
			// An index that no other has: the kernel takes a second to notice that the
			// link is up if both ends have the same one (linkwatch_urgent_event).
			fmt.Sprintf("link add name eth0 index %d mtu %d type veth peer name p%d mtu %d netns %d", 100+i, hostMTU, i, hostMTU, c.router.pid),
			fmt.Sprintf("addr add %s/24 dev eth0", c.addr[i]),
			fmt.Sprintf("addr add %s/64 dev eth0 nodad", c.addr6[i]),
			"link set eth0 up")
		c.router.ip(t,
			fmt.Sprintf("addr add 10.78.%d.1/24 dev p%d", i, i),
			fmt.Sprintf("addr add fd78:%d::1/64 dev p%d nodad", i, i),
			fmt.Sprintf("link set p%d up", i))
		c.host[i].ip(t, fmt.Sprintf("route add default via 10.78.%d.1", i))
		c.host[i].ip6(t, fmt.Sprintf("route add default via fd78:%d::1", i))
		c.port[i] = c.host[i].ask(t, ask{Listen: &listenAt{Identity{Host: i}, c.addr[i]}}).Port
		c.port6[i] = c.host[i].ask(t, ask{Listen: &listenAt{Identity{Host: i}, c.addr6[i]}}).Port
	}
	return c
}

// try makes host i try the other one.
func (c *cluster) try(t *testing.T, from int, six bool, o Order) Link {
	t.Helper()
	to := 1 - from
	source, target := c.addr[from], Target{to, netip.AddrPortFrom(c.addr[to], c.port[to])}
	if six {
		source, target.Addr = c.addr6[from], netip.AddrPortFrom(c.addr6[to], c.port6[to])
	}
	o.Rounds = [][]Target{{target}}
	links := c.host[from].ask(t, ask{Order: &o, Source: source, Self: from}).Result.Links
	if len(links) != 1 {
		t.Fatalf("got %d links; want 1", len(links))
	}
	return links[0]
}

// wantGood fails the test unless link is good and its packets have MTU bytes.
func wantGood(t *testing.T, what string, link Link, mtu int) {
	t.Helper()
	if link.Failure != "" || link.MTUFailed || link.MTU != mtu {
		t.Errorf("%s: got %+v; want a good link of MTU %d", what, link, mtu)
	}
}
