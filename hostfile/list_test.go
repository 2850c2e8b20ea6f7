package hostfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestParseList(t *testing.T) {
	tests := []struct{ name, list, want string }{
		{"bare", "a,b", lines("a slots=1 bare", "b slots=1 bare")},
		{"counted", "a:4,b:2", lines("a slots=4", "b slots=2")},
		{"repeats-add", "a,b,a", lines("a slots=2", "b slots=1 bare")},
		{"counted-repeats-add", "a:4,a,a:2", lines("a slots=7")},
		{"star", "a:*,b:auto", lines("a", "b")},
		{"zero", "a:0,b", lines("a slots=0", "b slots=1 bare")},
		{"user", "ann@a:2", lines("a slots=2 user=ann")},
		{"range", "gpu[01-02,7]-ib0:8", lines("gpu01-ib0 slots=8", "gpu02-ib0 slots=8", "gpu7-ib0 slots=8")},
		{"range-repeats", "n[1-3,2]", lines("n1 slots=1 bare", "n2 slots=2", "n3 slots=1 bare")},
		{"ipv6", "fd00::2,[fd00::3]:2222,[fd00::4]", lines("fd00::2 slots=1 bare", "fd00::3 slots=1 port=2222 bare", "fd00::4 slots=1 bare")},
		{"ipv6-repeats", "[fd00::3]:2222,fd00:0::3", lines("fd00::3 slots=2 port=2222")},
		{"kungfu", "10.0.0.3:4:54.1.2.3,10.0.0.4:2", lines("10.0.0.3 slots=4 public_addr=54.1.2.3", "10.0.0.4 slots=2")},
		{"left-out", "gpu[1-4]:8,^gpu3", lines("gpu1 slots=8", "gpu2 slots=8", "gpu4 slots=8")},
		{"left-out-first", "^gpu[1-2],gpu[1-4]", lines("gpu3 slots=1 bare", "gpu4 slots=1 bare")},
		{"blanks-outside", " a:2\n", lines("a slots=2")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosts, err := ParseList(tt.list)
			if err != nil {
				t.Fatal(err)
			}
			if got := render(hosts); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}

func TestParseListErrors(t *testing.T) {
	const emptyHint = "write host1,host2 with no blank after a comma and no comma at the end"
	tests := []struct{ name, list, want, hint string }{
		{"empty", " ", "-H: the list is empty", "write -H host1,host2"},
		{"blanks", "a: 2, b: 2", `-H: "a: 2, b: 2": a blank in the list`, "write -H a:2,b:2"},
		{"blank-separated", "a b:2  c", `-H: "a b:2  c": a blank in the list`, "write -H a,b:2,c"},
		{"newlines", "a\nb\n", `-H: "a\nb": a blank in the list`, "write -H a,b"},
		{"blank-in-range", "n[1, 3 - 4]", `-H: "n[1, 3 - 4]": a blank in the list`, "write -H n[1,3-4]"},
		{"keys-and-blanks", "a slots=2", `-H: "a slots=2": a blank in the list`, "key=value belongs into a hostfile; in -H write host1:4,host2:4"},
		{"comma-at-end", "a:2,", "-H: item 2: it is empty", emptyHint},
		{"comma-first", ",a", "-H: item 1: it is empty", emptyHint},
		{"two-commas", "a,,b", "-H: item 2: it is empty", emptyHint},
		{"key", "a,b=2", `-H: item 2: "b=2": key=value belongs into a hostfile`, "for slots write b:2"},
		{"url", "a,ssh://ann@b:22", `-H: item 2: "ssh://ann@b:22": an address of the web's kind, not a host`, "write ann@b; for a port write port=2222*"},
		{"url-path", "ssh://b/x", `-H: item 1: "ssh://b/x": an address of the web's kind, not a host`, "write b; for a port*"},
		{"ipv4-in-brackets", "[10.0.0.4]:2222", `-H: item 1: "[10.0.0.4]:2222": brackets stand around an IPv6 address, or a range of numbers`, "write 10.0.0.4; for a port*"},
		{"ipv4-of-a-user", "ann@[10.0.0.4]", `-H: item 1: "ann@[10.0.0.4]": brackets stand around an IPv6 address, or a range of numbers`, "write 10.0.0.4; for a port*"},
		{"braces", "n{1..4}", `-H: item 1: "n{1..4}": "{" cannot be in a name`, "ranges stand in square brackets*"},
		{"braces-cut", "n{1,2}", `-H: item 1: "n{1": "{" cannot be in a name`, "ranges stand in square brackets*"},
		{"no-number", "a:2,b:", `-H: item 2: "b:": no number after the colon`, "write b:2 without blanks"},
		{"port", "a:2222", `-H: item 1: "2222": more than 1024 slots; is it a port?`, "in a hostfile write*"},
		{"range", "a,n[5-3]", `-H: item 2: "5-3": bad range: start is after end`, ""},
		{"unbalanced", "n[1-2,a", `-H: item 1: "[1-2,a": [ without a ] after it`, "write a range*"},
		{"unopened", "n1],a", `-H: item 1: "]": ] without a [ before it`, ""},
		{"control", "a,\x1b@b", `-H: item 2: "\x1b@b": a user's name cannot have*`, ""},
		{"users-differ", "ann@a,bob@a", `-H: item 2: "a": user "bob" here, "ann" in item 1`, ""},
		{"left-out-alone", "^a", "-H: item 1: nothing to leave it out of", "name the hosts by -hostfile FILE*"},
		{"left-out-unknown", "gpu1,^gpu2", `-H: item 2: "gpu2": not among its hosts`, "there is only gpu1"},
		{"left-out-all", "a,b,^b,^a", "-H: item 4: every host is left out", ""},
		{"left-out-slots", "a:2,^a:1", `-H: item 2: "a:1": ":" cannot be in a name`, ""},
		{"relative", "a,+n1", `-H: item 2: "+n1": it counts in a hostfile, and there is none`, "add -hostfile FILE*"},
		{"empty-hosts", "+e", `-H: item 1: "+e": no host is busy when a job starts`, "leave it out*"},
		{"star-and-number", "a:*,a:2", `-H: item 2: "a": slots are given in one way here and in another in item 1`, "a name*"},
		{"too-many", "n[1-65536],m", `-H: item 2: "m": more than 65536 hosts in the list`, ""},
		{"too-long", strings.Repeat("a,", maxFile), `-H: "a,a,*`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosts, err := ParseList(tt.list)
			if err == nil {
				t.Fatalf("got %v; want error %s", hosts, tt.want)
			}
			checkError(t, err, tt.want, tt.hint)
		})
	}
}

func TestParseListWhere(t *testing.T) {
	hosts, err := ParseList("a,n[1-2],a")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range []int{1, 2, 2} {
		if hosts[i].File != ListName || hosts[i].Line != line {
			t.Errorf("%s: got %s item %d; want -H item %d", hosts[i].Name, hosts[i].File, hosts[i].Line, line)
		}
	}
	_, err = ParseList("aa,b:x")
	if se := err.(*SyntaxError); se.Col != 6 {
		t.Errorf("got column %d; want 6", se.Col)
	}
}

const filterFile = "gpu1.lab slots=8\ngpu2 slots=8 port=222 user=ann\ngpu3\nGPU4:4\nfd00::2 slots=2\n"

func TestFilter(t *testing.T) {
	tests := []struct{ name, list, want string }{
		{"order-of-file", "gpu3,gpu1.lab", lines("gpu1.lab slots=8", "gpu3")},
		{"bare-keeps-slots", "gpu2", lines("gpu2 slots=8 user=ann port=222")},
		{"number-lowers", "gpu2:3", lines("gpu2 slots=3 user=ann port=222")},
		{"one-lowers", "gpu2:1", lines("gpu2 slots=1 user=ann port=222")},
		{"repeats-lower", "gpu2,gpu2", lines("gpu2 slots=2 user=ann port=222")},
		{"zero", "gpu2:0", lines("gpu2 slots=0 user=ann port=222")},
		{"star-keeps", "gpu2:*", lines("gpu2 slots=8 user=ann port=222")},
		{"number-where-open", "gpu3:5", lines("gpu3 slots=5")},
		{"same-number", "gpu1.lab:8", lines("gpu1.lab slots=8")},
		{"user-where-open", "bob@gpu3", lines("gpu3 user=bob")},
		{"same-user", "ann@gpu2:2", lines("gpu2 slots=2 user=ann port=222")},
		{"case", "gpu4", lines("GPU4 slots=4")},
		{"port-where-open", "[fd00:0::2]:2222", lines("fd00::2 slots=2 port=2222")},
		{"range", "gpu[2-3]", lines("gpu2 slots=8 user=ann port=222", "gpu3")},
		{"relative", "+n2,+n0:3", lines("gpu1.lab slots=3", "gpu3")},
		{"relative-repeats", "+n1,+n1", lines("gpu2 slots=2 user=ann port=222")},
		{"relative-ipv6", "+n4:1", lines("fd00::2 slots=1")},
		{"left-out", "^gpu[2-3],^GPU1.LAB", lines("GPU4 slots=4", "fd00::2 slots=2")},
		{"left-out-of-some", "gpu2,gpu3,^gpu2,^gpu4", lines("gpu3")},
		{"left-out-ipv6", "^fd00:0::2,^gpu[2-4]", lines("gpu1.lab slots=8")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hosts, err := Filter(parsed(t, filterFile), tt.list)
			if err != nil {
				t.Fatal(err)
			}
			if got := render(hosts); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
			if hosts[0].File != "hosts" {
				t.Errorf("got File %q; want that of the hostfile", hosts[0].File)
			}
		})
	}
}

func TestExclude(t *testing.T) {
	for list, want := range map[string]string{
		"gpu2,gpu3":         lines("gpu1.lab slots=8", "GPU4 slots=4", "fd00::2 slots=2"),
		"gpu[2-4],^FD00::2": lines("gpu1.lab slots=8"),
	} {
		hosts, err := Exclude(parsed(t, filterFile), list)
		if err != nil {
			t.Fatal(err)
		}
		if got := render(hosts); got != want {
			t.Errorf("%s: got\n%swant\n%s", list, got, want)
		}
	}
}

func TestExcludeErrors(t *testing.T) {
	const whole = "hosts are left out whole; for some GPUs*"
	tests := []struct{ name, list, want, hint string }{
		{"unknown", "gpu2,gpu9", `--exclude: item 2: "gpu9": not in hosts`, "there are gpu1.lab, gpu2*"},
		{"all", "gpu1.lab,gpu[2-4],fd00::2", "--exclude: item 3: every host is left out", ""},
		{"empty", "", "--exclude: the list is empty", "write --exclude host1,host2"},
		{"empty-item", "gpu2,", "--exclude: item 2: it is empty", "write host1,host2 with*"},
		{"blank", "gpu2, gpu3", `--exclude: "gpu2, gpu3": a blank in the list`, "write --exclude gpu2,gpu3"},
		{"deepspeed-gpus", "gpu2:0", `--exclude: item 1: "gpu2:0": not the name of a host`, whole},
		{"deepspeed-at", "gpu2@gpu3", `--exclude: item 1: "gpu2@gpu3": not the name of a host`, "hosts stand there by their names alone, with commas between"},
		{"deepspeed-hosts", "gpu2@gpu3:0", `--exclude: item 1: "gpu2@gpu3:0": not the name of a host`, whole},
		{"range", "n[1", `--exclude: item 1: "[1": [ without a ] after it`, "write a range*"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Exclude(parsed(t, filterFile), tt.list)
			checkError(t, err, tt.want, tt.hint)
		})
	}
}

func TestFilterErrors(t *testing.T) {
	tests := []struct{ name, list, want, hint string }{
		{"absent", "gpu3,gpu9", `-H: item 2: "gpu9": not in hosts`, "there are gpu1.lab, gpu2, gpu3, GPU4 and 2 more"},
		{"short-name", "gpu1", `-H: item 1: "gpu1": not in hosts`, "there is gpu1.lab"},
		{"long-name", "gpu2.lab", `-H: item 1: "gpu2.lab": not in hosts`, "there is gpu2"},
		{"more-slots", "gpu2:9", `-H: item 1: "gpu2": 9 slots here, 8 in hosts:2`, ""},
		{"relative-beyond", "gpu3,+n6", `-H: item 2: "+n6": not in hosts, whose last host is +n5`, ""},
		{"relative-word", "+nx", `-H: item 1: "+nx": not +n with a number`, "+n0 is the first*"},
		{"relative-huge", "+n99999999999999999999", `-H: item 1: "+n99999999999999999999": not +n with a number`, "+n0 is the first*"},
		{"relative-slots", "+n0:x", `-H: item 1: "x": not a number of slots`, ""},
		{"left-out-unknown", "gpu3,^gpu9", `-H: item 2: "gpu9": not in hosts`, "there are*"},
		{"left-out-all", "gpu3,^gpu3", "-H: item 2: every host is left out", ""},
		{"other-address", "10.0.0.7:2:y", `-H: item 1: "10.0.0.7": public_addr "y" here, "x" in hosts:6`, ""},
		{"other-user", "bob@gpu2", `-H: item 1: "gpu2": user "bob" here, "ann" in hosts:2`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Filter(parsed(t, filterFile+"10.0.0.7:2:x\n"), tt.list)
			checkError(t, err, tt.want, tt.hint)
		})
	}
	_, err := Filter(parsed(t, "[fd00::2]:22"), "[fd00::2]:23")
	checkError(t, err, `-H: item 1: "fd00::2": port 23 here, 22 in hosts:1`, "")
	_, err = Filter(nil, "a")
	checkError(t, err, `-H: item 1: "a": not in the hostfile`, "")
}

func TestFilterAndExcludeKeepTheHosts(t *testing.T) {
	file := parsed(t, filterFile)
	before := render(file)
	for _, list := range []string{"bob@gpu3:1", "+n2:2,^gpu2", "^gpu1.lab"} {
		if _, err := Filter(file, list); err != nil {
			t.Fatal(err)
		}
		if _, err := Exclude(file, "gpu1.lab"); err != nil {
			t.Fatal(err)
		}
		if after := render(file); after != before {
			t.Errorf("%s: got hosts\n%swant\n%s", list, after, before)
		}
	}
}

func parsed(t *testing.T, text string) []Host {
	t.Helper()
	hosts, err := Parse("hosts", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

func listed(t *testing.T, list string) []Host {
	t.Helper()
	hosts, err := ParseList(list)
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}

func TestUnion(t *testing.T) {
	list := func(s string) []Host {
		hosts, err := ParseList(s)
		if err != nil {
			t.Fatal(err)
		}
		return hosts
	}
	tests := []struct {
		name  string
		lists []string
		want  string
	}{
		{"apart", []string{"a:2", "b"}, "a:2 b:1"},
		{"most-slots", []string{"a:2,b:3", "A:4,c,b"}, "a:4 b:3 c:1"},
		{"host-tells", []string{"a:2", "a:*", "a:3"}, "a:-1"},
		{"addresses", []string{"[fd00::2]", "fd00:0::2"}, "fd00::2:1"},
		{"user-and-port", []string{"a", "me@a"}, "me@a:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var lists [][]Host
			for _, l := range tt.lists {
				lists = append(lists, list(l))
			}
			hosts, same, err := Union(lists...)
			var got []string
			for _, h := range hosts {
				name := h.Name
				if h.User != "" {
					name = h.User + "@" + name
				}
				got = append(got, fmt.Sprintf("%s:%d", name, h.Slots))
			}
			if err != nil || strings.Join(got, " ") != tt.want {
				t.Errorf("got %q, %v; want %q", strings.Join(got, " "), err, tt.want)
			}
			if last := same[len(same)-1]; last[0].Name != hosts[0].Name && tt.name != "apart" {
				t.Errorf("got %+v in the last list; want the name as in %+v", last[0], hosts[0])
			}
		})
	}
	if hosts, same, err := Union(nil, nil); hosts != nil || same[0] != nil || err != nil {
		t.Errorf("of nothing: got %v, %v, %v", hosts, same, err)
	}
	_, _, err := Union(list("me@a"), list("b,you@a"))
	if e, ok := errors.AsType[*SyntaxError](err); !ok || e.Line != 2 || e.Msg != `user "you" here, "me" in item 1 of another list` {
		t.Errorf("two users: got %v", err)
	}
	first := list("a:1")
	if _, _, err := Union(first, list("A:2")); err != nil || first[0].Slots != 1 {
		t.Errorf("got %v, %v; want the list as it was", first, err)
	}
}
