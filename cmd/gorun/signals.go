package main

import (
	"os"
	"os/signal"
	"syscall"
)

// watchSignals returns the signals that the job is told of, and what ends the watch.
// A HUP that gorun's parent ignores (nohup) stays ignored.
func watchSignals() (<-chan os.Signal, func()) {
	c := make(chan os.Signal, 16)
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	signal.Notify(c, signals...)
	return c, func() { signal.Stop(c) }
}

// catchPipe makes a write to a closed standard output an error, EPIPE, instead of the
// end of the process. The signal is caught, not ignored, as programs that gorun starts
// would inherit that.
func catchPipe() {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
}

// suspend stops this process as ^Z does. It returns when the process is continued.
func suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	// Another thread may have to stop the process; this one ran on for a moment.
	<-continued
}
