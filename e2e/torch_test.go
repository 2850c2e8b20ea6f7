package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Each host's ranks get the interface that has the address by which the others reach it,
// but for a host that has said another one itself.
func TestGlooInterface(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	for i, node := range nodes {
		testbed(t, "root", node, "ip", "link", "add", "aux0", "type", "veth", "peer", "name", "aux1")
		t.Cleanup(func() { testbed(t, "root", node, "ip", "link", "del", "aux0") })
		testbed(t, "root", node, "sh", "-c", fmt.Sprintf("ip addr add 192.168.9.%d/24 dev aux0 && ip link set aux0 up", i+1))
	}
	testbed(t, "sshd", nodes[1], "SetEnv=GLOO_SOCKET_IFNAME=lo")
	t.Cleanup(func() { testbed(t, "sshd", nodes[1]) })
	args := []string{"-v", "--preflight", "off", "-H", strings.Join(nodes, ",")} // nobody is reached by aux0
	const show = `echo $RANK $GLOO_SOCKET_IFNAME`
	for _, tt := range []struct {
		more []string
		want string
	}{
		{nil, "0 eth0,1 lo"},
		{[]string{"--interface", "aux0"}, "0 aux0,1 lo"},
		{[]string{"-x", "GLOO_SOCKET_IFNAME=eth9"}, "0 eth9,1 eth9"},
	} {
		e := gorun(t, sh(append(slices.Clone(args), tt.more...), show))
		e.want(t, 0)
		got := lines(e.stdout)
		slices.Sort(got)
		if s := strings.Join(got, ","); s != tt.want {
			t.Errorf("with %q: got %q; want %q", tt.more, s, tt.want)
		}
		iface, _, _ := strings.Cut(strings.TrimPrefix(tt.want, "0 "), ",")
		said := strings.Contains(e.stderr, "gorun: GLOO_SOCKET_IFNAME="+iface+" on "+nodes[0]+"\n")
		if want := iface != "eth9"; said != want {
			t.Errorf("with %q: is it said: %v; want %v; stderr: %s", tt.more, said, want, e.stderr)
		}
	}
}
