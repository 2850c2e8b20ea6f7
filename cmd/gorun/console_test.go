package main

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestConsoleIsNotRead: whoever does not read holds gorun up only as long as told.
func TestConsoleIsNotRead(t *testing.T) {
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGUSR1
	signals <- syscall.SIGINT
	for name, c := range map[string]*console{"limit": {limit: time.Millisecond}, "signal": {signals: signals}} {
		t.Run(name, func(t *testing.T) {
			r, w := io.Pipe()
			defer r.Close()
			c.w = w
			c.print(report{lines: []string{"one"}})
			c.print(report{lines: []string{"two"}})
			if !c.stuck {
				t.Error("the console is not stuck")
			}
		})
	}
}
