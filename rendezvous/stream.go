package rendezvous

import (
	"bufio"
	"errors"
	"io"
)

// maxReplyLine bounds a reply's line, in which an error's text may be long.
const maxReplyLine = 16 << 10

// readRequest reads a request from a connection whose lines are at most r's buffer
// long. An *Error is the peer's mistake, after which the stream is not in step;
// any other error is the stream's.
func readRequest(r *bufio.Reader, epoch int) (Request, error) {
	line, err := readLine(r)
	if err != nil {
		return Request{}, err
	}
	q, n, err := parseRequestLine(line, epoch)
	if err == nil {
		q.Value, err = readValue(r, n)
	}
	return q, err
}

// readReply is readRequest for a reply.
func readReply(r *bufio.Reader) (Reply, error) {
	line, err := readLine(r)
	if err != nil {
		return Reply{}, err
	}
	p, n, err := parseReplyLine(line)
	if err == nil {
		p.Value, err = readValue(r, n)
	}
	return p, err
}

func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return nil, invalid("a line of more than %d bytes", r.Size())
	}
	if err != nil {
		return nil, err
	}
	return line[:len(line)-1], nil
}

func readValue(r *bufio.Reader, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	value := make([]byte, n)
	if _, err := io.ReadFull(r, value); err != nil {
		return nil, err
	}
	return value, nil
}

// endOfStream reports whether err is the end of a stream, in a message or between.
func endOfStream(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
