package launcher

import "time"

// alarm is a timer that can stand still while the job is suspended. It is for one
// goroutine.
type alarm struct {
	*time.Timer
	end time.Time // zero: it is off
}

func newAlarm() *alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &alarm{Timer: t}
}

// set makes the alarm go off in d.
func (a *alarm) set(d time.Duration) {
	a.end = time.Now().Add(d)
	a.Reset(d)
}

func (a *alarm) off() {
	a.end = time.Time{}
	a.Stop()
}

// shift puts the alarm off, if it is on.
func (a *alarm) shift(d time.Duration) {
	if !a.end.IsZero() {
		a.set(time.Until(a.end) + d)
	}
}
