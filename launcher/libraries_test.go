package launcher

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gorun/envsync"
	"gorun/launcher/wire"
)

func TestLibraries(t *testing.T) {
	tests := []struct {
		name  string
		hosts string // of each host NAME:VERSION:BUILD..., hosts after commas; "?" was not looked at
		want  []string
	}{
		{"none", ",", nil},
		{"equal", "libnccl.so.2:2.19:a,libnccl.so.2:2.19:b", []string{"info libnccl.so.2: version 2.19 (/libnccl.so.2) on n[1-2]"}},
		{"version", "libnccl.so.2:2.19:a,libnccl.so.2:2.20:a,libnccl.so.2:2.19:a",
			[]string{"warn libnccl.so.2: version 2.19 (/libnccl.so.2) on n[1,3], version 2.20 (/libnccl.so.2) on n2"}},
		{"build", "libnccl.so.2::a,libnccl.so.2::b", []string{"warn libnccl.so.2: build a (/libnccl.so.2) on n1, build b (/libnccl.so.2) on n2"}},
		{"nccl-on-one", "libnccl.so.2:2.19:a,", []string{"info libnccl.so.2: version 2.19 (/libnccl.so.2) on n1, none on n2"}},
		{"plugin-on-one", ",libnccl-net.so::a", []string{"warn libnccl-net.so: build a (/libnccl-net.so) on n2, none on n1"}},
		{"profiler-on-one", ",libnccl-profiler.so::a", []string{"info libnccl-profiler.so: build a (/libnccl-profiler.so) on n2, none on n1"}},
		{"asked-for", "libnccl-net-foo.so:,libnccl-net-foo.so:", []string{"warn libnccl-net-foo.so: none on n[1-2]; NCCL goes on without it, unless the program brings it along"}},
		{"asked-for-on-one", "libnccl-net-foo.so::a,libnccl-net-foo.so:", []string{"warn libnccl-net-foo.so: build a (/libnccl-net-foo.so) on n1, none on n2"}},
		{"not-looked-at", "libnccl-net.so::a,?", []string{"info libnccl-net.so: build a (/libnccl-net.so) on n1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var l libraries
			for i, host := range slices.Backward(strings.Split(tt.hosts, ",")) {
				p := &wire.Prepared{Unlooked: host == "?"}
				if f := strings.Split(host, ":"); len(f) == 3 {
					p.Libraries = []wire.Library{{Name: f[0], Path: wire.Bytes("/" + f[0]), Version: f[1], Build: f[2]}}
				} else if len(f) == 2 {
					p.Libraries = []wire.Library{{Name: f[0]}}
				}
				l.take(i, fmt.Sprint("n", i+1), p)
			}
			var got []string
			for _, line := range l.lines() {
				text := "info " + line.text
				if line.odd {
					text = strings.TrimSuffix("warn "+line.text, "; NCCL loads what it finds, and may then behave differently on each")
				}
				got = append(got, text)
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// libraries is a host that has a plugin, if it is the first of its job.
func (f *fake) libraries() {
	f.hello()
	f.waitPlan()
	p := &wire.Prepared{}
	if f.first() {
		p.Libraries = []wire.Library{{Name: "libnccl-net.so", Path: wire.Bytes("/x"), Build: "a"}}
	}
	f.send(wire.Message{Prepared: p})
	f.begin()
	f.exitAll()
	f.waitStop()
	f.finish()
}

func TestLibrariesStrictly(t *testing.T) {
	w := newWorld(t, "libraries", 1, 1)
	w.job.Rigor = envsync.Strict
	_, err := w.run()
	if e, ok := errors.AsType[*LibrariesError](err); !ok || len(e.Lines) != 1 || !strings.HasPrefix(e.Error(), "libnccl-net.so: build a (/x) on ") {
		t.Errorf("got %v", err)
	}
}

func TestLibrariesDiffer(t *testing.T) {
	w := newWorld(t, "libraries", 1, 1)
	w.good()
	if got := w.stderr.String(); !strings.Contains(got, "warning: libnccl-net.so: build a (/x) on ") {
		t.Errorf("got %q", got)
	}
}
