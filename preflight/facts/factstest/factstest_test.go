package factstest

import (
	"encoding/json"
	"net/netip"
	"testing"

	"gorun/preflight/facts"
)

func TestHostsAreUniqueAndWhole(t *testing.T) {
	for kind, build := range map[string]func(string, int) facts.Host{"plain": Plain, "h100": H100, "roce": RoCE} {
		t.Run(kind, func(t *testing.T) {
			seen := map[string]bool{}
			for i := range 300 {
				h := build("n", i)
				unique := []string{h.Addr, h.System.BootID}
				for _, d := range h.GPU.Devices {
					unique = append(unique, d.UUID, "serial"+d.Serial)
				}
				for _, d := range h.RDMA.Devices {
					unique = append(unique, d.GUID, d.Ports[0].GIDs[len(d.Ports[0].GIDs)-1].GID)
					if _, err := netip.ParseAddr(d.Ports[0].GIDs[0].GID); err != nil {
						t.Fatal(err)
					}
				}
				for _, u := range unique {
					if seen[u] {
						t.Fatalf("host %d: %q is that of another host, too", i, u)
					}
					seen[u] = true
				}
				if _, err := netip.ParseAddr(h.Addr); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestHostsTravelAsJSON(t *testing.T) {
	b, err := json.Marshal(H100("gpu01", 0))
	if err != nil {
		t.Fatal(err)
	}
	var back facts.Host
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if got, want := len(back.RDMA.Devices)+len(back.GPU.Devices), 16; got != want {
		t.Errorf("got %d devices; want %d", got, want)
	}
}
