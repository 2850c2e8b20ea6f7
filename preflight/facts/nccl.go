package facts

import (
	"context"
	"debug/elf"
	"encoding/hex"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxLibraries = 16
	maxConf      = 64 << 10 // bytes of a file of settings
	maxSettings  = 1024
)

// collectNCCL looks for libnccl where the loader does: in LD_LIBRARY_PATH, the directories
// of ld.so.conf, the usual ones; and where CUDA's packages put it.
func collectNCCL(ctx context.Context, s *source, h *Host) error {
	dirs := filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	dirs = slices.Concat(dirs, confDirs(s), libraryDirs(), []string{"/usr/local/lib", "/usr/local/cuda/lib64", "/usr/local/nccl/lib", "/opt/nccl/lib"})
	seen := map[string]bool{}
	for _, dir := range dirs {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if !filepath.IsAbs(dir) || len(h.NCCL) == maxLibraries {
			continue
		}
		file := path.Join(dir, "libnccl.so.2")
		real := s.real(file)
		if real == "" || seen[real] {
			continue
		}
		seen[real] = true
		h.NCCL = append(h.NCCL, Library{Path: file, Version: libraryVersion(real), Build: buildID(s.at(real))})
	}
	return nil
}

// confDirs returns the directories that ld.so.conf.d names.
func confDirs(s *source) (out []string) {
	const dir = "/etc/ld.so.conf.d/"
	for _, name := range s.list(dir) {
		if !strings.HasSuffix(name, ".conf") {
			continue
		}
		for line := range strings.Lines(s.text(dir + name)) {
			line, _, _ = strings.Cut(line, "#")
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "/") {
				out = append(out, line)
			}
		}
	}
	return out
}

// libraryVersion is the version that a file's name ends in; "" if it ends in none:
// libnccl.so.2 itself says nothing.
func libraryVersion(file string) string {
	if m := regexp.MustCompile(`\.so\.(\d+\.\d+[0-9.]*)$`).FindStringSubmatch(file); m != nil {
		return m[1]
	}
	return ""
}

// buildID is the GNU build ID of a file; "" if it has none. It reads some kilobytes.
func buildID(file string) string {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return ""
	}
	note := e.Section(".note.gnu.build-id")
	if note == nil || note.Size < 17 || note.Size > 4096 {
		return ""
	}
	// Twelve bytes of lengths and kind, and the owner "GNU\0".
	text, err := note.Data()
	if err != nil || len(text) < 17 || string(text[12:16]) != "GNU\x00" {
		return ""
	}
	return hex.EncodeToString(text[16:])
}

// collectConf reads the files of NCCL settings that are there, and what the environment
// of this process says.
func collectConf(ctx context.Context, s *source, h *Host) error {
	files := []string{"/etc/nccl.conf"}
	user := os.Getenv("NCCL_CONF_FILE")
	if home := os.Getenv("HOME"); user == "" && filepath.IsAbs(home) {
		user = home + "/.nccl.conf"
	}
	if filepath.IsAbs(user) {
		files = append(files, user)
	}
	for _, file := range files {
		if text, err := s.read(file, maxConf); err == nil {
			h.Conf = append(h.Conf, ConfFile{file, parseConf(string(text))})
		}
	}
	h.Session = session(os.Environ())
	return context.Cause(ctx)
}

// parseConf returns the NCCL settings among the lines of a file of settings, as NCCL
// reads it: NAME=value, and a comment after #.
func parseConf(text string) (out []string) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		name = strings.TrimSpace(name)
		if ok && strings.HasPrefix(name, "NCCL_") && len(out) < maxSettings {
			out = append(out, setting(name, strings.TrimSpace(value)))
		}
	}
	return out
}

// session returns what of an environment concerns NCCL, in order.
func session(env []string) (out []string) {
	for _, entry := range env {
		name, value, ok := strings.Cut(entry, "=")
		if ok && (strings.HasPrefix(name, "NCCL_") || strings.HasPrefix(name, "CUDA_") || name == "LD_LIBRARY_PATH") && len(out) < maxSettings {
			out = append(out, setting(name, value))
		}
	}
	slices.Sort(out)
	return out
}

// setting is NAME=value, without the value if it is a secret.
func setting(name, value string) string {
	if secret(name) {
		value = "<hidden>"
	}
	return plain(name, 256) + "=" + plain(value, 4096)
}

// secret reports whether a name says that its value is a secret.
func secret(name string) bool {
	upper := strings.ToUpper(name)
	for _, word := range []string{"TOKEN", "PASSWORD", "SECRET", "CREDENTIAL"} {
		if strings.Contains(upper, word) {
			return true
		}
	}
	return strings.HasSuffix(upper, "_KEY") || strings.HasSuffix(upper, "_PAT")
}
