package wire

// The messages by which files come to a host, before its plan. The host says what it
// lacks, is told where to get it, and says when it has everything:
//
//	Files, Stage ► Have, then for some Look ► Seen, then Fetch ► Staged

// Files names the files that the ranks are to find on their hosts. It is the same for all
// hosts, and may be long: a message of its own is encoded once.
type Files struct {
	List []File `json:"list"`
}

// Stage has a host get the Files that it was told of before. The host makes a directory
// of the job for them.
type Stage struct {
	JobID  string `json:"job_id"`
	Node   int    `json:"node"`
	Key    []byte `json:"key"`              // 32 bytes that only agents of this job know
	Listen string `json:"listen,omitempty"` // address at which other hosts may ask this one for files; "": none will
	Dir    Bytes  `json:"dir"`              // where ranks run without a directory of their own; if it lacks something, they run in the job's
	Files  []File `json:"-"`                // the list before, put here by who reads both
}

// File is one file of a list.
type File struct {
	Name   Bytes  `json:"name"`           // relative: its place in the job's directory
	Path   Bytes  `json:"path"`           // absolute: where the head has it; a host may have it there, too
	Size   int64  `json:"size"`           // in bytes
	Root   []byte `json:"root,omitempty"` // see package bcast
	Exec   bool   `json:"exec,omitempty"`
	Empty  bool   `json:"empty,omitempty"`  // it is a directory with nothing in it
	Needed bool   `json:"needed,omitempty"` // ranks look for it in their working directory
}

// Have answers Stage.
type Have struct {
	Missing []int  `json:"missing,omitempty"` // numbers of the files that this host lacks, none of them empty; of equal files one
	Port    int    `json:"port,omitempty"`    // where it listens, 0: nowhere
	Place   string `json:"place,omitempty"`   // where it keeps files: hosts that say the same may see the same directory
	Text    string `json:"text,omitempty"`    // why it cannot take the files
}

// Look asks a host whether it sees what another node of the job keeps.
type Look struct {
	Node int `json:"node"`
}

// Seen answers Look.
type Seen struct {
	Yes bool `json:"yes"`
}

// Fetch has a host look again what it lacks, and get it.
type Fetch struct {
	From string `json:"from,omitempty"` // address of another host that gives files; "": the head does
	Host string `json:"host,omitempty"` // its name, for people
}

// Want asks for files: for each its list of hashes and its content, in this order.
type Want struct {
	Files  []int `json:"files"`
	Piece  int   `json:"piece,omitempty"`  // from which on the first one is wanted
	Credit int   `json:"credit,omitempty"` // bytes that the head may send before the first grant on FileStream
}

// Got tells that a host makes progress: how many bytes it has checked before its Have, or
// received after Fetch.
type Got struct {
	Bytes int64 `json:"bytes"`
}

// Staged answers Fetch: all files are there, unless Text says why not.
type Staged struct {
	Text string `json:"text,omitempty"`
}
