package cpu

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"gorun/backend"
)

// A control message is its type, the length of its body as two bytes, and its body.
type controlType byte

const (
	abortMessage  controlType = 1 // the communicator is dead: an abort as JSON
	byeMessage    controlType = 2 // the sender has closed it: the number of its calls, 8 bytes
	reportMessage controlType = 3 // to rank 0: the call that the sender has long been in
)

const (
	maxBody = 4 << 10
	maxText = 2 << 10 // of an error's text in an abort
)

// abort is why a communicator is dead. One field is set.
type abort struct {
	Mismatch *backend.MismatchError `json:"mismatch,omitempty"`
	Peer     *reason                `json:"peer,omitempty"`
	Abort    *reason                `json:"abort,omitempty"`
}

type reason struct {
	Rank int    `json:"rank"`
	Text string `json:"text"`
}

func frame(t controlType, body []byte) []byte {
	b := binary.BigEndian.AppendUint16([]byte{byte(t)}, uint16(len(body)))
	return append(b, body...)
}

func byeFrame(seq uint64) []byte { return frame(byeMessage, binary.BigEndian.AppendUint64(nil, seq)) }

func reportFrame(k call) []byte { return frame(reportMessage, k.append(nil)) }

// abortFrame says err, which is one of backend's types.
func abortFrame(err error) []byte {
	var a abort
	if e, ok := errors.AsType[*backend.MismatchError](err); ok {
		a.Mismatch = e
	} else if e, ok := errors.AsType[*backend.PeerError](err); ok {
		a.Peer = &reason{e.Rank, cut(e.Err.Error())}
	} else if e, ok := errors.AsType[*backend.AbortError](err); ok {
		a.Abort = &reason{e.Rank, cut(e.Err.Error())}
	}
	body, err := json.Marshal(a)
	if err != nil || len(body) > maxBody { // a text of characters that JSON makes longer
		body = []byte(`{}`)
	}
	return frame(abortMessage, body)
}

func cut(text string) string { return text[:min(len(text), maxText)] }

// parseAbort is the error that an abort's body says, for the communicator name;
// from is who sent it.
func parseAbort(body []byte, name string, from int) error {
	var a abort
	err := json.Unmarshal(body, &a)
	switch {
	case err == nil && a.Mismatch != nil:
		a.Mismatch.Comm = name
		return a.Mismatch
	case err == nil && a.Peer != nil:
		return &backend.PeerError{Comm: name, Rank: a.Peer.Rank, Err: errors.New(a.Peer.Text)}
	case err == nil && a.Abort != nil:
		return &backend.AbortError{Comm: name, Rank: a.Abort.Rank, Err: errors.New(a.Abort.Text)}
	}
	return &backend.AbortError{Comm: name, Rank: from, Err: errors.New("no reason given")}
}

// readControl reads one control message.
func readControl(r io.Reader) (controlType, []byte, error) {
	var head [3]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	t, n := controlType(head[0]), int(binary.BigEndian.Uint16(head[1:]))
	want := map[controlType]int{byeMessage: 8, reportMessage: callLen, abortMessage: n}
	if size, ok := want[t]; !ok || n != size || n > maxBody {
		return 0, nil, fmt.Errorf("control message of type %d, length %d", t, n)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return t, body, nil
}

// watch reads what p says on its control connection, until p closes the communicator
// or its connection ends, which is the end of p.
func (c *comm) watch(p *peer, conn net.Conn) {
	for {
		t, body, err := readControl(conn)
		switch {
		case err != nil:
			c.mourn(p, err)
			return
		case t == byeMessage:
			c.leave(p.rank, binary.BigEndian.Uint64(body))
			return
		case t == reportMessage:
			c.judge(p.rank, parseCall(body))
		case t == abortMessage:
			// p may not have told all others, and may not live to do so.
			c.fail(parseAbort(body, c.name, p.rank))
		}
	}
}

// mourn handles the end of p's control connection. p may have ended because it heard
// what killed the communicator, and before it had a connection to tell this rank: then
// others say it.
func (c *comm) mourn(p *peer, err error) {
	t := time.NewTimer(lastWords)
	defer t.Stop()
	select {
	case <-c.dead:
	case <-c.quit: // this rank has closed it
	case <-t.C:
		c.fail(&backend.PeerError{Comm: c.name, Rank: p.rank, Err: ended(err)})
	}
}

// ended says the end of a connection in words.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("its connection ended")
	}
	return err
}
