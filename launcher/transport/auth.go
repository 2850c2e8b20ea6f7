package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

const maxKeyFile = 1 << 20

// keyring holds the keys to log in with. Files are read once, ssh-agent is asked once.
type keyring struct {
	socket  string
	timeout time.Duration
	prompts prompts
	agent   func() ([]*identity, error)

	wg sync.WaitGroup // exchanges with ssh-agent

	turn  sync.Mutex           // held also while files are read: see await
	files map[string]*identity // guarded by turn

	mu   sync.Mutex
	conn net.Conn // guarded by mu: to ssh-agent
}

// identity is a key, or a file that is none.
type identity struct {
	source string
	pub    ssh.PublicKey // nil if it is not known before the key is decrypted, or if why is set
	signer ssh.Signer    // nil if the key is encrypted, or only its public half is here
	locked *lockedKey    // nil unless encrypted
	why    string        // why it cannot be used
	absent bool          // there is no such file
}

func (id *identity) key() Key {
	k := Key{Source: id.source, Why: id.why}
	if id.pub != nil {
		k.Type, k.Fingerprint = id.pub.Type(), ssh.FingerprintSHA256(id.pub)
	}
	return k
}

func newKeyring(opts Options) *keyring {
	k := &keyring{socket: opts.AgentSocket, timeout: opts.ConnectTimeout, files: map[string]*identity{}}
	k.prompts.ask = opts.Prompt
	k.agent = sync.OnceValues(k.askAgent)
	return k
}

func (k *keyring) close() {
	k.mu.Lock()
	if k.conn != nil {
		k.conn.Close()
	}
	k.mu.Unlock()
	k.wg.Wait()
}

// ask runs an exchange with ssh-agent, which may hang (a card reader that waits for its
// owner): it returns when that is done or ctx ends.
func (k *keyring) ask(ctx context.Context, exchange func() error) error {
	done := make(chan error, 1)
	k.wg.Go(func() { done <- exchange() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// askAgent connects to ssh-agent and lists its keys. One that does not answer for a
// quarter of the hosts' time is not asked again.
func (k *keyring) askAgent() ([]*identity, error) {
	if k.socket == "" {
		return nil, nil
	}
	limit := k.timeout / 4
	ctx, cancel := context.WithTimeoutCause(context.Background(), limit, fmt.Errorf("no answer in %v", limit))
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", k.socket)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	k.conn = conn
	k.mu.Unlock()
	var signers []ssh.Signer // not to be read after an error
	err = k.ask(ctx, func() (err error) {
		signers, err = agent.NewClient(conn).Signers()
		return err
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	var ids []*identity
	for _, s := range signers {
		ids = append(ids, agentIdentity(&agentKey{k, s}))
	}
	return ids, nil
}

// agentIdentity is a key that ssh-agent has.
func agentIdentity(key *agentKey) *identity {
	id := &identity{pub: key.PublicKey(), signer: key}
	comment := ""
	if k, ok := id.pub.(*agent.Key); ok {
		comment = k.Comment
		if pub, err := ssh.ParsePublicKey(k.Marshal()); err == nil {
			id.pub = pub // tells a certificate
		}
	}
	id.source = fmt.Sprintf("ssh-agent (%s)", cleanLine(comment, 100))
	return id
}

// agentKey signs with a key of ssh-agent's.
type agentKey struct {
	ring *keyring
	ssh.Signer
}

func (k *agentKey) sign(ctx context.Context, rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	var sig *ssh.Signature // not to be read after an error: it may still be written to
	err := k.ring.ask(ctx, func() (err error) {
		sig, err = signWith(k.Signer, rand, data, algorithm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return sig, nil
}

func signWith(signer ssh.Signer, rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if s, ok := signer.(ssh.AlgorithmSigner); ok {
		return s.SignWithAlgorithm(rand, data, algorithm)
	}
	return signer.Sign(rand, data)
}

// file returns the key in a file, read once.
func (k *keyring) file(name string) *identity {
	k.turn.Lock()
	defer k.turn.Unlock()
	id := k.files[name]
	if id == nil {
		id = readKey(name)
		if id.locked != nil {
			id.locked.prompts = &k.prompts
		}
		k.files[name] = id
	}
	return id
}

// readKey reads a private key, or the public half of one that ssh-agent may have.
func readKey(name string) *identity {
	id := &identity{source: name}
	data, err := readKeyFile(name)
	if err != nil {
		id.absent = errors.Is(err, fs.ErrNotExist)
		id.why = reason(err)
		if pub := readPublicKey(name + ".pub"); id.absent && pub != nil {
			id.pub, id.why, id.absent = pub, "only its public half is here", false
		}
		return id
	}
	signer, err := ssh.ParsePrivateKey(data)
	var missing *ssh.PassphraseMissingError
	switch {
	case err == nil:
		id.signer, id.pub = signer, signer.PublicKey()
	case errors.As(err, &missing):
		id.pub = missing.PublicKey
		if id.pub == nil {
			id.pub = readPublicKey(name + ".pub")
		}
		id.locked = &lockedKey{file: name, data: data, done: make(chan struct{})}
	default:
		if pub := parsePublicKey(data); pub != nil {
			id.pub, id.why = pub, "only its public half is here"
		} else {
			id.why = "not a private key: " + err.Error()
		}
	}
	return id
}

// readKeyFile refuses a key of this user's that others may read, as ssh does.
func readKeyFile(name string) ([]byte, error) {
	data, st, err := readFile(name, maxKeyFile)
	if err != nil {
		return nil, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	ours := !ok || int(sys.Uid) == os.Getuid()
	if ours && st.Mode().Perm()&0o077 != 0 && parsePublicKey(data) == nil {
		return nil, fmt.Errorf("others may read it (mode %04o)", st.Mode().Perm())
	}
	return data, nil
}

func readPublicKey(name string) ssh.PublicKey {
	data, _, err := readFile(name, maxKeyFile)
	if err != nil {
		return nil
	}
	return parsePublicKey(data)
}

func parsePublicKey(data []byte) ssh.PublicKey {
	pub, _, _, _, err := ssh.ParseAuthorizedKey(data)
	if err != nil {
		return nil
	}
	return pub
}

// candidates returns the keys to offer to a host, in order, and those that are left
// out. A server counts every key it refuses, so what the user named comes first:
// named keys that ssh-agent has, other named keys, the rest of ssh-agent's, encrypted
// files (which may cost a question).
func (k *keyring) candidates(s *settings) (keys []*identity, skipped []Key) {
	agentKeys, err := k.agent()
	if err != nil {
		skipped = append(skipped, Key{Source: "ssh-agent", Why: err.Error()})
	}
	var named, locked []*identity
	for _, name := range s.identities {
		id := k.file(name)
		held := slices.IndexFunc(agentKeys, func(a *identity) bool { return samePub(a.pub, id.pub) })
		switch {
		case held >= 0 && slices.Contains(keys, agentKeys[held]): // named twice
		case held >= 0:
			keys = append(keys, agentKeys[held])
		case id.signer != nil:
			named = append(named, id)
		case id.locked != nil && k.prompts.ask != nil:
			locked = append(locked, id)
		case !id.absent || s.explicit:
			skipped = append(skipped, id.skippedKey())
		}
	}
	if s.explicit {
		keys, named = append(keys, named...), nil
	}
	if !s.identitiesOnly {
		for _, a := range agentKeys {
			if !slices.Contains(keys, a) {
				keys = append(keys, a)
			}
		}
	}
	return append(append(keys, named...), locked...), skipped
}

func (id *identity) skippedKey() Key {
	key := id.key()
	if id.locked != nil {
		key.Why = "encrypted, and there is no terminal to ask for its passphrase"
	}
	return key
}

func samePub(a, b ssh.PublicKey) bool {
	return a != nil && b != nil && bytes.Equal(a.Marshal(), b.Marshal())
}

// login offers keys to one server. ssh calls its methods from one goroutine.
type login struct {
	ctx     context.Context
	stage   *atomic.Int32
	user    string
	rest    []*identity // not yet offered
	offered []Key
	skipped []Key
	methods []string
	partial bool
}

// next is the client's AuthCallback. It returns nothing when there is no key left.
func (l *login) next(c *ssh.ClientAuthContext) (ssh.AuthMethod, error) {
	l.methods, l.partial = c.AllowedMethods, len(c.PartialSuccessMethods) > 0
	if !slices.Contains(c.AllowedMethods, "publickey") {
		return nil, nil
	}
	var signers []ssh.Signer
	for _, id := range l.rest {
		if id.pub != nil {
			signers = append(signers, &offer{l: l, id: id, pub: id.pub})
		}
	}
	if signers == nil {
		signers = l.unlockOne()
	}
	if signers == nil {
		return nil, nil
	}
	return ssh.PublicKeys(signers...), nil
}

// unlockOne decrypts the next key of a kind that hides even its public half.
func (l *login) unlockOne() []ssh.Signer {
	for len(l.rest) > 0 {
		id := l.rest[0]
		signer, err := id.locked.unlock(l.ctx)
		if err != nil {
			l.rest = l.rest[1:]
			l.skipped = append(l.skipped, Key{Source: id.source, Why: err.Error()})
			continue
		}
		return []ssh.Signer{&offer{l: l, id: id, pub: signer.PublicKey()}}
	}
	return nil
}

// failure makes sense of the error of a login.
func (l *login) failure(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("the server closed the connection during the login: %w", err)
	}
	e := &AuthError{User: l.user, Offered: l.offered, Skipped: l.skipped, Methods: l.methods, Partial: l.partial}
	signing := len(l.offered) > 0 && l.offered[len(l.offered)-1].Why != ""
	if text := err.Error(); !signing && !strings.HasPrefix(text, "ssh: unable to authenticate") {
		e.Text = cleanLine(strings.TrimPrefix(text, "ssh: "), 300)
	}
	return e
}

// offer is one key in one login. ssh asks for its public key when it offers it, and
// for a signature once the server has accepted it.
type offer struct {
	l   *login
	id  *identity
	pub ssh.PublicKey
}

func (o *offer) PublicKey() ssh.PublicKey {
	if i := slices.Index(o.l.rest, o.id); i >= 0 {
		o.l.rest = slices.Delete(slices.Clone(o.l.rest), i, i+1)
		key := o.id.key()
		key.Type, key.Fingerprint, key.Why = o.pub.Type(), ssh.FingerprintSHA256(o.pub), ""
		o.l.offered = append(o.l.offered, key)
	}
	return o.pub
}

// Algorithms leaves out SHA-1, as OpenSSH does.
func (o *offer) Algorithms() []string {
	typ := o.pub.Type()
	if cert, ok := o.pub.(*ssh.Certificate); ok {
		typ = cert.Key.Type()
	}
	if typ == ssh.KeyAlgoRSA {
		return []string{ssh.KeyAlgoRSASHA256, ssh.KeyAlgoRSASHA512}
	}
	return []string{typ}
}

func (o *offer) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return o.SignWithAlgorithm(rand, data, o.Algorithms()[0])
}

func (o *offer) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	sig, err := o.sign(rand, data, algorithm)
	if n := len(o.l.offered); err != nil && n > 0 {
		o.l.offered[n-1].Why = unsigned + cleanLine(err.Error(), 200)
	}
	return sig, err
}

func (o *offer) sign(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	switch signer := o.id.signer.(type) {
	case nil:
		unlocked, err := o.id.locked.unlock(o.l.ctx)
		if err != nil {
			return nil, err
		}
		return signWith(unlocked, rand, data, algorithm)
	case *agentKey:
		o.l.stage.Store(int32(atSign))
		sig, err := signer.sign(o.l.ctx, rand, data, algorithm)
		if o.l.ctx.Err() == nil {
			o.l.stage.Store(int32(atAuth))
		}
		return sig, err
	default:
		return signWith(signer, rand, data, algorithm)
	}
}
