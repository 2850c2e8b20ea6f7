package probe

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// errNoTable says that a program of perftest has printed no result.
var errNoTable = errors.New("there is no result in what it has printed")

// errZero says that the result is that nothing was carried.
var errZero = errors.New("nothing was carried")

// ParseBandwidth reads what ib_write_bw and its kind have printed, of any version and in
// any unit, and returns the average bandwidth in bytes per second. Anything without a
// table, or with one that says that nothing was carried, is an error.
func ParseBandwidth(text string) (bytesPerSecond float64, err error) {
	return parseTable(text, "BW average", map[string]float64{"Gb/sec": 1e9 / 8, "MB/sec": 1 << 20, "MiB/sec": 1 << 20})
}

// ParseLatency reads what ib_write_lat and its kind have printed, and returns the typical
// latency, or the average where only that is told. It is that of one way.
func ParseLatency(text string) (time.Duration, error) {
	units := map[string]float64{"usec": float64(time.Microsecond)}
	value, err := parseTable(text, "t_typical", units)
	if errors.Is(err, errNoTable) {
		value, err = parseTable(text, "t_avg", units)
	}
	if err == nil && value > float64(time.Hour) {
		err = fmt.Errorf("a latency of %v h makes no sense", value/float64(time.Hour))
	}
	return time.Duration(value), err
}

// parseTable returns the value of the column of a table of perftest that has the name and
// one of the units, in that unit. The first row counts.
func parseTable(text, name string, units map[string]float64) (float64, error) {
	column, unit := -1, 0.0
	for line := range strings.Lines(text) {
		if strings.Contains(line, "#bytes") {
			if column, unit = columnOf(line, name, units); column < 0 {
				return 0, errNoTable
			}
			continue
		}
		cells := strings.Fields(line)
		if column < 0 || len(cells) <= column || !isNumber(cells[0]) {
			continue
		}
		value, err := strconv.ParseFloat(cells[column], 64)
		value *= unit
		switch {
		case err != nil || math.IsNaN(value) || math.IsInf(value, 0) || value < 0:
			return 0, fmt.Errorf("%q is no %s", oneLine(cells[column], 40), name)
		case value == 0:
			return 0, fmt.Errorf("%s is 0: %w", name, errZero)
		}
		return value, nil
	}
	return 0, errNoTable
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil
}

// columnOf finds a column by a table's heading, in which names consist of words, and
// units stand in brackets: "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec]".
func columnOf(heading, name string, units map[string]float64) (column int, unit float64) {
	before, after, ok := strings.Cut(heading, name+"[")
	word, _, closed := strings.Cut(after, "]")
	unit, known := units[word]
	if !ok || !closed || !known {
		return -1, 0
	}
	// "BW peak[…]" and "99% percentile[…]" are one column each.
	for _, two := range []string{"BW peak", "BW average", "% percentile"} {
		before = strings.ReplaceAll(before, two, "x")
	}
	return len(strings.Fields(before)), unit
}

// phrase is part of what a program of perftest says when it fails.
type phrase struct {
	text string
	kind Failure
}

// phrases are those that are known, of perftest 4.1 to 24, those first that tell the most:
// where one end fails, the other often says only that the connection between them broke.
func phrases() []phrase {
	return []phrase{
		// The device cannot be used by this user, on this host.
		{"Port number", Device}, // "1 state is Down"
		{"IB device", Device},   // "mlx5_9 not found"
		{"No IB devices found", Device},
		{"Did not detect devices", Device},
		{"Unable to find the Infiniband/RoCE device", Device},
		{"Failed to open device", Device},
		{"Couldn't get context for the device", Device},
		{"Couldn't allocate MR", Device},
		{"Couldn't register MR", Device},
		{"failed to create mr", Device},
		{"Couldn't allocate PD", Device},
		{"Couldn't create CQ", Device},
		{"Unable to create QP", Device},
		{"Failed to create QP", Device},
		{"Failed to modify QP to INIT", Device},
		{"Couldn't create IB resources", Device},
		{"Unable to set the link layer", Device},
		{"Couldn't set the link layer", Device},
		// Both ends are ready, and nothing comes through.
		{"Failed to modify QP", Lost}, // "9 to RTR": it leads nowhere
		{"Unable to Connect the HCA's through the link", Lost},
		{"Completion with error", Lost},
		{"Failed status", Lost},
		{"Bad wc status", Lost},
		{"poll CQ failed", Lost},
		// The programs did not meet, or are not of one kind.
		{"unrecognized option", Other},
		{"invalid option", Other},
		{"Conflicting", Other},
		{"Couldn't connect to", Other},
		{"Couldn't listen to port", Other},
		{"Problem in resolving basic address and port", Other},
		{"Unable to open file descriptor for socket connection", Other},
		{"Unable to init the socket connection", Other},
	}
}

// complaint returns the line by which a program of perftest tells why it has failed, and
// what that means: Device, Lost or Other. Without a line that is known it is the last
// one, and Other.
func complaint(text string) (line string, kind Failure) {
	lower := strings.ToLower(text)
	for _, p := range phrases() {
		at := strings.Index(lower, strings.ToLower(p.text))
		if at < 0 || len(lower) != len(text) {
			continue
		}
		begin := strings.LastIndexByte(text[:at], '\n') + 1
		line, _, _ = strings.Cut(text[begin:], "\n")
		return oneLine(line, maxComplaint), p.kind
	}
	for l := range strings.Lines(text) {
		if l = oneLine(l, maxComplaint); strings.Trim(l, "-* ") != "" {
			line = l
		}
	}
	return line, Other
}

// maxComplaint is how many bytes of a line are told.
const maxComplaint = 160
