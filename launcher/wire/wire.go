// Package wire defines the frames and messages between head and agent.
//
// A link is one byte stream in each direction. The agent starts it with a line
// that holds a nonce the head chose (see Hail), so that a login banner is never
// read as a message. After that both sides send frames: kind, flags, length,
// stream, payload. Control messages are JSON, in which arguments, environment,
// paths and names are bytes (base64); output and stdin are raw and sent only
// against credit. Wire knows nothing of ssh or of processes.
package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Version is the protocol's number; it is part of the agent's first line.
// Head and agent are the same binary, so they differ only after a mistake.
const Version = 1

// Kind says what a frame's payload is.
type Kind uint8

// The kinds of frame. Control, Store and Heartbeat need no credit and go first.
const (
	Control   Kind = 1 // a Message as JSON
	Output    Kind = 2 // bytes of a rank's stdout or stderr; an empty payload is end of file
	Stdin     Kind = 3 // bytes for a rank's stdin; an empty payload is end of file
	Credit    Kind = 4 // a big-endian uint32: so many more bytes may be sent on Stream
	Heartbeat Kind = 5 // empty
	Store     Kind = 6 // a rendezvous request (agent to head) or reply (head to agent)
	Content   Kind = 7 // bytes of what a Want asks for; Stream is the file's number
)

// MaxPayload is the largest payload of one frame, in bytes. Longer control and
// store messages are cut into several frames and put together by Read; longer output
// and stdin comes as several frames.
const MaxPayload = 32 << 10

// FileStream is the stream of the credit for Content frames. No rank has that number.
const FileStream = 1<<32 - 1

// Limits of a reassembled control or store message, in bytes. A plan may be long; what
// an agent says is short, and a hostile one must not make the head hold much.
const (
	MaxMessage = 64 << 20 // to an agent
	MaxReport  = 1 << 20  // to the head
)

const (
	headerLen = 8
	flagMore  = 1 // the message goes on in the next frame of this kind
)

// Stream numbers: a global rank and which of its streams.
const (
	In  = 0
	Out = 1
	Err = 2
)

// StreamID names stream which (In, Out or Err) of a rank.
func StreamID(rank, which int) uint32 { return uint32(rank)<<2 | uint32(which) }

// SplitStream is the inverse of StreamID.
func SplitStream(id uint32) (rank, which int) { return int(id >> 2), int(id & 3) }

// Frame is one message unit. Stream is 0 for Control, Heartbeat and Store.
type Frame struct {
	Kind    Kind
	Stream  uint32
	Payload []byte
}

// ErrTooLong is returned by Encode for a message longer than MaxMessage, and by
// Reader.Read when a peer sends one beyond the Reader's limit.
var ErrTooLong = errors.New("wire: message too long")

// Reader reads frames from a stream. It is not safe for concurrent use.
type Reader struct {
	r      io.Reader
	header [headerLen]byte
	buf    []byte          // payload of the last frame
	part   map[Kind][]byte // messages not yet whole
	limit  int             // of a message's length
}

// NewReader returns a Reader on r that takes messages of up to limit bytes. It reads no
// further ahead than a frame's end unless r itself buffers.
func NewReader(r io.Reader, limit int) *Reader {
	return &Reader{r: r, part: map[Kind][]byte{}, limit: limit}
}

// Read returns the next frame; control and store messages come whole. The payload
// is valid until the next call. It returns io.EOF only between messages,
// io.ErrUnexpectedEOF inside one, and an error for anything that is no frame, after
// which the stream is of no more use.
func (r *Reader) Read() (Frame, error) {
	for {
		f, more, err := r.next()
		if err == io.EOF && len(r.part) > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return Frame{}, err
		}
		part, ok := r.part[f.Kind]
		if !more && !ok {
			return f, nil
		}
		if len(part)+len(f.Payload) > r.limit {
			return Frame{}, ErrTooLong
		}
		part = append(part, f.Payload...)
		if more {
			r.part[f.Kind] = part
			continue
		}
		delete(r.part, f.Kind)
		f.Payload = part
		return f, nil
	}
}

func (r *Reader) next() (f Frame, more bool, err error) {
	if _, err := io.ReadFull(r.r, r.header[:]); err != nil {
		return Frame{}, false, err
	}
	f.Kind = Kind(r.header[0])
	flags := r.header[1]
	n := int(binary.BigEndian.Uint16(r.header[2:]))
	f.Stream = binary.BigEndian.Uint32(r.header[4:])
	if err := checkHeader(f, flags, n); err != nil {
		return Frame{}, false, err
	}
	if cap(r.buf) < n {
		r.buf = make([]byte, max(n, 512))
	}
	f.Payload = r.buf[:n]
	if _, err := io.ReadFull(r.r, f.Payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return Frame{}, false, err
	}
	return f, flags&flagMore != 0, nil
}

// whole reports whether frames of this kind are parts of one message.
func (k Kind) whole() bool { return k == Control || k == Store }

func checkHeader(f Frame, flags byte, n int) error {
	switch k := f.Kind; {
	case k < Control || k > Content:
		return fmt.Errorf("wire: unknown frame kind %d", k)
	case flags&^flagMore != 0 || (flags != 0 && !k.whole()):
		return fmt.Errorf("wire: bad flags %#x in a frame of kind %d", flags, k)
	case n > MaxPayload:
		return fmt.Errorf("wire: frame of %d bytes; the limit is %d", n, MaxPayload)
	case k == Credit && n != 4 || k == Heartbeat && n != 0:
		return fmt.Errorf("wire: frame of kind %d with %d bytes", k, n)
	case f.Stream != 0 && (k.whole() || k == Heartbeat):
		return fmt.Errorf("wire: frame of kind %d for stream %d", k, f.Stream)
	}
	return nil
}

// appendFrame adds f to b, cut into as many frames as its payload needs.
func appendFrame(b []byte, f Frame) []byte {
	for more := true; more; {
		b, f.Payload, more = appendPart(b, f)
	}
	return b
}

// appendPart adds a frame of as much of f as there may be in one. It returns the payload
// that is left, and whether there is any.
func appendPart(b []byte, f Frame) (with, rest []byte, more bool) {
	n, flags := min(len(f.Payload), MaxPayload), byte(0)
	if more = n < len(f.Payload); more && f.Kind.whole() {
		flags = flagMore
	}
	b = append(b, byte(f.Kind), flags, byte(n>>8), byte(n))
	b = binary.BigEndian.AppendUint32(b, f.Stream)
	return append(b, f.Payload[:n]...), f.Payload[n:], more
}

// CreditFrame grants n more bytes on stream.
func CreditFrame(stream uint32, n int) Frame {
	return Frame{Credit, stream, binary.BigEndian.AppendUint32(nil, uint32(n))}
}

// CreditOf returns the bytes that a Credit frame grants.
func CreditOf(f Frame) int { return int(binary.BigEndian.Uint32(f.Payload)) }

// Encode makes a control frame of m, in which exactly one field must be set.
func Encode(m Message) (Frame, error) { return encode(m, MaxMessage) }

func encode(m Message, limit int) (Frame, error) {
	name, field, err := m.only()
	if err != nil {
		return Frame{}, err
	}
	p, err := json.Marshal(field)
	if err != nil {
		return Frame{}, fmt.Errorf("wire: %w", err)
	}
	p = slices.Concat([]byte(opening+name+naming), p, []byte(closing))
	if len(p) > limit {
		return Frame{}, ErrTooLong
	}
	return Frame{Kind: Control, Payload: p}, nil
}

// A control frame is a JSON object of one name, set in these. Encode and Decode leave to
// encoding/json only what the name stands for: given a Message it would first find out
// how to write every type that any message has, which a host's agent would pay for at
// each start.
const opening, naming, closing = `{"`, `":`, `}`

// Decode reads a control frame's message. A message in which no known field is
// set, or more than one, is an error.
func Decode(f Frame) (m Message, err error) {
	name, value, ok := cutMessage(f.Payload)
	if !ok {
		return m, errors.New("wire: bad control message: it is not an object of one name")
	}
	for t, v := range reflect.ValueOf(&m).Elem().Fields() {
		if nameOf(t) != name {
			continue
		}
		if err := json.Unmarshal(value, v.Addr().Interface()); err != nil {
			return m, fmt.Errorf("wire: bad control message: %w", err)
		}
	}
	_, _, err = m.only()
	return m, err
}

// cutMessage takes the name and what it stands for out of a control frame's payload.
func cutMessage(p []byte) (name string, value []byte, ok bool) {
	if p, ok = bytes.CutPrefix(p, []byte(opening)); !ok {
		return "", nil, false
	}
	before, after, ok := bytes.Cut(p, []byte(naming))
	if !ok {
		return "", nil, false
	}
	value, ok = bytes.CutSuffix(after, []byte(closing))
	return string(before), value, ok
}

// only returns the one field that is set, and its name on the wire.
func (m Message) only() (name string, field any, err error) {
	set := 0
	for t, v := range reflect.ValueOf(m).Fields() {
		if !v.IsNil() {
			name, field = nameOf(t), v.Interface()
			set++
		}
	}
	switch set {
	case 0:
		return "", nil, errors.New("wire: control message of an unknown kind")
	case 1:
		return name, field, nil
	}
	return "", nil, fmt.Errorf("wire: control message of %d kinds", set)
}

// nameOf is the name of a Message's field on the wire.
func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
