package hostfile_test

import (
	"errors"
	"fmt"
	"strings"

	"gorun/hostfile"
)

func ExampleParse() {
	const text = `
# Open MPI, Hydra and plain lines may stand in one file.
gpu[01-02] slots=8 port=222
ann@gpu03:4
gpu04
`
	hosts, err := hostfile.Parse("hosts", strings.NewReader(text))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range hosts {
		fmt.Printf("%s: slots %d, port %d, user %q, line %d\n", h.Name, h.Slots, h.Port, h.User, h.Line)
	}
	// Output:
	// gpu01: slots 8, port 222, user "", line 3
	// gpu02: slots 8, port 222, user "", line 3
	// gpu03: slots 4, port 0, user "ann", line 4
	// gpu04: slots -1, port 0, user "", line 5
}

func ExampleSyntaxError() {
	_, err := hostfile.Parse("hosts", strings.NewReader("gpu01 slots=8\ngpu02 gpus=8\n"))
	if se, ok := errors.AsType[*hostfile.SyntaxError](err); ok {
		fmt.Println(se)
		fmt.Println("hint:", se.Hint)
	}
	// Output:
	// hosts:2:7: "gpus": unknown key
	// hint: did you mean slots?
}

func ExampleParseList() {
	hosts, err := hostfile.ParseList("gpu1:4,gpu[2-3],gpu3")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range hosts {
		fmt.Println(h.Name, h.Slots)
	}
	// Output:
	// gpu1 4
	// gpu2 1
	// gpu3 2
}

func ExampleFilter() {
	file, err := hostfile.Parse("hosts", strings.NewReader("gpu[1-4] slots=8"))
	if err != nil {
		fmt.Println(err)
		return
	}
	hosts, err := hostfile.Filter(file, "gpu4,gpu2:3")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range hosts {
		fmt.Println(h.Name, h.Slots)
	}
	// Output:
	// gpu2 3
	// gpu4 8
}

func ExampleExpand() {
	names, err := hostfile.Expand("rack[1-2]-gpu[08-10]-ib0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Join(names, "\n"))
	// Output:
	// rack1-gpu08-ib0
	// rack1-gpu09-ib0
	// rack1-gpu10-ib0
	// rack2-gpu08-ib0
	// rack2-gpu09-ib0
	// rack2-gpu10-ib0
}
