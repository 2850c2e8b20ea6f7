package launcher

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"gorun/envsync"
)

// What is asked on the terminal is not written into the last line.
func TestPromptHidesTheStatus(t *testing.T) {
	w := newWorld(t, "well", 1)
	w.io.StderrTerminal, w.io.Status = true, true
	w.io.Width = func() int { return 80 }
	asked := ""
	w.io.Prompt = func(string) ([]byte, error) {
		asked = w.stderr.String()
		return nil, nil
	}
	w.tweak = func(r *run) {
		r.out.Status("gorun: status")
		for w.stderr.String() == "" && w.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		r.prompt()("passphrase: ")
	}
	w.good()
	if !strings.HasPrefix(asked, "\rgorun: status") || !strings.HasSuffix(asked, "\r\x1b[J") {
		t.Errorf("when it asked there was %q", asked)
	}
}

// A job that takes a while shows where it stands, with the first warning, and leaves
// nothing.
func TestStatusIsShown(t *testing.T) {
	w := newWorld(t, "stubborn", 1, 1)
	w.io.StderrTerminal, w.io.Status = true, true
	w.io.Width = func() int { return 80 }
	w.job.Timeout, w.job.Grace = 1500*time.Millisecond, 0
	w.job.Env = envsync.Policy{Set: []envsync.Setting{{Flag: "-x", Text: "NOT_SET_ANYWHERE"}}}
	w.good()
	got := w.stderr.String()
	shown := regexp.MustCompile(`\rgorun: 2 ranks on 2 hosts, [01]s; warning: .*NOT_SET`)
	drawn, erased := strings.LastIndex(got, "\x1b[J\r"), strings.LastIndex(got, "\r\x1b[J")
	if !shown.MatchString(got) || erased < drawn {
		t.Errorf("stderr: got %q", got)
	}
}
