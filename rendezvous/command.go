package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

const help = `gorun store - exchange keys and meet, from a program that gorun started

  $GORUN_EXE store put addr "$(hostname):4000"    # in one rank
  addr=$($GORUN_EXE store get addr)               # in the others: waits for it
  $GORUN_EXE store barrier                        # returns when every rank is here

Usage:
  gorun store put KEY [VALUE|-]   set KEY for all ranks; without VALUE, or with -, from stdin
  gorun store get KEY             wait for KEY and write its value
  gorun store try KEY             write KEY's value if it is there now
  gorun store barrier [NAME]      wait until every rank has entered the barrier NAME
  gorun store uid [NAME]          write an ID of 128 bytes in hexadecimal, the same in all
                                  ranks; rank 0 makes it, at random, unless it is there
  gorun store uid put [NAME]      take an ID that this rank has made, as an ncclUniqueId, from
                                  stdin: 128 bytes, or 256 hexadecimal digits
  gorun store uid get [NAME]      wait for that ID and write it in hexadecimal

  gorun store check-env           compare this process's NCCL settings with those of all other
                                  ranks, which must call it too, once in an epoch

Options, anywhere before --:
  --timeout 60|60s    how long to wait; the message then says who is missing (default 60)
  --epoch N           keys and barriers of different epochs never meet (default 0)
  --from RANK         get: the rank that is to write KEY, for that message; uid get: 0 if not given
  --raw               uid: write the 128 bytes as they are
  -h, --help          this text

NAME is "default" if not given. A key may be put again with the same value, but never
with another. A barrier may be used again once it was passed. Put "--" before a KEY or
VALUE that begins with "-". Values are written as they are, without a line's end.
An ID is for one NAME in one epoch; "uid put" refuses one that has been used, or whose
address ranks on other hosts cannot reach.
Limits: a key 256 bytes, a value 65536 bytes, a job 64 MiB.

Exit codes: 0 done; 1 not there (try), different (check-env), not in time, or refused;
2 wrong usage; 125 not under gorun, or the job has ended; 130 interrupted.
`

// Exit codes of Command.
const (
	exitNo    = 1
	exitUsage = 2
	exitGone  = 125
	exitStop  = 130
)

const defaultName = "default"

// Commands that are no ops of the protocol.
const (
	cmdUID    = "uid"
	cmdUIDPut = "uid put"
	cmdUIDGet = "uid get"
	cmdCheck  = "check-env"
)

// usageError is a mistake in the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// short is the text without the middle of something long that it quotes.
func (e *usageError) short() string {
	const first, last = 300, 150
	if len(e.text) <= first+last {
		return e.text
	}
	return strings.ToValidUTF8(e.text[:first], "") + " ... " + strings.ToValidUTF8(e.text[len(e.text)-last:], "")
}

// errAbsent ends try without a message, as a test in a shell script wants it.
var errAbsent = errors.New("not there")

// storeCommand is a parsed command line.
type storeCommand struct {
	op      string
	args    []string
	timeout time.Duration
	epoch   int
	from    *int
	raw     bool
	help    bool

	stdin  io.Reader
	stdout io.Writer
}

// Command runs "gorun store ARGS" in a rank and returns its exit code: 0 success,
// 1 the key is not there, the deadline passed or the store refused, 2 wrong usage,
// 125 not under gorun or the store is gone, 130 ctx was cancelled. It reads stdin
// only for put, without a time limit; a read that ctx leaves behind ends with stdin.
func Command(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd, err := parseCommand(args)
	if err == nil && cmd.help {
		_, err = io.WriteString(stdout, help)
		return exitCode(err, stderr)
	}
	if err == nil {
		cmd.stdin, cmd.stdout = stdin, stdout
		err = cmd.run(ctx)
	}
	return exitCode(err, stderr)
}

// exitCode reports err and returns its code.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	if err == errAbsent {
		return exitNo
	}
	if e, ok := errors.AsType[*usageError](err); ok {
		fmt.Fprintf(stderr, "gorun store: %s\n", e.short())
		fmt.Fprintln(stderr, "gorun store: hint: gorun store --help")
		return exitUsage
	}
	fmt.Fprintf(stderr, "gorun store: %v\n", err)
	if errors.Is(err, ErrNotLaunched) {
		fmt.Fprintln(stderr, `gorun store: hint: run it in a program that gorun started, as "$GORUN_EXE store ..."`)
	}
	_, refused := errors.AsType[*Error](err)
	_, differs := errors.AsType[*EnvError](err)
	switch {
	case refused || differs || errors.Is(err, context.DeadlineExceeded):
		return exitNo
	case errors.Is(err, context.Canceled):
		return exitStop
	}
	return exitGone
}

// parseCommand reads a command line; options may stand anywhere before "--".
func parseCommand(args []string) (*storeCommand, error) {
	cmd := &storeCommand{timeout: DefaultTimeout}
	var words []string
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--":
			words, args = append(words, args...), nil
		case arg == "-h" || arg == "--help" || arg == "-help":
			cmd.help = true
		case arg == "--raw" || arg == "-raw":
			cmd.raw = true
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			words = append(words, arg)
		default:
			flag, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if !ok && len(args) > 0 {
				value, args, ok = args[0], args[1:], true
			}
			err := cmd.set(arg, flag, value, ok)
			if err == errUnknown {
				err = unknownOption(arg, words)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if cmd.help || (len(words) == 1 && words[0] == "help") {
		return &storeCommand{help: true}, nil
	}
	if len(words) == 0 {
		return nil, &usageError{"what? put, get, try, barrier, uid or check-env"}
	}
	cmd.op, cmd.args = words[0], words[1:]
	if cmd.op == cmdUID && len(cmd.args) > 0 && (cmd.args[0] == opPut || cmd.args[0] == opGet) {
		cmd.op, cmd.args = cmd.op+" "+cmd.args[0], cmd.args[1:]
	}
	return cmd, cmd.check()
}

// unknownOption is the error for arg behind words. Where a VALUE belongs it may be a
// secret, which is not repeated.
func unknownOption(arg string, words []string) error {
	if len(words) > 1 && words[0] == opPut {
		return &usageError{"unknown option (a VALUE that begins with - goes after --)"}
	}
	option, _, _ := strings.Cut(arg, "=")
	return &usageError{fmt.Sprintf("unknown option %q (a KEY or VALUE that begins with - goes after --)", option)}
}

// errUnknown is what set returns for an option that there is not.
var errUnknown = errors.New("unknown option")

// set sets the option flag, which was typed as arg; ok is false if it has no value.
func (cmd *storeCommand) set(arg, flag, value string, ok bool) error {
	var err error
	switch flag {
	case "timeout":
		cmd.timeout, err = parseTimeout(value)
	case "epoch":
		cmd.epoch, err = parseCount(value)
	case "from":
		var rank int
		rank, err = parseCount(value)
		cmd.from = &rank
	default:
		return errUnknown
	}
	if !ok {
		return &usageError{fmt.Sprintf("option %q without a value", arg)}
	}
	if err != nil {
		return &usageError{fmt.Sprintf("option --%s: %v", flag, err)}
	}
	return nil
}

// parseTimeout reads seconds, or a duration with its unit.
func parseTimeout(text string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d, err := time.ParseDuration(text)
		seconds = d.Seconds()
		if err != nil {
			return 0, fmt.Errorf("%q is not a time; want seconds, or 500ms, 10s, 2m", text)
		}
	}
	if !(seconds >= 0.001) {
		return 0, fmt.Errorf("%q is too short", text)
	}
	return time.Duration(min(seconds, maxTimeout.Seconds()) * float64(time.Second)), nil
}

func parseCount(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a number from 0", text)
	}
	return n, nil
}

// check returns what is wrong with the words, or nil.
func (cmd *storeCommand) check() error {
	least, most := 1, 1
	switch cmd.op {
	case opPut:
		most = 2
	case opGet, opTry:
	case opBarrier, cmdUID, cmdUIDPut, cmdUIDGet:
		least = 0
	case cmdCheck:
		least, most = 0, 0
	default:
		return &usageError{fmt.Sprintf("unknown command %q; there are put, get, try, barrier, uid and check-env", cmd.op)}
	}
	switch {
	case len(cmd.args) < least:
		return &usageError{cmd.op + ": which KEY?"}
	case len(cmd.args) > most:
		return &usageError{fmt.Sprintf("%s: %d words are too many (one with blanks needs quotes)", cmd.op, len(cmd.args))}
	case cmd.from != nil && cmd.op != opGet && cmd.op != cmdUIDGet:
		return &usageError{cmd.op + ": --from is for get only"}
	case cmd.raw && cmd.op != cmdUID && cmd.op != cmdUIDGet:
		return &usageError{cmd.op + ": --raw is for uid only"}
	}
	if len(cmd.args) == 0 {
		cmd.args = []string{defaultName}
	}
	return nil
}

// run connects first, so that a value from a slow standard input does not use up
// the time for the store.
func (cmd *storeCommand) run(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, cmd.timeout)
	defer cancel()
	c, err := Dial(dialing)
	if err != nil {
		return err
	}
	defer c.Close()
	var value []byte
	if cmd.op == opPut || cmd.op == cmdUIDPut {
		if value, err = cmd.value(ctx); err != nil {
			return err
		}
	}
	ctx, cancel = context.WithTimeout(ctx, cmd.timeout)
	defer cancel()
	return cmd.ask(ctx, c.At(cmd.epoch), value)
}

func (cmd *storeCommand) ask(ctx context.Context, c *Client, value []byte) error {
	key := cmd.args[0]
	switch cmd.op {
	case opPut:
		return c.Put(ctx, key, value)
	case opTry:
		value, ok, err := c.Try(ctx, key)
		if err == nil && !ok {
			return errAbsent
		}
		return cmd.print(value, err)
	case opBarrier:
		return c.Barrier(ctx, key)
	case cmdCheck:
		return CheckEnv(ctx, c, os.Environ())
	case cmdUID:
		return cmd.printID(cmd.uniqueID(ctx, c, key))
	case cmdUIDPut:
		return cmd.putID(ctx, c, key, value)
	case cmdUIDGet:
		return cmd.printID(cmd.getID(ctx, c, key))
	}
	if cmd.from != nil {
		return cmd.print(c.GetFrom(ctx, key, *cmd.from))
	}
	return cmd.print(c.Get(ctx, key))
}

// value returns what to put: the second word, or standard input. A read cannot be
// interrupted, so after ctx its goroutine stays until standard input ends.
func (cmd *storeCommand) value(ctx context.Context) ([]byte, error) {
	if cmd.op == opPut && len(cmd.args) == 2 && cmd.args[1] != "-" {
		return []byte(cmd.args[1]), nil
	}
	type result struct {
		value []byte
		err   error
	}
	read := make(chan result, 1)
	go func() {
		value, err := io.ReadAll(io.LimitReader(cmd.stdin, MaxValue+1))
		read <- result{value, err}
	}()
	select {
	case r := <-read:
		return r.value, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (cmd *storeCommand) print(value []byte, err error) error {
	if err == nil {
		_, err = cmd.stdout.Write(value)
	}
	return err
}
