package wire

import (
	"fmt"
	"net/netip"
	"time"
)

// Message is a control message: exactly one field is set.
type Message struct {
	// From the agent.
	Hello    *Hello    `json:"hello"`
	Prepared *Prepared `json:"prepared"`
	Started  *Started  `json:"started"`
	Exited   *Exited   `json:"exited"`
	Done     *Done     `json:"done"`
	Log      *Log      `json:"log"`
	Have     *Have     `json:"have"`
	Seen     *Seen     `json:"seen"`
	Want     *Want     `json:"want"` // also between agents
	Got      *Got      `json:"got"`
	Staged   *Staged   `json:"staged"`
	Picture  *Picture  `json:"picture"`
	Settings *Settings `json:"settings"`
	Watching *Watching `json:"watching"`
	Word     *Word     `json:"word"`
	Proof    *Proof    `json:"proof"`
	Abort    *Abort    `json:"abort"`
	Parted   []Parted  `json:"parted"`
	Clock    *Clock    `json:"clock"`
	Facts    *Facts    `json:"facts"`
	Probing  *Probing  `json:"probing"`
	Probed   *Probed   `json:"probed"`

	// From the head.
	Plan    *Plan    `json:"plan"`
	Start   *Start   `json:"start"`
	Signal  *Signal  `json:"signal"`
	Stop    *Stop    `json:"stop"`
	Pause   *Pause   `json:"pause"`
	Files   *Files   `json:"files"`
	Stage   *Stage   `json:"stage"`
	Look    *Look    `json:"look"`
	Fetch   *Fetch   `json:"fetch"`
	Window  *Window  `json:"window"`
	Inspect *Inspect `json:"inspect"`
	Ask     *Ask     `json:"ask"`
	Watch   *Watch   `json:"watch"`
	Examine *Examine `json:"examine"`
	Listen  *Listen  `json:"listen"`
	Probe   *Probe   `json:"probe"`
}

// Hail is the line, without its end, with which an agent opens its stream. nonce
// is the head's, 16 or more hexadecimal digits.
func Hail(nonce string) string { return fmt.Sprintf("@gorun-%s agent %d", nonce, Version) }

// Bytes is text that need not be UTF-8: an argument, a path, NAME=value. JSON
// carries it as base64.
type Bytes []byte

// Hello is the agent's first message: what the head must know of the host before
// it can place ranks.
type Hello struct {
	PID      int    `json:"pid"`
	UID      int    `json:"uid"`
	Hostname string `json:"hostname"` // the kernel's nodename, for people; never used to tell hosts apart
	BootID   string `json:"boot_id"`
	Cores    int    `json:"cores"` // physical cores in the affinity mask, ≥ 1
	GPUs     int    `json:"gpus"`

	Interfaces []Interface `json:"interfaces"`
	SSHServer  string      `json:"ssh_server"` // server address of SSH_CONNECTION, "" without one
	RouteAddr  string      `json:"route_addr"` // source address towards the ssh client, "" if unknown
	OutAddr    string      `json:"out_addr"`   // source address by the default route, "" if there is none
	Port       int         `json:"port"`       // a port outside ip_local_port_range that the agent holds bound, 0 if none

	Settings *Settings `json:"settings,omitempty"` // nil: they come in a message of their own
	More     bool      `json:"more,omitempty"`     // a Settings message follows, which replaces these
}

// Settings are the NCCL settings that a host has of its own, raw: what counts of them is
// the head's business.
type Settings struct {
	Session []Bytes    `json:"session,omitempty"` // NAME=value of the agent's session
	Login   []Bytes    `json:"login,omitempty"`   // NAME=value that the profile files of the user's login shell set, or set otherwise
	Trouble string     `json:"trouble,omitempty"` // why it is not known what they set
	Files   []ConfFile `json:"files,omitempty"`   // in the order in which NCCL reads them; those that are not there are left out
}

// ConfFile is a file of NCCL settings.
type ConfFile struct {
	Path    Bytes  `json:"path"`
	User    bool   `json:"user,omitempty"` // it is the user's, or what NCCL_CONF_FILE names; else the host's
	Text    Bytes  `json:"text,omitempty"`
	Trouble string `json:"trouble,omitempty"` // why it could not be read
}

// Ask asks for Settings with another file in the place of the user's, as NCCL_CONF_FILE
// of the job says, which counts from Dir; the user's own if ConfFile is empty.
type Ask struct {
	ConfFile Bytes `json:"conf_file"`
	Dir      Bytes `json:"dir"`
}

// Interface is a network interface that is up, with its addresses in text, no prefix length.
type Interface struct {
	Name  string   `json:"name"`
	Addrs []string `json:"addrs"`
}

// Plan is what one host is told: everything needed to prepare and start its ranks.
type Plan struct {
	JobID  string `json:"job_id"`
	Secret []byte `json:"secret"` // 32 bytes
	Size   int    `json:"size"`
	Nodes  int    `json:"nodes"`
	Node   int    `json:"node"`

	Dir     Bytes      `json:"dir"`               // working directory of every rank that has none of its own
	Env     []Bytes    `json:"env"`               // NAME=value: job map, then this host's overlay; later wins
	Prepend []Bytes    `json:"prepend,omitempty"` // NAME=directory: put before NAME's value, with a colon between
	Unset   []string   `json:"unset"`             // extra names taken out of the session environment
	Ranks   []RankPlan `json:"ranks"`             // of this host, by local rank
	Bind    *Bind      `json:"bind,omitempty"`    // what each rank may use of the CPUs; nil: all, and nobody asks
	PMI     *PMI       `json:"pmi,omitempty"`     // how MPI programs reach the agent; nil: they cannot

	Window    *Window       `json:"window,omitempty"` // each rank's stdout and stderr are one pseudo terminal of this size; nil: two pipes
	Credit    int           `json:"credit"`           // bytes each output stream may send before the first grant
	HoldPort  bool          `json:"hold_port"`        // keep Hello.Port bound until the ranks have ended
	Meet      string        `json:"meet,omitempty"`   // address and port where ranks will meet, to be tried; "": none
	LostAfter time.Duration `json:"lost_after"`       // silence of the head after which the agent stops its ranks
	Grace     time.Duration `json:"grace"`            // between TERM and KILL when the agent stops on its own
}

// RankPlan is one rank of a Plan.
type RankPlan struct {
	Rank  int     `json:"rank"`
	App   int     `json:"app,omitempty"` // index of its program
	Args  []Bytes `json:"args"`
	Dir   Bytes   `json:"dir,omitempty"` // working directory; empty: the plan's
	Env   []Bytes `json:"env"`           // NAME=value: those of its program, and the rank's own names
	Lack  []Bytes `json:"lack"`          // NAME=value: for names that nothing else sets, this host neither
	Stdin bool    `json:"stdin"`         // Stdin frames will come; else the rank reads /dev/null

	Shipped Bytes `json:"shipped,omitempty"` // the staged file that is its program; else Args[0] says which
}

// PMI says how MPI programs reach the agent.
type PMI struct {
	Port    bool   `json:"port,omitempty"`    // by a TCP port of the loopback interface; else by the descriptor PMIFile
	Mapping string `json:"mapping,omitempty"` // PMI_process_mapping; "": it is not told
}

// PMIFile is the descriptor of a rank by which it reaches the agent. Shells and scripts use
// lower ones for their own purposes.
const PMIFile = 30

// Abort says that a rank asks for the end of the job.
type Abort struct {
	Rank int           `json:"rank"`
	Code int           `json:"code"`
	Text string        `json:"text,omitempty"` // why it cannot go on; "": it called MPI_Abort(Code)
	At   time.Duration `json:"at"`             // monotonic, since the Start frame arrived
}

// Parted says that a rank will come to no barrier of MPI's any more.
type Parted struct {
	Rank int           `json:"rank"`
	How  string        `json:"how"` // finalized, aborted, gone or absent: see package pmi
	At   time.Duration `json:"at"`
}

// What ranks are bound to.
const (
	BindNone   = "none"
	BindThread = "hwthread"
	BindCore   = "core"
	BindNUMA   = "numa"
	BindSocket = "socket"
)

// Bind says how the ranks of a host share its CPUs.
type Bind struct {
	By   string `json:"by"`   // one of the Bind constants
	Each int    `json:"each"` // cores or hardware threads of each rank; 0: what there are, evenly
}

// Binding is what some ranks of a host may use of it: lists of numbers as the kernel
// writes them, as "0-3,8". A core is called by the lowest of its CPUs.
type Binding struct {
	Ranks []int  `json:"ranks"`
	CPUs  string `json:"cpus"`
	Cores string `json:"cores,omitempty"` // "": the ranks are not bound, and may use what the agent may
	NUMA  string `json:"numa,omitempty"`  // nodes; "" if there are none
}

// Prepared answers Plan. The host is ready to start when Failures is empty.
type Prepared struct {
	Failures []Failure `json:"failures,omitempty"`
	Bindings []Binding `json:"bindings,omitempty"` // of all ranks, if the plan has a Bind
	Unbound  string    `json:"unbound,omitempty"`  // why they are not bound as it says
	Lacked   []string  `json:"lacked,omitempty"`   // names of RankPlan.Lack that some rank got
	Unmet    string    `json:"unmet,omitempty"`    // why Plan.Meet cannot be reached

	Libraries []Library `json:"libraries,omitempty"` // of NCCL, that the first rank would find
	Unlooked  bool      `json:"unlooked,omitempty"`  // it is not known which there are
}

// Library is a library that a program loads, or would.
type Library struct {
	Name    string `json:"name"`              // by which it is asked for
	Path    Bytes  `json:"path"`              // "": it is asked for, and not there
	Version string `json:"version,omitempty"` // "": not known
	Build   string `json:"build"`             // of two equal ones the content is
}

// Failure says why a rank, or the whole host when Rank is -1, cannot start.
type Failure struct {
	Rank int    `json:"rank"`
	Code int    `json:"code"`           // gorun's exit code: 126, 127, or 125 for gorun's own trouble
	Text string `json:"text"`           // for people, without the host's name
	Twin *int   `json:"twin,omitempty"` // number of the node whose name Text lacks at its end: it is the same machine
}

// Start lets the ranks run. At is the head's time since the job began.
type Start struct {
	At time.Duration `json:"at"`
}

// Started answers Start when every rank has been forked or has failed to be.
type Started struct {
	PIDs []int `json:"pids"` // by local rank; 0 for one that could not be started (an Exited follows)
}

// Exited reports the end of a rank's first process. Its output may still be on the way.
type Exited struct {
	Rank   int           `json:"rank"`
	Code   int           `json:"code"`             // exit status; 0 if killed by a signal
	Signal int           `json:"signal,omitempty"` // the signal that killed it
	Core   bool          `json:"core,omitempty"`
	Text   string        `json:"text,omitempty"`    // why it could not be started (Code is 125, 126 or 127)
	At     time.Duration `json:"at"`                // monotonic, since the Start frame arrived
	ByStop bool          `json:"by_stop,omitempty"` // seen after the agent began to stop or kill its ranks
}

// Signal sends a signal to every rank's process group; with Caught only to those
// processes in it that have a handler for it.
type Signal struct {
	Num    int  `json:"num"`
	Caught bool `json:"caught,omitempty"`
}

// Stop ends every process of the job on this host: TERM, Grace, KILL. A second Stop
// with a shorter Grace shortens the first. The agent answers Done, and ends.
type Stop struct {
	Grace time.Duration `json:"grace"`
}

// Pause stops the ranks with SIGSTOP and suspends LostAfter; Pause{false} continues both.
type Pause struct {
	On bool `json:"on"`
}

// Window is the size of the ranks' terminals: in a Plan, and whenever it changes.
type Window struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// Done is the agent's last message: no process or file of the job is left here,
// but for those it names.
type Done struct {
	Killed []int    `json:"killed,omitempty"` // ranks that needed KILL
	Kept   string   `json:"kept,omitempty"`   // the job's directory, where files stay that ranks have written
	Left   []string `json:"left,omitempty"`   // what could not be removed, for people: "pid 4711 (python) in state D"
}

// Log is a line for gorun's user. Level is "warn" (always shown) or "info" (with -v).
type Log struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// JoinLimit is how long an agent tries to get to know its peers.
const JoinLimit = 3 * time.Second

// Watch has agents watch each other's hosts, by gossip. The first has the agent listen
// at Addr, on a port of its choice; the second has it get to know Peers. Both are
// answered with Watching, unless the agent is told to stop meanwhile.
type Watch struct {
	Addr  netip.Addr       `json:"addr,omitzero"`
	Peers []netip.AddrPort `json:"peers,omitempty"`
}

// Watching answers Watch. With a Failure this host neither watches nor is watched.
type Watching struct {
	Port    uint16 `json:"port,omitempty"` // where the agent listens
	Joined  bool   `json:"joined,omitempty"`
	Failure string `json:"failure,omitempty"` // for people, without the host's name
}

// MaxWord bounds each list of a Word.
const MaxWord = 64

// Word tells what has changed: the numbers of nodes of which this host has found, or was
// told by others, that nobody can reach them, and of those that can be reached again.
type Word struct {
	Dead  []int `json:"dead,omitempty"`
	Alive []int `json:"alive,omitempty"`
}

// Inspect asks what the ranks are doing. The agent looks at them twice and answers with
// one Picture, but not when it is told to stop meanwhile.
type Inspect struct {
	ID      int           `json:"id"`
	Between time.Duration `json:"between"` // the two looks
	Within  time.Duration `json:"within"`  // the answer is sent by then, whatever is known
}

// Picture answers Inspect.
type Picture struct {
	ID     int           `json:"id"`
	Took   time.Duration `json:"took"`             // from one look to the other
	Sights []Sight       `json:"sights,omitempty"` // of the ranks that have a living process, by rank
}

// Limits of a Sight's lists.
const (
	MaxPeers  = 64
	MaxStores = 8
)

// Sight is what was seen of a rank: of its first process and all that descend from it.
type Sight struct {
	Rank      int           `json:"rank"`
	Processes int           `json:"processes"`
	Threads   int           `json:"threads"`
	CPU       time.Duration `json:"cpu"` // used by all of them between the looks

	// The thread that tells most: one that hangs in the kernel, else one that runs, else
	// the main one of the busiest process, or of the last in the line of its descent.
	PID     int    `json:"pid"`
	Name    string `json:"name"`              // the kernel's, of its program
	State   string `json:"state"`             // R, S, D, T, t or Z
	Channel string `json:"channel,omitempty"` // the kernel's function in which it waits, if that is known
	Call    string `json:"call,omitempty"`    // the system call in which it waits, if that is known
	File    string `json:"file,omitempty"`    // what that call is about: "standard input", "a pipe", a path; of a connection see Conn.Waited

	Listens []netip.AddrPort `json:"listens,omitempty"`
	Conns   []Conn           `json:"conns,omitempty"`
	More    int              `json:"more,omitempty"`    // connections beyond MaxPeers
	Store   []StoreWait      `json:"store,omitempty"`   // what it waits for there
	Partial bool             `json:"partial,omitempty"` // the kernel did not tell all of this in time
}

// Conn is a TCP connection of a rank's.
type Conn struct {
	Local  netip.AddrPort `json:"local"`
	Remote netip.AddrPort `json:"remote"`
	State  string         `json:"state,omitempty"`  // "" for an established one, else ConnOpening or ConnClosed
	Unsent int            `json:"unsent,omitempty"` // bytes that the other end has not taken
	Unread int            `json:"unread,omitempty"` // bytes that have come, and which the rank has not read
	Waited bool           `json:"waited,omitempty"` // the Sight's thread waits in it
}

// States of a Conn that is not established.
const (
	ConnOpening = "opening" // the other end has not answered
	ConnClosed  = "closed"  // by the other end
)

// StoreWait is a request to the store for which a rank waits.
type StoreWait struct {
	Op   string        `json:"op"`   // get or barrier
	Name string        `json:"name"` // quoted
	For  time.Duration `json:"for"`  // so long already
}

// Proof says what an agent has read in the environments of its ranks' processes: what is
// new since its last Proof. A host whose ranks stay as they are sends few.
type Proof struct {
	Settled []Settled `json:"settled,omitempty"`
	Refused []int     `json:"refused,omitempty"` // ranks whose processes cannot be read, or have lost the names of their rank
	Last    bool      `json:"last,omitempty"`    // nothing more comes
}

// Limits of a Proof.
const (
	MaxChanges = 32  // of a Settled
	MaxName    = 128 // bytes of a variable's name that is looked at
	MaxValue   = 256 // bytes of a value that are told
)

// Settled is ranks whose effective processes run the same program, and differ in the same
// way from what was planned for them.
type Settled struct {
	Ranks   []int    `json:"ranks"`
	Program string   `json:"program"`           // stands for the file and the arguments, but for numbers in these
	File    Bytes    `json:"file"`              // that is run
	Library Bytes    `json:"library,omitempty"` // libnccl, if it is mapped
	Version string   `json:"version,omitempty"` // of it, if that is known
	Build   string   `json:"build,omitempty"`   // as a Library's; "": not known
	MPI     Bytes    `json:"mpi,omitempty"`     // a library of Open MPI that is mapped, in a job whose ranks would not find each other by it
	Digest  string   `json:"digest"`            // of the NCCL settings, as GORUN_ENV_DIGEST
	Changes []Change `json:"changes,omitempty"`
	More    int      `json:"more,omitempty"` // changes that are not told

	// Early: they are still what was started, with nothing changed, and have not run for
	// long: a program may start itself anew with other settings.
	Early bool `json:"early,omitempty"`
}

// Change is a variable that is not as planned.
type Change struct {
	Name  string `json:"name"`
	Sum   string `json:"sum,omitempty"`   // stands for its value; "": it is not set
	Value Bytes  `json:"value,omitempty"` // the beginning; nothing of a secret
}
