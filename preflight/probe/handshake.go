package probe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// A new connection proves itself before anything else is read from it:
//
//	dialer    hello: magic, its host, nonce
//	acceptor  answer: magic, its host, nonce, boot ID, and HMAC over "acceptor", hello and answer
//	dialer    HMAC over "dialer" and the same
//	acceptor  one byte: welcome
//
// The key is the job's secret, which never travels. The words keep either side from
// answering with what it was sent. The acceptor says nothing to who does not begin with
// the magic.

const (
	magic     = "gorun probe 1\n"
	nonceLen  = 16
	helloLen  = len(magic) + 4 + nonceLen
	answerLen = len(magic) + 4 + nonceLen + 1 // and the boot ID and the proof
	maxBoot   = 64
	welcome   = 1
)

var (
	errStranger = errors.New("not a probe of this job")
	errNoSecret = errors.New("the job has no secret")
)

// Identity is who answers at a listener.
type Identity struct {
	Host int    // its index in the job, from 0
	Boot string // the machine's boot ID, or "": at most 64 bytes count
}

// proof returns the HMAC by which role shows that it knows the secret.
func proof(secret []byte, role string, hello, answer []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, part := range [][]byte{[]byte(role), hello, answer} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// opening returns the bytes that a hello and an answer begin with, with a new nonce.
func opening(host int) []byte {
	b := binary.BigEndian.AppendUint32([]byte(magic), uint32(host))
	nonce := make([]byte, nonceLen)
	rand.Read(nonce)
	return append(b, nonce...)
}

// admit is the acceptor's part. It reads no more than the handshake has. The
// connection's deadline bounds it.
func admit(conn io.ReadWriter, secret []byte, self Identity) error {
	hello := make([]byte, helloLen)
	if _, err := io.ReadFull(conn, hello[:len(magic)]); err != nil {
		return err
	}
	if string(hello[:len(magic)]) != magic {
		return errStranger
	}
	if _, err := io.ReadFull(conn, hello[len(magic):]); err != nil {
		return err
	}
	boot := self.Boot[:min(len(self.Boot), maxBoot)]
	answer := append(append(opening(self.Host), byte(len(boot))), boot...)
	if _, err := conn.Write(append(answer[:len(answer):len(answer)], proof(secret, "acceptor", hello, answer)...)); err != nil {
		return err
	}
	var theirs [sha256.Size]byte
	if _, err := io.ReadFull(conn, theirs[:]); err != nil {
		return err
	}
	if !hmac.Equal(theirs[:], proof(secret, "dialer", hello, answer)) {
		return errStranger
	}
	_, err := conn.Write([]byte{welcome})
	return err
}

// greet is the dialer's part, and returns who has answered. Its errors are faults. The
// connection's deadline bounds it.
func greet(conn io.ReadWriter, secret []byte, self int) (Identity, error) {
	hello := opening(self)
	if _, err := conn.Write(hello); err != nil {
		return Identity{}, endFault(err, nil)
	}
	answer := make([]byte, answerLen, answerLen+maxBoot+sha256.Size)
	if n, err := io.ReadFull(conn, answer[:len(magic)]); err != nil {
		return Identity{}, endFault(err, answer[:n])
	}
	if string(answer[:len(magic)]) != magic {
		return Identity{}, strangerFault(answer[:len(magic)])
	}
	if _, err := io.ReadFull(conn, answer[len(magic):]); err != nil {
		return Identity{}, endFault(err, answer[:len(magic)])
	}
	length := int(answer[answerLen-1])
	if length > maxBoot {
		return Identity{}, strangerFault(nil)
	}
	rest := answer[answerLen : answerLen+length+sha256.Size]
	if _, err := io.ReadFull(conn, rest); err != nil {
		return Identity{}, endFault(err, answer[:len(magic)])
	}
	answer = answer[:answerLen+length]
	if !hmac.Equal(rest[length:], proof(secret, "acceptor", hello, answer)) {
		return Identity{}, strangerFault(nil)
	}
	if _, err := conn.Write(proof(secret, "dialer", hello, answer)); err != nil {
		return Identity{}, endFault(err, nil)
	}
	var last [1]byte
	if _, err := io.ReadFull(conn, last[:]); err != nil {
		return Identity{}, endFault(err, nil)
	}
	who := Identity{int(binary.BigEndian.Uint32(answer[len(magic):])), string(rest[:length])}
	return who, nil
}

// strangerFault tells what a stranger has said, if anything.
func strangerFault(said []byte) error {
	if len(said) == 0 {
		return faultf(Stranger, "who answers does not know this job's secret")
	}
	return faultf(Stranger, "who answers is not of this job and says %q", said)
}

// endFault tells how a connection ended that had been accepted, before its other end had
// proved itself and after it had said something.
func endFault(err error, said []byte) error {
	switch {
	case len(said) > 0:
		return strangerFault(said)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return faultf(Silent, "the connection was accepted, and then nothing was said")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed):
		return faultf(Closed, "the connection was accepted and closed without an answer")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return faultf(Reset, "the connection was accepted and reset without an answer")
	}
	return faultf(Other, "the connection was accepted, then: %v", err)
}
