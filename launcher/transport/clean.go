package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"gorun/hostfile"
)

// cleanScript removes what the caches hold, of gorun and of files that were sent for
// ranks, and the caches if they are then empty. What is in use stays:
//
//   - a program that a process of this host runs, or whose inode is one of $k: those that
//     run on other hosts, which may have the same home;
//   - a content that a job's directory has a link to, and all of them while a job of this
//     day may be about to make one.
//
// It says of a program "uses INODE", and at last how many programs it has removed, kept for
// processes of this host, and kept for those of others, and how many contents it has
// removed and kept. Unless $d is 1 it only looks.
//
// Several hosts may clean one home at once: what another has removed meanwhile is no error.
//
// A program that is just being installed is taken away, too: its host then runs it from a
// fallback directory. The text must be as that of the bootstrap script.
const cleanScript = `r=0; h=0; o=0; x=0; y=0; ` +
	`e() { echo "@gorun-$n done $r $h $o $x $y"; exit 0; }; ` +
	`c() { echo $#; }; ` +
	`g() { for p in /proc/[0-9]*/exe; do test "$p" -ef "$1" && return; done; return 1; }; ` +
	`b() { find gorun-files -name "job-*" -prune -o -name "blob-*" "$@"; }; ` +
	`test -n "$HOME" && cd "$HOME/.cache" 2> /dev/null || e; ` +
	`test /proc/$$/exe -ef /proc/$$/exe || { echo "cannot see here which programs run"; exit 1; }; ` +
	`for f in gorun/gorun-*; do test -f "$f" || continue; set -- $(ls -di "$f"); ` +
	`if g "$f"; then echo "@gorun-$n uses $1"; h=$((h+1)); continue; fi; ` +
	`case " $k " in *" $1 "*) o=$((o+1)); continue;; esac; ` +
	`test $d = 1 || continue; if rm -f "$f"; then r=$((r+1)); elif test -e "$f"; then exit 1; fi; done; ` +
	`test $d = 1 || e; rm -f gorun/tmp.* || rm -f gorun/tmp.* || exit 1; ` +
	`if test -d gorun-files; then l=; ` +
	`test -n "$(find gorun-files/job-*.list -prune -mtime -1 2> /dev/null)" || l=$(b -links 1 -exec rm -f {} + -print) || test -z "$(b -links 1 -print 2> /dev/null)" || exit 1; ` +
	`x=$(c $l); y=$(c $(b -print)); fi; ` +
	`rmdir gorun gorun-files 2> /dev/null; e`

// Cleaned is what became of the caches in a home directory.
type Cleaned struct {
	Programs int // gorun's own, of several versions, removed
	Files    int // contents that were sent for ranks, removed

	Running   int // programs kept, as processes of the host run them
	Elsewhere int // programs kept, as processes of another host run them
	Used      int // contents kept, as jobs use them
}

// InUse returns which of gorun's programs in h's cache are being run there, by their inodes.
func (d *Dialer) InUse(ctx context.Context, h hostfile.Host) ([]uint64, error) {
	report, err := d.runClean(ctx, h, "d=0; k=; ")
	return report.uses, err
}

// Clean removes gorun's programs, and files that were sent for ranks, from h's caches, but
// for what is in use. inUse are programs that other hosts use, whose home may be the same:
// ranks, and the sweep after an agent that was killed, run the program from there.
func (d *Dialer) Clean(ctx context.Context, h hostfile.Host, inUse []uint64) (Cleaned, error) {
	var list []string
	for _, inode := range inUse {
		list = append(list, strconv.FormatUint(inode, 10))
	}
	report, err := d.runClean(ctx, h, `d=1; k="`+strings.Join(list, " ")+`"; `)
	return report.cleaned, err
}

// runClean runs cleanScript on h.
func (d *Dialer) runClean(ctx context.Context, h hostfile.Host, vars string) (report cleanReport, err error) {
	a, local, err := d.prepare(ctx, h)
	if err != nil {
		return report, err
	}
	defer a.end()
	var conn conn
	if !local {
		conn, local, err = a.open()
	}
	if err != nil {
		return report, a.fail(err)
	}
	nonce := newNonce()
	script := "n=" + nonce + "; " + vars + cleanScript
	var out []byte
	if local {
		cmd := exec.CommandContext(a.ctx, "/bin/sh", "-c", script)
		cmd.Env = []string{"HOME=" + d.opts.Home, "PATH=/usr/bin:/bin"}
		out, err = runHere(a.ctx, cmd)
	} else {
		out, err = runOn(a.ctx, conn, shCommand(script))
		conn.close()
	}
	if err == nil {
		report, err = parseClean(out, nonce)
	}
	if err != nil && len(out) > 0 {
		err = fmt.Errorf("%w: %s", err, cleanLine(string(out), 300))
	}
	return report, a.fail(err)
}

// cleanReport is what cleanScript says.
type cleanReport struct {
	uses    []uint64
	cleaned Cleaned
}

var errNotClean = errors.New("the host did not say what it has removed")

// parseClean reads the report, which stands among what else the host may print.
func parseClean(out []byte, nonce string) (cleanReport, error) {
	var r cleanReport
	for s := newScanner(bytes.NewReader(out), nonce); ; {
		line, err := s.next()
		if err != nil {
			return r, errNotClean
		}
		word, rest, _ := strings.Cut(line, " ")
		n, err := numbers(rest)
		switch {
		case err != nil:
			return r, errNotClean
		case word == "uses" && len(n) == 1:
			r.uses = append(r.uses, n[0])
		case word == "done" && len(n) == 5:
			r.cleaned = Cleaned{Programs: int(n[0]), Running: int(n[1]), Elsewhere: int(n[2]), Files: int(n[3]), Used: int(n[4])}
			return r, nil
		}
	}
}

// numbers reads numbers with blanks between.
func numbers(text string) ([]uint64, error) {
	var out []uint64
	for f := range strings.FieldsSeq(text) {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, nil
}
