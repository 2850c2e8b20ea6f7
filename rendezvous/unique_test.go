package rendezvous

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUniqueID(t *testing.T) {
	j := newTestJob(t, 3, 2)
	clients := j.clients()
	ids := make([]ID, len(clients))
	each(t, clients, func(c *Client) (err error) {
		ids[c.Rank()], err = UniqueID(t.Context(), c, "world", 2, func() (id ID, err error) {
			if c.Rank() != 0 {
				return id, errors.New("only rank 0 may create")
			}
			copy(id[:], "the one")
			return id, nil
		})
		return errors.Join(err, CheckIn(t.Context(), c, "world", 2))
	})
	for rank, id := range ids {
		if id != ids[0] || id == (ID{}) {
			t.Errorf("rank %d: got %q", rank, id)
		}
	}
	got, err := clients[4].At(2).Get(t.Context(), "uid/world/2")
	if err != nil || !bytes.Equal(got, ids[0][:]) {
		t.Errorf("the key: got %q, %v", got, err)
	}
	_, err = UniqueID(t.Context(), clients[0], "world", 2, func() (ID, error) { return ID{1}, nil })
	if code(err) != CodeConflict {
		t.Errorf("a second ID for one communicator: got %v; want code %q", err, CodeConflict)
	}
}

func TestUniqueIDFails(t *testing.T) {
	for _, n := range []int{0, 7, 128, 5000} {
		t.Run(fmt.Sprintf("text-of-%d", n), func(t *testing.T) {
			j := newTestJob(t, 2)
			each(t, j.clients(), func(c *Client) error {
				text := strings.Repeat("x", n)
				_, err := UniqueID(within(t, 10*time.Second), c, "world", 0, func() (id ID, err error) { return id, errors.New(text) })
				if err == nil || code(err) == CodeDeadline || !strings.Contains(err.Error(), text[:min(n, 100)]) {
					t.Errorf("rank %d: got %v; want an error with the creator's text", c.Rank(), err)
				}
				return nil
			})
		})
	}
}

func TestUniqueIDMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newPipeJob(t, 1, 2).clients()
		_, err := UniqueID(within(t, 100*time.Millisecond), c[2], "world", 0, nil)
		if want := `key "uid/world/0": rank 0 on node1 has not written it (waited 0.1 s)`; err == nil || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
		err = CheckIn(within(t, 2*time.Minute), c[0], "world", 0)
		if want := `barrier "uid/world/0": 2 of 3 ranks have not come: ranks 1-2 on node2 (waited 120 s)`; err == nil || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
	})
}

// NCCL's manual says by a formula which ranks make the IDs.
func TestCreators(t *testing.T) {
	for _, size := range []int{1, 2, 127, 128, 129, 255, 256, 257, 1000, 10_000, 65_536} {
		n := (size + 127) / 128
		var want []int
		for rank := range size {
			rmr, rpr := size%n, size/n
			rlim := rmr * (rpr + 1)
			if rank < rlim && rank%(rpr+1) == 0 || rank >= rlim && (rank-rlim)%rpr == 0 {
				want = append(want, rank)
			}
		}
		if got := creators(size); !slices.Equal(got, want) {
			t.Errorf("%d ranks: got %v; want %v", size, got, want)
		}
	}
}

// idOf is the ID that rank makes in a test.
func idOf(rank int) (id ID) {
	binary.BigEndian.PutUint64(id[:], uint64(rank)+1)
	return id
}

func TestUniqueIDs(t *testing.T) {
	j := newPipeJob(t, 100, 100, 100)
	lists := make([][]ID, 300)
	each(t, j.clients(), func(c *Client) (err error) {
		lists[c.Rank()], err = UniqueIDs(t.Context(), c, "world", 3, func() (ID, error) { return idOf(c.Rank()), nil })
		return err
	})
	want := []ID{idOf(0), idOf(100), idOf(200)}
	for rank, ids := range lists {
		if !slices.Equal(ids, want) {
			t.Errorf("rank %d: got %x; want %x", rank, ids, want)
		}
	}
	// Each host asks for one key, and each of the three creators says that its ID is used
	// and what it is; rank 0 asks for three keys, of which it has put one, and puts all.
	if n, want := j.messages(), 3+3*2+2+1; n > want {
		t.Errorf("got %d messages to the head; want at most %d", n, want)
	}
}

func TestUniqueIDsFail(t *testing.T) {
	for _, failing := range []int{0, 65} {
		t.Run(fmt.Sprint("rank-", failing), func(t *testing.T) {
			each(t, newPipeJob(t, 65, 65).clients(), func(c *Client) error {
				_, err := UniqueIDs(within(t, 20*time.Second), c, "world", 0, func() (ID, error) {
					if c.Rank() == failing {
						return ID{}, errors.New("no device")
					}
					return idOf(c.Rank()), nil
				})
				want := fmt.Sprintf(`unique ID "world" could not be made by "rank %d: no device"`, failing)
				if c.Rank() == failing {
					want = `unique ID "world": no device`
				}
				if err == nil || err.Error() != want {
					return fmt.Errorf("got %v; want %s", err, want)
				}
				return nil
			})
		})
	}
}

// Everybody names the creator that did not come, and nobody rank 0, which waits for it.
func TestUniqueIDsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients := newPipeJob(t, 86, 86, 86).clients() // three creators
		missing := []int{86, 172}
		clients = slices.DeleteFunc(clients, func(c *Client) bool { return slices.Contains(missing, c.Rank()) })
		each(t, clients, func(c *Client) error {
			_, err := UniqueIDs(within(t, time.Second), c, "world", 0, func() (ID, error) { return idOf(c.Rank()), nil })
			want := `key "uid/world/0/1": rank 86 on node2 has not written it; key "uid/world/0/2": rank 172 on node3 has not written it (waited 1 s)`
			if err == nil || err.Error() != want {
				return fmt.Errorf("got %v; want %s", err, want)
			}
			return nil
		})
	})
}

// A rank that dies while the others wait for its ID is named, and that it is gone.
func TestUniqueIDCreatorDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := newPipeJob(t, 1, 1)
		clients := j.clients()
		go func() {
			time.Sleep(time.Second)
			clients[0].Close()
			j.mu.Lock()
			j.engine.gone = func(rank int) bool { return rank == 0 }
			j.mu.Unlock()
		}()
		_, err := UniqueID(within(t, 5*time.Second), clients[1], "world", 0, nil)
		if want := `key "uid/world/0": rank 0 on node1 has not written it; it is gone (waited 5 s)`; err == nil || err.Error() != want {
			t.Errorf("got %v; want %s", err, want)
		}
	})
}

// An ID is of one communicator in one epoch; the same call again is no other.
func TestUniqueIDUsedTwice(t *testing.T) {
	clients := newTestJob(t, 2).clients()
	for _, row := range []struct {
		comm  string
		epoch int
		id    int
		want  string // in the error of rank 0, ""; none
	}{
		{"world", 0, 7, ""},
		{"world", 0, 7, ""},
		{"world", 1, 7, `the ID is used already, by "uid/world/0"`},
		{"row", 0, 7, `the ID is used already, by "uid/world/0"`},
		{"row", 2, 8, ""},
	} {
		each(t, clients, func(c *Client) error {
			_, err := UniqueID(within(t, 20*time.Second), c, row.comm, row.epoch, func() (ID, error) { return idOf(row.id), nil })
			if (err != nil) != (row.want != "") || err != nil && !strings.Contains(err.Error(), row.want[:min(len(row.want), 25)]) {
				return fmt.Errorf("%+v: got %v", row, err)
			}
			if c.Rank() == 0 && row.want != "" && code(err) != CodeConflict {
				return fmt.Errorf("%+v: got %v; want code %q", row, err, CodeConflict)
			}
			return nil
		})
	}
}

// ncclID is an ID as NCCL 2.30.7 makes it.
func ncclID(t *testing.T, text string) (id ID) {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	copy(id[:], b)
	return id
}

func TestIDAddr(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the IDs below are of a little-endian host")
	}
	for _, row := range []struct {
		name, id, want string // want "": no address
	}{
		{"ipv4", "b692c4d5be3546d5 0200 8457 c0000202", "192.0.2.2:33879"},
		{"ipv6", "b692c4d5be3546d5 0a00 8457 00000000 20010db8000000000000000000000001", "[2001:db8::1]:33879"},
		{"ipv4-in-ipv6", "b692c4d5be3546d5 0a00 0001 00000000 00000000000000000000ffff7f000001", "127.0.0.1:1"},
		{"other-family", "b692c4d5be3546d5 0300 8457 c0000202", ""},
		{"before-2.15", "0200 8457 c0000202", ""},
		{"zero", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, ok := IDAddr(ncclID(t, row.id))
			if ok != (row.want != "") || ok && got != netip.MustParseAddrPort(row.want) {
				t.Errorf("got %v, %v; want %q", got, ok, row.want)
			}
		})
	}
}

func TestCheckID(t *testing.T) {
	if err := CheckID(ID{}, 1); err == nil {
		t.Error("128 zero bytes: got no error")
	}
	var lo ID
	binary.NativeEndian.PutUint16(lo[8:], 2)
	copy(lo[12:], []byte{127, 0, 0, 1})
	if err := CheckID(lo, 1); err != nil {
		t.Errorf("a loopback address on one host: %v", err)
	}
	want := "the ID says to meet at 127.0.0.1: a loopback address, and this job has ranks on other hosts; NCCL_SOCKET_IFNAME=NAME names the interface to use"
	if err := CheckID(lo, 2); err == nil || err.Error() != want {
		t.Errorf("a loopback address on two hosts: got %v; want %s", err, want)
	}
}

func TestCheckAddr(t *testing.T) {
	for _, row := range []struct {
		name, addr, iface, wanted string
		refused                   string // part of the text; "": it is fine
	}{
		{"plain", "10.0.0.1", "eth0", "", ""},
		{"of-another-host", "10.0.0.1", "", "", ""},
		{"ipv6", "fd00::1", "ib0", "", ""},
		{"loopback", "127.0.0.2", "", "", "loopback"},
		{"loopback-asked-for", "127.0.0.1", "lo", "lo", "loopback"},
		{"loopback-ipv6", "::1", "lo", "", "loopback"},
		{"none", "0.0.0.0", "", "", "no address"},
		{"link-local", "169.254.3.4", "eth1", "", "link-local"},
		{"link-local-ipv6", "fe80::1", "eth1", "", "link-local"},
		{"link-local-asked-for", "169.254.3.4", "eth1", "=eth0,eth1", ""},
		{"link-local-excluded", "169.254.3.4", "eth1", "^eth1", "link-local"},
		{"link-local-by-prefix", "169.254.3.4", "eth1", "eth", "link-local"},
		{"docker", "172.17.0.1", "docker0", "", "docker0"},
		{"docker-network", "172.18.0.1", "br-0123456789ab", "", "br-0123456789ab"},
		{"docker-asked-for", "172.17.0.1", "docker0", "docker0", ""},
		{"bridge", "10.0.0.1", "br-ex", "", ""},
		{"bridge-with-a-long-name", "10.0.0.1", "br-storagenet2", "", ""},
		{"libvirt", "192.168.122.1", "virbr0", "", "virbr0"},
		{"docker-like-address", "172.17.0.1", "eth0", "", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := checkAddr(netip.MustParseAddr(row.addr), row.iface, row.wanted)
			if (err != nil) != (row.refused != "") || err != nil && !strings.Contains(err.Error(), row.refused) {
				t.Errorf("got %v; want %q", err, row.refused)
			}
		})
	}
}

func TestInterfaceOf(t *testing.T) {
	if got := interfaceOf(netip.MustParseAddr("127.0.0.1")); got != "lo" {
		t.Errorf("got %q; want lo", got)
	}
	if got := interfaceOf(netip.MustParseAddr("192.0.2.1")); got != "" {
		t.Errorf("an address that nobody has: got %q", got)
	}
}

func TestCommandUID(t *testing.T) {
	j := newTestJob(t, 2)
	id := idOf(5)
	digits := hex.EncodeToString(id[:])
	other := idOf(6)
	loopback := ID{}
	binary.NativeEndian.PutUint16(loopback[8:], 2)
	copy(loopback[12:], []byte{127, 0, 0, 1})
	for _, row := range []struct {
		name   string
		rank   int
		hosts  string
		stdin  string
		args   []string
		exit   int
		stdout string
		stderr string // begins so, after "gorun store: "
	}{
		{"late", 1, "", "", []string{"uid", "get", "--timeout", "0.1"}, 1, "", `key "uid/default/0": rank 0 on node1 has not written it (waited 0.1 s)`},
		{"late-from", 1, "", "", []string{"uid", "get", "w", "--from", "1", "--timeout", "0.1"}, 1, "", `key "uid/w/0": rank 1 on node1 has not written it`},
		{"raw", 0, "", string(id[:]), []string{"uid", "put"}, 0, "", ""},
		{"again-in-digits", 0, "", " " + strings.ToUpper(digits) + "\n", []string{"uid", "put"}, 0, "", ""},
		{"get", 1, "", "", []string{"uid", "get"}, 0, digits + "\n", ""},
		{"get-raw", 1, "", "", []string{"uid", "get", "--raw"}, 0, string(id[:]), ""},
		{"get-from-the-maker", 0, "", "", []string{"uid", "get", "default"}, 0, digits + "\n", ""},
		{"another-name", 0, "", digits, []string{"uid", "put", "row"}, 1, "", `the ID is used already, by "uid/default/0"`},
		{"another-epoch", 0, "", digits, []string{"uid", "put", "--epoch", "1"}, 1, "", `the ID is used already, by "uid/default/0"`},
		{"another-value", 1, "", string(other[:]), []string{"uid", "put"}, 1, "", `key "uid/default/0" already has another value, put by rank 0 on node1`},
		{"short", 0, "", string(id[:127]), []string{"uid", "put"}, 1, "", "127 bytes are no ID"},
		{"long", 0, "", digits + "0", []string{"uid", "put"}, 1, "", "257 bytes are no ID"},
		{"no-digits", 0, "", digits[1:] + "x", []string{"uid", "put"}, 1, "", "the ID has 256 characters, but"},
		{"empty", 0, "", "", []string{"uid", "put"}, 1, "", "0 bytes are no ID"},
		{"zero", 0, "", string(make([]byte, 128)), []string{"uid", "put", "zero"}, 1, "", "the ID has 128 zero bytes"},
		{"loopback-on-two-hosts", 0, "2", string(loopback[:]), []string{"uid", "put", "lo"}, 1, "", "the ID says to meet at 127.0.0.1: a loopback address"},
		{"loopback-on-one-host", 0, "1", string(loopback[:]), []string{"uid", "put", "lo"}, 0, "", ""},
		{"raw-elsewhere", 0, "", "", []string{"get", "k", "--raw"}, 2, "", "get: --raw is for uid only"},
		{"two-names", 0, "", "", []string{"uid", "put", "a", "b"}, 2, "", "uid put: 2 words are too many"},
	} {
		t.Run(row.name, func(t *testing.T) {
			j.setenv(row.rank)
			t.Setenv("GORUN_NODES", row.hosts)
			exit, stdout, stderr := runCommand(t.Context(), row.stdin, row.args...)
			if exit != row.exit || stdout != row.stdout {
				t.Errorf("got %d, %q, %q; want %d, %q", exit, stdout, stderr, row.exit, row.stdout)
			}
			if want := "gorun store: " + row.stderr; row.exit == 0 && stderr != "" || row.exit != 0 && !strings.HasPrefix(stderr, want) {
				t.Errorf("got %q; want %q", stderr, want)
			}
		})
	}
}
