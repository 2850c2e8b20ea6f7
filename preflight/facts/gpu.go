package facts

// GPU is what the GPU driver says.
type GPU struct {
	Driver   string    `json:"driver,omitempty"` // "550.54.15"; "" none is loaded
	CUDA     string    `json:"cuda,omitempty"`   // highest CUDA version of the driver
	Open     bool      `json:"open_kernel_module,omitempty"`
	SMI      string    `json:"nvidia_smi,omitempty"`      // path; "" not installed
	SMIExit  int       `json:"nvidia_smi_exit,omitempty"` // exit code, 128+signal
	SMIText  string    `json:"nvidia_smi_text,omitempty"` // its words, when it failed
	Devices  []Device  `json:"devices,omitempty"`
	PCI      []string  `json:"pci,omitempty"`        // BDFs of all NVIDIA GPUs on the bus
	Switches []string  `json:"switches,omitempty"`   // BDFs of NVSwitches
	DevFiles []int     `json:"dev_files,omitempty"`  // N of /dev/nvidiaN that this user can open
	Denied   []string  `json:"dev_denied,omitempty"` // /dev files that this user cannot open
	Confined bool      `json:"confined,omitempty"`   // a scheduler has put this session into a group that may not use all devices
	Topo     string    `json:"topo,omitempty"`       // what nvidia-smi topo -m printed
	P2P      string    `json:"p2p,omitempty"`        // what nvidia-smi topo -p2p r printed; "" not known, or fewer than two GPUs
	Fabric   Fabric    `json:"fabric_manager"`
	IMEX     []string  `json:"imex_channels,omitempty"`        // /dev/nvidia-caps-imex-channels/* that this user can open
	Hung     []Process `json:"hung,omitempty"`                 // nvidia-smi and others in state D on the driver
	Visible  *string   `json:"cuda_visible_devices,omitempty"` // inherited from the agent's session; nil: not set
}

// Fabric is the fabric manager's service.
type Fabric struct {
	Installed bool   `json:"installed,omitempty"`
	Running   bool   `json:"running,omitempty"`
	Version   string `json:"version,omitempty"`
}

// Device is one GPU, as nvidia-smi -q -x tells. Numbers that it does not tell are -1.
type Device struct {
	Index  int    `json:"index"`
	UUID   string `json:"uuid"`
	BDF    string `json:"bdf"` // "0000:9b:00.0", lower case
	Name   string `json:"name"`
	VBIOS  string `json:"vbios,omitempty"`
	Serial string `json:"serial,omitempty"`
	Minor  int    `json:"minor"`
	NUMA   int    `json:"numa"`
	Path   string `json:"path,omitempty"` // below /sys/devices

	// Trouble is what nvidia-smi says in place of values: "GPU is lost", "Unknown Error".
	Trouble string `json:"trouble,omitempty"`

	MemTotal int64  `json:"memory_total"`  // bytes
	MemUsed  int64  `json:"memory_used"`   // bytes
	MIG      string `json:"mig,omitempty"` // "Enabled", "Disabled", "N/A"
	Compute  string `json:"compute_mode,omitempty"`
	Persist  string `json:"persistence,omitempty"`
	ECC      string `json:"ecc,omitempty"`         // "Enabled", "Disabled"
	ECCNext  string `json:"ecc_pending,omitempty"` // after a reset

	Uncorrected int64  `json:"ecc_uncorrected"` // volatile: since the driver was loaded
	Corrected   int64  `json:"ecc_corrected"`
	SRAMOver    string `json:"sram_threshold_exceeded,omitempty"` // "Yes"
	RemapWait   bool   `json:"remap_pending,omitempty"`
	RemapFailed bool   `json:"remap_failure,omitempty"`
	RemapBad    int64  `json:"remap_uncorrectable"`
	RetireWait  bool   `json:"retirement_pending,omitempty"` // page retirement, older GPUs
	Recovery    string `json:"recovery_action,omitempty"`    // "None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"

	FabricState   string `json:"fabric_state,omitempty"`  // "Completed", "In Progress", "N/A"
	FabricStatus  string `json:"fabric_status,omitempty"` // "Success"
	FabricCluster string `json:"fabric_cluster,omitempty"`
	FabricClique  string `json:"fabric_clique,omitempty"`

	NVLinks  int       `json:"nvlinks"`        // links that nvidia-smi nvlink -s lists; -1 also if it says that none of them runs
	NVActive int       `json:"nvlinks_active"` // of them, those that run
	NVDown   []int     `json:"nvlinks_down,omitempty"`
	Width    int       `json:"pcie_width"`
	MaxWidth int       `json:"pcie_width_max"`
	Gen      int       `json:"pcie_gen"`
	MaxGen   int       `json:"pcie_gen_max"`
	Throttle []string  `json:"throttle,omitempty"` // reasons that are active
	Temp     int       `json:"temperature"`        // °C
	Users    []GPUUser `json:"users,omitempty"`
}

// GPUUser is a process that uses a GPU.
type GPUUser struct {
	PID    int    `json:"pid"`
	Name   string `json:"name,omitempty"`
	User   string `json:"user,omitempty"`
	Type   string `json:"type,omitempty"`         // "C" compute, "G" graphics, "M+C" by MPS
	Memory int64  `json:"memory_bytes,omitempty"` // -1 not told
}

// PCI is the tree of PCI devices, as far as checks need it.
type PCI struct {
	Devices []PCIDevice `json:"devices,omitempty"` // GPUs, NVSwitches, HCAs, network cards and the bridges above them
	IOMMU   string      `json:"iommu,omitempty"`   // "off", "on", "passthrough"; "" not known
}

// PCIDevice is one PCI device.
type PCIDevice struct {
	BDF    string `json:"bdf"`
	Path   string `json:"path"`  // real path below /sys/devices: "pci0000:40/0000:40:01.0/0000:41:00.0"
	Class  uint32 `json:"class"` // 0x030200
	Vendor uint16 `json:"vendor"`
	Device uint16 `json:"device"`
	NUMA   int    `json:"numa"` // -1: not known

	Width    int    `json:"width,omitempty"`
	MaxWidth int    `json:"width_max,omitempty"`
	Speed    string `json:"speed,omitempty"`
	MaxSpeed string `json:"speed_max,omitempty"`
	ACS      string `json:"acs,omitempty"` // "on" (P2P redirected), "off", "" not readable or no such capability
}
