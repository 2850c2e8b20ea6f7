package transport

import (
	"fmt"
	"strings"
)

// First contact. sshd gives a command to the login shell, whichever that is. The first
// one only execs the cached binary: that costs no fork and no round trip, and is all
// there is to do on every launch but a host's first.
//
// If it does not hail (the binary is not there, or cannot be run), a second session of
// the same connection runs a script. The login shell is only asked to start /bin/sh:
// tcsh and fish rewrite some characters even inside single quotes, so the script is one
// line and has no exclamation mark, backslash or single quote. It talks with the head
// (see talk), in lines that begin with the nonce, and takes what it is told to from
// standard input:
//
//	need KERNEL MACHINE cached   the binary is there but was not run: again, send or next
//	need KERNEL MACHINE home     send, next, or again: look whether another host has put it there
//	need KERNEL MACHINE tmp      send or next
//	got LEFT                     a piece of the binary is written; LEFT bytes are to come
//	fail WHY DIRECTORY           this directory is no good; WHY is a word or an exit status
//	at N                         the agent is run from fallback directory N
//	nowhere                      all directories have failed
//
// After "send" comes the binary in pieces, the next one only when the script has got the
// last, for two reasons: head -c of busybox reads ahead, and sshd, given as much as its
// window takes, moves all that it holds at each packet, which made the transfer several
// times slower. A failed write drains the rest of its piece, and asks for no other.
const (
	// f reports, q cleans up, a asks, w finds out whether a file can be made and run here
	// (an empty one: a mount may forbid it, otherwise sh takes it for an empty script), r
	// receives, x tries the binary, k keeps the last 3 used and those used within a day (a job
	// may need them), u readies the cache for writing, h is the home directory's turn, p a
	// fallback directory's.
	script = `o=$(umask); umask 077; s=$(uname -s); m=$(uname -m); t=; ` +
		`f() { echo "@gorun-$n fail $1 $2"; }; ` +
		`q() { test -n "$t" && rm -rf "$t"; t=; }; trap q 0; trap "exit 1" 1 2 13 15; ` +
		`a() { echo "@gorun-$n need $s $m $1"; w=; read -r w || exit 1; }; ` +
		`w() { true > "$1" || { f create "$2"; return 1; }; chmod 700 "$1"; "$1" < /dev/null; e=$?; test $e = 0 || { f $e "$2"; return 1; }; }; ` +
		`r() { l=$z; while test $l -gt 0; do i=$b; test $l -lt $i && i=$l; ` +
		`head -c $i | { cat >> "$1" || { cat > /dev/null; false; }; } || return; l=$((l-i)); echo "@gorun-$n got $l"; done; ` +
		`test $(wc -c < "$1") -eq $z && chmod 700 "$1"; }; ` +
		`x() { e=size; test $(wc -c < "$1") -eq $z && { "$1" --version < /dev/null > /dev/null; e=$?; }; test $e = 0 || { f $e "$2"; return 1; }; }; ` +
		`k() { (cd "$c" || exit; find . -name "tmp.*" -mtime +1 -exec rm -f {} +; i=0; ` +
		`ls -t | while read -r y; do case $y in gorun-*) i=$((i+1)); test $i -gt 3 && find "$y" -mtime +0 -exec rm -f {} +;; esac; done); }; ` +
		`u() { test -n "$t" || { t=$c/tmp.$n; w "$t" "$c" || { q; return 1; }; }; }; ` +
		`h() { test -d "$HOME" || { f nohome "$HOME"; return; }; mkdir -p "$c" || { f mkdir "$c"; return; }; ` +
		`while :; do g=cached; test -x "$c/$v" || { g=home; u || return; }; a $g; ` +
		`case $w in again) ;; send) t=$c/tmp.$n; r "$t" && mv -f "$t" "$c/$v" || { f write "$c"; q; return; }; t=; k;; *) q; return;; esac; ` +
		`test -x "$c/$v" && { x "$c/$v" "$c" && { q; trap - 0 1 2 13 15; umask $o; exec "$c/$v" agent $n; }; u || return; }; done; }; ` +
		`p() { test -d "$1" || return; d=$1/gorun-agent-$j; mkdir "$d" || { f mkdir "$1"; return; }; t=$d; w "$d/gorun" "$1" || { q; return; }; ` +
		`a tmp; test "$w" = send || { q; return; }; r "$d/gorun" || { f write "$1"; q; return; }; ` +
		`x "$d/gorun" "$1" || { q; return; }; echo "@gorun-$n at $2"; trap - 0 1 2 13 15; umask $o; exec "$d/gorun" agent $n --remove "$d"; }; ` +
		`h; p /tmp 1; p /var/tmp 2; p /dev/shm 3; test -n "$XDG_RUNTIME_DIR" && p "$XDG_RUNTIME_DIR" 4; echo "@gorun-$n nowhere"; exit 1`
)

// firstCommand execs the cached binary.
func firstCommand(nonce string, b *binary) string {
	return `exec "$HOME/.cache/gorun/` + b.name + `" agent ` + nonce
}

// installCommand gets the binary there and runs it.
func installCommand(nonce, jobID string, b *binary) string {
	vars := fmt.Sprintf("n=%s; v=%s; z=%d; b=%d; j=%s; c=$HOME/.cache/gorun; ", nonce, b.name, b.size, piece, jobID)
	return shCommand(vars + script)
}

// shCommand makes a command for a login shell of a script for /bin/sh.
func shCommand(script string) string { return "exec /bin/sh -c '" + script + "'" }

// place says where the binary runs from on a host: 0 is the cache in the home
// directory, others are fallback directories.
type place int

// placeDirs are the fallback directories as the script names them.
var placeDirs = [...]string{1: "/tmp", 2: "/var/tmp", 3: "/dev/shm", 4: "$XDG_RUNTIME_DIR"}

// command is the login shell's command for `gorun ARGS` on the host.
func (p place) command(d *Dialer, args []string) (string, error) {
	for _, a := range args {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool { return !plainRune(r) }) {
			return "", fmt.Errorf("argument %q cannot be passed through a login shell", a)
		}
	}
	b, err := d.ship.get()
	if err != nil {
		return "", err
	}
	exe := "$HOME/.cache/gorun/" + b.name
	if p > 0 {
		exe = placeDirs[p] + "/gorun-agent-" + d.opts.JobID + "/gorun"
	}
	return shCommand(`exec "` + exe + `" ` + strings.Join(args, " ")), nil
}
