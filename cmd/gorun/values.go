package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"gorun/envsync"
	"gorun/launcher"
	"gorun/launcher/output"
	"gorun/launcher/transport"
)

// once is the value of a flag that says one thing: it may be repeated only with an
// equal value, else Set returns errContradiction.
type once[T comparable] struct {
	dst   *T
	parse func(string) (T, error)
	set   bool
}

var errContradiction = errors.New("given twice, with different values")

func (o *once[T]) Set(s string) error {
	v, err := o.parse(s)
	if err != nil {
		return err
	}
	if o.set && v != *o.dst {
		return errContradiction
	}
	*o.dst, o.set = v, true
	return nil
}

func (o *once[T]) String() string { return fmt.Sprint(*o.dst) }
func (o *once[T]) Type() string   { return fmt.Sprintf("%T", *o.dst) }

// value stores into dst what parse makes of a flag's value.
func value[T comparable](dst *T, parse func(string) (T, error)) pflag.Value {
	return &once[T]{dst: dst, parse: parse}
}

// yes is the value of a flag that needs none.
func yes(dst *bool) pflag.Value { return value(dst, boolean) }

// settings gathers -x and -genv in the order of the command line.
type settings struct {
	flag string
	dst  *[]envsync.Setting
}

func (v *settings) Set(s string) error {
	*v.dst = append(*v.dst, envsync.Setting{Flag: v.flag, Text: s})
	return nil
}

func (v *settings) String() string { return "" }
func (v *settings) Type() string   { return listType }

// listType is the type of a flag whose every use adds to those before.
const listType = "list"

// rshCommand reads --rsh.
func rshCommand(s string) (string, error) {
	if err := transport.CheckRsh(s); err != nil {
		return "", &usageError{err.Error(), []string{"write it as in --rsh 'ssh -o BatchMode=yes {host}' or --rsh 'kubectl exec -i {host} --'"}}
	}
	return s, nil
}

// repeated gathers the values of a flag that may be repeated.
type repeated struct{ dst *[]string }

func (r *repeated) Set(s string) error {
	s, err := text(s)
	if err == nil {
		*r.dst = append(*r.dst, s)
	}
	return err
}

func (r *repeated) String() string { return "" }
func (r *repeated) Type() string   { return listType }

func boolean(s string) (bool, error) {
	b, err := strconv.ParseBool(s)
	if err != nil {
		return false, &usageError{fmt.Sprintf("%q is neither true nor false", s), []string{"write true or false; the flag needs no value"}}
	}
	return b, nil
}

func text(s string) (string, error) {
	if s == "" {
		return "", &usageError{"the value is empty", []string{"is a variable of your script unset?"}}
	}
	if strings.ContainsRune(s, 0) {
		return "", &usageError{fmt.Sprintf("%q holds a NUL byte", s), nil}
	}
	return s, nil
}

// pattern is the path of ranks' files.
func pattern(s string) (string, error) {
	s, err := text(s)
	if err == nil {
		err = output.CheckPattern(s)
	}
	if e, ok := errors.AsType[*output.PatternError](err); ok {
		err = &usageError{e.Text, []string{e.Hint}}
	}
	return s, err
}

// count is a whole number above 0.
func count(s string) (int, error) {
	n, err := strconv.Atoi(s)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, &usageError{fmt.Sprintf("%s is too large a number", s), nil}
	case err != nil:
		return 0, &usageError{fmt.Sprintf("%q is not a whole number", s), nil}
	case n < 1:
		return 0, &usageError{fmt.Sprintf("%d is less than 1", n), nil}
	}
	return n, nil
}

// hinted adds a hint to the errors of parse.
func hinted[T any](parse func(string) (T, error), hint string) func(string) (T, error) {
	return func(s string) (T, error) {
		v, err := parse(s)
		if u, ok := errors.AsType[*usageError](err); ok {
			u.hints = append(u.hints, hint)
		}
		return v, err
	}
}

// port is one of an ssh server.
func port(s string) (int, error) {
	n, err := count(s)
	if err == nil && n > 65535 {
		err = &usageError{fmt.Sprintf("%d is no port", n), nil}
	}
	return n, err
}

// mostRanks is where a number of ranks is a slip of the pen whatever the hosts offer.
const mostRanks = 1_000_000

// ranks is a number of ranks.
func ranks(s string) (int, error) {
	n, err := count(s)
	if err == nil && n > mostRanks {
		err = &usageError{fmt.Sprintf("%d is too large a number; a job has at most %d ranks", n, launcher.MaxRanks), nil}
	}
	return n, err
}

// duration is seconds, or a number with a unit; not negative.
func duration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if f, ferr := strconv.ParseFloat(s, 64); ferr == nil && err != nil && math.Abs(f) < math.MaxInt64/float64(time.Second) {
		d, err = time.Duration(f*float64(time.Second)), nil
	}
	switch {
	case err != nil:
		return 0, &usageError{fmt.Sprintf("%q is not a time", s), []string{"write seconds, or a number with a unit: 60, 1.5, 500ms, 2m, 1h30m"}}
	case d < 0:
		return 0, &usageError{fmt.Sprintf("%q is less than 0", s), nil}
	case d > longest:
		return 0, &usageError{fmt.Sprintf("%q is more than %v", s, longest), nil}
	}
	return d, nil
}

// longest is more than any job takes, and so little that two such times can be added.
const longest = 10 * 365 * 24 * time.Hour

// positive is a duration above 0.
func positive(s string) (time.Duration, error) {
	d, err := duration(s)
	if err == nil && d == 0 {
		err = &usageError{"no time at all", []string{"leave the flag out to have its default"}}
	}
	return d, err
}

// shortestSilence is the least that --lost-after may be: heartbeats come every 2 s.
const shortestSilence = 3 * time.Second

// silence is the time after which a host that says nothing is lost.
func silence(s string) (time.Duration, error) {
	d, err := duration(s)
	if err == nil && d < shortestSilence {
		err = &usageError{fmt.Sprintf("%v is too short: a host gives a sign of life every 2 s", d),
			[]string{fmt.Sprintf("%v is the least; the default is %v", shortestSilence, launcher.DefaultLostAfter)}}
	}
	return d, err
}

// stdinTarget says which ranks read gorun's standard input.
func stdinTarget(s string) (int, error) {
	switch s {
	case "none":
		return launcher.StdinNone, nil
	case "all":
		return launcher.StdinAll, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n >= launcher.MaxRanks {
		return 0, &usageError{fmt.Sprintf("%q is not a rank", s), []string{"write none, all, or the number of one rank; the default is 0"}}
	}
	return n, nil
}

// backendName is the value of GORUN_BACKEND. Which names there are the program knows.
func backendName(s string) (string, error) {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
	if s == "" || strings.Trim(s, plain) != "" {
		return "", &usageError{fmt.Sprintf("%q is not the name of a backend", s), []string{"gorun's own backend is cpu"}}
	}
	return s, nil
}

// pmiWay is how MPI programs reach gorun.
func pmiWay(s string) (string, error) {
	switch s {
	case launcher.PMIFile, launcher.PMIPort, launcher.PMINone:
		return s, nil
	}
	return "", &usageError{fmt.Sprintf("%q is no way for MPI programs", s), []string{"write --pmi fd, --pmi port or --pmi none; the default is fd"}}
}

// shellName is a shell that gorun can teach its flags.
func shellName(s string) (string, error) {
	if s != "bash" && s != "zsh" && s != "fish" {
		return "", &usageError{fmt.Sprintf("no completion for %q", s), []string{"there is one for bash, zsh and fish"}}
	}
	return s, nil
}
