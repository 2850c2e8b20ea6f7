package envsync

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// Digest stands for the NCCL settings of a rank: two of an equal part have, but for a
// collision of hashes, equal names and values in it. Each part is 16 hexadecimal digits.
// Names of which every process may have its own value, or that are for debugging, are in
// neither.
type Digest struct {
	Job  string // of the names that must be equal in the whole job
	Host string // of those that must be equal among the ranks of a host
}

// DigestOf returns the digest of an environment. The order of env does not matter; of a
// repeated name the last counts.
func DigestOf(env []string) Digest {
	return Digest{Job: sum(Settings(env, ClassJob)), Host: sum(Settings(env, ClassHost))}
}

// String is JOB.HOST, as GORUN_ENV_DIGEST has it; "" for none.
func (d Digest) String() string {
	if d == (Digest{}) {
		return ""
	}
	return d.Job + "." + d.Host
}

// Settings returns the NCCL names of env that are of class, with their values as Meaning has
// them.
func Settings(env []string, class Class) map[string]string {
	values := map[string]string{}
	for _, entry := range env {
		if name, value, ok := split(entry); ok && strings.HasPrefix(name, "NCCL_") && ClassOf(name) == class {
			values[name] = Meaning(name, value)
		}
	}
	return values
}

// sum is 16 hexadecimal digits of a hash of names and values.
func sum(values map[string]string) string {
	var framed []byte
	for _, name := range sortedNames(values) {
		framed = appendFramed(appendFramed(framed, name), values[name])
	}
	hash := sha256.Sum256(framed)
	return hex.EncodeToString(hash[:8])
}

func sortedNames(values map[string]string) []string {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// appendFramed appends s after its length, so that no two lists of strings look alike.
func appendFramed(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(s))), s...)
}
