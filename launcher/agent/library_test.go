package agent

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// elfFile is a library with these notes and nothing else.
func elfFile(notes []byte) []byte {
	head := elf.Header64{Phoff: 64, Phentsize: 56, Phnum: 2}
	copy(head.Ident[:], elf.ELFMAG+string([]byte{byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB)}))
	var b bytes.Buffer
	binary.Write(&b, binary.LittleEndian, head)
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_LOAD)})
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 64 + 2*56, Filesz: uint64(len(notes))})
	return append(b.Bytes(), notes...)
}

func note(owner string, kind uint32, text string) []byte {
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(owner)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(text)))
	b = binary.LittleEndian.AppendUint32(b, kind)
	for _, s := range []string{owner, text} {
		b = append(b, s...)
		b = append(b, make([]byte, (4-len(s)%4)%4)...)
	}
	return b
}

func TestBuildID(t *testing.T) {
	id := note("GNU\x00", 3, "\xab\xcd\xef")
	tests := map[string]struct {
		file []byte
		want string
	}{
		"empty":        {nil, ""},
		"text":         {[]byte(strings.Repeat("no library ", 20)), ""},
		"plain":        {elfFile(id), "abcdef"},
		"second":       {elfFile(append(note("GNU\x00", 1, "abcde"), id...)), "abcdef"},
		"other-owner":  {elfFile(note("Go\x00", 3, "abc")), ""},
		"none":         {elfFile(nil), ""},
		"cut":          {elfFile(id[:len(id)-3]), ""},
		"huge-lengths": {elfFile(bytes.Repeat([]byte{0xff}, 64)), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := buildID(bytes.NewReader(tt.file)); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}

func FuzzBuildID(f *testing.F) {
	f.Add(elfFile(note("GNU\x00", 3, "abc")))
	f.Fuzz(func(t *testing.T, file []byte) { buildID(bytes.NewReader(file)) })
}

func TestLibraryIdentity(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"lib", "include"} {
		os.Mkdir(filepath.Join(dir, d), 0o700)
	}
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lib := elfFile(note("GNU\x00", 3, "abc"))
	write("libnccl.so.2.19.3", lib)
	os.Symlink("libnccl.so.2.19.3", dir+"/libnccl.so.2")
	write("lib/libnccl.so.2", lib)
	write("lib/libnccl-net.so", []byte("no library"))
	write("include/nccl.h", []byte("#define NCCL_MAJOR 2\n#define NCCL_MINOR 30\n#define NCCL_PATCH 7\n#define NCCL_SUFFIX \"\"\n"))
	for name, want := range map[string]string{
		"libnccl.so.2": "2.19.3 616263", "lib/libnccl.so.2": "2.30.7 616263", "none": " ", "lib": " ",
		"lib/libnccl-net.so": " sha256-5bdd53384fcb954e",
	} {
		l := libraryIdentity(dir + "/" + name)
		if got := l.Version + " " + l.Build; got != want {
			t.Errorf("%s: got %q; want %q", name, got, want)
		}
	}
}

// This process stands for a rank's that has loaded the library.
func TestMappedIdentity(t *testing.T) {
	file := filepath.Join(t.TempDir(), "libnccl.so.2.19.3")
	if err := os.WriteFile(file, elfFile(note("GNU\x00", 3, "abc")), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(mapped)
	self := []proc{{pid: os.Getpid(), state: 'S'}}
	looker := newLooker(os.DirFS("/proc"))
	g := looker.glance(0, self, procKey{}, "")
	if g.library != file || g.version != "2.19.3" || g.build != "616263" {
		t.Errorf("got %q, version %q, build %q; want %q, 2.19.3, 616263", g.library, g.version, g.build, file)
	}
	if err := os.WriteFile(file, elfFile(note("GNU\x00", 3, "xyz")), 0o600); err != nil {
		t.Fatal(err)
	}
	if g := looker.glance(0, self, procKey{}, ""); g.build != "616263" {
		t.Errorf("got build %q; want that of the first look, as a file is read once", g.build)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if g := newLooker(os.DirFS("/proc")).glance(0, self, procKey{}, ""); g.build != "" || g.library == "" {
		t.Errorf("removed: got %q, build %q; want that it is mapped, and no build", g.library, g.build)
	}
}

func TestPluginNames(t *testing.T) {
	got := fmt.Sprint(pluginNames([]string{"NCCL_NET_PLUGIN=none", "NCCL_TUNER_PLUGIN=/x/t.so", "NCCL_PROFILER_PLUGIN=p,q", "NCCL_ENV_PLUGIN="}))
	want := "[[/x/t.so] [p libnccl-profiler-p.so] [libnccl-gin.so] [libnccl-rma.so]]"
	if got != want {
		t.Errorf("got %s; want %s", got, want)
	}
}

// cacheFile is an ld.so.cache of these names and paths, in pairs.
func cacheFile(pairs ...string) []byte {
	n := len(pairs) / 2
	b := append([]byte("glibc-ld.so.cache1.1"), make([]byte, 28)...)
	binary.LittleEndian.PutUint32(b[20:], uint32(n))
	at := 48 + 24*n
	var texts []byte
	for i := range n {
		e := make([]byte, 24)
		for k, s := range pairs[2*i : 2*i+2] {
			binary.LittleEndian.PutUint32(e[4+4*k:], uint32(at+len(texts)))
			texts = append(texts, s+"\x00"...)
		}
		b = append(b, e...)
	}
	return append(b, texts...)
}

func TestParseCache(t *testing.T) {
	text := cacheFile("libc.so.6", "/lib/libc.so.6", "libnccl.so.2", "/opt/hw/libnccl.so.2", "libnccl.so.2", "/opt/libnccl.so.2", "libnccl-net.so", "/n.so")
	for name, b := range map[string][]byte{"new": text, "behind-old": append([]byte("ld.so-1.7.0 and so on"), text...)} {
		if got := fmt.Sprint(parseCache(b)); got != "map[libnccl-net.so:/n.so libnccl.so.2:/opt/hw/libnccl.so.2]" {
			t.Errorf("%s: got %s", name, got)
		}
	}
	for n := range text {
		parseCache(text[:n])
	}
}

func FuzzParseCache(f *testing.F) {
	f.Add(cacheFile("libnccl.so.2", "/opt/libnccl.so.2"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name := range parseCache(text) {
			if !strings.HasPrefix(name, "libnccl") {
				t.Fatalf("got %q", name)
			}
		}
	})
}

// The libraries are those of the rank's own environment.
func TestLibraries(t *testing.T) {
	dir := t.TempDir()
	os.MkdirAll(dir+"/b", 0o700)
	os.WriteFile(dir+"/b/libnccl.so.2", nil, 0o600)
	os.WriteFile(dir+"/b/libnccl-net-aws.so", nil, 0o600)
	env := []string{"LD_LIBRARY_PATH=" + dir + "/a:b", "NCCL_NET_PLUGIN=aws", "NCCL_TUNER_PLUGIN=gone"}
	var got []string
	for _, l := range libraries(env, dir) {
		got = append(got, l.Name+"="+strings.TrimPrefix(string(l.Path), dir))
	}
	if want := "[libnccl.so.2=/b/libnccl.so.2 libnccl-net-aws.so=/b/libnccl-net-aws.so libnccl-tuner-gone.so=]"; fmt.Sprint(got) != want {
		t.Errorf("got %v; want %s", got, want)
	}
}
