package report

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"time"

	"gorun/preflight"
)

// FormatVersion is the version of what JSON writes. Fields are only ever added to one.
const FormatVersion = 1

// JSON writes p as one line of JSON, which docs/preflight-json.md describes.
func JSON(w io.Writer, p Page) error {
	p = p.concealed()
	out := document{
		V: FormatVersion, Gorun: p.Version, Command: p.Command, Seconds: p.Took.Seconds(),
		Report: p.Report, Decision: p.Decision, Headline: p.Decision.Headline(),
		Layout: p.Layout, Remarks: p.Remarks, Latency: matrix(p.Latency), Bandwidth: matrix(p.Bandwidth),
	}
	if !p.Generated.IsZero() {
		out.Time = p.Generated.UTC().Format(time.RFC3339Nano)
	}
	out.Hosts, out.Checks, out.Findings = some(out.Hosts), some(out.Checks), some(out.Findings)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(out)
}

// document is what JSON writes.
type document struct {
	V       int      `json:"v"`
	Gorun   string   `json:"gorun,omitempty"`
	Time    string   `json:"time,omitempty"`
	Seconds float64  `json:"took_s"`
	Command []string `json:"command,omitempty"`
	preflight.Report
	Decision  preflight.Decision `json:"decision"`
	Headline  string             `json:"headline"`
	Layout    []Place            `json:"layout,omitempty"`
	Remarks   []string           `json:"layout_remarks,omitempty"`
	Latency   [][]number         `json:"latency_s,omitempty"`
	Bandwidth [][]number         `json:"bandwidth_bytes_per_s,omitempty"`
}

// some is list, or one without elements that is not null.
func some[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// number is a figure of a matrix; null in JSON if it was not measured.
type number float64

// MarshalJSON writes six digits, which is more than a measurement has.
func (n number) MarshalJSON() ([]byte, error) {
	if !measured(float64(n)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'g', 6, 64), nil
}

func measured(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

func matrix(m [][]float64) (out [][]number) {
	for _, row := range m {
		numbers := make([]number, len(row))
		for i, x := range row {
			numbers[i] = number(x)
		}
		out = append(out, numbers)
	}
	return out
}
