package launcher

import (
	"errors"
	"net/netip"
	"slices"

	"gorun/envsync"
)

// commIDName is the variable with which NCCL's ranks meet at an address that all know,
// instead of by an ID that one of them has made: rank 0 listens there.
const commIDName = "NCCL_COMM_ID"

// commIDFlag is its origin when gorun chooses it.
const commIDFlag = "--nccl-comm-id"

// checkCommID refuses a value of the user's when gorun is to choose it.
func (e environment) checkCommID() error {
	lists := slices.Concat([][]envsync.Var{e.job}, e.apps)
	for _, vars := range e.hosts {
		lists = append(lists, vars)
	}
	for _, v := range slices.Concat(lists...) {
		if v.Name == commIDName {
			return &envsync.SettingError{
				Setting: envsync.Setting{Flag: v.Origin, Text: v.Name + "=" + v.Value},
				Msg:     commIDFlag + " would set it to something else",
				Hint:    "leave out one of the two",
			}
		}
	}
	return nil
}

// commID is the value for a job whose rank 0 is on a host with this address and free port.
func commID(addr string, port int) (string, error) {
	if port == 0 {
		return "", errors.New("there is no free port for " + commIDName)
	}
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return "", err
	}
	return netip.AddrPortFrom(a, uint16(port)).String(), nil
}

// setCommID gives value to all ranks.
func (e *environment) setCommID(value string) {
	e.job = append(slices.Clone(e.job), envsync.Var{Name: commIDName, Value: value, Origin: commIDFlag})
	e.digests = slices.Clone(e.digests)
	for i, own := range e.apps {
		e.digests[i] = envsync.Digest(texts(slices.Concat(e.job, own)))
	}
}

// chooseCommID chooses and sets NCCL_COMM_ID if the user wants that.
func (r *run) chooseCommID(layout Layout, s site) error {
	if !r.job.CommID {
		return nil
	}
	first := layout.Ranks[0].Host
	value, err := commID(s.addrs[first], s.comms[first])
	if err != nil {
		return &HostsError{Hosts: []HostFailure{{Host: r.hosts[first].spec.Name, Err: err}}, Good: len(r.hosts) - 1}
	}
	r.env.setCommID(value)
	return nil
}
