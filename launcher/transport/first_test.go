package transport

import (
	"testing"
	"time"
)

func TestLoginShells(t *testing.T) {
	s := startSSHD(t, "")
	d := s.dialer(t, nil)
	for _, user := range []string{"bash", "dash", "tcsh", "fish", "zsh", "ash"} {
		t.Run(user, func(t *testing.T) {
			for range 2 {
				start := time.Now()
				l := mustDial(t, d, s.host(user))
				t.Log(time.Since(start), l.Timeline(), l.Stderr())
				if got := ask(t, l, "hello there"); got != "hello there" {
					t.Errorf("got %q; want the line back", got)
				}
				if got := ask(t, l, "umask"); got != "0022" {
					t.Errorf("umask of the agent: got %s; want 0022", got)
				}
			}
		})
	}
}
