package wire

import (
	"net/netip"
	"time"
)

// Examine asks for this host's facts, before a plan and once. It is answered with Clock at
// once, and with Facts when these are known, or as far as they are when Within is over.
type Examine struct {
	Order  Bytes         `json:"order"` // JSON of what is to be collected, which head and agent's wire do not read
	Within time.Duration `json:"within"`
}

// Clock is what the clock of a host said when Examine came.
type Clock struct {
	At time.Time `json:"at"`
}

// FactsPart is how many bytes of facts a Facts message holds at most.
const FactsPart = 256 << 10

// MaxFacts bounds the facts of a host, in bytes, in all their messages.
const MaxFacts = 4 << 20

// Facts answers Examine: JSON, in several messages if it is long.
type Facts struct {
	Part    Bytes  `json:"part,omitempty"`
	More    bool   `json:"more,omitempty"`    // another part follows
	Failure string `json:"failure,omitempty"` // why there are none, for people, without the host's name
}

// Listen has the agent answer the probes of the other hosts' agents, until it gets a plan
// or is told to stop. It is sent once.
type Listen struct {
	Host   int        `json:"host"` // the number of this host
	Addr   netip.Addr `json:"addr"`
	Secret []byte     `json:"secret"` // that all who probe know
}

// Probing answers Listen.
type Probing struct {
	Port    uint16 `json:"port,omitempty"`
	Failure string `json:"failure,omitempty"` // for people, without the host's name
}

// MaxTargets bounds the targets of a Probe.
const MaxTargets = 1024

// Probe has the agent, which listens, try other hosts, all at once. It is answered with
// Probed within Within. There is one at a time.
type Probe struct {
	Targets   []Target      `json:"targets"`
	Within    time.Duration `json:"within"`
	Pings     int           `json:"pings,omitempty"`     // round trips that are timed
	MTU       bool          `json:"mtu,omitempty"`       // whether full-size packets pass
	Bandwidth time.Duration `json:"bandwidth,omitempty"` // for so long data is sent
	Bytes     int64         `json:"bytes,omitempty"`     // or until it is so much; 0: any
	// Rails has rails to the one target tried by RDMA, and nothing else: JSON of which,
	// which head and agent's wire do not read.
	Rails Bytes `json:"rails,omitempty"`
}

// Target is another host that listens for probes.
type Target struct {
	Host int            `json:"host"`
	Addr netip.AddrPort `json:"addr"`
}

// MaxProbed bounds a Probed, in bytes.
const MaxProbed = 512 << 10

// Probed answers Probe.
type Probed struct {
	Result Bytes `json:"result"` // JSON of what was found
}
