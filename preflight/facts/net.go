package facts

// Net is the host's IP network.
type Net struct {
	Interfaces []Interface `json:"interfaces,omitempty"`
	PortRange  [2]int      `json:"port_range"`               // ip_local_port_range
	Reserved   string      `json:"ports_reserved,omitempty"` // ip_local_reserved_ports
	Routes     []Route     `json:"routes,omitempty"`         // of IPv4 and IPv6, main table
	Firewall   string      `json:"firewall,omitempty"`       // an active one that can be seen without root: "nftables", "iptables", "firewalld", "ufw"

	OwnName []string   `json:"own_name,omitempty"` // addresses that the host's own name has here
	Names   []NameAddr `json:"names,omitempty"`    // of the names that the order asks for, in its order
}

// NameAddr is what a name means on this host.
type NameAddr struct {
	Name    string   `json:"name"`
	Addrs   []string `json:"addrs,omitempty"` // sorted
	Trouble string   `json:"trouble,omitempty"`
}

// Interface is a network interface. Loopback is listed, too.
type Interface struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`    // "loopback", "physical", "bridge", "veth", "bond", "vlan", "tunnel", "infiniband", "virtual"
	Type    int      `json:"type"`    // ARPHRD: 1 Ethernet, 32 InfiniBand, 772 loopback
	Up      bool     `json:"up"`      // administratively
	Running bool     `json:"running"` // carrier
	MTU     int      `json:"mtu"`
	MAC     string   `json:"mac,omitempty"`
	Speed   int      `json:"speed_mbps,omitempty"` // 0: not told
	Driver  string   `json:"driver,omitempty"`
	BDF     string   `json:"bdf,omitempty"`
	Master  string   `json:"master,omitempty"`
	Slaves  []string `json:"slaves,omitempty"`
	Addrs   []string `json:"addrs,omitempty"` // with prefix length: "10.0.0.1/24"
}

// Route is a line of a routing table.
type Route struct {
	Prefix    string `json:"prefix"` // "0.0.0.0/0" is the default
	Via       string `json:"via,omitempty"`
	Interface string `json:"interface"`
	Metric    int    `json:"metric,omitempty"`
}

// RDMA is what /sys/class/infiniband says.
type RDMA struct {
	Devices  []HCA             `json:"devices,omitempty"`  // in PCI order, as NCCL sorts them
	Modules  map[string]string `json:"modules,omitempty"`  // version ("" none told) of those loaded: mlx5_ib, ib_uverbs, rdma_cm, nvidia_peermem, rdma_rxe, ...
	PeerMem  bool              `json:"peermem,omitempty"`  // a GPUDirect module is there
	DMABuf   string            `json:"dma_buf,omitempty"`  // "yes", "no", or "" not known: open GPU driver and a kernel ≥ 5.12
	Perftest string            `json:"perftest,omitempty"` // path of ib_write_bw
	ABI      string            `json:"umad_abi,omitempty"`
}

// HCA is an RDMA device.
type HCA struct {
	Name      string `json:"name"`
	BDF       string `json:"bdf,omitempty"`  // "" of a software device
	Path      string `json:"path,omitempty"` // below /sys/devices, of the PCI device
	NUMA      int    `json:"numa"`           // -1: not known
	Virtual   bool   `json:"virtual_function,omitempty"`
	Parent    string `json:"parent,omitempty"` // network interface of a software device
	Firmware  string `json:"firmware,omitempty"`
	Type      string `json:"type,omitempty"` // hca_type
	Board     string `json:"board_id,omitempty"`
	GUID      string `json:"node_guid,omitempty"`
	ImageGUID string `json:"sys_image_guid,omitempty"` // equal for ports of one card
	Uverbs    string `json:"uverbs,omitempty"`         // /dev/infiniband/uverbsN
	Open      string `json:"open,omitempty"`           // why this user cannot open Uverbs; "" it can
	Speed     string `json:"pcie_speed,omitempty"`
	Width     int    `json:"pcie_width,omitempty"`
	MaxWidth  int    `json:"pcie_width_max,omitempty"`
	Ports     []Port `json:"ports"`
}

// Port is a port of an HCA.
type Port struct {
	Num      int               `json:"num"`
	State    string            `json:"state"`      // "ACTIVE", "DOWN", "INIT", "ARMED"
	Phys     string            `json:"phys_state"` // "LinkUp", "Polling", "Disabled"
	Rate     float64           `json:"rate_gbps"`  // not reset when the port goes down
	RateText string            `json:"rate,omitempty"`
	Layer    string            `json:"link_layer"` // "InfiniBand", "Ethernet"
	LID      int               `json:"lid,omitempty"`
	SMLID    int               `json:"sm_lid,omitempty"`
	PKeys    []string          `json:"pkeys,omitempty"`           // without those that are 0
	NetDevs  []string          `json:"net_devs,omitempty"`        // network interfaces of the GIDs
	MTU      int               `json:"active_mtu,omitempty"`      // of RoCE: the largest of 256…4096 that the interface's MTU holds; 0 not known
	GIDs     []GID             `json:"gids,omitempty"`            // those that are set
	Counters map[string]uint64 `json:"counters,omitempty"`        // counters/ and hw_counters/, but for lifespan
	Delta    map[string]uint64 `json:"counters_delta,omitempty"`  // growth between two looks, of those that grew
	Unread   []string          `json:"counters_unread,omitempty"` // gave EINVAL, and are not read again
}

// GID is an entry of a port's table of GIDs.
type GID struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`            // as an IPv6 address: "fe80::…", "::ffff:10.0.0.1"
	Type   string `json:"type,omitempty"` // "RoCE v2", "IB/RoCE v1"
	NetDev string `json:"net_dev,omitempty"`
}
