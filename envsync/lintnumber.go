package envsync

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// number is what C's strtoll, with base 0, makes of a text.
type number struct {
	value    int64
	base     int    // 8 for digits with a 0 in front
	digits   string // with the sign, without 0x; "": no number
	rest     string // what it does not look at
	tooLarge bool   // value is the nearest that fits
}

func readNumber(s string) number {
	s = strings.TrimLeft(s, " \t\n\v\f\r")
	n := number{base: 10, rest: s}
	sign := ""
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[:1], s[1:]
	}
	switch {
	case len(s) > 2 && s[0] == '0' && s[1]|0x20 == 'x' && digits(s[2:], 16) > 0:
		n.base, s = 16, s[2:]
	case strings.HasPrefix(s, "0"):
		n.base = 8
	}
	end := digits(s, n.base)
	if end == 0 {
		return n
	}
	n.digits, n.rest = sign+s[:end], s[end:]
	var err error
	n.value, err = strconv.ParseInt(n.digits, n.base, 64)
	n.tooLarge = errors.Is(err, strconv.ErrRange)
	return n
}

// digits is how many of the first bytes of s are digits of that base.
func digits(s string, base int) int {
	for i := range len(s) {
		if _, err := strconv.ParseUint(s[i:i+1], base, 8); err != nil {
			return i
		}
	}
	return len(s)
}

// number looks at an integer.
func (l *linter) number(v Var, kind Kind) {
	n := readNumber(v.Value)
	behind := strings.TrimSpace(n.rest)
	switch {
	case v.Value == "": // it is as if it were not set
	case n.digits == "":
		l.notNumber(v, kind)
	case behind != "":
		l.behindNumber(v, kind, n, behind)
	case n.tooLarge && v.Name == "NCCL_SOCKET_MAGIC" && fitsUnsigned(n):
	case n.tooLarge:
		l.wrong(v, "", "the number is too large, and NCCL takes its default instead")
	case narrow(v.Name) && !fitsInt(n.value):
		l.wrong(v, "", "the number is too large: NCCL has 32 bits for it, and takes it for %d", int32(n.value))
	case n.base == 8 && n.value != decimal(n.digits):
		l.wrong(v, fmt.Sprintf("write %s=%d", v.Name, decimal(n.digits)), "a 0 in front makes a number octal: NCCL reads %d", n.value)
	}
}

// narrow reports whether NCCL 2.30.7 keeps the number in an int of C's, as far as has been
// looked at: there are more that nobody would set so high.
func narrow(name string) bool {
	switch strings.TrimPrefix(name, "NCCL_") {
	case "BUFFSIZE", "LL_BUFFSIZE", "LL128_BUFFSIZE", "P2P_NET_CHUNKSIZE", "P2P_PCI_CHUNKSIZE", "P2P_NVL_CHUNKSIZE", "NVLSTREE_MAX_CHUNKSIZE",
		"NTHREADS", "LL128_NTHREADS", "COLLNET_NODE_THRESHOLD", "NVLS_NCHANNELS", "MIN_NCHANNELS", "MAX_NCHANNELS", "MIN_NRINGS", "MAX_NRINGS",
		"MIN_CTAS", "MAX_CTAS", "MIN_P2P_NCHANNELS", "MAX_P2P_NCHANNELS", "NCHANNELS_PER_NET_PEER", "P2P_PER_CHANNEL_NET_BW", "P2P_MAX_PEERS",
		"P2P_SCHEDULE_GROUP_SIZE", "LSA_TEAM_SIZE", "CGA_CLUSTER_SIZE", "CONNECT_ROUND_MAX_PEERS", "SHM_LOCALITY", "P2P_PXN_LEVEL", "NUM_RMA_CTX",
		"IB_GID_INDEX", "IB_ROUTABLE_FLID_GID_INDEX", "IB_ROCE_VERSION_NUM", "SOCKET_NTHREADS", "NSOCKS_PERTHREAD", "SOCKET_MIN_TASKSIZE",
		"SOCKET_RCVBUF", "SOCKET_SNDBUF", "SOCKET_POLL_TIMEOUT_MSEC", "SOCKET_RETRY_SLEEP_MSEC", "L1_SHARED_MEMORY_CARVEOUT":
		return true
	}
	return false
}

func fitsInt(n int64) bool { return n == int64(int32(n)) }

// fitsUnsigned reports whether n has no sign and fits in 64 bits.
func fitsUnsigned(n number) bool {
	_, err := strconv.ParseUint(n.digits, n.base, 64)
	return err == nil
}

// decimal is what digits say to people.
func decimal(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// notNumber says what a word means where a number is wanted: 0.
func (l *linter) notNumber(v Var, kind Kind) {
	word := strings.ToLower(strings.TrimSpace(v.Value))
	boolean := word == "true" || word == "t" || word == "false" || word == "f"
	switch {
	case kind == Boolean && boolean:
	case isOneOf(word, []string{"false", "no", "off", "disable", "disabled", "none", "n", "f"}):
		l.warn(v, "write "+v.Name+"=0", "it takes a number; NCCL reads a word as 0")
	case isOneOf(word, []string{"true", "yes", "on", "enable", "enabled", "y", "t"}):
		l.wrong(v, "write "+v.Name+"=1", "it takes a number; NCCL reads a word as 0, the opposite of what is meant")
	case isOneOf(word, []string{"auto", "automatic", "default", "unset", "undef"}):
		l.wrong(v, "leave it unset", "it takes a number; NCCL reads a word as 0")
	default:
		l.wrong(v, "", "it takes a number; NCCL reads this as 0")
	}
}

// behindNumber says what becomes of what follows a number: nothing.
func (l *linter) behindNumber(v Var, kind Kind, n number, behind string) {
	hint := ""
	bits, ok := units[strings.ToLower(behind)]
	switch {
	case !ok || kind != Size || n.base != 10 || n.value >= 1<<62>>bits:
	case narrow(v.Name) && !fitsInt(n.value<<bits):
		hint = "NCCL has 32 bits for it: write less than 2147483648"
	default:
		hint = fmt.Sprintf("write %s=%d", v.Name, n.value<<bits)
	}
	if n.base == 8 && (behind[0] == '8' || behind[0] == '9') {
		l.wrong(v, cutShort("write "+v.Name+"="+shown(strings.TrimLeft(strings.TrimSpace(v.Value), "0"))), "a 0 in front makes a number octal: NCCL reads %d", n.value)
		return
	}
	l.wrong(v, hint, "NCCL reads %d and nothing behind it", n.value)
}

// units are how many bits a unit shifts a number of bytes.
var units = map[string]int{
	"k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40,
}
