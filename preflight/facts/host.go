// Package facts collects what preflight must know of this host: from files and
// nvidia-smi, without cgo, and with a limit for each item.
//
// Facts are plain values that travel as JSON. What could not be found out is not
// guessed: its name and the reason are in Host.Unknown, and the checks say so. Facts
// hold no verdicts; package preflight judges them, here or later and elsewhere.
package facts

import "time"

// Version is the version of what Host looks like in JSON. Names are only ever added to
// a version.
const Version = 1

// Host is what is known of one host. A zero field means "none" only if its item is not
// in Unknown.
type Host struct {
	Version int    `json:"version"`
	Name    string `json:"name"`           // by which the job calls it; set by the head
	Addr    string `json:"addr,omitempty"` // that ranks use, set by the head

	// Unknown says of items that are not known why: "nvidia-smi did not answer in 5s".
	// Its keys are the Item constants.
	Unknown map[string]string `json:"unknown,omitempty"`

	System   System         `json:"system"`
	Limits   Limits         `json:"limits"`
	Disks    []Disk         `json:"disks,omitempty"`
	Net      Net            `json:"net"`
	PCI      PCI            `json:"pci"`
	GPU      GPU            `json:"gpu"`
	RDMA     RDMA           `json:"rdma"`
	Kernel   Kernel         `json:"kernel_log"`
	Programs []Program      `json:"programs,omitempty"` // those that the order named
	NCCL     []Library      `json:"libnccl,omitempty"`  // that the loader's usual places hold; the first is the one found first
	Conf     []ConfFile     `json:"nccl_conf,omitempty"`
	Session  []string       `json:"session,omitempty"` // NAME=value of NCCL_*, CUDA_* and LD_LIBRARY_PATH in the agent's environment; secrets hidden
	Took     time.Duration  `json:"took_ns"`
	Items    []ItemDuration `json:"items,omitempty"` // how long each took, the slowest first
}

// ItemDuration is how long one item took to be collected.
type ItemDuration struct {
	Item string        `json:"item"`
	Took time.Duration `json:"took_ns"`
}

// Items that are collected, each by itself and with a limit of its own.
const (
	ItemSystem    = "system"
	ItemLimits    = "limits"
	ItemDisks     = "disks"
	ItemNet       = "net"
	ItemNames     = "names"
	ItemPCI       = "pci"
	ItemGPU       = "gpu"        // nvidia-smi -q -x
	ItemGPUTopo   = "gpu-topo"   // nvidia-smi topo -m and -p2p r
	ItemGPUNVLink = "gpu-nvlink" // nvidia-smi nvlink -s
	ItemFabric    = "fabric-manager"
	ItemRDMA      = "rdma"
	ItemKernel    = "kernel-log"
	ItemPrograms  = "programs"
	ItemNCCL      = "libnccl"
	ItemConf      = "nccl-conf"
	ItemCopyRate  = "copy-rate" // only in Full
)

// System is the host as a whole.
type System struct {
	Hostname  string    `json:"hostname"` // the kernel's nodename
	BootID    string    `json:"boot_id"`
	Kernel    string    `json:"kernel"` // release
	OS        string    `json:"os"`     // PRETTY_NAME
	Arch      string    `json:"arch"`
	Libc      string    `json:"libc,omitempty"`      // "glibc 2.36"
	Cmdline   string    `json:"cmdline,omitempty"`   // the kernel's
	Virtual   string    `json:"virtual,omitempty"`   // hypervisor or container that is seen; "" none
	Uptime    float64   `json:"uptime_s,omitempty"`  // seconds
	Now       time.Time `json:"now"`                 // of this host's clock, when facts were sent
	CPUs      int       `json:"cpus"`                // logical, of the machine
	Cores     int       `json:"cores,omitempty"`     // physical, in the affinity mask
	Memory    int64     `json:"memory_bytes"`        // of the machine
	Available int64     `json:"memory_available"`    // bytes
	NUMA      []NUMA    `json:"numa,omitempty"`      // nodes that have CPUs
	Load      float64   `json:"load,omitempty"`      // of one minute
	Stuck     []Process `json:"stuck,omitempty"`     // processes in state D since at least two looks
	UID       int       `json:"uid"`                 // of the agent, and of ranks
	User      string    `json:"user,omitempty"`      // its name
	OFED      string    `json:"ofed,omitempty"`      // version of the vendor's RDMA drivers; "" the kernel's own
	RDMACore  string    `json:"rdma_core,omitempty"` // version of libibverbs
	CgroupMax int64     `json:"pids_max,omitempty"`  // pids.max of the tightest cgroup above the agent; 0: no limit
	CgroupNow int64     `json:"pids_current,omitempty"`
	CopyOne   float64   `json:"copy_one,omitempty"` // bytes of memory that one core copies in a second; only in Full
	CopyAll   float64   `json:"copy_all,omitempty"` // and all cores of the affinity mask together
}

// NUMA is a NUMA node with CPUs.
type NUMA struct {
	ID   int    `json:"id"`
	CPUs string `json:"cpus"` // as the kernel writes lists
}

// Process is a process that stands in the way.
type Process struct {
	PID   int    `json:"pid"`
	Name  string `json:"name"`
	User  string `json:"user,omitempty"`
	State string `json:"state,omitempty"`
	Wait  string `json:"wait_channel,omitempty"`
}

// Limits are those of the agent after it has raised them, as ranks will have them; -1:
// unlimited.
type Limits struct {
	Memlock     int64 `json:"memlock"`            // bytes
	MemlockHard int64 `json:"memlock_hard"`       // bytes
	LockAny     bool  `json:"lock_any,omitempty"` // no limit on locked memory holds: CAP_IPC_LOCK, as root has outside of containers
	Nofile      int64 `json:"nofile"`
	NofileHard  int64 `json:"nofile_hard"`
	Nproc       int64 `json:"nproc"`
	NprocUsed   int64 `json:"nproc_used,omitempty"` // threads of this user
	Stack       int64 `json:"stack"`                // bytes
	Core        int64 `json:"core"`                 // bytes
}

// Uses of a Disk.
const (
	DiskShm  = "shm"  // /dev/shm
	DiskTmp  = "tmp"  // /tmp
	DiskWork = "work" // the job's working directory
	DiskHome = "home"
)

// Disk is a directory that the job writes or reads.
type Disk struct {
	Use      string   `json:"use"` // one of the Disk constants
	Path     string   `json:"path"`
	Missing  bool     `json:"missing,omitempty"`
	Type     string   `json:"type,omitempty"`   // of the file system: "tmpfs", "ext4", "nfs4"
	Source   string   `json:"source,omitempty"` // what is mounted there: "server:/export"
	Size     int64    `json:"size_bytes"`
	Free     int64    `json:"free_bytes"` // for this user
	Inodes   int64    `json:"inodes,omitempty"`
	InodesOK int64    `json:"inodes_free,omitempty"`
	Writable bool     `json:"writable"`
	ReadOnly bool     `json:"read_only,omitempty"` // mounted so
	ID       string   `json:"id,omitempty"`        // equal on hosts that see the same directory of a network file system: type, source and path below it
	Stale    []string `json:"stale,omitempty"`     // of DiskShm: nccl-* and gorun's files that no living process maps
	StaleUse int64    `json:"stale_bytes,omitempty"`
	Trouble  string   `json:"trouble,omitempty"` // it did not answer in time
}

// Program is a file that ranks will run.
type Program struct {
	Arg    string `json:"arg"`            // as the order named it
	Path   string `json:"path,omitempty"` // where it was found; "" nowhere
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of its content; "" if it is over 1 GiB
	Script bool   `json:"script,omitempty"` // begins with #!
	NCCL   bool   `json:"nccl,omitempty"`   // the loader gives it libnccl when it starts
}

// Library is a libnccl.
type Library struct {
	Path    string `json:"path"`
	Version string `json:"version,omitempty"`
	Build   string `json:"build,omitempty"` // build ID, or a hash of what it is
}

// ConfFile is a file of NCCL settings that is there.
type ConfFile struct {
	Path string   `json:"path"`
	Set  []string `json:"set,omitempty"` // NAME=value; secrets hidden
}

// Kernel is what the kernel's log says since boot.
type Kernel struct {
	XIDs  []XID    `json:"xids,omitempty"`  // oldest first; the latest 256
	SXIDs []XID    `json:"sxids,omitempty"` // of NVSwitches
	Lines []string `json:"lines,omitempty"` // other lines that checks know: insufficient PCIe power, limited PCIe bandwidth, port overheat, OOM kills
}

// XID is an error of the GPU driver.
type XID struct {
	At   float64 `json:"at_s"` // seconds since boot
	BDF  string  `json:"bdf"`
	Code int     `json:"code"`
	Text string  `json:"text,omitempty"`
}
