package probe

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeVar is set in the environment of a fake program of perftest, which is this test's
// own, to its name.
const fakeVar = "GORUN_TEST_PERFTEST"

// fakes puts fake programs of perftest, and nothing else, into PATH. What one does
// follows from the device that it is given.
func fakes(t *testing.T, names ...string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range names {
		text := fmt.Sprintf("#!/bin/sh\n%s=%s exec '%s' \"$@\"\n", fakeVar, name, self)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

// fakePerftest is a program of perftest that uses TCP in the place of RDMA.
func fakePerftest(args []string) int {
	at := func(flag string) string {
		if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
			return args[i+1]
		}
		return ""
	}
	device, server := at("-d"), args[len(args)-1]
	if _, err := netip.ParseAddr(server); err != nil {
		server = ""
	}
	conn, err := meet(device, server, at("-p"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	switch device {
	case "retries":
		fmt.Println(" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81")
		return 1
	case "memlock":
		fmt.Println("Couldn't allocate MR")
		return 1
	case "silent":
		return 1
	case "zero":
		fmt.Print(gbitHeading + " 1048576 0 0.000000 0.000000 0.000000\n")
		return 0
	case "hangs":
		<-time.After(time.Minute)
	}
	conn.Write([]byte{1})
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		fmt.Println(" Failed to exchange data between server and clients")
		return 1
	}
	if os.Getenv(fakeVar) == programLatency {
		fmt.Print(latHeading + " 2 1000 1.06 3.61 1.09 1.10 0.06 1.25 3.61\n")
		return 0
	}
	fmt.Print(gbitHeading + " 1048576 46000 0.00 386.5 0.046\n")
	return 0
}

// meet connects a fake to its other end.
func meet(device, server, port string) (net.Conn, error) {
	if device == "missing" {
		return nil, fmt.Errorf("IB device %s not found\n Unable to find the Infiniband/RoCE device", device)
	}
	if server != "" {
		conn, err := net.Dial("tcp", net.JoinHostPort(server, port))
		if err != nil {
			return nil, fmt.Errorf("Couldn't connect to %s:%s", server, port)
		}
		return conn, nil
	}
	lis, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return nil, fmt.Errorf("Couldn't listen to port %s", port)
	}
	defer lis.Close()
	return lis.Accept()
}

func rail(place int, from, to string) Rail {
	return Rail{Place: place, From: RailPort{Device: from, Port: 1, GID: 3}, To: RailPort{Device: to, Port: 1, GID: 3}}
}

func TestRails(t *testing.T) {
	fakes(t, programBandwidth, programLatency)
	tests := []struct {
		name, from, to string
		failure        Failure
		there          bool
		text           string
	}{
		{"good", "mlx5_0", "mlx5_1", "", false, ""},
		{"lost", "retries", "mlx5_1", Lost, false, "ib_write_bw: Completion with error at client"},
		{"lost-told-there", "silent", "retries", Lost, false, "ib_write_bw, at the other end: Completion"},
		{"nothing-arrives", "zero", "mlx5_1", Lost, false, "ib_write_bw: no message has arrived"},
		{"device", "memlock", "mlx5_1", Device, false, "ib_write_bw: Couldn't allocate MR"},
		{"device-there", "mlx5_0", "memlock", Device, true, "ib_write_bw: Couldn't allocate MR"},
		{"no-device", "missing", "mlx5_1", Device, false, "ib_write_bw: IB device missing not found"},
		{"no-device-there", "mlx5_0", "missing", Device, true, "ib_write_bw: IB device missing not found"},
		{"says-nothing", "silent", "hangs", Other, false, "ib_write_bw: it has printed nothing"},
		{"bad-name", "mlx5_0", "-h", Other, false, "did not say"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := listening(t, 3, loopback)
			got := RunRails(t.Context(), 0, testSecret, netip.Addr{}, target(3, l), []Rail{rail(5, tt.from, tt.to)})[0]
			if got.Failure != tt.failure || got.There != tt.there || !strings.Contains(got.Text, tt.text) {
				t.Errorf("got %+v; want %q, there %v, %q", got, tt.failure, tt.there, tt.text)
			}
			if got.Host != 3 || got.Place != 5 || got.From != tt.from || got.To != tt.to {
				t.Errorf("got %+v; want what was asked for", got)
			}
			if tt.failure == "" && (got.BytesPerSecond != 386.5e9/8 || got.Latency != 1090) {
				t.Errorf("got %+v; want 386.5 Gb/s and 1.09 µs", got)
			}
		})
	}
}

func TestRailsAtOnce(t *testing.T) {
	fakes(t, programBandwidth, programLatency)
	l := listening(t, 1, loopback)
	var rails []Rail
	for k := range 8 {
		rails = append(rails, rail(k, fmt.Sprint("mlx5_", k), "mlx5_0"))
	}
	for k, got := range RunRails(t.Context(), 0, testSecret, loopback, target(1, l), rails) {
		if got.Place != k || got.Failure != "" || got.BytesPerSecond == 0 {
			t.Errorf("rail %d: got %+v; want bandwidth", k, got)
		}
	}
}

func TestRailsWithoutPerftest(t *testing.T) {
	l := listening(t, 1, loopback)
	t.Run("here", func(t *testing.T) {
		p := prober{secret: testSecret, order: Order{}.bounded(), find: func(string) string { return "" }}
		var got RailLink
		p.tryRail(t.Context(), target(1, l), rail(0, "a", "b"), &got)
		if got.Failure != NoProgram || got.There || got.Text != "ib_write_bw is not installed" {
			t.Errorf("got %+v; want that it is not installed", got)
		}
	})
	t.Run("there", func(t *testing.T) {
		_, _, got := l.listening(serving{Program: programBandwidth}, "")
		if want := (served{Failure: NoProgram, Text: "ib_write_bw is not installed"}); got == nil || *got != want {
			t.Errorf("got %+v; want %+v", got, want)
		}
	})
	t.Run("cannot-run", func(t *testing.T) {
		_, _, got := l.listening(serving{Program: programBandwidth}, "/nowhere/ib_write_bw")
		if got == nil || got.Failure != Other || !strings.Contains(got.Text, "no such file") {
			t.Errorf("got %+v; want the kernel's word", got)
		}
	})
}

// Whatever happens to either end, no program is left.
func TestRailsLeaveNothing(t *testing.T) {
	fakes(t, programBandwidth)
	began := time.Now()
	t.Run("time-over", func(t *testing.T) {
		l := listening(t, 1, loopback)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, fmt.Errorf("no more time"))
		defer cancel()
		got := RunRails(ctx, 0, testSecret, loopback, target(1, l), []Rail{rail(0, "hangs", "hangs")})[0]
		if got.Failure != Stopped || !strings.Contains(got.Text, "no more time") {
			t.Errorf("got %+v; want stopped", got)
		}
	})
	t.Run("listener-closed", func(t *testing.T) {
		l := listening(t, 1, loopback)
		var wg sync.WaitGroup
		wg.Go(func() {
			pause(t.Context(), 300*time.Millisecond)
			l.Close()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		RunRails(ctx, 0, testSecret, loopback, target(1, l), []Rail{rail(0, "hangs", "hangs")})
		wg.Wait()
	})
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if left := fakesRunning(t); len(left) > 0 {
		t.Errorf("still running: %q", left)
	}
}

// fakesRunning lists the fakes that run, of this test.
func fakesRunning(t *testing.T) (left []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		environ, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(environ), fakeVar+"=") && strings.Contains(string(environ), "PATH="+os.Getenv("PATH")) {
			left = append(left, file)
		}
	}
	return left
}

func TestServingChecks(t *testing.T) {
	good := RailPort{Device: "mlx5_bond_0", Port: 1, GID: -1}
	change := func(f func(*RailPort)) RailPort {
		p := good
		f(&p)
		return p
	}
	tests := []struct {
		name string
		ask  serving
		ok   bool
	}{
		{"bandwidth", serving{Program: programBandwidth, Port: good}, true},
		{"latency", serving{Program: programLatency, Port: good}, true},
		{"shell", serving{Program: "sh", Port: good}, false},
		{"path", serving{Program: "/bin/" + programLatency, Port: good}, false},
		{"flag", serving{Program: programLatency, Port: change(func(p *RailPort) { p.Device = "--run_infinitely" })}, false},
		{"blank", serving{Program: programLatency, Port: change(func(p *RailPort) { p.Device = "a b" })}, false},
		{"no-device", serving{Program: programLatency, Port: change(func(p *RailPort) { p.Device = "" })}, false},
		{"no-port", serving{Program: programLatency, Port: change(func(p *RailPort) { p.Port = 0 })}, false},
		{"sl", serving{Program: programLatency, Port: change(func(p *RailPort) { p.SL = 16 })}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.ask.check(); (err == nil) != tt.ok {
				t.Errorf("got %v; want ok %v", err, tt.ok)
			}
		})
	}
}
