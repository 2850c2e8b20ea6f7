package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// raw makes one frame as it is on the stream.
func raw(kind, flags byte, stream uint32, n int, payload string) string {
	b := []byte{kind, flags, byte(n >> 8), byte(n)}
	return string(binary.BigEndian.AppendUint32(b, stream)) + payload
}

// readAll reads every frame of s, with payloads copied, and the error at its end.
func readAll(r io.Reader) (frames []Frame, err error) {
	fr := NewReader(r, MaxMessage)
	for {
		f, err := fr.Read()
		if err != nil {
			return frames, err
		}
		f.Payload = bytes.Clone(f.Payload)
		frames = append(frames, f)
	}
}

// differ says where got is not want, or nothing.
func differ(want, got []Frame) string {
	for i := range min(len(want), len(got)) {
		w, g := want[i], got[i]
		if w.Kind != g.Kind || w.Stream != g.Stream || !bytes.Equal(w.Payload, g.Payload) {
			return fmt.Sprintf("frame %d: got kind %d, stream %d, %d bytes %.20q; want kind %d, stream %d, %d bytes %.20q",
				i, g.Kind, g.Stream, len(g.Payload), g.Payload, w.Kind, w.Stream, len(w.Payload), w.Payload)
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("got %d frames; want %d", len(got), len(want))
	}
	return ""
}

func long(n int) []byte { return bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n] }

func TestFrames(t *testing.T) {
	tests := []struct {
		name   string
		in     Frame
		want   []Frame // nil: the same as in
		length int     // on the stream
	}{
		{name: "empty-output", in: Frame{Output, StreamID(5, Out), []byte{}}, length: 8},
		{name: "stdin", in: Frame{Stdin, StreamID(5, In), []byte("\x00\xff\n")}, length: 11},
		{name: "heartbeat", in: Frame{Heartbeat, 0, []byte{}}, length: 8},
		{name: "credit", in: CreditFrame(StreamID(1<<29, Err), 1<<32-1), length: 12},
		{name: "control", in: Frame{Control, 0, []byte("{}")}, length: 10},
		{name: "control-of-one-frame", in: Frame{Control, 0, long(MaxPayload)}, length: 8 + MaxPayload},
		{name: "control-of-two-frames", in: Frame{Control, 0, long(MaxPayload + 1)}, length: 16 + MaxPayload + 1},
		{name: "store-of-many-frames", in: Frame{Store, 0, long(5*MaxPayload - 1)}, length: 40 + 5*MaxPayload - 1},
		{name: "output-of-one-frame", in: Frame{Output, 6, long(MaxPayload)}, length: 8 + MaxPayload},
		{name: "output-of-two-frames", in: Frame{Output, 6, long(MaxPayload + 5)}, length: 16 + MaxPayload + 5,
			want: []Frame{{Output, 6, long(MaxPayload)}, {Output, 6, long(MaxPayload + 5)[MaxPayload:]}}},
		{name: "stdin-of-two-full-frames", in: Frame{Stdin, 4, long(2 * MaxPayload)}, length: 16 + 2*MaxPayload,
			want: []Frame{{Stdin, 4, long(2 * MaxPayload)[:MaxPayload]}, {Stdin, 4, long(2 * MaxPayload)[MaxPayload:]}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := appendFrame(nil, tt.in)
			if len(b) != tt.length {
				t.Errorf("got %d bytes; want %d", len(b), tt.length)
			}
			want := tt.want
			if want == nil {
				want = []Frame{tt.in}
			}
			for name, r := range map[string]io.Reader{"at-once": bytes.NewReader(b), "byte-by-byte": iotest.OneByteReader(bytes.NewReader(b)), "with-end": iotest.DataErrReader(bytes.NewReader(b))} {
				got, err := readAll(r)
				if err != io.EOF {
					t.Errorf("%s: got error %v; want EOF", name, err)
				}
				if d := differ(want, got); d != "" {
					t.Errorf("%s: %s", name, d)
				}
			}
			for cut := 1; cut < len(b); cut += 1 + len(b)/20 {
				whole := 0
				for _, f := range want[:len(want)-1] {
					whole += 8 + len(f.Payload)
				}
				if cut == whole {
					continue // a cut between frames that are no parts of a message
				}
				if _, err := readAll(bytes.NewReader(b[:cut])); err != io.ErrUnexpectedEOF {
					t.Errorf("cut at %d: got error %v; want unexpected EOF", cut, err)
				}
			}
		})
	}
}

// TestCutMessage: the end of the stream between two frames of one message is not a
// clean end.
func TestCutMessage(t *testing.T) {
	b := appendFrame(nil, Frame{Control, 0, long(MaxPayload + 1)})[:8+MaxPayload]
	if _, err := readAll(bytes.NewReader(b)); err != io.ErrUnexpectedEOF {
		t.Errorf("got error %v; want unexpected EOF", err)
	}
}

// TestMixedParts: other frames may come between those of one message.
func TestMixedParts(t *testing.T) {
	s := raw(1, 1, 0, 2, "ab") + raw(6, 1, 0, 1, "x") + raw(5, 0, 0, 0, "") + raw(2, 0, 9, 3, "out") + raw(1, 1, 0, 0, "") + raw(1, 0, 0, 1, "c") + raw(6, 0, 0, 0, "") + raw(1, 0, 0, 1, "d")
	got, err := readAll(strings.NewReader(s))
	if err != io.EOF {
		t.Errorf("got error %v; want EOF", err)
	}
	want := []Frame{{Heartbeat, 0, []byte{}}, {Output, 9, []byte("out")}, {Control, 0, []byte("abc")}, {Store, 0, []byte("x")}, {Control, 0, []byte("d")}}
	if d := differ(want, got); d != "" {
		t.Error(d)
	}
}

func TestBadFrames(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"kind-0", raw(0, 0, 0, 0, ""), "unknown frame kind 0"},
		{"kind-8", raw(8, 0, 0, 0, ""), "unknown frame kind 8"},
		{"text", "Last login: Mon May 4 from 10.0.0.1\n", "unknown frame kind 76"},
		{"unknown-flag", raw(1, 2, 0, 0, ""), "bad flags 0x2"},
		{"output-in-parts", raw(2, 1, 5, 0, ""), "bad flags 0x1"},
		{"too-long", raw(2, 0, 5, MaxPayload+1, ""), "frame of 32769 bytes; the limit is 32768"},
		{"long-heartbeat", raw(5, 0, 0, 1, "x"), "kind 5 with 1 bytes"},
		{"short-credit", raw(4, 0, 5, 3, "abc"), "kind 4 with 3 bytes"},
		{"long-credit", raw(4, 0, 5, 5, "abcde"), "kind 4 with 5 bytes"},
		{"control-of-a-stream", raw(1, 0, 1, 2, "{}"), "kind 1 for stream 1"},
		{"store-of-a-stream", raw(6, 0, 1, 2, "{}"), "kind 6 for stream 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := readAll(strings.NewReader(tt.in))
			if len(got) > 0 || err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, error %v; want an error with %q", got, err, tt.want)
			}
		})
	}
}

// endless is a peer that sends one message for ever.
type endless struct {
	frame []byte
	at    int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.frame[e.at:])
	e.at = (e.at + n) % len(e.frame)
	return n, nil
}

func TestTooLong(t *testing.T) {
	for _, limit := range []int{3 * MaxPayload, MaxReport} {
		e := &endless{frame: []byte(raw(6, 1, 0, MaxPayload, string(long(MaxPayload))))}
		if _, err := NewReader(e, limit).Read(); err != ErrTooLong {
			t.Errorf("Read: got error %v; want %v", err, ErrTooLong)
		}
		if _, err := NewReader(bytes.NewReader(appendFrame(nil, Frame{Store, 0, long(limit)})), limit).Read(); err != nil {
			t.Errorf("a message at the limit: got error %v; want nil", err)
		}
	}
	m := Message{Stop: &Stop{}}
	if _, err := encode(m, len(`{"stop":{"grace":0}}`)); err != nil {
		t.Errorf("a message at the limit: got error %v; want nil", err)
	}
	if _, err := encode(m, len(`{"stop":{"grace":0}}`)-1); err != ErrTooLong {
		t.Errorf("a message above the limit: got error %v; want %v", err, ErrTooLong)
	}
}

// TestReadNoFurther: what comes after a frame is left to whoever reads next.
func TestReadNoFurther(t *testing.T) {
	r := strings.NewReader(raw(2, 0, 5, 2, "ab") + "rest")
	if f, err := NewReader(r, MaxReport).Read(); err != nil || string(f.Payload) != "ab" {
		t.Fatalf("got %v, %v; want the payload ab", f, err)
	}
	if rest, _ := io.ReadAll(r); string(rest) != "rest" {
		t.Errorf("got %q left; want rest", rest)
	}
}

func TestReadError(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"", "\x02", raw(2, 0, 5, 3, "a")} {
		if _, err := NewReader(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken)), MaxReport).Read(); err != broken {
			t.Errorf("after %q: got error %v; want %v", in, err, broken)
		}
	}
}

func TestStreamID(t *testing.T) {
	for _, rank := range []int{0, 1, 9999, 1<<30 - 1} {
		for _, which := range []int{In, Out, Err} {
			if r, w := SplitStream(StreamID(rank, which)); r != rank || w != which {
				t.Errorf("rank %d stream %d: got %d, %d back", rank, which, r, w)
			}
		}
	}
}

func TestHail(t *testing.T) {
	if got, want := Hail("0123456789abcdef"), "@gorun-0123456789abcdef agent 1"; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
}

func TestCredit(t *testing.T) {
	f := CreditFrame(StreamID(3, Err), 70_000)
	if got := CreditOf(f); got != 70_000 || f.Stream != StreamID(3, Err) || f.Kind != Credit {
		t.Errorf("got %v with credit %d; want 70000 for rank 3", f, got)
	}
}

// addrs has addresses compared as values.
var addrs = cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})

// messages is one of each kind.
var messages = map[string]Message{
	"hello":    {Hello: &Hello{PID: 1, Hostname: "n", Interfaces: []Interface{{"eth0", []string{"10.0.0.1"}}}}},
	"prepared": {Prepared: &Prepared{}},
	"failed":   {Prepared: &Prepared{Failures: []Failure{{Rank: -1, Code: 127, Text: "no"}}}},
	"started":  {Started: &Started{PIDs: []int{4, 0}}},
	"exited":   {Exited: &Exited{Rank: 3, Signal: 11, Core: true, At: time.Second}},
	"done":     {Done: &Done{Killed: []int{1}}},
	"log":      {Log: &Log{Level: "warn", Text: "a\nb"}},
	"start":    {Start: &Start{At: 5}},
	"signal":   {Signal: &Signal{Num: 2}},
	"stop":     {Stop: &Stop{}},
	"pause":    {Pause: &Pause{On: true}},
	"examine":  {Examine: &Examine{Order: Bytes(`{"full":true}`), Within: time.Second}},
	"clock":    {Clock: &Clock{At: time.Unix(1e9, 1).UTC()}},
	"facts":    {Facts: &Facts{Part: Bytes(`{"a":`), More: true}},
	"listen":   {Listen: &Listen{Host: 1, Addr: netip.MustParseAddr("10.0.0.1"), Secret: []byte{0, 255}}},
	"probing":  {Probing: &Probing{Port: 65535}},
	"probe":    {Probe: &Probe{Targets: []Target{{Host: 2, Addr: netip.MustParseAddrPort("[fd00::1]:9")}}, Within: time.Second, MTU: true, Bytes: 1}},
	"probed":   {Probed: &Probed{Result: Bytes("[1]")}},
	"plan": {Plan: &Plan{
		JobID: "j", Secret: []byte{0, 255}, Dir: Bytes("/tmp/\xff\n"), Env: []Bytes{Bytes("A=\xfe\x01"), Bytes("B=")},
		Ranks: []RankPlan{{Rank: 1, Args: []Bytes{Bytes("a'\"$\n\xff"), Bytes("")}, Stdin: true}}, Grace: time.Minute,
	}},
}

func TestMessages(t *testing.T) {
	for name, want := range messages {
		t.Run(name, func(t *testing.T) {
			f, err := Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			if f.Kind != Control || f.Stream != 0 {
				t.Errorf("got a frame of kind %d for stream %d; want control for 0", f.Kind, f.Stream)
			}
			got, err := Decode(f)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, addrs); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadMessages(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"empty", "", "bad control message"},
		{"cut", `{"stop":{`, "bad control message"},
		{"null", "null", "bad control message"},
		{"none", "{}", "bad control message"},
		{"no-object", `{"stop":{}`, "bad control message"},
		{"unknown", `{"dance":{}}`, "unknown kind"},
		{"null-field", `{"stop":null}`, "unknown kind"},
		{"two", `{"stop":{},"pause":{}}`, "bad control message"},
		{"spaces", `{ "stop": {} }`, "bad control message"},
		{"wrong-type", `{"stop":{"grace":"5s"}}`, "bad control message"},
		{"two-values", `{"stop":{}}{}`, "bad control message"},
		{"not-base64", `{"plan":{"dir":"%"}}`, "bad control message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if m, err := Decode(Frame{Control, 0, []byte(tt.in)}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, error %v; want an error with %q", m, err, tt.want)
			}
		})
	}
	for name, m := range map[string]Message{"none": {}, "two": {Stop: &Stop{}, Pause: &Pause{}}} {
		if _, err := Encode(m); err == nil {
			t.Errorf("Encode of %s: got no error; want one", name)
		}
	}
}

// FuzzReader: whatever comes, Read returns frames that can be sent again, or an error.
func FuzzReader(f *testing.F) {
	f.Add([]byte(raw(1, 1, 0, 2, "ab") + raw(5, 0, 0, 0, "") + raw(1, 0, 0, 1, "c") + raw(4, 0, 9, 4, "\x00\x00\x00\x01")))
	f.Add([]byte(raw(2, 0, 5, 3, "abc") + raw(2, 0, 5, 0, "")))
	f.Add([]byte(raw(6, 0, 0, MaxPayload+1, "")))
	f.Fuzz(func(t *testing.T, in []byte) {
		frames, err := readAll(bytes.NewReader(in))
		if err == nil {
			t.Fatal("got no error; want at least EOF")
		}
		var out []byte
		for _, f := range frames {
			if f.Kind == Credit {
				CreditOf(f)
			}
			out = appendFrame(out, f)
		}
		again, err := readAll(bytes.NewReader(out))
		if d := differ(frames, again); err != io.EOF || d != "" {
			t.Errorf("sent again: got error %v; want EOF; %s", err, d)
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, m := range messages {
		fr, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(fr.Payload)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		m, err := Decode(Frame{Kind: Control, Payload: in})
		if err != nil {
			return
		}
		fr, err := Encode(m)
		if err != nil {
			t.Fatalf("Encode: %v", err)
		}
		again, err := Decode(fr)
		if err != nil {
			t.Fatalf("Decode of what was encoded: %v", err)
		}
		if diff := cmp.Diff(m, again, cmpopts.EquateEmpty(), addrs); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
