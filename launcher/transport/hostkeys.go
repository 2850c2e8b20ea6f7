package transport

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

const maxKnownHosts = 64 << 20

// knownKey is one line of a known_hosts file. Its strings are parts of the file's
// text; the key is decoded only when it is compared.
type knownKey struct {
	marker   string // "", "@cert-authority" or "@revoked"
	patterns string // names and patterns with commas, lower case; "" if hashed
	salt     []byte // of a hashed name
	hash     []byte
	algo     string // key type
	blob     string // base64
	file     string
	line     int
}

const (
	markCA      = "@cert-authority"
	markRevoked = "@revoked"
)

func (k *knownKey) is(key []byte) bool {
	b, err := base64.StdEncoding.DecodeString(k.blob)
	return err == nil && bytes.Equal(b, key)
}

func (k *knownKey) matches(name string) bool {
	if k.patterns != "" {
		return matchPatterns(strings.Split(k.patterns, ","), name)
	}
	mac := hmac.New(sha1.New, k.salt)
	mac.Write([]byte(name))
	return hmac.Equal(mac.Sum(nil), k.hash)
}

// knownHosts is a known_hosts file, parsed once. Lines that name hosts in full are
// found by name; the others are tried one after the other.
type knownHosts struct {
	exact  map[string][]*knownKey
	search []*knownKey // patterns and hashed names
}

// parseKnownHosts reads a file's text. Lines that are not understood are skipped, as
// ssh does; skipped says how many.
func parseKnownHosts(file, text string) (db *knownHosts, skipped int) {
	db = &knownHosts{exact: map[string][]*knownKey{}}
	line := 0
	for s := range strings.Lines(text) {
		line++
		s = strings.TrimSpace(s)
		if s == "" || s[0] == '#' {
			continue
		}
		k, err := parseKnownKey(s)
		if err != nil {
			skipped++
			continue
		}
		k.file, k.line = file, line
		db.add(k)
	}
	return db, skipped
}

func parseKnownKey(s string) (*knownKey, error) {
	var k knownKey
	f := strings.Fields(s)
	if strings.HasPrefix(f[0], "@") {
		if f[0] != markCA && f[0] != markRevoked {
			return nil, fmt.Errorf("unknown marker %q", f[0])
		}
		k.marker, f = f[0], f[1:]
	}
	if len(f) < 3 {
		return nil, errors.New("want hosts, key type and key")
	}
	k.patterns, k.algo, k.blob = strings.ToLower(f[0]), f[1], f[2]
	if !blobHasType(k.blob, k.algo) {
		return nil, errors.New("not a key of its type")
	}
	if strings.HasPrefix(f[0], "|") {
		return &k, k.parseHash(f[0])
	}
	if strings.Trim(k.patterns, ",!") == "" {
		return nil, errors.New("no host")
	}
	return &k, nil
}

// parseHash reads |1|salt|hash|.
func (k *knownKey) parseHash(s string) (err error) {
	f := strings.Split(s, "|")
	if len(f) != 4 || f[1] != "1" {
		return errors.New("unknown kind of hash")
	}
	k.patterns = ""
	if k.salt, err = base64.StdEncoding.DecodeString(f[2]); err != nil {
		return err
	}
	k.hash, err = base64.StdEncoding.DecodeString(f[3])
	if err == nil && len(k.hash) != sha1.Size {
		err = errors.New("bad length of a hash")
	}
	return err
}

// blobHasType reports whether a base64 key begins with the name of its type.
func blobHasType(blob, algo string) bool {
	want := append([]byte{0, 0, byte(len(algo) >> 8), byte(len(algo))}, algo...)
	n := min(base64.StdEncoding.EncodedLen(len(want)), len(blob)) / 4 * 4
	head := make([]byte, base64.StdEncoding.DecodedLen(n))
	got, err := base64.StdEncoding.Decode(head, []byte(blob[:n]))
	return err == nil && bytes.HasPrefix(head[:got], want)
}

func (db *knownHosts) add(k *knownKey) {
	if k.patterns == "" || strings.ContainsAny(k.patterns, "*?!") {
		db.search = append(db.search, k)
		return
	}
	for name := range strings.SplitSeq(k.patterns, ",") {
		if name != "" && !slices.Contains(db.exact[name], k) {
			db.exact[name] = append(db.exact[name], k)
		}
	}
}

// lookup returns the lines for name, which is lower case and holds a port as [name]:port.
func (db *knownHosts) lookup(name string) []*knownKey {
	found := slices.Clip(db.exact[name])
	for _, k := range db.search {
		if k.matches(name) {
			found = append(found, k)
		}
	}
	return found
}

// hostKeys is what is known of all hosts' keys, by file.
type hostKeys struct {
	log    *slog.Logger
	unread func(name string, err error) // told of files that cannot be read

	turn  sync.Mutex             // held also while files are read and written: see await
	files map[string]*knownHosts // guarded by turn
	blind string                 // guarded by turn: a file that cannot be read

	// What became of keys that were accepted unknown; guarded by mu.
	mu         sync.Mutex
	recorded   map[string]int // by file
	unrecorded int            // there is no file to record them in
	notWritten map[string]int // by what went wrong
}

func newHostKeys(log *slog.Logger, unread func(name string, err error)) *hostKeys {
	return &hostKeys{log: log, unread: unread, files: map[string]*knownHosts{}, recorded: map[string]int{}, notWritten: map[string]int{}}
}

// known returns the lines of the files that are for name.
func (h *hostKeys) known(files []string, name string) ([]*knownKey, error) {
	h.turn.Lock()
	defer h.turn.Unlock()
	return h.knownLocked(files, name)
}

func (h *hostKeys) knownLocked(files []string, name string) ([]*knownKey, error) {
	var found []*knownKey
	for _, file := range files {
		db, err := h.loadLocked(file)
		if err != nil {
			return nil, err
		}
		found = append(found, db.lookup(name)...)
	}
	return found, nil
}

func (h *hostKeys) loadLocked(file string) (*knownHosts, error) {
	if db := h.files[file]; db != nil {
		return db, nil
	}
	text, err := h.readLocked(file)
	if err != nil {
		return nil, err
	}
	db, skipped := parseKnownHosts(file, text)
	if skipped > 0 {
		h.log.Info("known_hosts: lines skipped", "file", file, "lines", skipped)
	}
	h.files[file] = db
	return db, nil
}

// readLocked returns a file's text. As with ssh, one that cannot be read is as good as none.
func (h *hostKeys) readLocked(file string) (string, error) {
	data, st, err := readFile(file, maxKnownHosts)
	switch {
	case err == nil:
		return string(data), nil
	case missing(err), st != nil && st.Mode().Type()&fs.ModeCharDevice != 0: // /dev/null
		return "", nil
	case errors.Is(err, errNotRegular), errors.Is(err, errTooLong):
		return "", err
	}
	h.unread(file, err)
	h.blind = file
	return "", nil
}
