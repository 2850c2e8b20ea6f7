package main

import (
	"testing"

	"gorun/preflight"
)

// What is told of a link later replaces what was told before.
func TestMeasuredLater(t *testing.T) {
	var h preflight.Host
	err := measured([]byte(`[{"links":[{"host":1,"mtu":1500},{"host":2,"failure":"dropped"}]},{"links":[{"host":1,"mtu":1500,"back":7}]}]`), &h)
	if err != nil || len(h.Links) != 2 || h.Links[0].Host != 1 || h.Links[0].Back != 7 || h.Links[1].Failure != "dropped" {
		t.Errorf("got %+v, %v", h.Links, err)
	}
}
