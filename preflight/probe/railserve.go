package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The dialer of a proved connection may also ask for the other end of a program of
// perftest. Behind such a request, and behind its answer, there are as many bytes of JSON
// as its number a says. The program lives no longer than the connection.
const (
	opServe  byte = 4 // serving; answered with served when the program listens, or cannot
	opServed byte = 5 // null; ends the program, and is answered with served
)

// readJSON reads a value of so many bytes.
func readJSON(r io.Reader, length uint64, value any) error {
	if length > maxServing {
		return errors.New("too long")
	}
	text := make([]byte, length)
	if _, err := io.ReadFull(r, text); err != nil {
		return err
	}
	return json.Unmarshal(text, value)
}

func answerJSON(conn net.Conn, op byte, value served) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = conn.Write(append(request{op: op, a: uint64(len(text))}.append(nil), text...))
	return err
}

// rail starts a program that conn asks for, says where it listens, and ends it when conn
// asks for that, or ends.
func (l *Listener) rail(conn net.Conn, length uint64) error {
	var ask serving
	if err := readJSON(conn, length, &ask); err != nil {
		return err
	}
	if err := ask.check(); err != nil {
		return err
	}
	conn.SetDeadline(time.Now().Add(listenLimit + idle))
	p, tcp, failure := l.listening(ask, find(ask.Program))
	if failure != nil {
		return answerJSON(conn, opServe, *failure)
	}
	defer p.end()
	if err := answerJSON(conn, opServe, served{TCP: tcp}); err != nil {
		return err
	}
	conn.SetDeadline(time.Now().Add(railLimit + idle))
	r, err := readRequest(conn)
	if err != nil {
		return err
	}
	if r.op != opServed {
		return errors.New("it asks for something else than the end")
	}
	var null any
	if err := readJSON(conn, r.a, &null); err != nil {
		return err
	}
	// It may be about to say what is wrong.
	soon, cancel := context.WithTimeout(l.ctx, killWait)
	defer cancel()
	p.Wait(soon)
	var end served
	if text := p.end(); text != "" {
		end.Text, end.Failure = complaint(text)
	}
	return answerJSON(conn, opServed, end)
}

// deviceName is what the kernel calls RDMA devices. It is compiled when it is needed
// first: most hosts have none.
var deviceName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}$`) })

// check refuses what no probe asks for.
func (s serving) check() error {
	p := s.Port
	known := s.Program == programBandwidth || s.Program == programLatency
	if !known || !deviceName().MatchString(p.Device) || p.Port < 1 || p.Port > 255 || p.GID > 1<<16 || p.SL < 0 || p.SL > 15 || p.TClass < 0 || p.TClass > 255 {
		return errors.New("there is no such program or device")
	}
	return nil
}

// listening starts a program, which is at path, and returns when it listens at a port, or
// the reason why it does not. It tries again if somebody has been faster to take the port.
func (l *Listener) listening(ask serving, path string) (program, uint16, *served) {
	if path == "" {
		return program{}, 0, &served{Failure: NoProgram, Text: ask.Program + " is not installed"}
	}
	var failure served
	for range 3 {
		tcp, err := freePort(ask.Six)
		if err != nil {
			return program{}, 0, &served{Failure: Other, Text: oneLine(err.Error(), maxComplaint)}
		}
		p := start(path, perftestArgs(ask.Program, ask.Port, tcp, ask.Six)...)
		if l.hears(p, tcp) {
			return p, tcp, nil
		}
		line, kind := complaint(p.end())
		if line == "" {
			line = fmt.Sprintf("it did not listen within %v", listenLimit)
		}
		failure = served{Failure: kind, Text: ask.Program + ": " + line}
		if kind != Other || l.ctx.Err() != nil || !strings.Contains(line, "listen to port") {
			break
		}
	}
	return program{}, 0, &failure
}

// hears returns whether a program listens at a port before it ends, or its limit is over.
func (l *Listener) hears(p program, tcp uint16) bool {
	limited, cancel := context.WithTimeout(l.ctx, listenLimit)
	defer cancel()
	for !isListening(tcp) {
		select {
		case <-p.Done():
			return false
		default:
		}
		if !pause(limited, 10*time.Millisecond) {
			return false
		}
	}
	return true
}

// freePort returns a port that nobody listens at, now.
func freePort(six bool) (uint16, error) {
	network := "tcp4"
	if six {
		network = "tcp6"
	}
	lis, err := net.Listen(network, ":0")
	if err != nil {
		return 0, err
	}
	defer lis.Close()
	return uint16(lis.Addr().(*net.TCPAddr).Port), nil
}

// isListening reports whether anybody listens at a port, without connecting to it: a
// program of perftest takes the first connection for its other end.
func isListening(tcp uint16) bool {
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if text, err := os.ReadFile(file); err == nil && listensIn(string(text), tcp) {
			return true
		}
	}
	return false
}

// listensIn looks a port up in /proc/net/tcp.
func listensIn(text string, tcp uint16) bool {
	const listen = "0A" // TCP_LISTEN
	for line := range strings.Lines(text) {
		cells := strings.Fields(line)
		if len(cells) < 4 || cells[3] != listen {
			continue
		}
		_, hex, _ := strings.Cut(cells[1], ":")
		if n, err := strconv.ParseUint(hex, 16, 16); err == nil && uint16(n) == tcp {
			return true
		}
	}
	return false
}
