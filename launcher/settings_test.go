package launcher

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// asked is a host whose settings follow its hello; and once more, with another file, if it
// is asked for that. The first host of a job has another value than the others. It answers
// only if answers is true.
func (f *fake) asked(answers bool) {
	proto := "LL"
	if f.first() {
		proto = "Simple"
	}
	now := wire.Settings{Files: []wire.ConfFile{{Path: wire.Bytes("/etc/nccl.conf"), Text: wire.Bytes("NCCL_ALGO=Ring\nNCCL_PROTO=" + proto + "\n")}}}
	f.send(wire.Message{Hello: &wire.Hello{PID: os.Getpid(), Cores: 2, Port: 20000, More: true,
		Interfaces: []wire.Interface{ownInterface("eth0")}}})
	if answers {
		f.send(wire.Message{Settings: &now})
	}
	m := f.until(func(m wire.Message) bool { return m.Plan != nil || m.Ask != nil })
	if m.Ask != nil && string(m.Ask.ConfFile) == "/gone" {
		f.send(wire.Message{Settings: &wire.Settings{}})
		m = f.until(func(m wire.Message) bool { return m.Plan != nil })
	} else if m.Ask != nil {
		now.Files = []wire.ConfFile{{Path: m.Ask.ConfFile, User: true, Text: wire.Bytes("NCCL_SYM_KERNEL=" + string(m.Ask.Dir) + "\n")}}
		f.send(wire.Message{Settings: &now})
		m = f.until(func(m wire.Message) bool { return m.Plan != nil })
	}
	f.plan = m.Plan
	f.send(wire.Message{Prepared: &wire.Prepared{}})
	f.begin()
	f.ranks(func(rank int) {
		for _, e := range f.plan.Env {
			f.print(rank, wire.Out, string(e)+"\n")
		}
	})
	f.exitAll()
	f.waitStop()
	f.finish()
}

func TestSettingsDiffer(t *testing.T) {
	w := newWorld(t, "asked", 1, 1)
	_, err := w.run()
	e, ok := errors.AsType[*SettingsError](err)
	if !ok || len(e.Differences) != 1 || e.Error() != "NCCL_PROTO differs between hosts" {
		t.Fatalf("got %v", err)
	}
	v := e.Differences[0].Values[0]
	if v.Example != "NCCL_PROTO="+v.Text || !reflect.DeepEqual(v.Places, []string{"/etc/nccl.conf:2"}) || len(e.Differences[0].Values) != 2 {
		t.Errorf("got %+v", e.Differences[0])
	}
}

func TestSettingsDecided(t *testing.T) {
	tests := []struct {
		name, set string
		want      string // lines of each rank's environment
	}{
		{"value", "NCCL_PROTO=LL128", "NCCL_ALGO=Ring NCCL_PROTO=LL128 NCCL_CONF_FILE=/dev/null"},
		{"empty", "NCCL_PROTO=", "NCCL_ALGO=Ring NCCL_PROTO= NCCL_CONF_FILE=/dev/null"},
		{"file", "NCCL_CONF_FILE=f", "NCCL_SYM_KERNEL=/ NCCL_CONF_FILE=f"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "asked", 1, 1)
			w.job.Env = envsync.Policy{Set: []envsync.Setting{{Flag: "-x", Text: tt.set}}}
			w.good()
			want := strings.ReplaceAll(tt.want, " ", "\n") + "\n"
			if got := w.stdout.String(); strings.Count(got, want) != 2 && !sameLines(got, want+want) {
				t.Errorf("got %q; want twice %q", got, want)
			}
		})
	}
}

// sameLines reports whether both have the same lines in any order.
func sameLines(a, b string) bool {
	count := map[string]int{}
	for line := range strings.Lines(a) {
		count[line]++
	}
	for line := range strings.Lines(b) {
		count[line]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}

// That hosts lack a file which the user names is told once.
func TestSettingsFileMissing(t *testing.T) {
	w := newWorld(t, "asked", 1, 1)
	w.job.Env = envsync.Policy{Set: []envsync.Setting{{Flag: "-x", Text: "NCCL_CONF_FILE=/gone"}}}
	w.good()
	want := "warning: localhost,127.0.0.1: there is no file /gone, which NCCL_CONF_FILE names"
	if got := w.stderr.String(); strings.Count(got, "/gone") != 1 || !strings.Contains(got, want) {
		t.Errorf("got %q; want %q", got, want)
	}
}

// A host that never answers is not waited for for ever.
func TestSettingsInVain(t *testing.T) {
	w := newWorld(t, "asked-in-vain", 1, 1)
	w.waits.answer = 50 * time.Millisecond
	w.good()
	if got := w.stderr.String(); !strings.Contains(got, "warning: localhost,127.0.0.1: its own NCCL settings are not known: it gave no answer") {
		t.Errorf("got %q", got)
	}
}

// oddSettings is a host with settings that NCCL takes for something else than they say: one
// that all hosts have, one that the first has, and a line without effect. It has interfaces
// of which one is the beginning of the other.
func (f *fake) oddSettings() {
	text := "NCCL_BUFFSIZE=4MB\nNCCL_SOCKET_IFNAME=eth1\n"
	if f.first() {
		text += "NCCL_IB_TC=08\nNCCL_PROTO = LL\n"
	}
	settings := &wire.Settings{Files: []wire.ConfFile{{Path: wire.Bytes("/etc/nccl.conf"), Text: wire.Bytes(text)}}}
	f.send(wire.Message{Hello: &wire.Hello{PID: os.Getpid(), Cores: 2, Port: 20000, Settings: settings,
		Interfaces: []wire.Interface{ownInterface("eth1"), {Name: "eth10", Addrs: []string{"10.0.1.1"}}}}})
	f.waitPlan()
	f.send(wire.Message{Prepared: &wire.Prepared{}})
	f.begin()
	f.exitAll()
	f.waitStop()
	f.finish()
}

// What hosts have is looked at as what is typed is, and ends a job where that would.
func TestSettingsAreLinted(t *testing.T) {
	buffer := "NCCL_BUFFSIZE=4MB (/etc/nccl.conf:1 of localhost,127.0.0.1): NCCL reads 4 and nothing behind it; write NCCL_BUFFSIZE=4194304"
	class := ": a 0 in front makes a number octal: NCCL reads 0; write NCCL_IB_TC=8"
	line := "/etc/nccl.conf:4: NCCL_PROTO = LL: without effect: a blank is part of the name; write NCCL_PROTO=VALUE"
	prefix := "localhost, 127.0.0.1: NCCL_SOCKET_IFNAME=eth1 means eth10, too, as names are prefixes; the value =eth1 means no other"
	tests := []struct {
		name  string
		rigor envsync.Rigor
		set   string
		end   []string // what the job ends by
		warn  []string
	}{
		{"usual", envsync.Usual, "", []string{buffer, class}, []string{line}},
		{"decided", envsync.Usual, "NCCL_BUFFSIZE=4194304 NCCL_IB_TC=8", nil, []string{line, prefix}},
		{"lax", envsync.Lax, "", nil, []string{buffer, class, line, prefix}},
		{"strict", envsync.Strict, "NCCL_BUFFSIZE=4194304", []string{class, line, prefix}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "odd-settings", 1, 1)
			w.job.Rigor = tt.rigor
			if tt.set != "" {
				w.job.Env = envsync.Policy{Set: set(strings.Fields(tt.set)...)}
			}
			_, err := w.run()
			e, _ := errors.AsType[*FoundError](err)
			switch {
			case tt.end == nil && err != nil:
				t.Errorf("got %v; want no error", err)
			case tt.end != nil && (e == nil || len(e.Lines) != len(tt.end)):
				t.Errorf("got %v; want %q", err, tt.end)
			}
			for _, text := range tt.end {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("got %v; want %q", err, text)
				}
			}
			for _, text := range tt.warn {
				if !strings.Contains(w.stderr.String(), text) {
					t.Errorf("got %q; want %q", w.stderr, text)
				}
			}
		})
	}
}
