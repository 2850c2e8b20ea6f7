package transport

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"gorun/launcher/wire"
)

const testNonce = "0123456789abcdef0123456789abcdef"

func TestScanner(t *testing.T) {
	hail := wire.Hail(testNonce)
	tests := []struct {
		name, in string
		lines    string // joined by |
		noise    string
		rest     string
		err      error
	}{
		{"hail-only", hail + "\n", "agent 1", "", "", nil},
		{"frames-follow", hail + "\n\x01\x00\x00\nabc", "agent 1", "", "\x01\x00\x00\nabc", nil},
		{"noise", "Welcome\nto gpu1\n" + hail + "\nx", "agent 1", "Welcome\nto gpu1", "x", nil},
		{"noise-without-newline", "Last login: today" + hail + "\n", "agent 1", "Last login: today", "", nil},
		{"carriage-return", "hi\r\n" + hail + "\r\nx", "agent 1\r", "hi", "x", nil},
		{"other-nonce", "@gorun-0123 agent 1\n" + hail + "\n", "agent 1", "@gorun-0123 agent 1", "", nil},
		{"half-marker-first", "@gorun-01234567" + hail + "\n", "agent 1", "@gorun-01234567", "", nil},
		{"script-lines", "x@gorun-" + testNonce + " need Linux x86_64 home\nnoise\n" + hail + "\n", "need Linux x86_64 home|agent 1", "xnoise", "", nil},
		{"escape-in-noise", "\x1b]0;title\a\xff" + hail + "\n", "agent 1", "?]0;title??", "", nil},
		{"end", "This account is currently not available.\n", "", "This account is currently not available.", "", io.EOF},
		{"end-in-hail", "@gorun-" + testNonce + " age", "", "@gorun-" + testNonce + " age", "", io.EOF},
		{"line-too-long", "@gorun-" + testNonce + " " + strings.Repeat("x", 5000), "", "", "", errLongLine},
		{"endless-noise", strings.Repeat("x", maxNoise+2000), "", strings.Repeat("x", noiseKept), "", errNoise},
	}
	for _, tt := range tests {
		for _, how := range []struct {
			name string
			read func(io.Reader) io.Reader
		}{{"whole", func(r io.Reader) io.Reader { return r }}, {"bytewise", iotest.OneByteReader}} {
			t.Run(tt.name+"/"+how.name, func(t *testing.T) {
				in := how.read(strings.NewReader(tt.in))
				sc := newScanner(in, testNonce)
				var lines []string
				var err error
				for !strings.HasPrefix(strings.Join(lines, "|"), "agent") && (len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], "agent")) {
					var line string
					if line, err = sc.next(); err != nil {
						break
					}
					lines = append(lines, line)
				}
				if got := strings.Join(lines, "|"); got != tt.lines {
					t.Errorf("lines: got %q; want %q", got, tt.lines)
				}
				if !errors.Is(err, tt.err) {
					t.Errorf("error: got %v; want %v", err, tt.err)
				}
				if tt.err == nil {
					after, _ := io.ReadAll(in)
					if got := string(sc.rest()) + string(after); got != tt.rest {
						t.Errorf("rest: got %q; want %q", got, tt.rest)
					}
				}
				if got := sc.noise(); got != tt.noise && tt.err != errLongLine {
					t.Errorf("noise: got %.200q; want %.200q", got, tt.noise)
				}
			})
		}
	}
}

func TestCheckHail(t *testing.T) {
	if err := checkHail("agent 1", testNonce); err != nil {
		t.Error(err)
	}
	for _, line := range []string{"agent 2", "agent", "agent 1 ", "agent 1\x1b"} {
		if err := checkHail(line, testNonce); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: got %v; want an error without control characters", line, err)
		}
	}
}

func TestScriptLines(t *testing.T) {
	if n, err := parseNeed("need Linux x86_64 tmp"); err != nil || n != (need{"Linux", "x86_64", "tmp"}) {
		t.Errorf("got %v, %v", n, err)
	}
	for _, line := range []string{"need", "need Linux x86_64", "need Linux x86_64 moon", "need a b c home", "send"} {
		if n, err := parseNeed(line); err == nil {
			t.Errorf("%q: got %v; want an error", line, n)
		}
	}
	fails := []struct {
		line string
		want Place
	}{
		{"fail 126 /home/a b/.cache/gorun", Place{"/home/a b/.cache/gorun", "programs may not be run from there (mounted noexec?)"}},
		{"fail write /tmp", Place{"/tmp", "cannot write all of the binary (disk full?)"}},
		{"fail nohome ", Place{"HOME", "not set"}},
		{"fail nohome /nonexistent", Place{"/nonexistent", "there is no such home directory"}},
		{"fail 139 /x\x1b[m", Place{"/x?[m", "running gorun from there ends with status 139"}},
		{"fail", Place{"", "running gorun from there ends with status "}},
	}
	for _, tt := range fails {
		if got := parseFail(tt.line); got != tt.want {
			t.Errorf("%q: got %+v; want %+v", tt.line, got, tt.want)
		}
	}
	for line, want := range map[string]place{"at 1": 1, "at 4": 4, "at 0": 0, "at 5": 0, "at x": 0, "at": 0} {
		if got, err := parseAt(line); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %v, %v; want %v", line, got, err, want)
		}
	}
}

func TestCheckArch(t *testing.T) {
	tests := []struct{ kernel, machine, have, want string }{
		{"Linux", "x86_64", "amd64", ""},
		{"Linux", "aarch64", "arm64", ""},
		{"Linux", "aarch64", "amd64", "GOOS=linux GOARCH=arm64 CGO_ENABLED=0 go build ./cmd/gorun"},
		{"Darwin", "arm64", "arm64", "GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 go build ./cmd/gorun"},
		{"Linux", "x86_64", "arm64", "GOOS=linux GOARCH=amd64 CGO_ENABLED=0 go build ./cmd/gorun"},
		{"Linux", "mips\x1b", "amd64", "the host is Linux mips?, this gorun is for linux/amd64"},
	}
	for _, tt := range tests {
		err := checkArch(need{kernel: tt.kernel, machine: tt.machine}, tt.have)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s with %s: got %v; want %q", tt.kernel, tt.machine, tt.have, err, tt.want)
		}
	}
}

// FuzzScanner feeds text in pieces: how it is cut must not matter, and what a host says
// must not break what is made of it.
func FuzzScanner(f *testing.F) {
	f.Add("noise"+wire.Hail(testNonce)+"\nrest", uint8(3))
	f.Add("@gorun-"+testNonce+" need Linux x86_64 home\n@gorun-"+testNonce+" fail 126 /tmp\n@gorun-"+testNonce+" at 3\n", uint8(1))
	f.Add("@gorun-@gorun-"+testNonce+" nowhere\r\n", uint8(200))
	f.Fuzz(func(t *testing.T, text string, piece uint8) {
		whole := scanAll(strings.NewReader(text))
		if cut := scanAll(&pieces{s: text, n: int(piece) + 1}); whole != cut {
			t.Errorf("whole: %q\nin pieces of %d: %q", whole, piece, cut)
		}
	})
}

// pieces reads n bytes at a time.
type pieces struct {
	s string
	n int
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.s == "" {
		return 0, io.EOF
	}
	n := copy(b, p.s[:min(p.n, len(p.s))])
	p.s = p.s[n:]
	return n, nil
}

func scanAll(r io.Reader) string {
	sc := newScanner(r, testNonce)
	var b strings.Builder
	for {
		line, err := sc.next()
		if err != nil {
			return b.String() + err.Error() + sc.noise()
		}
		b.WriteString(line + "\n")
		if n, err := parseNeed(line); err == nil {
			b.WriteString(n.kind)
			if err := checkArch(n, "amd64"); err != nil {
				b.WriteString(err.Error())
			}
		}
		b.WriteString(parseFail(line).Why)
		if p, err := parseAt(line); err == nil {
			b.WriteString(placeDirs[p])
		}
		if err := checkHail(line, testNonce); err != nil {
			b.WriteString(err.Error())
		}
	}
}
