package main

import (
	"errors"
	"strings"
	"testing"

	"gorun/hostfile"
	"gorun/launcher/transport"
)

func TestCleanGroups(t *testing.T) {
	all := transport.Cleaned{Programs: 3, Files: 1}
	w := cleaning{
		hosts: []hostfile.Host{{Name: "localhost"}, {Name: "gpu1"}, {Name: "gpu2"}, {Name: "gpu3"}, {Name: "gpu4"}, {Name: "gpu5"}},
		errs:  []error{nil, nil, nil, errors.New("unreachable"), nil, nil},
	}
	cleaned := []transport.Cleaned{{}, all, {Running: 1, Used: 2}, all, all, {Programs: 1, Running: 2, Elsewhere: 1}}
	var got []string
	for _, g := range w.groups(cleaned) {
		got = append(got, strings.Join(g.hosts, " ")+": "+g.text)
	}
	want := []string{
		"localhost: nothing to remove",
		"gpu1 gpu4: removed 3 versions of gorun and 1 file",
		"gpu2: nothing to remove; kept 1 version of gorun and 2 files: a job runs there",
		"gpu5: removed 1 version of gorun; kept 2 versions of gorun: a job runs there; kept 1 version of gorun: a job on another host runs it",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
