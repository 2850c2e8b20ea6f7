package probe

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// sample reads what a program of perftest has printed.
func sample(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/perftest", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const (
	gbitHeading = " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
	latHeading  = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec] \n"
)

func TestParseBandwidth(t *testing.T) {
	tests := []struct {
		name, text string
		want       float64
		err        string
	}{
		{"rxe-gbit", sample(t, "bw-rxe.txt"), 0.040980e9 / 8, ""},
		{"rxe-mb", sample(t, "bw-rxe-mb.txt"), 11.76 * (1 << 20), ""},
		{"superbench-both-ends", sample(t, "bw-loopback-8M.txt"), 24056.72 * (1 << 20), ""},
		{"newer-mib", strings.ReplaceAll(sample(t, "bw-rxe-mb.txt"), "MB/sec", "MiB/sec"), 11.76 * (1 << 20), ""},
		{"with-cpu", gbitHeading[:len(gbitHeading)-1] + "    CPU_Util[%]\n 65536      100000           385.21             384.96   \t\t   0.734251\t    3.1\n", 384.96e9 / 8, ""},
		{"warnings-between", gbitHeading + "Conflicting CPU frequency values detected: 1500.0 != 3700.0. CPU Frequency is not max.\n 65536 1000 390.1 389.5 0.7\n", 389.5e9 / 8, ""},
		{"nothing", "", 0, "no result"},
		{"no-row", gbitHeading, 0, "no result"},
		{"short-row", gbitHeading + " 65536 1000 1.0\n", 0, "no result"},
		{"latency", latHeading + " 2 1000 1 2 3 4 5 6 7\n", 0, "no result"},
		{"other-unit", strings.ReplaceAll(gbitHeading, "Gb/sec", "furlong/sec") + " 65536 1000 390.1 389.5 0.7\n", 0, "no result"},
		{"zero", gbitHeading + " 65536 0 0.00 0.00 0.0\n", 0, "BW average is 0"},
		{"rxe-lost", sample(t, "bw-rxe-lost.txt"), 0, "nothing was carried"},
		{"nan", gbitHeading + " 65536 0 nan nan 0.0\n", 0, `"nan" is no BW average`},
		{"negative", gbitHeading + " 65536 0 1 -5 0.0\n", 0, `"-5" is no BW average`},
		{"word", gbitHeading + " 65536 0 1 much 0.0\n", 0, `"much" is no BW average`},
		{"peer", sample(t, "no-server.txt"), 0, "no result"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseBandwidth(tt.text)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got error %v; want %q", err, tt.err)
			}
			if math.Abs(got-tt.want) > 1 {
				t.Errorf("got %v bytes per second; want %v", got, tt.want)
			}
		})
	}
}

func TestParseLatency(t *testing.T) {
	tests := []struct {
		name, text string
		want       time.Duration
		err        string
	}{
		{"rxe", sample(t, "lat-rxe.txt"), 45440, ""},
		{"h100", latHeading + " 2       1000          1.06           3.61         1.09     \t       1.10       \t0.06   \t\t1.25    \t\t3.61   \n", 1090, ""},
		{"duration", " #bytes        #iterations       t_avg[usec]    tps average\n 2       100000            1.94        257731.96\n", 1940, ""},
		{"bandwidth", gbitHeading + " 65536 1000 390.1 389.5 0.7\n", 0, "no result"},
		{"endless", latHeading + " 2 1000 1 2 1e300 4 5 6 7\n", 0, "no sense"},
		{"nothing", "", 0, "no result"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseLatency(tt.text)
			if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("got error %v; want %q", err, tt.err)
			}
			if err == nil && got != tt.want {
				t.Errorf("got %v; want %v", got, tt.want)
			}
		})
	}
}

func TestComplaint(t *testing.T) {
	tests := []struct {
		name, text, line string
		kind             Failure
	}{
		{"no-server", sample(t, "no-server.txt"), "Couldn't connect to 10.77.0.2:20003", Other},
		{"memlock", "Couldn't allocate MR\nfailed to create mr\nFailed to create MR\n Couldn't create IB resources\n", "Couldn't allocate MR", Device},
		{"gid", " Failed to modify QP 20 to RTR\n Unable to Connect the HCA's through the link\n", "Failed to modify QP 20 to RTR", Lost},
		{"retries", " Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n Failed to complete run_iter_bw function successfully\n", "Completion with error at client", Lost},
		{"down", " Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context for the device\n", "Port number 1 state is Down", Device},
		{"init", "Failed to modify QP to INIT, ret=22\n", "Failed to modify QP to INIT, ret=22", Device},
		{"option", "ib_write_bw: unrecognized option '--ipv6-addr'\n Invalid Command or flag.\n", "ib_write_bw: unrecognized option '--ipv6-addr'", Other},
		{"words-of-none", "one\n\x1b[31mtwo\x00\x07\n----------\n\n", "[31mtwo", Other},
		{"nothing", "", "", Other},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if line, kind := complaint(tt.text); line != tt.line || kind != tt.kind {
				t.Errorf("got %q, %q; want %q, %q", line, kind, tt.line, tt.kind)
			}
		})
	}
}

func FuzzPerftest(f *testing.F) {
	for _, name := range []string{"bw-rxe.txt", "bw-rxe-lost.txt", "bw-rxe-mb.txt", "bw-loopback-8M.txt", "lat-rxe.txt", "no-server.txt"} {
		f.Add(sample(f, name))
	}
	f.Add(gbitHeading + " 65536 0 nan 1e999 0.0\n")
	f.Add("Couldn't connect to \xff\xfe\n")
	f.Fuzz(func(t *testing.T, text string) {
		if b, err := ParseBandwidth(text); err == nil && (!(b > 0) || math.IsInf(b, 0)) {
			t.Errorf("got %v bytes per second", b)
		}
		if d, err := ParseLatency(text); err == nil && (d < 0 || d > time.Hour) {
			t.Errorf("got latency %v", d)
		}
		line, kind := complaint(text)
		if len(line) > maxComplaint || strings.ContainsAny(line, "\n\r\x00\x1b") || kind == "" {
			t.Errorf("got %q, %q", line, kind)
		}
		listensIn(text, 80)
	})
}
