package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"gorun/backend"
	"gorun/backend/cpu"
)

func TestRun(t *testing.T) {
	t.Setenv("GORUN_STORE", "")
	for _, tt := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"help", []string{"--help"}, 0, usage, ""},
		{"outside-gorun", nil, 1, "", "GORUN_STORE is not set; run: gorun -np 4 "},
		{"bad-size", []string{"--size", "1,x"}, 2, "", `--size "1,x": want numbers of elements`},
		{"huge-size", []string{"--size", "9223372036854775807"}, 2, "", "at most 1073741824"},
		{"negative-size", []string{"--size=-1"}, 2, "", `--size "-1"`},
		{"no-iters", []string{"--iters", "0"}, 2, "", "--iters 0: want at least 1"},
		{"unknown-flag", []string{"--sizes", "1"}, 2, "", "-sizes"},
		{"argument", []string{"1000"}, 2, "", `unexpected "1000"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(tt.args, &stdout, &stderr); code != tt.code {
				t.Errorf("got exit status %d; want %d", code, tt.code)
			}
			if stdout.String() != tt.stdout || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("got %q, %q; want %q, %q", stdout.String(), stderr.String(), tt.stdout, tt.stderr)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Setenv("GORUN_ALGO", "")
	opts, err := parse([]string{"--size", "7,1000", "--iters=3", "--algo", "ring"})
	if err != nil {
		t.Fatal(err)
	}
	if len(opts.sizes) != 2 || opts.sizes[0] != 7 || opts.sizes[1] != 1000 || opts.iters != 3 {
		t.Errorf("got %+v", opts)
	}
	if got := os.Getenv("GORUN_ALGO"); got != "allreduce:ring" {
		t.Errorf("got GORUN_ALGO %q", got)
	}
}

// spoiled is a communicator whose long sums are wrong in one element.
type spoiled struct{ backend.Comm }

func (c spoiled) AllReduce(dst, src backend.Buffer, op backend.Op) backend.Handle {
	h := c.Comm.AllReduce(dst, src, op)
	if dst.Count() == 1000 {
		h.Wait(context.Background())
		dst.Bytes()[400]++
	}
	return h
}

func TestSums(t *testing.T) {
	comm, err := cpu.Connect(t.Context(), cpu.Config{Size: 1, Secret: []byte("secret"), Addr: "127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	defer comm.Close(t.Context())
	opts := options{sizes: []int{0, 1, 1000}, iters: 2}
	for _, tt := range []struct {
		name    string
		comm    backend.Comm
		verdict string
		wrong   bool
	}{
		{"right", comm, ": right, ", false},
		{"wrong", spoiled{comm}, ": WRONG, ", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout bytes.Buffer
			longest, err := sums(t.Context(), tt.comm, opts, "c0ffee", &stdout)
			if (err != nil) != tt.wrong {
				t.Errorf("got error %v; want one: %v", err, tt.wrong)
			}
			line := stdout.String()
			if !strings.HasPrefix(line, "rank 0 of 1 on ") || !strings.Contains(line, tt.verdict) || !strings.HasSuffix(line, ", id c0ffee\n") {
				t.Errorf("got %q", line)
			}
			if longest.elements != 1000 || longest.bytes != 8000 || !strings.HasPrefix(longest.summary(comm), "1 ranks: 1000 int64 (8000 bytes) by copy: ") {
				t.Errorf("longest: got %+v, %q", longest, longest.summary(comm))
			}
		})
	}
}
