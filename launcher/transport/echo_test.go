package transport

import (
	"strings"
	"testing"
)

func TestEcho(t *testing.T) {
	bin := &binary{name: "gorun-0123456789abcdef", size: 5 << 20}
	command := installCommand("4f1c7a3d9e8b2c60", "0123456789abcdef", bin)
	first := firstCommand("4f1c7a3d9e8b2c60", bin)
	tests := map[string]struct{ command, text, want string }{
		"alone":     {command, command, "..."},
		"argument":  {command, "gpu1 " + command, "gpu1 ..."},
		"quoted":    {command, "cat: gpu1: No such file\ncat: '" + strings.ReplaceAll(command, "'", `'\''`) + "': No such file", "cat: gpu1: No such file\ncat: ...: No such file"},
		"escaped":   {command, `exec: "` + strings.ReplaceAll(command, `"`, `\"`) + `": not found`, "exec: ...: not found"},
		"begin":     {command, "unknown command '" + command[:300], "unknown command ..."},
		"end":       {command, command[len(command)-300:] + "': not found", "...: not found"},
		"first":     {first, "fatal: unrecognized command '" + first + "'", "fatal: unrecognized command ..."},
		"binary":    {first, "sh: /home/me/.cache/gorun/gorun-0123456789abcdef: not found", ""},
		"directory": {command, "mkdir: cannot create directory '/home/me/.cache/gorun': No space left on device", ""},
		"fallback":  {command, "chmod: /tmp/gorun-agent-0123456789abcdef/gorun: Operation not permitted", ""},
		"twice":     {command, command + " | " + command + ": not found", "... | ...: not found"},
		"nothing":   {command, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			want := tt.want
			if want == "" {
				want = tt.text
			}
			if got, echoed := withoutEcho(tt.text, tt.command); got != want || echoed != (tt.want != "") {
				t.Errorf("got  %q, %v\nwant %q", got, echoed, want)
			}
		})
	}
}
