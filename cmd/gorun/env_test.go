package main

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
)

func TestWorkDir(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	real, link := filepath.Join(dir, "real"), filepath.Join(dir, "link")
	if err := os.Mkdir(real, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(real)
	for pwd, want := range map[string]string{link: link, real: real, dir: real, "": real, ".": real, link + "/none": real} {
		if got, err := workDir(environment{"PWD=" + pwd}); err != nil || got != want {
			t.Errorf("PWD=%s: got %s, %v; want %s", pwd, got, err, want)
		}
	}
}

func TestColor(t *testing.T) {
	tests := map[string]struct {
		env      environment
		terminal bool
		want     bool
	}{
		"terminal":    {environment{"TERM=xterm"}, true, true},
		"file":        {environment{"TERM=xterm"}, false, false},
		"no-color":    {environment{"NO_COLOR=1"}, true, false},
		"empty-means": {environment{"NO_COLOR="}, true, true},
		"dumb":        {environment{"TERM=dumb"}, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := wantColor(tt.env, tt.terminal); got != tt.want {
				t.Errorf("got %v; want %v", got, tt.want)
			}
		})
	}
}

func TestVersionText(t *testing.T) {
	setting := func(kv ...string) (out []debug.BuildSetting) {
		for i := 0; i < len(kv); i += 2 {
			out = append(out, debug.BuildSetting{Key: kv[i], Value: kv[i+1]})
		}
		return out
	}
	tests := map[string]struct {
		info *debug.BuildInfo
		want string
	}{
		"nothing-known": {nil, "devel"},
		"no-commit":     {&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "devel"},
		"commit":        {&debug.BuildInfo{Settings: setting("vcs.revision", "0123456789abcdef", "vcs.modified", "false")}, "devel (0123456789ab)"},
		"modified":      {&debug.BuildInfo{Settings: setting("vcs.revision", "0123456789abcdef", "vcs.modified", "true")}, "devel (0123456789ab, modified)"},
		"tagged":        {&debug.BuildInfo{Main: debug.Module{Version: "v1.2.0"}}, "v1.2.0"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := versionText(tt.info); got != tt.want {
				t.Errorf("got %q; want %q", got, tt.want)
			}
		})
	}
}
