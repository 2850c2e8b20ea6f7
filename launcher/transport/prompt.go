package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/crypto/ssh"
)

const passphraseTries = 3

// prompts asks the user, one question at a time. The time that the user takes is a recess:
// it is not charged to the hosts.
type prompts struct {
	ask func(prompt string) ([]byte, error)

	turn   sync.Mutex // held while a question is asked
	recess recess
}

func (p *prompts) question(text string) ([]byte, error) {
	p.recess.begin()
	defer p.recess.end()
	return p.ask(text)
}

// lockedKey is an encrypted key file. It is decrypted when the first server wants its
// signature, by one question for all hosts.
type lockedKey struct {
	prompts *prompts
	file    string
	data    []byte

	once   sync.Once
	done   chan struct{} // closed when signer and err are set
	signer ssh.Signer
	err    error
}

// unlock returns the decrypted key. It blocks until the user has answered, or ctx ends.
func (k *lockedKey) unlock(ctx context.Context) (ssh.Signer, error) {
	k.once.Do(func() {
		// The user may never answer: no dial, and no Close, waits for this goroutine.
		go func() {
			k.signer, k.err = k.decrypt()
			close(k.done)
		}()
	})
	select {
	case <-k.done:
		return k.signer, k.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (k *lockedKey) decrypt() (ssh.Signer, error) {
	k.prompts.turn.Lock()
	defer k.prompts.turn.Unlock()
	text := fmt.Sprintf("Enter passphrase for key '%s': ", cleanLine(k.file, 200))
	var err error
	for range passphraseTries {
		var pass []byte
		if pass, err = k.prompts.question(text); err != nil {
			return nil, fmt.Errorf("passphrase: %w", err)
		}
		if len(pass) == 0 {
			return nil, errors.New("no passphrase was given")
		}
		var signer ssh.Signer
		signer, err = ssh.ParsePrivateKeyWithPassphrase(k.data, pass)
		clear(pass)
		if err == nil {
			return signer, nil
		}
		text = fmt.Sprintf("Wrong passphrase. Enter passphrase for key '%s': ", cleanLine(k.file, 200))
	}
	if errors.Is(err, x509.IncorrectPasswordError) {
		return nil, errors.New("the passphrase was wrong")
	}
	return nil, fmt.Errorf("the passphrase was wrong: %w", err) // with old formats any error may mean that
}
