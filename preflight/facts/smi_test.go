package facts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func report(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "smi", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func devices(t *testing.T, name string) []Device {
	t.Helper()
	log, err := parseSMI(report(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return log.devices
}

func TestParseSMIBusyH100(t *testing.T) {
	log, err := parseSMI(report(t, "h100-sxm-550.xml"))
	if err != nil {
		t.Fatal(err)
	}
	if log.driver != "550.54.15" || log.cuda != "12.4" || len(log.devices) != 8 || log.text != "" {
		t.Fatalf("got driver %q, CUDA %q, %d GPUs, text %q", log.driver, log.cuda, len(log.devices), log.text)
	}
	want := Device{
		Index: 2, UUID: log.devices[2].UUID, BDF: "0000:52:00.0", Name: "NVIDIA H100 80GB HBM3", VBIOS: "96.00.74.00.01", Serial: "1650923000002",
		Minor: 2, NUMA: -1, MemTotal: 81559 << 20, MemUsed: 74210 << 20, MIG: "Disabled", Compute: "Default", Persist: "Enabled",
		ECC: "Enabled", ECCNext: "Enabled", SRAMOver: "No", FabricState: "Completed", FabricStatus: "Success",
		FabricCluster: "00000000-0000-0000-0000-000000000000", FabricClique: "0",
		NVLinks: -1, NVActive: -1, Width: 16, MaxWidth: 16, Gen: 5, MaxGen: 5, Throttle: []string{"sw_power_cap"}, Temp: 61,
		Users: []GPUUser{{PID: 4711, Name: "/opt/conda/bin/python3.11", Type: "C", Memory: 74196 << 20}, {PID: 4712, Type: "M+C", Memory: -1}},
	}
	if diff := cmp.Diff(want, log.devices[2]); diff != "" {
		t.Errorf("GPU 2 (-want +got):\n%s", diff)
	}
	if len(log.devices[2].UUID) != 40 || log.devices[0].Throttle[0] != "gpu_idle" {
		t.Errorf("got %+v", log.devices[0])
	}
}

func TestParseSMIFaults(t *testing.T) {
	d := devices(t, "h100-sxm-570-faults.xml")
	if d[0].Recovery != "None" || d[0].Uncorrected != 0 || d[0].RemapBad != 0 || d[0].RemapWait {
		t.Errorf("GPU 0: got %+v", d[0])
	}
	if d[1].Recovery != "Drain and Reset" || d[1].Uncorrected != 2 || d[1].Corrected != 15 || !d[1].RemapWait || d[1].RemapFailed || d[1].RemapBad != 2 {
		t.Errorf("GPU 1: got %+v", d[1])
	}
	if d[3].FabricState != "In Progress" || d[3].FabricStatus != "" {
		t.Errorf("GPU 3: got %+v", d[3])
	}
	if d[4].Width != 8 || d[4].MaxWidth != 16 || d[4].Gen != 1 || d[4].SRAMOver != "Yes" {
		t.Errorf("GPU 4: got %+v", d[4])
	}
	if !d[5].RemapFailed || d[5].RemapBad != 514 || d[5].Recovery != "Reset" {
		t.Errorf("GPU 5: got %+v", d[5])
	}
}

func TestParseSMIOlder(t *testing.T) {
	a := devices(t, "a100-sxm-470.xml")
	if got, want := a[1].Throttle, []string{"hw_slowdown", "sw_thermal_slowdown"}; !slices.Equal(got, want) {
		t.Errorf("A100 throttle: got %v; want %v", got, want)
	}
	if a[1].Uncorrected != 3 || a[1].Corrected != 5 || a[0].Minor != 2 || a[0].SRAMOver != "" || a[0].Recovery != "" || a[0].FabricState != "" {
		t.Errorf("A100: got %+v\n%+v", a[0], a[1])
	}
	v := devices(t, "v100-sxm-450.xml")
	if !v[2].RetireWait || v[1].RetireWait || v[2].Uncorrected != 1 || v[2].Corrected != 7 || v[2].RemapBad != -1 || v[0].MIG != "N/A" || v[0].Uncorrected != 0 {
		t.Errorf("V100: got %+v\n%+v", v[1], v[2])
	}
	m := devices(t, "a100-mig-535.xml")
	if m[0].MIG != "Enabled" || m[0].MemTotal != 81920<<20 || m[0].Users[0].PID != 9001 || m[1].MIG != "Disabled" || m[1].Recovery != "Reset" || m[1].FabricState != "N/A" {
		t.Errorf("MIG: got %+v\n%+v", m[0], m[1])
	}
	g := devices(t, "gb200-570.xml")
	if g[3].BDF != "0019:01:00.0" || g[3].FabricClique != "32766" || g[3].FabricCluster != "7a2b5d10-93c4-4e6f-8b1d-2f0c9e7a4d31" {
		t.Errorf("GB200: got %+v", g[3])
	}
	c := devices(t, "rtx4090-535.xml")
	if c[0].ECC != "" || c[0].Uncorrected != -1 || c[0].Corrected != -1 || c[0].Serial != "" || c[0].Users[0].Type != "G" || c[1].Persist != "Disabled" || c[0].Trouble != "" {
		t.Errorf("4090: got %+v", c[0])
	}
}

func TestParseSMILostGPU(t *testing.T) {
	all := devices(t, "h100-sxm-550-lost.xml")
	got := all[4]
	want := newDevice()
	want.Index, want.UUID, want.BDF, want.Name, want.Serial, want.Minor = 4, got.UUID, "0000:9d:00.0", "NVIDIA H100 80GB HBM3", "1650923000004", 4
	want.Trouble = "GPU is lost"
	if diff := cmp.Diff(want, got); diff != "" || got.UUID == "" {
		t.Errorf("lost GPU (-want +got):\n%s", diff)
	}
	for i, d := range all {
		if i != 4 && (d.Trouble != "" || d.MemTotal != 81559<<20) {
			t.Errorf("GPU %d: got %+v", i, d)
		}
	}
}

func TestParseSMIWordsAround(t *testing.T) {
	log, err := parseSMI(report(t, "h100-sxm-550-fallen.xml"))
	if want := "Unable to determine the device handle for GPU4: 0000:9D:00.0: Unknown Error"; log.text != want || err != nil || len(log.devices) != 7 {
		t.Errorf("got %q, %v, %d GPUs; want %q", log.text, err, len(log.devices), want)
	}
	log, err = parseSMI(report(t, "h100-sxm-550-inforom.xml"))
	if want := "WARNING: infoROM is corrupted at gpu 0000:43:00.0"; log.text != want || err != nil || len(log.devices) != 2 {
		t.Errorf("got %q, %v, %d GPUs; want %q", log.text, err, len(log.devices), want)
	}
}

func TestParseSMIBroken(t *testing.T) {
	whole := string(report(t, "h100-sxm-550.xml"))
	third := strings.Index(whole, `<gpu id="00000000:61`)
	for _, test := range []struct {
		name, text, err string
		gpus            int
	}{
		{"nothing", "", `nvidia-smi printed no report: ""`, 0},
		{"words", "No devices were found\n", `nvidia-smi printed no report: "No devices were found"`, 0},
		{"cut-between-elements", whole[:third], "nvidia-smi's report: it breaks off", 3},
		{"cut-within-gpu", whole[:third+3000], "nvidia-smi's report:", 3},
		{"cut-within-tag", whole[:third+8], "nvidia-smi's report:", 3},
		{"cut-within-clocks", whole[:third-400], "nvidia-smi's report:", 2},
		{"gpu-does-not-end", "<nvidia_smi_log><gpu><uuid>x</uuid></nvidia_smi_log>", `nvidia-smi's report: "gpu" does not end`, 0},
		{"ends-too-often", "<nvidia_smi_log><gpu></gpu></gpu></nvidia_smi_log>", `nvidia-smi's report: "gpu" ends and was not open`, 1},
		{"too-deep", "<nvidia_smi_log>" + strings.Repeat("<a>", 100) + "</nvidia_smi_log>", "nvidia-smi's report: more than 16 elements in each other", 0},
		{"too-many", "<nvidia_smi_log>" + strings.Repeat("<gpu></gpu>", 300) + "</nvidia_smi_log>", "nvidia-smi's report: more than 256 GPUs", 256},
		{"none-attached", "<nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>", "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			log, err := parseSMI([]byte(test.text))
			got := ""
			if err != nil {
				got = err.Error()
			}
			if test.err == "" && got != "" || !strings.HasPrefix(got, test.err) {
				t.Errorf("error: got %q; want %q", got, test.err)
			}
			if len(log.devices) != test.gpus {
				t.Errorf("got %d GPUs; want %d", len(log.devices), test.gpus)
			}
		})
	}
}

func TestParseSMIStrangeNames(t *testing.T) {
	text := "<nvidia_smi_log><gpu><processes><process_info><pid>7</pid><process_name>a & b\x01 &bogus; \xff</process_name></process_info></processes></gpu></nvidia_smi_log>"
	log, err := parseSMI([]byte(text))
	if err != nil || log.devices[0].Users[0].Name != "a & b &bogus;" {
		t.Errorf("got %+v, %v", log.devices, err)
	}
}

func TestValues(t *testing.T) {
	for _, test := range []struct {
		value string
		told  string
		size  int64
	}{
		{"81559 MiB", "81559 MiB", 81559 << 20},
		{"2 GiB", "2 GiB", 2 << 30},
		{"17", "17", 17},
		{"9223372036854775807 GiB", "9223372036854775807 GiB", -1},
		{"99999999999999999999 MiB", "99999999999999999999 MiB", -1},
		{"5 parsecs", "5 parsecs", -1},
		{"-1 MiB", "-1 MiB", -1},
		{"[N/A]", "", -1},
		{"[GPU requires reset]", "", -1},
		{"ERR!", "", -1},
		{"Requested functionality has been deprecated", "", -1},
	} {
		if got := told(test.value); got != test.told {
			t.Errorf("told(%q): got %q; want %q", test.value, got, test.told)
		}
		if got := size(test.value); got != test.size {
			t.Errorf("size(%q): got %d; want %d", test.value, got, test.size)
		}
	}
}

func TestParseBDF(t *testing.T) {
	for text, want := range map[string]string{
		"00000000:9B:00.0": "0000:9b:00.0", "PCI:0000:9b:00": "0000:9b:00.0", "0000:9b:00": "0000:9b:00.0", "0000:9b:00.7": "0000:9b:00.7",
		"0009:01:00.0": "0009:01:00.0", "10000:01:00.0": "10000:01:00.0", "00010000:01:00.0": "10000:01:00.0",
		"": "", "pci0000:40": "", "x:y:z": "", "0000:9b:00.00": "", "0000:9b": "", "0000:+b:00.0": "", "1000000000:01:00.0": "",
	} {
		if got := parseBDF(text); got != want {
			t.Errorf("parseBDF(%q): got %q; want %q", text, got, want)
		}
	}
}

func FuzzSMI(f *testing.F) {
	// Short seeds: long ones take the fuzzer's time.
	f.Add(report(f, "rtx4090-535.xml")[:2048])
	f.Add([]byte("<nvidia_smi_log><gpu><uuid>GPU-1</uuid><pci><pci_bus_id>00000000:9B:00.0</pci_bus_id></pci></gpu></nvidia_smi_log>"))
	f.Add([]byte("<nvidia_smi_log><gpu><fan_speed>[GPU is lost]</fan_speed><fb_memory_usage><total>81559 MiB</total></fb_memory_usage></gpu>"))
	f.Add([]byte("<nvidia_smi_log><gpu><ecc_errors><volatile><dram_uncorrectable>3</dram_uncorrectable></volatile></ecc_errors></gpu></nvidia_smi_log>x"))
	f.Add([]byte("x<?xml?><nvidia_smi_log><gpu><processes><process_info><pid>7</pid><used_memory>1 MiB</used_memory></process_info></processes></gpu></nvidia_smi_log>"))
	f.Add([]byte("<nvidia_smi_log><gpu><supported_clocks>a</supported_clocks><clocks_event_reasons><clocks_event_reason_x>Active</clocks_event_reason_x></clocks_event_reasons></gpu></nvidia_smi_log>"))
	f.Fuzz(func(t *testing.T, b []byte) {
		log, _ := parseSMI(b)
		for i, d := range log.devices {
			if d.Index != i || d.BDF != parseBDF(d.BDF) || d.Uncorrected < -1 || d.Width < -1 || d.MemTotal < -1 || len(d.Users) > maxUsers {
				t.Errorf("got %+v", d)
			}
		}
	})
}
