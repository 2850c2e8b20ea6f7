package envsync

import (
	"fmt"
	"strings"
	"testing"
)

func TestParseConf(t *testing.T) {
	long := strings.Repeat("v", 1100)
	tests := map[string]struct {
		text  string
		want  string   // NAME=value@line, a blank between
		traps []string // line:msg
	}{
		"none":           {"", "", nil},
		"plain":          {"NCCL_ALGO=Ring\nNCCL_PROTO=LL\n", "NCCL_ALGO=Ring@1 NCCL_PROTO=LL@2", nil},
		"no-end-of-line": {"NCCL_ALGO=Ring", "NCCL_ALGO=Ring@1", nil},
		"empty-lines":    {"\n\n \t\nNCCL_ALGO=Ring\n", "NCCL_ALGO=Ring@4", nil},
		"comment":        {"# NCCL_ALGO=Tree\n#NCCL_ALGO=Tree\nNCCL_ALGO=Ring\n", "NCCL_ALGO=Ring@3", nil},
		"indented":       {"  # NCCL_ALGO=Tree\n", "", nil},
		"empty-value":    {"NCCL_ALGO=\n", "NCCL_ALGO=@1", nil},
		"equals":         {"NCCL_SOCKET_IFNAME==eth0\n", "NCCL_SOCKET_IFNAME==eth0@1", nil},
		"first-counts":   {"NCCL_ALGO=Ring\nNCCL_ALGO=Tree\n", "NCCL_ALGO=Ring@1", []string{"2:NCCL_ALGO is set by line 1 already, and that counts"}},
		"same-again":     {"NCCL_ALGO=Ring\nNCCL_ALGO=Ring\n", "NCCL_ALGO=Ring@1", nil},
		"blank-in-name":  {"NCCL_ALGO = Ring\n", "", []string{"1:without effect: a blank is part of the name; write NCCL_ALGO=VALUE"}},
		"indented-name":  {"\tNCCL_ALGO=Ring\n", "", []string{"1:without effect: a blank is part of the name; write NCCL_ALGO=VALUE"}},
		"export":         {"export NCCL_ALGO=Ring\n", "", []string{"1:without effect: no export is read; write NCCL_ALGO=VALUE"}},
		"no-equals":      {"NCCL_ALGO Ring\n", "", []string{"1:it has no = and is not read"}},
		"no-name":        {"=Ring\n", "", []string{"1:it has no name and is not read"}},
		"not-a-name":     {"NCCL-ALGO=Ring\n", "", []string{"1:without effect: not a name"}},
		"byte-order":     {"\ufeffNCCL_ALGO=Ring\n", "", []string{"1:without effect: the file begins with a byte order mark, which is part of the name"}},
		"quotes":         {"NCCL_ALGO=\"Ring\"\n", `NCCL_ALGO="Ring"@1`, []string{"1:the quotes are part of the value"}},
		"single-quotes":  {"NCCL_ALGO='Ring'\n", "NCCL_ALGO='Ring'@1", []string{"1:the quotes are part of the value"}},
		"trailing":       {"NCCL_ALGO=Ring # why\n", "NCCL_ALGO=Ring # why@1", []string{"1:the comment is part of the value"}},
		"value-blanks":   {"NCCL_ALGO= Ring\n", "NCCL_ALGO= Ring@1", []string{"1:the blanks around the value are part of it"}},
		"dollar":         {"NCCL_TOPO_FILE=$HOME/t\n", "NCCL_TOPO_FILE=$HOME/t@1", []string{"1:no variable is read in a value; it is taken as it is written"}},
		"carriage-return": {"# x\r\nNCCL_ALGO=Ring\r\n", "NCCL_ALGO=Ring@2",
			[]string{"2:it ends with a carriage return, which some versions of NCCL take for a part of the value"}},
		"zero-byte":  {"NCCL_ALGO=Ri\x00ng\n", "NCCL_ALGO=Ri@1", []string{"1:what follows the zero byte is not read"}},
		"other-name": {"LD_PRELOAD=/x.so\n", "LD_PRELOAD=/x.so@1", nil},
		"long-value": {"NCCL_ALGO=" + long + "\n", "NCCL_ALGO=" + long[:1023] + "@1", []string{"1:a value has at most 1023 bytes; the rest is not read"}},
		"long-name":  {long + "=1\n", "", []string{"1:a name has at most 1023 bytes"}},
		"long-line": {"NCCL_ALGO=" + strings.Repeat("v", 5000) + "\n", "NCCL_ALGO=" + long[:1023] + "@1",
			[]string{"1:a line has at most 4096 bytes", "1:a value has at most 1023 bytes; the rest is not read"}},
		"no-utf-8": {"NCCL_TOPO_FILE=/\xff\n", "NCCL_TOPO_FILE=/\xff@1", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			set, traps := ParseConf([]byte(tt.text))
			var got, told []string
			for _, s := range set {
				got = append(got, fmt.Sprintf("%s=%s@%d", s.Name, s.Value, s.Line))
			}
			for _, p := range traps {
				told = append(told, fmt.Sprintf("%d:%s", p.Line, p.Msg))
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("got %q; want %q", strings.Join(got, " "), tt.want)
			}
			if fmt.Sprint(told) != fmt.Sprint(tt.traps) {
				t.Errorf("got traps %q; want %q", told, tt.traps)
			}
		})
	}
}

// What a trap shows of its line is fit for a terminal, short, and no secret.
func TestConfTrapText(t *testing.T) {
	_, traps := ParseConf([]byte("API_TOKEN = hunter2\nNCCL_\x1bX =" + strings.Repeat("x", 500) + "\n"))
	if len(traps) != 2 || strings.Contains(traps[0].Text, "hunter2") || len(traps[1].Text) > 100 {
		t.Errorf("got %v", traps)
	}
}

func FuzzParseConf(f *testing.F) {
	f.Add([]byte("NCCL_ALGO=Ring\n# c\nNCCL_ALGO = Tree\r\n=\nexport A=1\x00"))
	f.Add([]byte("\ufeffA=\"1\"\nA='2' # x"))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, traps := ParseConf(data)
		seen := map[string]bool{}
		for _, s := range set {
			if seen[s.Name] || !validName(s.Name) || len(s.Value) > maxConfValue || strings.ContainsAny(s.Value, "\x00\n") {
				t.Fatalf("got %v", s)
			}
			seen[s.Name] = true
		}
		for _, p := range traps {
			if p.Line < 1 || p.Msg == "" || strings.ContainsAny(p.Msg, "\n\x1b\x00") {
				t.Fatalf("got trap %v", p)
			}
		}
	})
}
