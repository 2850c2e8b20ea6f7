package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gorun/launcher"
)

// resultFile is what --result writes. Names are only ever added to it.
type resultFile struct {
	Gorun    string        `json:"gorun"` // version
	ExitCode int           `json:"exit_code"`
	Message  []string      `json:"message,omitempty"` // what gorun said about the end
	Command  []string      `json:"command"`           // program and arguments; secrets hidden
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
func failuresOf(err error) []hostFailure {
	var out []hostFailure
	if e, ok := errors.AsType[*launcher.HostsError](err); ok {
		for _, h := range e.Hosts {
			out = append(out, hostFailure{Host: h.Host, Text: h.Err.Error()})
		}
	}
	if e, ok := errors.AsType[*launcher.PrepareError](err); ok {
		for _, f := range e.Failures {
			h := hostFailure{Host: f.Host, Code: f.Code, Text: f.Text}
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
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return replace(path, data)
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

// writeInto writes to a stream, behind what is there.
func writeInto(path string, data []byte) error {
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return errors.Join(err, w.Close())
}

// replace writes data beside path and renames it into place. The mode is as the
// umask says: there is nothing in it that the job's own output would not show.
func replace(path string, data []byte) error {
	tmp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d", filepath.Base(path), os.Getpid()))
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
