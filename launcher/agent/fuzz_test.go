package agent

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"gorun/launcher/wire"
)

// frames writes frames as a head would.
func frames(fs ...wire.Frame) []byte {
	var b bytes.Buffer
	s := wire.NewSender(&b)
	for _, f := range fs {
		s.Send(f)
	}
	s.Close()
	return b.Bytes()
}

func control(f *testing.F, m wire.Message) wire.Frame {
	frame, err := wire.Encode(m)
	if err != nil {
		f.Fatal(err)
	}
	return frame
}

// FuzzLink feeds an agent whose ranks are never started with whatever a head could
// send: it must end the link or carry on, and touch nothing. (A pause reaches all
// descendants of this process: there are none while this runs.)
func FuzzLink(f *testing.F) {
	plan := control(f, wire.Message{Plan: &wire.Plan{
		JobID: "0123456789abcdef", Size: 2, Nodes: 1, Credit: 10,
		Ranks: []wire.RankPlan{{Rank: 0, Args: []wire.Bytes{wire.Bytes("true")}, Stdin: true}, {Rank: 1, Args: []wire.Bytes{wire.Bytes("true")}}},
	}})
	start := control(f, wire.Message{Start: &wire.Start{}})
	f.Add(frames(plan, start, wire.CreditFrame(wire.StreamID(0, wire.Out), 1<<31), wire.CreditFrame(wire.StreamID(1, wire.Err), 0)))
	f.Add(frames(plan, wire.Frame{Kind: wire.Stdin, Stream: 0}, wire.Frame{Kind: wire.Stdin, Stream: 0, Payload: []byte("x")}))
	f.Add(frames(plan, control(f, wire.Message{Signal: &wire.Signal{Num: 15}}), control(f, wire.Message{Stop: &wire.Stop{Grace: time.Second}})))
	f.Add(frames(start, wire.Frame{Kind: wire.Heartbeat}))
	f.Add(frames(plan, wire.Frame{Kind: wire.Store, Payload: []byte("{\"id\":1,\"len\":0}\n")}))
	f.Add([]byte("garbage"))
	list := control(f, wire.Message{Files: &wire.Files{List: []wire.File{{Name: wire.Bytes("a"), Path: wire.Bytes("/no/a"), Size: 3, Root: make([]byte, 32)}}}})
	stage := control(f, wire.Message{Stage: &wire.Stage{JobID: "0123456789abcdef", Key: make([]byte, 32)}})
	f.Add(frames(list, stage, list, stage))
	f.Add(frames(list, stage, control(f, wire.Message{Fetch: &wire.Fetch{}}), wire.Frame{Kind: wire.Content, Payload: []byte("abc")}, plan))
	f.Add(frames(list, stage, control(f, wire.Message{Look: &wire.Look{}}), control(f, wire.Message{Fetch: &wire.Fetch{From: "127.0.0.1:9"}}), wire.Frame{Kind: wire.Content}))
	examine := control(f, wire.Message{Examine: &wire.Examine{Order: []byte("{}"), Within: time.Second}})
	f.Add(frames(examine, control(f, wire.Message{Listen: &wire.Listen{Secret: []byte("s")}}), control(f, wire.Message{Probe: &wire.Probe{}}), plan, examine))
	home := f.TempDir()
	f.Fuzz(func(t *testing.T, b []byte) {
		a := newAgent(bytes.NewReader(b), io.Discard, Config{Environ: []string{"HOME=" + home}})
		defer a.removeFiles()
		a.out = wire.NewSender(io.Discard)
		defer a.out.Close()
		defer a.endExamination()
		a.readLink()
		if !isClosed(a.end.gone) {
			t.Error("the link's end was not noticed")
		}
	})
}

func FuzzInspect(f *testing.F) {
	f.Add([]byte("#!/bin/sh -e\n"))
	f.Add([]byte("#! /usr/bin/env python\r\n"))
	f.Add([]byte(foreignELF()))
	elf := make([]byte, 200)
	copy(elf, "\x7fELF\x02\x01")
	elf[18], elf[32], elf[54], elf[56], elf[64], elf[72], elf[96] = 62, 64, 56, 1, 3, 120, 20
	copy(elf[120:], "/lib64/ld-linux.so.2")
	f.Add(elf)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := inspect(b[:min(len(b), headLen)], machines(runtime.GOARCH))
		if err != nil && p.interpreter != "" {
			t.Errorf("an error and interpreter %q", p.interpreter)
		}
	})
}

// FuzzProc reads the texts of the kernel that others can influence by their names.
func FuzzProc(f *testing.F) {
	f.Add("42 (sh) S 7 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 5000000 100\n")
	f.Add("7f1c50000000-7f1c50001000 rw-s 00000000 00:1b 42   /dev/shm/nccl-x")
	f.Add("0-3,8")
	f.Add("1024 65535")
	f.Add("10.0.0.1 50000 10.0.0.2 22")
	f.Add("0: 0100007F:1F90 00000000:0000 0A 00000000:00000001 00:00000000 00000000 1000 0 4711 1 0 100 0 0 10 0")
	f.Add("1: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:C350 01 00000010:00000000 00:0 0 0 0 12 1")
	f.Add("230 0x0 0x0 0x7fffc62a50a0 0x7fffc62a50e0 0x0 0x0 0x7fffc62a5088 0x7ff4869f7503")
	f.Add("0 0x3 0x1 running")
	f.Add("SigIgn:\t0000000000001000\nSigCgt:\t0000000180004002\n")
	f.Add("anon_inode:[eventfd]")
	f.Add("socket:[12]")
	f.Fuzz(func(t *testing.T, s string) {
		if p, ok := parseStat([]byte(s)); ok && p.pid <= 0 {
			t.Errorf("pid %d", p.pid)
		}
		if m, ok := parseMap(s); ok && !strings.HasPrefix(m.path, shmDir+"/") {
			t.Errorf("path %q", m.path)
		}
		if l, ok := parseList(s); len(l) > 2*maxList || (ok && len(l) == 0) {
			t.Errorf("%d numbers, %v", len(l), ok)
		}
		if low, high := parseRange(s); low > high || high > maxPort {
			t.Errorf("range %d to %d", low, high)
		}
		if k, ok := parseSocket(s); ok && (!k.local.IsValid() || !k.remote.IsValid() || k.unsent < 0 || k.unread < 0) {
			t.Errorf("socket %+v", k)
		}
		if c := parseCall(s); c.fd < -1 || c.fd >= 0 && c.name == "" {
			t.Errorf("call %+v", c)
		}
		if n := fileName(len(s)%4, s); len(n) > 3*maxName+2 || strings.ContainsAny(n, "\n\x1b") {
			t.Errorf("file %q", n)
		}
		known := map[uint64]socket{}
		readTable(strings.NewReader(s), known)
		socketInode(s)
		channel(s)
		caught([]byte(s))
		sshAddrs(s)
		whose([]byte(s), "0123456789abcdef")
		parseAddrs([]byte(s))
	})
}
