package main

import (
	"strings"
	"testing"

	"gorun/launcher/transport"
)

// TestNotSSHHint: fewer connections do not help where no sshd listens.
func TestNotSSHHint(t *testing.T) {
	_, hint := hostHint(unreached("a", &transport.DroppedError{Addr: "10.0.0.1:25", Text: "220 smtp ready"}), nil)
	if strings.Contains(hint, "--fanout") || !strings.Contains(hint, "does sshd listen on that port?") {
		t.Errorf("got %q; want no word of --fanout", hint)
	}
}
