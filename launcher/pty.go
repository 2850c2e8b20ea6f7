package launcher

import (
	"math"
	"slices"
	"strings"

	"gorun/envsync"
	"gorun/launcher/wire"
)

// Size of the ranks' terminals where gorun has none.
const (
	defaultRows = 24
	defaultCols = 80
)

// window is the size of the ranks' terminals, nil if they get none.
func (r *run) window() *wire.Window {
	if !r.job.Pty {
		return nil
	}
	w := &wire.Window{Rows: defaultRows, Cols: defaultCols}
	if r.io.Window == nil {
		return w
	}
	if rows, cols := r.io.Window(); rows > 0 && cols > 0 {
		w.Rows, w.Cols = uint16(min(rows, math.MaxUint16)), uint16(min(cols, math.MaxUint16))
	}
	return w
}

// resize gives the ranks' terminals the size that gorun's has now. Those of ranks that
// have no plan yet get it with that.
func (r *run) resize() {
	w := r.window()
	if w == nil || len(r.m.ranks) == 0 {
		return
	}
	for _, h := range r.hosts {
		if r.m.live(h.index) {
			h.send.SendMessage(wire.Message{Window: w})
		}
	}
}

// terminalKind sends TERM to ranks with a terminal, as ssh does, unless the user gives
// one.
func (j Job) terminalKind() []envsync.Setting {
	isTerm := func(s envsync.Setting) bool { name, _, _ := strings.Cut(s.Text, "="); return name == "TERM" }
	inApp := func(a App) bool { return slices.ContainsFunc(a.Set, isTerm) }
	here := slices.ContainsFunc(j.Env.Environ, func(v string) bool { return strings.HasPrefix(v, "TERM=") })
	if !j.Pty || !here || slices.ContainsFunc(j.Env.Set, isTerm) || slices.ContainsFunc(j.Apps, inApp) {
		return nil
	}
	return []envsync.Setting{{Flag: "--pty", Text: "TERM"}}
}
