package facts

import "testing"

func TestCollectFabric(t *testing.T) {
	for _, test := range []struct {
		name  string
		files map[string]string
		want  Fabric
		err   string
	}{
		{"not-installed", map[string]string{"proc/1/comm": "systemd\n"}, Fabric{}, ""},
		{"installed", map[string]string{"proc/1/comm": "systemd\n", "lib/systemd/system/nvidia-fabricmanager.service": ""}, Fabric{Installed: true}, ""},
		{"running", map[string]string{"proc/1/comm": "systemd\n", "proc/902/comm": "nv-fabricmanage\n", "usr/bin/nv-fabricmanager": "#!"},
			Fabric{Installed: true, Running: true, Version: "550.54.15"}, ""},
		{"hidden-processes", map[string]string{"lib/systemd/system/nvidia-fabricmanager.service": ""}, Fabric{Installed: true}, "this user may not see other users' processes (hidepid)"},
	} {
		t.Run(test.name, func(t *testing.T) {
			src := tree(t, gpuTree(test.files))
			answer(src, "Fabric Manager version is : 550.54.15\n", nil)
			var h Host
			err := collectFabric(t.Context(), src, &h)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if h.GPU.Fabric != test.want || got != test.err {
				t.Errorf("got %+v, %q; want %+v, %q", h.GPU.Fabric, got, test.want, test.err)
			}
		})
	}
}
