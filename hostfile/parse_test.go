package hostfile

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// render writes hosts in one line each, only what is given.
func render(hosts []Host) string {
	var b strings.Builder
	for _, h := range hosts {
		b.WriteString(h.Name)
		if h.Slots >= 0 {
			fmt.Fprintf(&b, " slots=%d", h.Slots)
		}
		if h.MaxSlots > 0 {
			fmt.Fprintf(&b, " max=%d", h.MaxSlots)
		}
		if h.User != "" {
			fmt.Fprintf(&b, " user=%s", h.User)
		}
		if h.Port != 0 {
			fmt.Fprintf(&b, " port=%d", h.Port)
		}
		for _, l := range []struct{ key, value string }{{"public_addr", h.Addr}, {"rack", h.Rack}, {"switch", h.Switch}, {"domain", h.Domain}} {
			if l.value != "" {
				fmt.Fprintf(&b, " %s=%s", l.key, l.value)
			}
		}
		if h.Bare {
			b.WriteString(" bare")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// lines joins lines as render ends them.
func lines(l ...string) string { return strings.Join(l, "\n") + "\n" }

// checkError fails unless err is a *SyntaxError of that text and hint. A want that
// ends in "*" is compared up to there.
func checkError(t *testing.T, err error, want, hint string) {
	t.Helper()
	se, ok := errors.AsType[*SyntaxError](err)
	if !ok {
		t.Fatalf("got error %v; want a *SyntaxError %q", err, want)
	}
	if !alike(se.Error(), want) {
		t.Errorf("got error\n  %s\nwant\n  %s", se, want)
	}
	if !alike(se.Hint, hint) {
		t.Errorf("got hint\n  %s\nwant\n  %s", se.Hint, hint)
	}
}

func alike(got, want string) bool {
	prefix, ok := strings.CutSuffix(want, "*")
	return got == want || ok && strings.HasPrefix(got, prefix)
}

func TestParse(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "a\nb\n", lines("a", "b")},
		{"no-final-newline", "a\nlocalhost", lines("a", "localhost")},
		{"crlf", "a slots=2\r\nb\r\n\r\n", lines("a slots=2", "b")},
		{"two-returns", "a\r\r\nb\r\r\n", lines("a", "b")},
		{"byte-order-mark", "\ufeffa slots=2\nb", lines("a slots=2", "b")},
		{"blanks", " \t a \t slots=2 \t\n\t\n   \nb  ", lines("a slots=2", "b")},
		{"openmpi", "a slots=2 max_slots=4 port=222 user=ann", lines("a slots=2 max=4 user=ann port=222")},
		{"blanks-around-equals", "a slots = 2 max_slots= 4 port =222", lines("a slots=2 max=4 port=222")},
		{"slots-spellings", "a slots=1\nb cpu=2\nc count=3", lines("a slots=1", "b slots=2", "c slots=3")},
		{"user-spellings", "a user=u\nb username=v\nc user-name=w\nd user_name=x\ne@f", lines("a user=u", "b user=v", "c user=w", "d user=x", "f user=e")},
		{"max-alone", "a max_slots=4", lines("a slots=4 max=4")},
		{"max-equal", "a:4 max_slots=4", lines("a slots=4 max=4")},
		{"slots-zero", "a slots=0\nb:0\nc", lines("a slots=0", "b slots=0", "c")},
		{"hydra", "a:2\nb:16", lines("a slots=2", "b slots=16")},
		{"hydra-star", "a:*\nb:auto", lines("a", "b")},
		{"hydra-with-port", "ann@a:2 port=22", lines("a slots=2 user=ann port=22")},
		{"hydra-repeats-add", "a:2\nb:1\na:3", lines("a slots=5", "b slots=1")},
		{"plain-repeats-add", "a\na\nb port=22\na\n", lines("a slots=3", "b port=22")},
		{"nodefile", "a\na\nb\na\n", lines("a slots=3", "b slots=1")},
		{"kungfu", "10.0.0.3 slots=4 public_addr=54.1.2.3\n10.0.0.4 slots=2 public_addr=x.y#\nfd00::1 public_addr=fd00::2",
			lines("10.0.0.3 slots=4 public_addr=54.1.2.3", "10.0.0.4 slots=2 public_addr=x.y", "fd00::1 public_addr=fd00::2")},
		{"kungfu-list", "10.0.0.3:4:54.1.2.3\nann@10.0.0.4:2:gate port=22", lines("10.0.0.3 slots=4 public_addr=54.1.2.3", "10.0.0.4 slots=2 user=ann port=22 public_addr=gate")},
		{"labels", "n[1-2] rack=r1 switch=leaf-7/2\nn3 slots=2 rack=Süd domain=d1", lines("n1 rack=r1 switch=leaf-7/2", "n2 rack=r1 switch=leaf-7/2", "n3 slots=2 rack=Süd domain=d1")},
		{"labels-in-one-of-two-lines", "a rack=r1\na\na switch=s rack=r1", lines("a slots=3 rack=r1 switch=s")},
		{"excluded", "^b\na slots=2\nb slots=2\nn[1-4]\n ^n[2-3] # bad\n^N4\nfd00::2\nfd00::3\n^FD00:0::3", lines("a slots=2", "n1", "fd00::2")},
		{"plain-and-hydra-add", "a:2\na\n", lines("a slots=3")},
		{"repeat-fills-in", "a\nann@a port=22\na\n", lines("a slots=3 user=ann port=22")},
		{"case", "GPU1\ngpu1\n", lines("GPU1 slots=2")},
		{"first-labels", "gpu.1.foo slots=2\ngpu.2.foo slots=2\ngpu slots=1", lines("gpu.1.foo slots=2", "gpu.2.foo slots=2", "gpu slots=1")},
		{"numbers-in-names", "10.0.0.1\n0a\nnode_1-x.y", lines("10.0.0.1", "0a", "node_1-x.y")},
		{"ipv6-bare", "fd00::2 slots=3\n::1", lines("fd00::2 slots=3", "::1")},
		{"ipv6-port", "[fd00::2]:2222\n[fd00::3]\nann@[fd00::4]:22 slots=2", lines("fd00::2 port=2222", "fd00::3", "fd00::4 slots=2 user=ann port=22")},
		{"ipv6-zone", "fe80::1%eth0 slots=1\n[fe80::2%ib0.1]:22", lines("fe80::1%eth0 slots=1", "fe80::2%ib0.1 port=22")},
		{"ipv6-same-value", "fd00::2\nFD00:0::2", lines("fd00::2 slots=2")},
		{"ipv6-range", "fd00::[9-10]", lines("fd00::9", "fd00::10")},
		{"range", "gpu[1-2]-ib0 slots=8", lines("gpu1-ib0 slots=8", "gpu2-ib0 slots=8")},
		{"range-counted", "ann@n[08-10]:4", lines("n08 slots=4 user=ann", "n09 slots=4 user=ann", "n10 slots=4 user=ann")},
		{"range-address", "10.0.0.[1-2]", lines("10.0.0.1", "10.0.0.2")},
		{"range-repeat", "n[1-3,2]", lines("n1", "n2 slots=2", "n3")},
		{"hash-comments", "# one\na # two\nb#three\n  # four", lines("a", "b")},
		{"slash-comments", "// one\na // two\nb//three", lines("a", "b")},
		{"block-comments", "/* one */ a /* two */ slots=2 /**/\n/* three\nx\n */b\n/*/ y */ c", lines("a slots=2", "b", "c")},
		{"comment-in-comment", "a # /* no\nb // /* no\n/* # */ c /* // */", lines("a", "b", "c")},
		{"any-bytes-in-comment", "a # \xff\xfe\x01 é\n", lines("a")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosts, err := Parse("hosts", strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if got := render(hosts); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

func TestParseMaxSlotsSpellings(t *testing.T) {
	for _, stem := range []string{"slots", "cpu", "count"} {
		for _, key := range []string{"max_" + stem, "max-" + stem, stem + "_max", stem + "-max"} {
			hosts, err := Parse("hosts", strings.NewReader("a slots=1 "+key+"=7"))
			if err != nil || hosts[0].MaxSlots != 7 {
				t.Errorf("%s: got %v, %v; want MaxSlots 7", key, hosts, err)
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	const keys = keyList
	tests := []struct{ name, text, want, hint string }{
		{"empty", "", `hosts: no hosts in it`, ""},
		{"comments-only", "# a\n\n", `hosts: no hosts in it`, ""},
		{"unclosed-comment", "a\nb /* c\nd\n", `hosts:2:3: "/*": the comment is not closed`, "end it with */"},
		{"comment-swallows-lines", "a /* b\nc\nd /* e */\n", `hosts:3:3: "/*": the comment of line 1 is still open`, "end it with */"},
		{"binary", "\x7fELF\x02\x00", `hosts: binary data, not a hostfile`, ""},
		{"utf-16", "\xff\xfea\x00", `hosts: text in UTF-16`, "save the file as UTF-8"},
		{"old-mac", "a\rb\rc", `hosts:1:2: "\r": carriage return inside the line`, "the file has the line ends of an old Mac*"},
		{"old-mac-comment", "# a\rb\n", `hosts:1:4: "\r": carriage return inside the line`, "the file has the line ends of an old Mac*"},
		{"control", "a\nb\x1b[1m", `hosts:2:2: "\x1b": control character`, ""},
		{"mark-inside", "a\n\ufeffb", `hosts:2:1: "\ufeffb": "\ufeff" cannot be in a name`, ""},
		{"no-break-space", "a\u00a0slots=2", `hosts:1:1: "a\u00a0slots": "\u00a0" cannot be in a name`, ""},
		{"not-utf-8", "a\nb\xffc", `hosts:2:1: "b\xffc": "\xff" cannot be in a name`, ""},
		{"column-counts-characters", "/* é */ a gpus=3", `hosts:1:11: "gpus": unknown key`, "did you mean slots?"},
		{"key-slot", "a slot=2", `hosts:1:3: "slot": unknown key`, "did you mean slots?"},
		{"key-gpus", "a\nb gpus=3\n", `hosts:2:3: "gpus": unknown key`, "did you mean slots?"},
		{"key-case", "a SLOTS=2", `hosts:1:3: "SLOTS": unknown key`, "did you mean slots?"},
		{"key-swapped", "a solts=2", `hosts:1:3: "solts": unknown key`, "did you mean slots?"},
		{"key-ports", "a ports=2", `hosts:1:3: "ports": unknown key`, "did you mean port?"},
		{"key-max-slot", "a max-slot=2", `hosts:1:3: "max-slot": unknown key`, "did you mean max_slots?"},
		{"key-maxslots", "a maxslots=2", `hosts:1:3: "maxslots": unknown key`, "did you mean max_slots?"},
		{"key-login", "a login=2", `hosts:1:3: "login": unknown key`, "did you mean user?"},
		{"key-ssh-port", "a ssh-port=2", `hosts:1:3: "ssh-port": unknown key`, "did you mean port?"},
		{"key-far", "a colour=red", `hosts:1:3: "colour": unknown key`, keys},
		{"key-of-hydra", "a:2 ifname=eth0", `hosts:1:5: "ifname": unknown key`, "leave it out: the interface is found for each host, or is named for all by --interface"},
		{"other-key-of-hydra", "a:2 binding=user:0,1", `hosts:1:5: "binding": unknown key`, "leave it out: ranks are bound by --bind-to"},
		{"key-long", "a " + strings.Repeat("x", 100) + "=1", `hosts:1:3: "` + strings.Repeat("x", 80) + `...": unknown key`, keys},
		{"key-twice", "a slots=2 slots=2", `hosts:1:11: "slots": given twice in this line`, ""},
		{"count-and-slots", "a:2 slots=2", `hosts:1:5: "slots": given twice in this line`, ""},
		{"user-twice", "ann@a user=bob", `hosts:1:7: "user": given twice in this line`, ""},
		{"port-twice", "[::1]:22 port=23", `hosts:1:10: "port": given twice in this line`, ""},
		{"no-value", "a slots=", `hosts:1:3: "slots": no value after it`, ""},
		{"two-equals", "a slots==2", `hosts:1:3: "slots": no value after it`, ""},
		{"no-key", "a =2", `hosts:1:3: "=": no key before it`, ""},
		{"no-host", "slots=2", `hosts:1:6: "=": no key before it`, ""},
		{"equals-only", " = ", `hosts:1:2: "=": no host before it`, ""},
		{"stray-number", "a 8 all.q", `hosts:1:3: "8": not a key=value`, "for a number of slots write slots=8"},
		{"stray-host", "a b", `hosts:1:3: "b": not a key=value`, "write one host per line*"},
		{"stray-key", "a slots", `hosts:1:3: "slots": not a key=value`, "write slots=VALUE"},
		{"stray-colon", "a :2", `hosts:1:3: ":2": not a key=value`, "write host:slots without blanks"},
		{"slots-negative", "a slots=-1", `hosts:1:3: "slots=-1": not a number of slots`, ""},
		{"slots-word", "a slots=two", `hosts:1:3: "slots=two": not a number of slots`, ""},
		{"slots-key-as-value", "a slots= port=22", `hosts:1:3: "slots=port": not a number of slots`, ""},
		{"slots-plus", "a slots=+1", `hosts:1:3: "slots=+1": not a number of slots`, ""},
		{"slots-large", "a slots=65537", `hosts:1:3: "slots=65537": more than 65536 slots`, ""},
		{"slots-huge", "a slots=99999999999999999999", `hosts:1:3: "slots=99999999999999999999": more than 65536 slots`, ""},
		{"max-below-slots", "  a slots=4 max_slots=2", `hosts:1:13: "max_slots": 4 slots are more than max_slots, 2`, ""},
		{"max-zero", "a max_slots=0", `hosts:1:3: "max_slots=0": a limit of no slots`, "for no limit leave max_slots out*"},
		{"max-zero-below-slots", "a slots=3 max_slots=0", `hosts:1:11: "max_slots=0": a limit of no slots`, "for no limit leave max_slots out*"},
		{"port-zero", "a port=0", `hosts:1:3: "port=0": not a port (1 to 65535)`, ""},
		{"port-large", "a port=65536", `hosts:1:3: "port=65536": not a port (1 to 65535)`, ""},
		{"user-bad", "a user=-oProxyCommand", `hosts:1:3: "user=-oProxyCommand": a user's name cannot start with -`, ""},
		{"user-empty", "@a", `hosts:1:1: "@a": no user before @`, ""},
		{"user-odd", "a:b@c", `hosts:1:1: "a:b@c": a user's name cannot have*`, ""},
		{"user-not-utf-8", "\x80@c", `hosts:1:1: "\x80@c": a user's name cannot have*`, ""},
		{"two-users", "a@b@c", `hosts:1:1: "a@b@c": more than one @`, "one host per line, as user@host"},
		{"user-alone", "a@", `hosts:1:1: "a@": no host after @`, "write user@host without blanks"},
		{"count-port", "host:50000", `hosts:1:6: "50000": more than 1024 slots; is it a port?`, `in a hostfile write "host port=50000" for a port, "host slots=50000" for slots`},
		{"count-ssh-port", "ann@host:2222", `hosts:1:10: "2222": more than 1024 slots; is it a port?`, `in a hostfile write "host port=2222"*`},
		{"count-word", "vm:x", `hosts:1:4: "x": not a number of slots`, "write vm:2 for two slots"},
		{"count-missing", "vm: 2", `hosts:1:1: "vm:": no number after the colon`, "write vm:2 without blanks"},
		{"count-range", "a:[1-2]", `hosts:1:3: "[1-2]": not a number of slots`, "write a:2 for two slots"},
		{"colon-first", ":2", `hosts:1:1: ":2": no host before the colon`, "write host:slots without blanks"},
		{"two-colons", "a:2:3", `hosts:1:1: "a:2:3": neither host:slots nor an IPv6 address`, "write an address with its port as [fd00::2]:2222"},
		{"two-colons-range", "fd00::[2-1]", `hosts:1:8: "2-1": bad range: start is after end`, ""},
		{"stray-range", "a n[1-2]", `hosts:1:3: "n[1-2]": not a key=value`, "write a range without blanks*"},
		{"range-then-blank", "n[1 -2]", `hosts:1:2: "[1": [ without a ] after it`, "write a range without blanks*"},
		{"ipv6-bad", "[fd00::zz]:22", `hosts:1:2: "fd00::zz": not an IPv6 address`, ""},
		{"ipv6-open", "[fd00::1", `hosts:1:1: "[fd00::1": no ] after the address`, ""},
		{"ipv6-tail", "[fd00::1]x", `hosts:1:10: "x": only a port can follow the address`, "write [fd00::1]:2222"},
		{"ipv6-no-port", "[fd00::1]:", `hosts:1:11: "": not a port (1 to 65535)`, ""},
		{"ipv6-slots", "[fd00::1]:4", `hosts:1:11: "4": after an address in brackets the number is a port`, `for slots write "fd00::1 slots=4" in a hostfile*`},
		{"ipv6-zone", "fe80::1%é", `hosts:1:1: "fe80::1%é": neither*`, "write an address*"},
		{"ipv4-in-brackets", "[10.0.0.1]:22", `hosts:1:1: "[10.0.0.1]:22": brackets stand around an IPv6 address, or a range of numbers`, "write 10.0.0.1; for a port write port=2222 behind it*"},
		{"url", "a\nssh://rank@node1:22 slots=2", `hosts:2:1: "ssh:": an address of the web's kind, not a host`, "write user@host for ssh://user@host*"},
		{"ipv4-bad", "192.168.3.300", `hosts:1:1: "192.168.3.300": neither a name nor an IPv4 address`, ""},
		{"ipv4-short", "10.1", `hosts:1:1: "10.1": neither a name nor an IPv4 address`, ""},
		{"number", "4", `hosts:1:1: "4": neither a name nor an IPv4 address`, ""},
		{"dots", "...", `hosts:1:1: "...": not a name`, ""},
		{"dash", "-oProxyCommand", `hosts:1:1: "-oProxyCommand": a name cannot start with -`, ""},
		{"relative", "+n0", `hosts:1:1: "+n0": relative hosts select from a hostfile`, "write them in -H*"},
		{"excluded-alone", "^a", "hosts: no hosts in it", ""},
		{"excluded-all", "a\nb\n^a\n ^b", "hosts:4:2: every host is left out", ""},
		{"excluded-unknown", "gpu1\ngpu2\n ^gpu3", `hosts:3:2: "gpu3": not among its hosts`, "there are gpu1, gpu2"},
		{"excluded-short", "^gpu1\ngpu1.lab\ngpu2", `hosts:1:1: "gpu1": not among its hosts`, "there is gpu1.lab"},
		{"excluded-only-one", "^b\na", `hosts:1:1: "b": not among its hosts`, "there is only a"},
		{"excluded-range", "n1\n^n[1", `hosts:2:3: "[1": [ without a ] after it`, "write a range*"},
		{"excluded-with-slots", "a\nb\n^a slots=2", `hosts:3:4: "slots": nothing can follow a host that is left out`, ""},
		{"excluded-count", "a\n^a:2", `hosts:2:2: "a:2": ":" cannot be in a name`, ""},
		{"excluded-user", "a\n^me@a", `hosts:2:2: "me@a": "@" cannot be in a name`, ""},
		{"excluded-twice-marked", "a\n^^a", `hosts:2:2: "^a": ^ stands before the name alone`, "write ^host"},
		{"excluded-with-blank", "a\n^ a", `hosts:2:2: no host`, ""},
		{"excluded-behind-user", "me@^a", `hosts:1:4: "^a": ^ stands before the name alone`, "write ^host"},
		{"rankfile", "rank 0=a slot=1", `hosts:1:1: "rank 0": a line of a rankfile`, "a hostfile has one host a line"},
		{"public-addr-bad", "10.0.0.1 public_addr=a:b", `hosts:1:10: "public_addr=a:b": not an IPv6 address`, ""},
		{"public-addr-of-many", "n[1-2] public_addr=b", `hosts:1:8: "public_addr=b": one address for several hosts`, "write a line for each host"},
		{"public-addr-twice", "10.0.0.1:2:b public_addr=c", `hosts:1:14: "public_addr": given twice in this line`, ""},
		{"public-addrs-differ", "a public_addr=b\na public_addr=c", `hosts:2:1: "a": public_addr "c" here, "b" in hosts:1`, ""},
		{"kungfu-port", "10.0.0.1:4:2222", `hosts:1:12: "2222": neither a name nor an IPv4 address`, ""},
		{"kungfu-slots", "10.0.0.1:4000:x", `hosts:1:10: "4000": more than 1024 slots; is it a port?`, "in a hostfile write*"},
		{"kungfu-empty", "10.0.0.1:4:", `hosts:1:12: no host`, ""},
		{"kungfu-name", "gpu1:4:x", `hosts:1:1: "gpu1:4:x": neither host:slots nor an IPv6 address`, "write an address*"},
		{"key-address", "a ansible_host=b", `hosts:1:3: "ansible_host": unknown key`, "did you mean public_addr?"},
		{"label-odd", "a rack=\xff", `hosts:1:3: "rack=\xff": not a name`, "write at most 253 letters*"},
		{"later-users-differ", "a\nann@a\nbob@a", `hosts:3:1: "a": user "bob" here, "ann" in hosts:2`, ""},
		{"later-ports-differ", "a:1\nA:1 port=22\na:1 port=23", `hosts:3:1: "a": port 23 here, 22 in hosts:2`, ""},
		{"spelled-differently", "GPU slots=2\ngpu slots=2", `hosts:2:1: "gpu": slots are given here and in hosts:1 as "GPU"`, ""},
		{"racks-differ", "a rack=r1\nb\na rack=r2", `hosts:3:1: "a": rack "r2" here, "r1" in hosts:1`, ""},
		{"switches-differ", "a switch=s1\na switch=s2", `hosts:2:1: "a": switch "s2" here, "s1" in hosts:1`, ""},
		{"comma", "a,b", `hosts:1:1: "a,b": a comma in a name`, "write one host per line*"},
		{"quote", `"a"`, `hosts:1:1: "\"a\"": "\"" cannot be in a name`, ""},
		{"long-name", strings.Repeat("a", 254), `hosts:1:1: "` + strings.Repeat("a", 80) + `...": the name is longer than 253 bytes`, ""},
		{"range-backwards", " n[5-3]", `hosts:1:4: "5-3": bad range: start is after end`, ""},
		{"range-with-blank", "n[1, 2]", `hosts:1:2: "[1,": [ without a ] after it`, "write a range without blanks, as n[1-4,7]"},
		{"slots-in-two-lines", "a slots=2\nb\na slots=3", `hosts:3:1: "a": slots are given here and in hosts:1`, ""},
		{"same-slots-in-two-lines", "user01@a slots=2\na slots=2", `hosts:2:1: "a": slots are given here and in hosts:1`, ""},
		{"slots-then-plain", "a slots=2\na", `hosts:2:1: "a": slots are given in one way here and in another in hosts:1`, "a name that stands alone adds one slot each time*"},
		{"plain-then-slots", "a\na slots=2", `hosts:2:1: "a": slots are given in one way here and in another in hosts:1`, "a name that stands alone adds one slot each time*"},
		{"hydra-then-slots", "a:2\na slots=2", `hosts:2:1: "a": slots are given in one way here and in another in hosts:1`, "a name*"},
		{"max-then-plain", "a max_slots=2\na", `hosts:2:1: "a": slots are given in one way here and in another in hosts:1`, "a name*"},
		{"range-repeat-slots", "n[1-3,2] slots=2", `hosts:1:1: "n2": slots are given here and in this same line`, ""},
		{"users-differ", "ann@a\n  bob@a", `hosts:2:3: "a": user "bob" here, "ann" in hosts:1`, ""},
		{"ports-differ", "a port=22\n\na port=23", `hosts:3:1: "a": port 23 here, 22 in hosts:1`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosts, err := Parse("hosts", strings.NewReader(tt.text))
			if err == nil {
				t.Fatalf("got %v; want error %s", hosts, tt.want)
			}
			// An empty text is left out of the message.
			checkError(t, err, strings.Replace(tt.want, ` "": `, " ", 1), tt.hint)
		})
	}
}

func TestParseWhere(t *testing.T) {
	hosts, err := Parse("dir/hosts", strings.NewReader("# c\na\nn[1-2]\na\n"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range []int{2, 3, 3} {
		if hosts[i].File != "dir/hosts" || hosts[i].Line != line {
			t.Errorf("%s: got %s:%d; want dir/hosts:%d", hosts[i].Name, hosts[i].File, hosts[i].Line, line)
		}
	}
}

func TestParseFileSamples(t *testing.T) {
	tests := []struct{ file, want string }{
		{"openmpi-quickstart", lines("node1.example.com", "node2.example.com", "node3.example.com slots=2", "node4.example.com slots=10")},
		{"deepspeed", lines("worker-1 slots=4", "worker-2 slots=4")},
		{"deepspeed-issue-4907", lines("192.168.3.100 slots=2", "192.168.3.101 slots=2")},
		{"deepspeed-issue-3624", lines("work1 slots=2", "work2 slots=2")},
		{"superbench-azure-vms", lines("vma414bbc00005I", "vma414bbc00005J", "vma414bbc00005K", "vma414bbc00005L", "vma414bbc00005M",
			"vma414bbc00005N", "vma414bbc00005O", "vma414bbc00005P", "vma414bbc00005Q", "vma414bbc00005R")},
		{"mpi-operator", lines("mpi-workers-0.mpi-workers slots=3", "mpi-workers-1.mpi-workers slots=3", "mpi-workers-2.mpi-workers slots=3")},
		{"kungfu-public-addr", lines("192.168.0.3 slots=4", "127.0.0.1 slots=8 public_addr=x.y.z")},
		{"horovod", lines("aa slots=2", "bb slots=2", "cc slots=2")},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			hosts, err := ParseFile(filepath.Join("testdata", tt.file+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			if got := render(hosts); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

// In a batch system's nodefile a name is one slot even if no name is repeated.
func TestParseNodefile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nodes")
	for text, want := range map[string]string{
		"a\nb\n":                 lines("a slots=1", "b slots=1"),
		"a.x\na.x\nb.x\na.x\n":   lines("a.x slots=3", "b.x slots=1"),
		"a slots=4\nb:2\nc\nd:*": lines("a slots=4", "b slots=2", "c slots=1", "d"),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		hosts, err := ParseNodefile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := render(hosts); got != want {
			t.Errorf("%q: got\n%swant\n%s", text, got, want)
		}
	}
	_, err := ParseNodefile(path + ".none")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v; want that there is no such file", err)
	}
}

func TestParseFileErrors(t *testing.T) {
	_, err := ParseFile("testdata/prrte-detail.txt")
	checkError(t, err, `testdata/prrte-detail.txt:8:1: "...": not a name`, "")
	_, err = ParseFile("testdata/none")
	if want := "hostfile testdata/none: no such file or directory"; !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
	_, err = ParseFile("testdata")
	if want := "hostfile testdata: is a directory"; !errors.Is(err, syscall.EISDIR) || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = ParseFile(empty)
	checkError(t, err, empty+": no hosts in it", "")
	_, err = ParseFile("/dev/zero")
	checkError(t, err, "/dev/zero: longer than 16 MiB, not a hostfile", "")
}

func TestParseFilePipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		fmt.Fprint(w, "a\nb:2\n")
		w.Close()
	}()
	hosts, err := ParseFile(fmt.Sprintf("/dev/fd/%d", r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := render(hosts), lines("a", "b slots=2"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestParseLimits(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"long-line", "a # " + strings.Repeat("x", maxLine), `hosts:1:1: "a # ` + strings.Repeat("x", 76) + `...": the line is too long`},
		{"hosts", "n[1-65536]\n\nm", `hosts:3:1: "m": more than 65536 hosts in the list`},
		{"range", "n[0-65536]", `hosts:1:3: "0-65536": more than 65536 names`},
		{"ranges", "n[1-300][1-300]", `hosts:1:1: "n[1-300][1-300]": more than 65536 names`},
		{"slots", strings.Repeat("n:1024\n", 65), `hosts:65:1: "n": more than 65536 slots, counted from hosts:1 on`},
		{"long-names", "n[1-65536]" + strings.Repeat("x", 60000), `hosts:1:1: "n[1-65536]` + strings.Repeat("x", 70) + `...": a name is longer than 253 bytes`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse("hosts", strings.NewReader(tt.text))
			checkError(t, err, tt.want, "")
		})
	}
	s := newSet(false)
	s.mentions = maxMentions - 1
	if m := s.add(entry{names: []string{"a"}}); m != nil {
		t.Errorf("got %q for the last name; want none", m.msg)
	}
	if m := s.add(entry{names: []string{"b"}}); m == nil || m.msg != "more than 1048576 names in the list" {
		t.Errorf("got %v for one name too many", m)
	}
	hosts, err := Parse("hosts", strings.NewReader("n[1-65536]\n"))
	if err != nil || len(hosts) != MaxHosts {
		t.Errorf("got %d hosts, %v; want %d", len(hosts), err, MaxHosts)
	}
}

// errorReader fails after some bytes.
type errorReader struct{ r *strings.Reader }

func (e errorReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err != nil {
		err = syscall.EIO
	}
	return n, err
}

func TestParseReadError(t *testing.T) {
	_, err := Parse("hosts", errorReader{strings.NewReader("a\nb\n")})
	if want := "hostfile hosts: input/output error"; !errors.Is(err, syscall.EIO) || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

// However hosts are written and decorated, every one of them is in the result.
func TestParseLosesNoHost(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
	for range 300 {
		var text, want strings.Builder
		text.WriteString(pick("", "\ufeff"))
		end := pick("\n", "\r\n")
		count := 1 + rnd.IntN(20)
		for i := range count {
			for range rnd.IntN(2) {
				text.WriteString(pick("", "# x", "  ", "\t// y:", "/* z\n */") + end)
			}
			name := fmt.Sprintf("n%d", i)
			slots := rnd.IntN(9)
			form := pick("%s slots=%d", "%s:%d", "%s  count =\t%d ", "%s slots=%d port=22", "ann@%s:%d", "%s:%d user=ann")
			line := fmt.Sprintf(form, name, slots)
			text.WriteString(pick("", " ", "\t", "/* c */") + line + pick("", " ", "\t# c", "// c", " /* c */"))
			if i < count-1 {
				text.WriteString(end)
			}
			fmt.Fprintf(&want, "%s slots=%d", name, slots)
			if strings.Contains(line, "ann") {
				want.WriteString(" user=ann")
			}
			if strings.Contains(line, "port") {
				want.WriteString(" port=22")
			}
			want.WriteString("\n")
		}
		text.WriteString(pick("", end))
		hosts, err := Parse("hosts", strings.NewReader(text.String()))
		if err != nil {
			t.Fatalf("%q: %v", text.String(), err)
		}
		if got := render(hosts); got != want.String() {
			t.Fatalf("%q: got\n%swant\n%s", text.String(), got, want.String())
		}
	}
}
