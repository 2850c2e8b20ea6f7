package launcher

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		a := newAlarm()
		quiet := func(d time.Duration) {
			t.Helper()
			select {
			case <-a.C:
				t.Fatalf("it went off after %v", time.Since(begun))
			case <-time.After(d):
			}
		}
		quiet(2 * time.Hour) // it is off at first
		a.shift(time.Minute)
		quiet(2 * time.Hour)

		begun = time.Now()
		a.set(10 * time.Second)
		quiet(4 * time.Second)
		a.shift(time.Minute) // suspended for as long
		<-a.C
		if got := time.Since(begun); got != 70*time.Second {
			t.Errorf("after %v; want 70 s", got)
		}

		a.set(time.Second)
		a.off()
		quiet(time.Minute)

		a.set(time.Second) // it would have gone off during the suspension
		time.Sleep(time.Minute)
		a.shift(time.Minute)
		quiet(900 * time.Millisecond)
		<-a.C
	})
}
