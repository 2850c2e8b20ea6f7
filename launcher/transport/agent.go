package transport

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// sshAgent is a running ssh-agent. It may hang, as a card reader does that waits for its
// owner: what is asked of it is waited for only as long as the caller wants.
type sshAgent struct {
	socket string
	limit  time.Duration
	keys   func() ([]*identity, error) // asks once

	wg sync.WaitGroup // exchanges with it

	mu   sync.Mutex
	conn net.Conn // guarded by mu
}

func newAgent(socket string, limit time.Duration) *sshAgent {
	a := &sshAgent{socket: socket, limit: limit}
	a.keys = sync.OnceValues(a.list)
	return a
}

func (a *sshAgent) close() {
	a.mu.Lock()
	if a.conn != nil {
		a.conn.Close()
	}
	a.mu.Unlock()
	a.wg.Wait()
}

// ask runs an exchange: it returns when that is done or ctx ends.
func (a *sshAgent) ask(ctx context.Context, exchange func() error) error {
	done := make(chan error, 1)
	a.wg.Go(func() { done <- exchange() })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// list connects and lists the keys. An agent that does not answer in time is not asked again.
func (a *sshAgent) list() ([]*identity, error) {
	if a.socket == "" {
		return nil, nil
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), a.limit, fmt.Errorf("no answer in %v", a.limit))
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", a.socket)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	a.conn = conn
	a.mu.Unlock()
	var signers []ssh.Signer // not to be read after an error
	err = a.ask(ctx, func() (err error) {
		signers, err = agent.NewClient(conn).Signers()
		return err
	})
	if err != nil {
		conn.Close()
		return nil, err
	}
	var ids []*identity
	for _, s := range signers {
		ids = append(ids, agentIdentity(&agentKey{a, s}))
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
	agent *sshAgent
	ssh.Signer
}

func (k *agentKey) sign(ctx context.Context, rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	var sig *ssh.Signature // not to be read after an error: it may still be written to
	err := k.agent.ask(ctx, func() (err error) {
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
