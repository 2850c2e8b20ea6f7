package transport

import (
	"bytes"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

// candidates returns the keys to offer to a host, in order, and those that are left
// out. A server counts every key it refuses, so what the user named comes first: named
// keys that ssh-agent has, other named keys, the rest of ssh-agent's, encrypted files
// (which may cost a question); and a certificate before the key that it is for.
func (k *keyring) candidates(s *settings) (keys []*identity, skipped []Key) {
	if s.noKeys != "" {
		return nil, nil
	}
	c := &choice{k: k, s: s}
	var err error
	if c.agent, err = k.agent(s.agent).keys(); err != nil {
		c.skip(Key{Source: "ssh-agent", Why: err.Error()})
	}
	for _, name := range s.certificates {
		if cert := k.certificate(name); cert != nil {
			c.certs = append(c.certs, named{name, cert})
		} else {
			c.skip(Key{Source: name, Why: "no certificate"})
		}
	}
	for _, name := range s.identities {
		c.name(name)
	}
	for _, cert := range c.certs {
		c.orphan(cert)
	}
	keys = slices.DeleteFunc(c.order(), c.unaccepted)
	return keys, c.skipped
}

// choice is how the keys for one host are chosen.
type choice struct {
	k       *keyring
	s       *settings
	agent   []*identity // ssh-agent's
	certs   []named     // CertificateFile's
	held    []*identity // of those named: ssh-agent has the key
	files   []*identity
	locked  []*identity
	used    []*ssh.Certificate
	skipped []Key
}

// named is a certificate with its file.
type named struct {
	file string
	cert *ssh.Certificate
}

func (c *choice) skip(k Key) { c.skipped = append(c.skipped, k) }

// name takes the key in a file, or of ssh-agent's if that has it.
func (c *choice) name(file string) {
	id := c.k.file(file)
	at := slices.IndexFunc(c.agent, func(a *identity) bool { return samePub(a.pub, id.pub) })
	switch {
	case at >= 0 && slices.Contains(c.held, c.agent[at]): // named twice
	case at >= 0:
		c.held = append(append(c.held, c.certified(file, c.agent[at])...), c.agent[at])
	case id.signer != nil:
		c.files = append(append(c.files, c.certified(file, id)...), id)
	case id.locked != nil && c.k.prompts.ask != nil && !c.s.neverAsk:
		c.locked = append(append(c.locked, c.certified(file, id)...), id)
	case !id.absent || c.s.explicit:
		c.skip(id.skippedKey())
	}
}

// certified returns the certificates for a key: those that CertificateFile names or,
// without any, the one beside the key's file.
func (c *choice) certified(file string, key *identity) (ids []*identity) {
	certs := c.certs
	if len(c.s.certificates) == 0 {
		if cert := c.k.certificate(file + "-cert.pub"); cert != nil {
			certs = []named{{file + "-cert.pub", cert}}
		}
	}
	for _, n := range certs {
		if samePub(n.cert.Key, key.pub) {
			ids = append(ids, c.with(n, key)...)
		}
	}
	return ids
}

// with makes an identity of a certificate and its key, unless it is of no use.
func (c *choice) with(n named, key *identity) []*identity {
	if slices.Contains(c.used, n.cert) {
		return nil
	}
	c.used = append(c.used, n.cert)
	id := &identity{source: n.file, pub: n.cert, signer: key.signer, locked: key.locked}
	if why := useless(n.cert, time.Now()); why != "" {
		k := id.key()
		k.Why = why
		c.skip(k)
		return nil
	}
	return []*identity{id}
}

// orphan takes a certificate whose key no file has: ssh-agent may.
func (c *choice) orphan(n named) {
	if slices.Contains(c.used, n.cert) {
		return
	}
	for _, a := range c.agent {
		if samePub(n.cert.Key, a.pub) {
			c.held = append(c.held, c.with(n, a)...)
			return
		}
	}
	c.skip(Key{Source: n.file, Type: n.cert.Type(), Why: "there is no private key for this certificate"})
}

// order returns what is to be offered.
func (c *choice) order() []*identity {
	keys := c.held
	if c.s.explicit {
		keys, c.files = append(keys, c.files...), nil
	}
	if !c.s.identitiesOnly {
		for _, a := range c.agent {
			if !slices.Contains(keys, a) {
				keys = append(keys, a)
			}
		}
	}
	return append(append(keys, c.files...), c.locked...)
}

// unaccepted reports whether PubkeyAcceptedAlgorithms leaves a key out.
func (c *choice) unaccepted(id *identity) bool {
	if id.pub == nil || len(c.s.algorithms.accepts(id.pub, signatures(id.pub))) > 0 {
		return false
	}
	key := id.key()
	key.Why = "PubkeyAcceptedAlgorithms leaves it out"
	c.skip(key)
	return true
}

// useless says why a certificate will not be taken, "" if it may.
func useless(cert *ssh.Certificate, now time.Time) string {
	day := func(t uint64) string { return time.Unix(int64(t), 0).UTC().Format("2006-01-02 15:04 UTC") }
	switch t := uint64(now.Unix()); {
	case cert.CertType != ssh.UserCert:
		return "this certificate is for a host, not a user"
	case cert.ValidBefore != ssh.CertTimeInfinity && t >= cert.ValidBefore:
		return "this certificate has expired on " + day(cert.ValidBefore)
	case t < cert.ValidAfter:
		return "this certificate is not valid before " + day(cert.ValidAfter)
	}
	return ""
}

// certificate returns the certificate in a file, nil if there is none. It is read once.
func (k *keyring) certificate(name string) *ssh.Certificate {
	k.turn.Lock()
	defer k.turn.Unlock()
	cert, ok := k.certs[name]
	if !ok {
		cert, _ = readPublicKey(name).(*ssh.Certificate)
		k.certs[name] = cert
	}
	return cert
}

func samePub(a, b ssh.PublicKey) bool {
	return a != nil && b != nil && bytes.Equal(a.Marshal(), b.Marshal())
}
