package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

const maxKeyFile = 1 << 20

// keyring holds the keys to log in with. Files are read once, ssh-agent is asked once.
type keyring struct {
	timeout time.Duration
	prompts prompts

	turn  sync.Mutex                  // held also while files are read: see await
	files map[string]*identity        // guarded by turn
	certs map[string]*ssh.Certificate // guarded by turn; nil: that file holds none

	mu     sync.Mutex
	agents map[string]*sshAgent // guarded by mu, by socket
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
	k := &keyring{timeout: opts.ConnectTimeout, files: map[string]*identity{}, certs: map[string]*ssh.Certificate{}, agents: map[string]*sshAgent{}}
	k.prompts.ask = opts.Prompt
	return k
}

func (k *keyring) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, a := range k.agents {
		a.close()
	}
}

// agent returns the ssh-agent at a socket, which is asked for its keys once.
func (k *keyring) agent(socket string) *sshAgent {
	k.mu.Lock()
	defer k.mu.Unlock()
	a := k.agents[socket]
	if a == nil {
		a = newAgent(socket, k.timeout/4)
		k.agents[socket] = a
	}
	return a
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
	pub := readPublicKey(name + ".pub")
	switch {
	case pub != nil && strings.HasPrefix(pub.Type(), "sk-"):
		id.pub, id.why = pub, "a FIDO key can only be used through ssh-agent; ssh-add it"
	case err == nil:
		id.signer, id.pub = signer, signer.PublicKey()
	case errors.As(err, &missing):
		id.pub = missing.PublicKey
		if id.pub == nil {
			id.pub = pub
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

func (id *identity) skippedKey() Key {
	key := id.key()
	if id.locked != nil {
		key.Why = "encrypted, and there is no terminal to ask for its passphrase"
	}
	return key
}

// login offers keys to one server. ssh calls its methods from one goroutine.
type login struct {
	ctx      context.Context
	stage    *atomic.Int32
	user     string
	noKeys   string // as in settings
	accepted *algorithms
	rest     []*identity // not yet offered
	offered  []Key
	skipped  []Key
	methods  []string
	partial  bool
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
	e := &AuthError{User: l.user, Offered: l.offered, Skipped: l.skipped, Methods: l.methods, Partial: l.partial, NoKeys: l.noKeys}
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

func (o *offer) Algorithms() []string { return o.l.accepted.accepts(o.pub, signatures(o.pub)) }

// signatures are the algorithms with which a key may sign: without SHA-1, as in OpenSSH.
func signatures(pub ssh.PublicKey) []string {
	typ := pub.Type()
	if cert, ok := pub.(*ssh.Certificate); ok {
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
