package transport

import (
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// hostKeyCheck judges the key of one host. ssh calls it again at every key exchange
// of a long connection.
type hostKeyCheck struct {
	keys  *hostKeys
	s     *settings
	files []string
	name  string      // in known_hosts
	known []*knownKey // lines for that name
	bare  []*knownKey // lines for the host without its port, if known has no key: they can only vouch

	mu       sync.Mutex
	accepted string // guarded by mu: the key that was found good
	err      error  // guarded by mu: why the last one was not
}

func (h *hostKeys) check(s *settings) (*hostKeyCheck, error) {
	c := &hostKeyCheck{keys: h, s: s, name: knownName(s)}
	c.files = slices.Concat(s.userKnownHosts, s.globalKnownHosts)
	var err error
	c.known, err = h.known(c.files, c.name)
	keyed := slices.ContainsFunc(c.known, func(k *knownKey) bool { return k.marker == "" })
	if err == nil && !keyed && s.alias == "" && s.port != 22 {
		c.bare, err = h.known(c.files, s.hostname)
	}
	return c, err
}

// lines are all that may vouch for a key, or revoke it.
func (c *hostKeyCheck) lines() []*knownKey { return slices.Concat(c.known, c.bare) }

// knownName is the name under which known_hosts has the host.
func knownName(s *settings) string {
	switch {
	case s.alias != "":
		return s.alias
	case s.port != 22:
		return "[" + s.hostname + "]:" + strconv.Itoa(s.port)
	}
	return s.hostname
}

// callback is the client's HostKeyCallback.
func (c *hostKeyCheck) callback(_ string, addr net.Addr, key ssh.PublicKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if tcp, ok := addr.(*net.TCPAddr); ok && c.s.trustLoopback && c.s.alias == "" && tcp.IP.IsLoopback() {
		return nil
	}
	blob := string(key.Marshal())
	if c.accepted != "" && blob == c.accepted {
		return nil
	}
	c.err = c.judge(key)
	if c.err == nil {
		c.accepted = blob
	}
	return c.err
}

// failure returns why the host's key was refused, nil if it was not.
func (c *hostKeyCheck) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *hostKeyCheck) judge(key ssh.PublicKey) error {
	if err := c.revoked(key); err != nil {
		return err
	}
	if bits := rsaBits(key); bits > 0 && bits < c.s.algorithms.rsaBits {
		return fmt.Errorf("the host's RSA key has %d bits, and RequiredRSASize wants %d", bits, c.s.algorithms.rsaBits)
	}
	cert, ok := key.(*ssh.Certificate)
	if !ok {
		return c.plain(key)
	}
	certErr := c.certificate(cert)
	if certErr == nil {
		return nil
	}
	// As ssh does: without a good certificate the key itself counts.
	err := c.plain(cert.Key)
	if e, ok := errors.AsType[*HostKeyError](err); ok && e.Problem == HostKeyUnknown {
		e.Problem, e.Detail, e.Command = HostKeyCertificate, certErr.Error(), ""
	}
	return err
}

func (c *hostKeyCheck) revoked(key ssh.PublicKey) error {
	blobs := [][]byte{key.Marshal()}
	if cert, ok := key.(*ssh.Certificate); ok {
		blobs = [][]byte{cert.Key.Marshal(), cert.SignatureKey.Marshal()}
	}
	for _, k := range c.lines() {
		for _, b := range blobs {
			if k.marker == markRevoked && k.is(b) {
				return c.problem(HostKeyRevoked, key, k)
			}
		}
	}
	return nil
}

// rsaBits is the length of an RSA key, 0 for others.
func rsaBits(key ssh.PublicKey) int {
	if cert, ok := key.(*ssh.Certificate); ok {
		key = cert.Key
	}
	if k, ok := key.(ssh.CryptoPublicKey); ok {
		if pub, ok := k.CryptoPublicKey().(*rsa.PublicKey); ok {
			return pub.N.BitLen()
		}
	}
	return 0
}

func (c *hostKeyCheck) certificate(cert *ssh.Certificate) error {
	principal := c.s.hostname
	if c.s.alias != "" {
		principal = c.s.alias
	}
	if by := c.s.algorithms.authorities; by != nil && (cert.Signature == nil || !slices.Contains(by, cert.Signature.Format)) {
		return errors.New("it is signed in a way that CASignatureAlgorithms leaves out")
	}
	checker := ssh.CertChecker{IsHostAuthority: func(ca ssh.PublicKey, _ string) bool {
		return slices.ContainsFunc(c.lines(), func(k *knownKey) bool { return k.marker == markCA && k.is(ca.Marshal()) })
	}}
	return checker.CheckHostKey(net.JoinHostPort(principal, "22"), nil, cert)
}

// plain judges a key that is not a certificate.
func (c *hostKeyCheck) plain(key ssh.PublicKey) error {
	blob := key.Marshal()
	ok, other := compare(c.known, blob)
	bare, _ := compare(c.bare, blob)
	switch {
	case ok || bare:
		return nil
	case other != nil:
		return c.problem(HostKeyChanged, key, other)
	case !c.s.acceptNew:
		return c.problem(HostKeyUnknown, key, nil)
	}
	return c.accept(key)
}

// compare reports whether a key is among the known ones, and one that it is not.
func compare(known []*knownKey, blob []byte) (ok bool, other *knownKey) {
	for _, k := range known {
		if k.marker != "" {
			continue
		}
		if k.is(blob) {
			return true, nil
		}
		if other == nil {
			other = k
		}
	}
	return false, other
}

func (c *hostKeyCheck) problem(kind HostKeyProblem, key ssh.PublicKey, known *knownKey) *HostKeyError {
	e := &HostKeyError{Problem: kind, Name: c.name, Algorithm: key.Type(), Fingerprint: ssh.FingerprintSHA256(key)}
	if known != nil {
		e.File, e.Line, e.KnownAlgorithm = known.file, known.line, known.algo
	}
	if kind == HostKeyUnknown {
		e.Command = "ssh " + acceptArgs(c.s)
	}
	return e
}

// acceptArgs are the arguments with which the user's ssh shows the fingerprint and,
// once it is confirmed, records the key where gorun looks for it.
func acceptArgs(s *settings) string {
	args := shellQuote(s.user+"@"+s.name) + " true"
	if s.port != 22 {
		args = "-p " + strconv.Itoa(s.port) + " " + args
	}
	if s.config != "" {
		args = "-F " + shellQuote(s.config) + " " + args
	}
	return args
}

// shellQuote makes one word of s for a POSIX shell.
func shellQuote(s string) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plainRune(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// plainRune reports whether no shell gives r a meaning inside a word.
func plainRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=@%+,", r)
}

// accept trusts a key that nobody knows, and records it. Unlike ssh it trusts none while
// there is a file that it cannot read: the host's key may have changed.
func (c *hostKeyCheck) accept(key ssh.PublicKey) error {
	h := c.keys
	h.turn.Lock()
	defer h.turn.Unlock()
	known, err := h.knownLocked(c.files, c.name)
	if err != nil {
		return err
	}
	if h.blind != "" {
		e := c.problem(HostKeyUnknown, key, nil)
		e.File = h.blind
		return e
	}
	if ok, other := compare(known, key.Marshal()); ok {
		return nil
	} else if other != nil { // another connection to this name was shown another key
		return c.problem(HostKeyChanged, key, other)
	}
	h.recordLocked(c, key)
	return nil
}

// recordLocked remembers the key for this Dialer and appends it to the first of the
// user's files. Not being able to is a warning: ssh would go on too.
func (h *hostKeys) recordLocked(c *hostKeyCheck, key ssh.PublicKey) {
	k := &knownKey{patterns: c.name, algo: key.Type(), blob: base64.StdEncoding.EncodeToString(key.Marshal())}
	k.file = os.DevNull
	if len(c.s.userKnownHosts) > 0 {
		k.file = c.s.userKnownHosts[0]
	}
	if db := h.files[k.file]; db != nil {
		db.add(k)
	}
	if k.file == os.DevNull {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unrecorded++
		return
	}
	name := c.name
	if c.s.hashKnownHosts {
		name = knownhosts.HashHostname(name)
	}
	err := appendLine(k.file, fmt.Sprintf("%s %s %s\n", name, k.algo, k.blob))
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil {
		h.notWritten[err.Error()]++
		return
	}
	h.recorded[k.file]++
	h.log.Info("host key recorded", "host", c.s.name, "name", c.name, "fingerprint", ssh.FingerprintSHA256(key), "file", k.file)
}

// appendLine adds one line to a file with one write, so that others who append at the
// same time do no harm. It makes the file, and its directory, for this user only.
func appendLine(file, line string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	var last [1]byte
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		if _, err := f.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			line = "\n" + line
		}
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

func (h *hostKeys) warnings() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ws []string
	for _, file := range slices.Sorted(maps.Keys(h.recorded)) {
		ws = append(ws, fmt.Sprintf("recorded the keys of %s in %s", count(h.recorded[file], "new host"), file))
	}
	if h.unrecorded > 0 {
		ws = append(ws, fmt.Sprintf("trusted the keys of %s without knowing them: no known_hosts file is kept", count(h.unrecorded, "host")))
	}
	for _, err := range slices.Sorted(maps.Keys(h.notWritten)) {
		ws = append(ws, fmt.Sprintf("trusted the keys of %s but could not record them: %s", count(h.notWritten[err], "new host"), err))
	}
	return ws
}
