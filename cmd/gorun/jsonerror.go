package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// jsonError is what is wrong in a line of a file that is to be JSON.
type jsonError struct {
	line int
	text string
}

func (e *jsonError) Error() string { return e.text }

// notJSON says where data is not what it should be, by the error of json.Unmarshal.
func notJSON(data []byte, err error) error {
	data = bytes.TrimRight(data, " \t\r\n")
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return &jsonError{lineAt(data, e.Offset), fmt.Sprintf("%s: a value of the wrong kind: %s", cmp.Or(e.Field, "the whole"), e.Value)}
	}
	e, ok := errors.AsType[*json.SyntaxError](err)
	if !ok {
		return err
	}
	line := lineAt(data, e.Offset)
	switch {
	case strings.Contains(e.Error(), "max depth"):
		return &jsonError{line, "nested too deeply"}
	case strings.Contains(e.Error(), "unexpected end"):
		return &jsonError{line, fmt.Sprintf("not JSON: the file ends behind %#q; is it whole?", ending(data))}
	}
	return &jsonError{line, fmt.Sprintf("not JSON: %#q", beginning(data[min(max(e.Offset-1, 0), int64(len(data))):]))}
}

// lineAt is the number of the line in which offset is.
func lineAt(data []byte, offset int64) int {
	return 1 + bytes.Count(data[:min(offset, int64(len(data)))], []byte("\n"))
}

const mostQuoted = 40 // bytes of a line

// beginning is how a line begins.
func beginning(data []byte) string {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	return strings.ToValidUTF8(string(line[:min(len(line), mostQuoted)]), "?")
}

// ending is how the last line of data ends.
func ending(data []byte) string {
	line := data[1+bytes.LastIndexByte(data, '\n'):]
	return strings.ToValidUTF8(string(line[max(0, len(line)-mostQuoted):]), "?")
}
