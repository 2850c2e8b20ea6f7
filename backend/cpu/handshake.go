package cpu

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// A new connection proves itself before anything else is read from it:
//
//	dialer    hello: magic, lane, its rank, the rank it wants, nonce
//	acceptor  nonce, HMAC over "acceptor", hello, nonce and the communicator
//	dialer    HMAC over "dialer" and the same
//	acceptor  one byte: welcome
//
// The key is the job's secret, which never travels. The words keep either side from
// answering with what it was sent.

// handshakeTimeout is how long a new connection has to prove itself.
const handshakeTimeout = 5 * time.Second

const (
	magic    = "gorun cpu mesh 1"
	nonceLen = 16
	helloLen = len(magic) + 1 + 4 + 4 + nonceLen
	welcome  = 1
)

// lane says what a connection is for.
type lane byte

const (
	dataLane    lane = 1
	controlLane lane = 2
)

// hello is the dialer's first message.
type hello struct {
	lane     lane
	from, to uint32
	nonce    [nonceLen]byte
}

func (h hello) append(b []byte) []byte {
	b = append(append(b, magic...), byte(h.lane))
	b = binary.BigEndian.AppendUint32(b, h.from)
	b = binary.BigEndian.AppendUint32(b, h.to)
	return append(b, h.nonce[:]...)
}

// parseHello reads a hello of helloLen bytes.
func parseHello(b []byte) (hello, error) {
	if len(b) != helloLen || string(b[:len(magic)]) != magic {
		return hello{}, errors.New("not a rank")
	}
	b = b[len(magic):]
	h := hello{lane: lane(b[0]), from: binary.BigEndian.Uint32(b[1:]), to: binary.BigEndian.Uint32(b[5:])}
	copy(h.nonce[:], b[9:])
	if h.lane != dataLane && h.lane != controlLane {
		return hello{}, fmt.Errorf("no lane %d", h.lane)
	}
	return h, nil
}

// errProof is returned by greet when who answers does not know the secret.
var errProof = errors.New("it does not know this job's secret")

// keys makes proofs for the connections of one communicator.
type keys struct {
	secret []byte
	comm   string // its name, epoch and size
}

func (k keys) proof(role string, hello []byte, nonce []byte) []byte {
	mac := hmac.New(sha256.New, k.secret)
	for _, part := range [][]byte{[]byte(role), hello, nonce, []byte(k.comm)} {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part))))
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// greet is the dialer's part. The connection's deadline bounds it.
func (k keys) greet(conn net.Conn, h hello) error {
	rand.Read(h.nonce[:])
	first := h.append(nil)
	if _, err := conn.Write(first); err != nil {
		return err
	}
	var answer [nonceLen + sha256.Size]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return err
	}
	nonce, proof := answer[:nonceLen], answer[nonceLen:]
	if !hmac.Equal(proof, k.proof("acceptor", first, nonce)) {
		return errProof
	}
	if _, err := conn.Write(k.proof("dialer", first, nonce)); err != nil {
		return err
	}
	var last [1]byte
	if _, err := io.ReadFull(conn, last[:]); err != nil {
		return err
	}
	if last[0] != welcome {
		return errProof
	}
	return nil
}

// admit is the acceptor's part, for this rank of size. It writes nothing to who does
// not speak first as a rank would.
func (k keys) admit(conn net.Conn, rank, size int) (hello, error) {
	first := make([]byte, helloLen)
	if _, err := io.ReadFull(conn, first[:len(magic)]); err != nil {
		return hello{}, err
	}
	if string(first[:len(magic)]) != magic {
		return hello{}, errors.New("not a rank")
	}
	if _, err := io.ReadFull(conn, first[len(magic):]); err != nil {
		return hello{}, err
	}
	h, err := parseHello(first)
	if err != nil {
		return hello{}, err
	}
	if int64(h.from) >= int64(size) || int(h.from) <= rank || int(h.to) != rank {
		return hello{}, fmt.Errorf("rank %d asks for rank %d", h.from, h.to)
	}
	nonce := make([]byte, nonceLen)
	rand.Read(nonce)
	if _, err := conn.Write(append(nonce, k.proof("acceptor", first, nonce)...)); err != nil {
		return hello{}, err
	}
	var proof [sha256.Size]byte
	if _, err := io.ReadFull(conn, proof[:]); err != nil {
		return hello{}, err
	}
	if !hmac.Equal(proof[:], k.proof("dialer", first, nonce)) {
		return hello{}, errProof
	}
	_, err = conn.Write([]byte{welcome})
	return h, err
}
