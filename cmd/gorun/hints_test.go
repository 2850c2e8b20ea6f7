package main

import (
	"strings"
	"testing"

	"gorun/launcher"
	"gorun/launcher/transport"
)

// TestNotSSHHint: fewer connections do not help where no sshd listens.
func TestNotSSHHint(t *testing.T) {
	_, hint := hostHint(unreached("a", &transport.DroppedError{Addr: "10.0.0.1:25", Text: "220 smtp ready"}), nil)
	if strings.Contains(hint, "--fanout") || !strings.Contains(hint, "does sshd listen on that port?") {
		t.Errorf("got %q; want no word of --fanout", hint)
	}
}

// A hint that names a host is given once for all that it is about.
func TestOneHintForAKeyThatManyHostsRefuse(t *testing.T) {
	var failures []launcher.HostFailure
	for _, host := range []string{"a", "b", "c"} {
		failures = append(failures, unreached(host, &transport.AuthError{User: "me", Offered: []transport.Key{{Source: "k", Type: "ssh-rsa"}}}))
	}
	if hints := hostHints(failures); len(hints) != 1 || !strings.HasSuffix(hints[0], "as in: ssh-copy-id me@a") {
		t.Errorf("got %q; want one hint", hints)
	}
}
