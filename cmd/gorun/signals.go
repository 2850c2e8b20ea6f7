package main

import (
	"os"
	"os/signal"
	"syscall"
)

// endSignals are the signals by which a user ends gorun. A HUP that gorun's parent
// ignores (nohup) stays ignored.
func endSignals() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

func ends(s os.Signal) bool {
	return s == syscall.SIGINT || s == syscall.SIGTERM || s == syscall.SIGQUIT || s == syscall.SIGHUP
}

// exitBy has signals end the process, until release is called, with code, or with
// 128+signal if code is 0. Go's own way to end by QUIT is to print every goroutine.
func exitBy(code int, signals ...os.Signal) (release func()) {
	came := make(chan os.Signal, 1)
	signal.Notify(came, signals...)
	go func() {
		s, ok := <-came
		if !ok {
			return
		}
		if code == 0 {
			code = 128 + int(s.(syscall.Signal))
		}
		os.Exit(code)
	}()
	return func() {
		signal.Stop(came)
		close(came)
	}
}

// watchSignals returns the signals that the job is told of, from now to the end of the
// process.
func watchSignals() <-chan os.Signal {
	c := make(chan os.Signal, 16)
	signal.Notify(c, append(endSignals(), syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH)...)
	return c
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
