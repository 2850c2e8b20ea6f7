package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"gorun/launcher"
)

// resultFile is what --result writes. Names are only ever added to it.
type resultFile struct {
	Gorun    string        `json:"gorun"` // version
	ExitCode int           `json:"exit_code"`
	Message  []string      `json:"message,omitempty"`  // what gorun said about the end
	Command  []string      `json:"command"`            // program and arguments, ":" between several; secrets hidden
	Programs [][]string    `json:"programs,omitempty"` // the same one by one, if there are several
	Failures []hostFailure `json:"failures,omitempty"`
	*launcher.Result
}

// hostFailure is one reason why nothing was started.
type hostFailure struct {
	Host string `json:"host"`
	Rank *int   `json:"rank,omitempty"`
	Code int    `json:"code,omitempty"`
	Text string `json:"text"`
}

// failuresOf lists what err says about hosts and ranks.
func failuresOf(err error, o options) []hostFailure {
	var out []hostFailure
	if e, ok := errors.AsType[*launcher.HostsError](err); ok {
		for _, h := range e.Hosts {
			out = append(out, hostFailure{Host: h.Host, Text: h.Err.Error()})
		}
	}
	if e, ok := errors.AsType[*launcher.PrepareError](err); ok {
		for _, f := range e.Failures {
			h := hostFailure{Host: f.Host, Code: f.Code, Text: o.concealIn(f.Text)}
			if f.Rank >= 0 {
				h.Rank = &f.Rank
			}
			out = append(out, h)
		}
	}
	return out
}

// writeResult writes f to path so that a reader sees the old file or the whole new one.
func writeResult(path string, f resultFile) error {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(f); err != nil {
		return err
	}
	data := text.Bytes()
	if isStream(path) {
		return writeInto(path, data)
	}
	path, err := target(path)
	if err != nil {
		return err
	}
	return replace(path, data)
}

// target is the file that path names through symbolic links, whether it is there or not.
// With an error it is how far they lead.
func target(path string) (string, error) {
	const most = 40 // as the kernel
	for range most {
		dir, base := filepath.Split(path)
		dir, err := filepath.EvalSymlinks(cmp.Or(dir, "."))
		if err != nil {
			return path, err
		}
		link, err := os.Readlink(filepath.Join(dir, base))
		switch {
		case err != nil:
			return filepath.Join(dir, base), nil
		case filepath.IsAbs(link):
			path = link
		default:
			path = dir + "/" + link
		}
	}
	return path, &os.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
}

// isStream reports whether path is to be written as it is, and not replaced: a device,
// a pipe, or one of this process's open files, whatever that is.
func isStream(path string) bool {
	for _, prefix := range []string{"/dev/std", "/dev/fd/", "/proc/self/fd/"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && !info.Mode().IsRegular()
}

// streamPatience is how long a stream's reader may take.
const streamPatience = 10 * time.Second

// writeInto writes to a stream, behind what is there. A pipe must have a reader.
func writeInto(path string, data []byte) error {
	w, err := openStream(path)
	if err != nil {
		return err
	}
	w.SetWriteDeadline(time.Now().Add(streamPatience)) // no file but a pipe or terminal knows one, nor needs it
	_, err = w.Write(data)
	return errors.Join(err, w.Close())
}

// openStream opens a stream for writing behind what is there.
func openStream(path string) (*os.File, error) {
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		err = fmt.Errorf("%w; a pipe needs a reader", err)
	}
	return w, err
}

// replace writes data beside path and renames it into place. The mode is as the
// umask says: there is nothing in it that the job's own output would not show.
func replace(path string, data []byte) error {
	tmp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".gorun-result-%08x", rand.Uint32()))
	w, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	if err = errors.Join(err, w.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		os.Remove(tmp)
	}
	return err
}
