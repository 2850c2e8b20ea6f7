package e2e

import (
	"regexp"
	"strings"
	"testing"
)

// Ranks on several hosts are sent to rank 0's host, wherever gorun is; a server there can
// listen as NCCL does.
func TestCommID(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	script := `echo $NCCL_COMM_ID $MASTER_ADDR; if [ $RANK = 0 ]; then python3 -c '
import os, socket
host, port = os.environ["NCCL_COMM_ID"].split(":")
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
s.bind((host, int(port)))
s.listen()
'; fi`
	e := gorun(t, sh([]string{"--nccl-comm-id", "-H", nodes[1] + "," + nodes[0]}, script))
	e.want(t, 0)
	got := lines(e.stdout)
	if len(got) != 2 || got[0] != got[1] || !regexp.MustCompile(`^(10\.[0-9.]+):[1-9][0-9]{4} 10\.[0-9.]+$`).MatchString(got[0]) {
		t.Fatalf("got %q; want an address and a port, twice", got)
	}
	if id, master, _ := strings.Cut(got[0], " "); !strings.HasPrefix(id, master+":") {
		t.Errorf("got %s; want the address of rank 0's host, %s", id, master)
	}
}

// idWith writes an ncclUniqueId with an IPv4 address, in the byte order of the PC.
const idWith = `{ printf 'magic123\002\000\204\127'"$1"; head -c 112 /dev/zero; }`

// An ID at whose address the other hosts cannot come is refused where it is made.
func TestUniqueIDAddress(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	for _, row := range []struct {
		name, addr, hosts, want string // want "": it is fine
	}{
		{"loopback", `\177\000\000\001`, nodes[0] + "," + nodes[1], "the ID says to meet at 127.0.0.1: a loopback address, and this job has ranks on other hosts"},
		{"link-local", `\251\376\001\001`, nodes[0] + "," + nodes[1], "the ID says to meet at 169.254.1.1: a link-local address"},
		{"plain", `\012\011\010\007`, nodes[0] + "," + nodes[1], ""},
		{"loopback-on-one-host", `\177\000\000\001`, nodes[0] + ":2", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			script := strings.ReplaceAll(`if [ $RANK = 0 ]; then `+idWith+` | $GORUN_EXE store uid put || exit 7; fi; $GORUN_EXE store uid get --timeout 30`, `"$1"`, "'"+row.addr+"'")
			e := gorun(t, sh([]string{"-H", row.hosts}, script))
			if row.want != "" {
				e.want(t, 7, row.want)
				return
			}
			e.want(t, 0)
			if got := lines(e.stdout); len(got) != 2 || got[0] != got[1] || len(got[0]) != 256 {
				t.Errorf("got %q; want an ID, twice", got)
			}
		})
	}
}
