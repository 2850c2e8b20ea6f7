package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A job that passes its limit tells which rank the others wait for, and stops.
func TestHangAtTimeout(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	limit := patience(2 * time.Second) // by then the ranks must be where they hang
	tests := []struct {
		name, script string
		want         []string
	}{
		{
			"late", `echo step $GORUN_RANK; [ $GORUN_RANK = 2 ] && while :; do :; done; exec $GORUN_EXE store barrier step`,
			[]string{
				"ranks 0-1,3 wait for rank 2 on " + nodes[1] + ", which is late, but working (",
				`gorun:   barrier "step": 1 of 4 ranks has not come: rank 2 on ` + nodes[1], `; in barrier "step"; `,
			},
		},
		{
			"stopped", `[ $GORUN_RANK = 2 ] && kill -STOP $$; exec $GORUN_EXE store barrier step`,
			[]string{"ranks 0-1,3 wait for rank 2 on " + nodes[1] + ", which is stopped (state T)\n"},
		},
		{
			"no-input", `echo "step $GORUN_RANK"; [ $GORUN_RANK = 1 ] && read x; exec $GORUN_EXE store barrier step`,
			[]string{
				"ranks 0,2-3 wait for rank 1 on " + nodes[0] + ", which is sleeping in read of its standard input\n",
				`last output `, `: "step 1"`,
			},
		},
		{
			"no-data", `[ $GORUN_RANK = 3 ] && exec perl -MIO::Socket::INET -e '
					$s = IO::Socket::INET->new(Listen => 1, LocalPort => 4000) or die;
					system "$ENV{GORUN_EXE} store put addr $ENV{GORUN_HOST_ADDR}";
					$c = $s->accept; sleep'
				[ $GORUN_RANK = 0 ] || exec sleep 1000
				exec perl -MIO::Socket::INET -e '$c = IO::Socket::INET->new("$ARGV[0]:4000") or die; <$c>; sleep' $($GORUN_EXE store get addr)`,
			[]string{
				"rank 0 on " + nodes[0] + " waits for rank 3 on " + nodes[1] + ", which is sleeping",
				"sleeping in read of a connection to rank 3 on " + nodes[1], "; listening on port 4000; connected to rank 0 on " + nodes[0],
			},
		},
		{
			// As PyTorch's ranks meet: rank 0 waits, too.
			"not-met", `[ $GORUN_RANK = 2 ] && exec sleep 1000
				[ $GORUN_RANK = 0 ] && exec perl -MIO::Socket::INET -e '
					$s = IO::Socket::INET->new(Listen => 5, ReuseAddr => 1, LocalPort => $ENV{MASTER_PORT}) or die;
					system "$ENV{GORUN_EXE} store put open 1"; push @c, scalar $s->accept for 1 .. 2; sleep'
				$GORUN_EXE store get open >/dev/null
				exec perl -MIO::Socket::INET -e '$c = IO::Socket::INET->new("$ENV{MASTER_ADDR}:$ENV{MASTER_PORT}") or die; <$c>; sleep'`,
			[]string{"ranks 0-1,3 wait for rank 2 on " + nodes[1] + ", which is sleeping in ", "; MASTER_ADDR, where they meet, has no connection from there\n"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in, out, err := os.Pipe() // to which nobody writes
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			defer in.Close()
			e := gorun(t, sh([]string{"-hostfile", hostfile(t, nodes, "slots=2"), "--timeout", limit.String(), "--stdin", "1"}, tt.script), input(in))
			e.want(t, 124, append(tt.want, "gorun: at the timeout of "+limit.String()+", ",
				"timeout: the job has run for "+limit.String()+"; 4 ranks stopped")...)
			e.wantWithin(t, limit+soon)
		})
	}
}

// USR2 shows the ranks as often as it comes, and reaches only those that have a handler.
func TestHangBySignal(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	result := filepath.Join(shared(t), "result")
	j := startScript(t, 2, []string{"-hostfile", hostfile(t, nodes, "slots=1"), "--result", result},
		`[ $GORUN_RANK = 0 ] && trap 'echo caught' USR2; : >"$1/rank.$GORUN_RANK"; while :; do sleep 0.1; done`)
	for n := 1; n <= 2; n++ {
		j.signal(syscall.SIGUSR2)
		within(t, 10*time.Second, "a picture, and then the signal", func() bool {
			return strings.Count(j.err.String(), "gorun: on SIGUSR2, ") == n && strings.Count(j.out.String(), "caught\n") == n
		})
	}
	j.signal(syscall.SIGTERM)
	e := j.wait(15 * time.Second)
	e.want(t, 143, "ended by SIGTERM; 2 ranks stopped")
	if text, err := os.ReadFile(result); err != nil || !strings.Contains(string(text), `"when": "on SIGUSR2"`) {
		t.Errorf("the result lacks the picture: %v\n%s", err, shorten(string(text)))
	}
}

// Before the job of a lost host is stopped, the ranks that wait for those on it are told.
func TestHangAtLostHost(t *testing.T) {
	t.Parallel()
	nodes := hosts(t, 2)
	j := startScript(t, 2, []string{"-hostfile", hostfile(t, nodes, "slots=1"), "--lost-after", "5s"},
		`: >"$1/rank.$GORUN_RANK"; [ $GORUN_RANK = 1 ] && exec sleep 1000; exec $GORUN_EXE store barrier all`)
	testbed(t, "cut", nodes[1])
	e := j.wait(30 * time.Second)
	e.want(t, 125, "gorun: when "+nodes[1]+" was lost, ",
		"rank 0 on "+nodes[0]+" waits for rank 1 on "+nodes[1]+", which is out of sight: lost with the host\n", "host lost: "+nodes[1])
}
