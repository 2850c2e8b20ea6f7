package bcast

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
)

// KeySize is the length of a job's key, in bytes.
const KeySize = 32

// ErrStranger is returned by Greet and Answer when the other end has not the job's key.
var ErrStranger = errors.New("is not of this job")

// Greet and Answer find out over a fresh connection whether the other end has the same
// key, which neither shows: each proves it by a MAC over the nonces of both. The roles
// are part of it, so that an answer cannot be had from the one who asks.
//
//	Greet                              Answer
//	                              ◄──  nonce
//	nonce, node, MAC("greet"…)    ──►
//	                              ◄──  MAC("answer"…)

const (
	nonceSize = 32
	nodeSize  = 4
)

// Greet is the part of the end that has connected, on behalf of a node.
func Greet(rw io.ReadWriter, key []byte, node int) error {
	theirs := make([]byte, nonceSize)
	if _, err := io.ReadFull(rw, theirs); err != nil {
		return err
	}
	ours := make([]byte, nonceSize, nonceSize+nodeSize+HashSize)
	rand.Read(ours)
	msg := binary.BigEndian.AppendUint32(ours, uint32(node))
	if _, err := rw.Write(append(msg, proof(key, "greet", theirs, msg)...)); err != nil {
		return err
	}
	answer := make([]byte, HashSize)
	if _, err := io.ReadFull(rw, answer); err != nil {
		return err
	}
	if !hmac.Equal(answer, proof(key, "answer", theirs, msg)) {
		return ErrStranger
	}
	return nil
}

// Answer is the part of the end that listens. It returns the other end's node. A
// stranger gets nothing but a nonce.
func Answer(rw io.ReadWriter, key []byte) (node int, err error) {
	ours := make([]byte, nonceSize)
	rand.Read(ours)
	if _, err := rw.Write(ours); err != nil {
		return 0, err
	}
	msg := make([]byte, nonceSize+nodeSize+HashSize)
	if _, err := io.ReadFull(rw, msg); err != nil {
		return 0, err
	}
	said, mac := msg[:nonceSize+nodeSize], msg[nonceSize+nodeSize:]
	if !hmac.Equal(mac, proof(key, "greet", ours, said)) {
		return 0, ErrStranger
	}
	_, err = rw.Write(proof(key, "answer", ours, said))
	return int(binary.BigEndian.Uint32(said[nonceSize:])), err
}

func proof(key []byte, role string, nonce, msg []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte("gorun " + role + "\x00"))
	h.Write(nonce)
	h.Write(msg)
	return h.Sum(nil)
}
