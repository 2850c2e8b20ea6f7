package facts

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrograms(t *testing.T) {
	t.Setenv("PATH", "/agent")
	s := tree(t, map[string]string{
		"/job/train": "#!/bin/sh\n", "/job/data/": "", "/opt/bin/tool": "\x7fELF", "/agent/tool": "other", "/agent/only": "x", "/job/bin/rel": "r",
	})
	if err := os.WriteFile(s.at("/job/plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const path = "/opt/bin:bin:"
	for _, test := range []struct{ name, arg, path, want string }{
		{"relative", "./train", path, "/job/train"},
		{"absolute", "/opt/bin/tool", path, "/opt/bin/tool"},
		{"in-path", "tool", path, "/opt/bin/tool"},
		{"in-relative-path", "rel", path, "/job/bin/rel"},
		{"in-empty-path", "train", path, "/job/train"},
		{"in-the-agents-path", "only", "", "/agent/only"},
		{"not-in-path", "only", path, ""},
		{"directory", "./data", path, ""},
		{"prepended", "only", "+/agent:" + path, "/agent/only"},
		{"missing", "./none", path, ""},
		{"empty", "", path, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := Order{Dir: "/job", Path: test.path, Programs: []string{test.arg}}
			if before, rest, ok := strings.Cut(test.path, ":"); ok && strings.HasPrefix(before, "+") {
				o.Prepend, o.Path = before[1:], rest
			}
			var h Host
			if err := collectPrograms(o)(t.Context(), s, &h); err != nil {
				t.Fatal(err)
			}
			if got := h.Programs[0]; got.Path != test.want || got.Arg != test.arg || (got.SHA256 != "") != (test.want != "") {
				t.Errorf("got %+v; want %q", got, test.want)
			}
		})
	}
	if os.Getuid() != 0 && findProgram(s, Order{Dir: "/job"}, "./plain") != "" {
		t.Error("want no program without the right to run it")
	}
	got, err := program(t.Context(), s, Order{Dir: "/job"}, "./train")
	want := Program{Arg: "./train", Path: "/job/train", Size: 10, Script: true, SHA256: "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// linked is an ELF file that needs a library, and is nothing else.
func linked(library string) []byte {
	const header, section = 64, 64
	names := "\x00" + library + "\x00"
	dynamic := make([]byte, 32)
	binary.LittleEndian.PutUint64(dynamic, uint64(elf.DT_NEEDED))
	binary.LittleEndian.PutUint64(dynamic[8:], 1)
	body := append([]byte(names), dynamic...)
	sections := []elf.Section64{
		{},
		{Type: uint32(elf.SHT_STRTAB), Off: header, Size: uint64(len(names))},
		{Type: uint32(elf.SHT_DYNAMIC), Off: uint64(header + len(names)), Size: uint64(len(dynamic)), Link: 1},
	}
	h := elf.Header64{
		Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: uint64(header + len(body)),
		Ehsize: header, Shentsize: section, Shnum: uint16(len(sections)), Shstrndx: 1,
	}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	var out bytes.Buffer
	for _, part := range []any{h, body, sections} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			panic(err)
		}
	}
	return out.Bytes()
}

func TestProgramsLinkedWithNCCL(t *testing.T) {
	for name, want := range map[string]bool{"libnccl.so.2": true, "libcuda.so.1": false} {
		if got := loadsNCCL(bytes.NewReader(linked(name))); got != want {
			t.Errorf("%s: got %v; want %v", name, got, want)
		}
	}
	if loadsNCCL(strings.NewReader("#!/bin/sh")) {
		t.Error("want nothing of a script")
	}
}

func TestHash(t *testing.T) {
	if got, err := hash(t.Context(), strings.NewReader("more"), 3, 3); got != "" || err != nil {
		t.Errorf("got %q, %v; want no hash of what is too long", got, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("no answer in 5s"))
	if _, err := hash(ctx, strings.NewReader(strings.Repeat("x", hashChunk+1)), hashChunk, 1<<30); err == nil || err.Error() != "no answer in 5s" {
		t.Errorf("got %v; want the reason why it ends", err)
	}
}

func TestLibraries(t *testing.T) {
	t.Setenv("LD_LIBRARY_PATH", "/opt/own:relative:/missing:")
	s := tree(t, map[string]string{
		"/opt/own/libnccl.so.2": "-> libnccl.so.2.27.7", "/opt/own/libnccl.so.2.27.7": "",
		"/etc/ld.so.conf.d/nccl.conf": "# NCCL\n/opt/hpc/lib # here\ninclude x\n", "/opt/hpc/lib/libnccl.so.2": "-> ../../own/libnccl.so.2.27.7",
		"/usr/lib/x86_64-linux-gnu/libnccl.so.2": "-> libnccl.so.2.21.5", "/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5": "",
		"/usr/local/cuda/lib64/libnccl.so.2": "no link",
	})
	var h Host
	if err := collectNCCL(t.Context(), s, &h); err != nil {
		t.Fatal(err)
	}
	want := []Library{
		{Path: "/opt/own/libnccl.so.2", Version: "2.27.7"},
		{Path: "/usr/lib/x86_64-linux-gnu/libnccl.so.2", Version: "2.21.5"},
		{Path: "/usr/local/cuda/lib64/libnccl.so.2"},
	}
	if diff := cmp.Diff(want, h.NCCL); diff != "" {
		t.Error(diff)
	}
}

func TestConf(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	t.Setenv("NCCL_CONF_FILE", "")
	t.Setenv("NCCL_AUTH_TOKEN", "abc")
	t.Setenv("CUDA_HOME", "/usr/local/cuda")
	s := tree(t, map[string]string{"/etc/nccl.conf": someConf, "/home/me/.nccl.conf": ""})
	var h Host
	if err := collectConf(t.Context(), s, &h); err != nil {
		t.Fatal(err)
	}
	want := []ConfFile{{"/etc/nccl.conf", []string{
		"NCCL_DEBUG=WARN", "NCCL_SOCKET_IFNAME==eth0", "NCCL_EMPTY=", "NCCL_X_KEY=<hidden>", "NCCL_TOPO_FILE=/opt/topo.xml",
	}}, {"/home/me/.nccl.conf", nil}}
	if diff := cmp.Diff(want, h.Conf); diff != "" {
		t.Error(diff)
	}
	all := strings.Join(h.Session, "\n") + "\n"
	if !strings.Contains(all, "NCCL_AUTH_TOKEN=<hidden>\n") || !strings.Contains(all, "CUDA_HOME=/usr/local/cuda\n") || strings.Contains(all, "HOME=/home/me\n") {
		t.Errorf("got %q; want NCCL's and CUDA's names only, without secrets", all)
	}
	t.Setenv("NCCL_CONF_FILE", "/etc/other.conf")
	if err := collectConf(t.Context(), s, &h); err != nil || len(h.Conf) != 3 {
		t.Errorf("got %v, %v; want the user's file not to be read where another is named", h.Conf, err)
	}
}

const someConf = `# site
NCCL_DEBUG=WARN
 NCCL_SOCKET_IFNAME = =eth0   # exact
NCCL_EMPTY=
OTHER=1
NCCL_X_KEY=0123
no setting
NCCL_TOPO_FILE=/opt/topo.xml` + "\x1b\n"

func FuzzConf(f *testing.F) {
	f.Add(someConf)
	f.Fuzz(func(t *testing.T, text string) {
		for _, s := range parseConf(text) {
			if !strings.HasPrefix(s, "NCCL_") || strings.ContainsAny(s, "\n\x1b") {
				t.Errorf("got %q; want a setting in one line", s)
			}
		}
	})
}
