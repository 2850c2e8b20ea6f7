package facts

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

const (
	maxGPUs   = 256
	maxLeaves = 4096 // values of one GPU
	maxDepth  = 16
	maxUsers  = 1024 // processes of one GPU
)

// smiLog is what nvidia-smi -q -x prints.
type smiLog struct {
	driver, cuda string
	devices      []Device
	text         string // what is no XML, in one line: warnings around it
}

// parseSMI reads the output of nvidia-smi -q -x of any version. What it does not tell of
// a GPU is -1 or "" and no error. When the output breaks off or is broken, the GPUs that
// are complete come with the error.
func parseSMI(out []byte) (smiLog, error) {
	before, rest, ok := bytes.Cut(out, []byte("<nvidia_smi_log"))
	if !ok {
		text := brief(string(out))
		return smiLog{text: text}, fmt.Errorf("nvidia-smi printed no report: %q", text)
	}
	if i := bytes.Index(before, []byte("<?xml")); i >= 0 {
		before = before[:i]
	}
	body, after, whole := bytes.Cut(rest, []byte("</nvidia_smi_log>"))
	r := smiReader{dec: xml.NewDecoder(bytes.NewReader(printable(withoutClocks(body))))}
	r.dec.Strict = false
	r.log.text = brief(string(before) + " " + string(after))
	// What stands after the cut is the rest of the outer tag.
	err := r.read()
	if err == nil && !whole {
		err = errors.New("it breaks off")
	}
	if err != nil {
		return r.log, fmt.Errorf("nvidia-smi's report: %w", err)
	}
	return r.log, nil
}

// withoutClocks drops the lists of clocks, which are nine tenths of a report.
func withoutClocks(b []byte) []byte {
	var out []byte
	for {
		before, rest, ok := bytes.Cut(b, []byte("<supported_clocks>"))
		out = append(out, before...)
		_, after, whole := bytes.Cut(rest, []byte("</supported_clocks>"))
		if !ok {
			return out
		}
		if !whole {
			return append(out, "<supported_clocks>"...) // it breaks off there
		}
		b = after
	}
}

// printable drops what XML forbids: a process may have any bytes in its name.
func printable(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == 0xfffe || r == 0xffff {
			return -1
		}
		return r
	}, bytes.ToValidUTF8(b, nil))
}

// leaves are the values of a GPU by their path below <gpu>, as "pci/pci_bus_id".
type leaves map[string]string

// smiReader walks through the report.
type smiReader struct {
	dec  *xml.Decoder
	log  smiLog
	path []string // of open elements below the outermost
	text strings.Builder

	gpu   leaves // of the one that is open
	users []GPUUser
}

func (r *smiReader) read() error {
	for {
		token, err := r.dec.RawToken()
		if errors.Is(err, io.EOF) && len(r.path) > 0 {
			return fmt.Errorf("%q does not end", brief(r.path[0]))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			err = r.open(t.Name.Local)
		case xml.EndElement:
			err = r.close(t.Name.Local)
		case xml.CharData:
			// Values are short; a report of a broken driver need not be.
			r.text.Write(t[:min(len(t), 4096-min(4096, r.text.Len()))])
		}
		if err != nil {
			return err
		}
	}
}

func (r *smiReader) open(name string) error {
	if len(r.path) == maxDepth {
		return fmt.Errorf("more than %d elements in each other", maxDepth)
	}
	r.path = append(r.path, name)
	r.text.Reset()
	switch {
	case len(r.path) == 1 && name == "gpu":
		if len(r.log.devices) == maxGPUs {
			return fmt.Errorf("more than %d GPUs", maxGPUs)
		}
		r.gpu, r.users = leaves{}, nil
	case len(r.path) == 3 && strings.Join(r.path, "/") == "gpu/processes/process_info" && len(r.users) < maxUsers:
		r.users = append(r.users, GPUUser{Memory: -1})
	}
	return nil
}

func (r *smiReader) close(name string) error {
	if len(r.path) == 0 || r.path[len(r.path)-1] != name {
		return fmt.Errorf("%q ends and was not open", brief(name))
	}
	value := strings.TrimSpace(r.text.String())
	r.text.Reset()
	path := r.path
	r.path = r.path[:len(r.path)-1]
	switch {
	case path[0] == "gpu" && len(path) == 1:
		d := device(r.gpu)
		d.Index, d.Users = len(r.log.devices), r.users
		r.log.devices = append(r.log.devices, d)
	case path[0] == "gpu":
		r.value(path[1:], value)
	case len(path) == 1 && name == "driver_version":
		r.log.driver = told(value)
	case len(path) == 1 && name == "cuda_version":
		r.log.cuda = told(value)
	}
	return nil
}

// value takes a value of the GPU that is open.
func (r *smiReader) value(path []string, value string) {
	switch path[0] {
	case "accounted_processes", "mig_devices":
		// Lists without end, and parts of the GPU that look like it.
		return
	case "processes":
		if len(path) == 3 && len(r.users) > 0 {
			r.users[len(r.users)-1].set(path[2], value)
		}
		return
	}
	name := strings.Join(path, "/")
	if _, has := r.gpu[name]; !has && len(r.gpu) < maxLeaves {
		r.gpu[name] = value
	}
}

// set takes what nvidia-smi says of a process.
func (u *GPUUser) set(name, value string) {
	switch name {
	case "pid":
		u.PID = int(max(0, amount(value)))
	case "type":
		u.Type = told(value)
	case "process_name":
		u.Name = brief(told(value))
	case "used_memory":
		u.Memory = size(value)
	}
}

// noValues are what stands in place of a value. It may be in brackets.
func noValues() []string {
	return []string{"", "N/A", "ERR!", "Not Supported", "Not Found", "Function Not Found", "Requested functionality has been deprecated",
		"Insufficient Permissions", "Insufficient External Power", "Unknown Error", "Unknown", "GPU is lost", "GPU requires reset",
		"Reset Required", "Timeout", "Not Available", "No Data"}
}

// told is a value, or "" if there is none.
func told(value string) string {
	bare := strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
	if slices.ContainsFunc(noValues(), func(no string) bool { return strings.EqualFold(bare, no) }) {
		return ""
	}
	return brief(value)
}

// trouble is a value that says that the GPU itself does not answer; "" it is none.
func trouble(value string) string {
	bare := strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
	for _, words := range []string{"GPU is lost", "GPU requires reset", "Unknown Error", "ERR!"} {
		if strings.EqualFold(bare, words) {
			return words
		}
	}
	return ""
}

// amount is the number at the beginning of a value: of "16x", "33 C" or "0"; -1 if none.
func amount(value string) int64 {
	digits := value
	if i := strings.IndexFunc(value, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		digits = value[:i]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// size is a value such as "81559 MiB" in bytes; -1 if it is none.
func size(value string) int64 {
	n := amount(value)
	_, unit, _ := strings.Cut(value, " ")
	shift, ok := map[string]int{"": 0, "B": 0, "bytes": 0, "KiB": 10, "MiB": 20, "GiB": 30, "KB": 10, "MB": 20, "GB": 30}[unit]
	if n < 0 || !ok || n > 1<<62>>shift {
		return -1
	}
	return n << shift
}
