package launcher

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// behaviours are what the fake agents can do. Those of one job are all alike, but
// may look at their plan, or at who comes first.
var behaviours = map[string]func(*fake){
	"well":         (*fake).well,
	"no-hail":      func(*fake) {}, // see fakeMain
	"prints":       printing,
	"not-asked":    func(f *fake) { f.hello(); f.waitStop(); f.finish() },
	"sweep-fails":  func(f *fake) { f.start(); f.on(1, f.die, f.untilStopped) },
	"dies-running": func(f *fake) { f.start(); f.on(1, f.die, f.untilStopped) },

	// Before the ranks are started.
	"no-hello":     func(f *fake) { f.mark("up"); f.hang() },
	"dies-hailing": func(f *fake) { fmt.Fprintln(os.Stderr, "oops"); os.Exit(3) },
	"crashes-hailing": func(f *fake) {
		fmt.Fprint(os.Stderr, "runtime: no thread\nfatal error: newosproc\n"+strings.Repeat("goroutine 1\n", 100))
		os.Exit(2)
	},
	"dies-up": func(f *fake) {
		f.hello()
		if f.first() {
			fmt.Fprintln(os.Stderr, "\x1b[1moops")
			f.out.Close()
			os.Exit(3)
		}
		f.waitStop()
		f.finish()
	},
	"libraries":     (*fake).libraries,
	"asked":         func(f *fake) { f.asked(true) },
	"odd-settings":  (*fake).oddSettings,
	"asked-in-vain": func(f *fake) { f.asked(false) },
	"dies-planned":  func(f *fake) { f.hello(); f.waitPlan(); f.on(1, f.die, f.answerAndStop) },
	"no-answer":     func(f *fake) { f.hello(); f.waitPlan(); f.mark("planned"); f.on(0, f.untilStopped, f.answerAndStop) },
	"hangs-planned": func(f *fake) {
		f.hello()
		f.waitPlan()
		f.on(0, f.hang, f.answerAndStop)
	},
	"not-found": func(f *fake) {
		f.hello()
		f.waitPlan()
		f.on(1, func() {
			f.send(wire.Message{Prepared: &wire.Prepared{Failures: []wire.Failure{{Rank: 1, Code: 127, Text: "app: not found"}}}})
			f.waitStop()
			f.finish()
		}, f.answerAndStop)
	},
	"same-machine": func(f *fake) {
		f.hello()
		f.waitPlan()
		f.on(1, func() {
			f.send(wire.Message{Prepared: &wire.Prepared{Failures: []wire.Failure{{Rank: -1, Code: 125, Text: "is the same as ", Twin: new(0)}}}})
			f.waitStop()
			f.finish()
		}, f.answerAndStop)
	},
	"not-found-backwards": func(f *fake) {
		f.hello()
		f.waitPlan()
		f.on(0, func() {
			f.waitFor("answered")
			time.Sleep(100 * time.Millisecond) // the other's answer is to come first
		}, func() {})
		f.send(wire.Message{Prepared: &wire.Prepared{Failures: []wire.Failure{{Rank: -1, Code: 127, Text: "app: not found"}}}})
		f.mark("answered")
		f.waitStop()
		f.finish()
	},
	"not-found-and-dead": func(f *fake) {
		f.hello()
		f.waitPlan()
		f.on(1, func() {
			f.send(wire.Message{Prepared: &wire.Prepared{Failures: []wire.Failure{{Rank: 1, Code: 126, Text: "app: permission denied"}}}})
			f.mark("answered")
			f.waitStop()
			f.finish()
		}, func() {
			f.waitFor("answered")
			time.Sleep(100 * time.Millisecond) // its answer is to come first
			f.die()
		})
	},

	// While they run.
	"silent": func(f *fake) {
		f.start()
		f.on(1, f.hang, func() { go f.beats(); f.untilStopped() })
	},
	"closes-stream": func(f *fake) {
		f.start()
		f.on(1, func() { f.out.Close(); os.Stdout.Close(); f.read(); f.hang() }, f.untilStopped)
	},
	"done-unasked": func(f *fake) { f.start(); f.on(1, f.finish, f.untilStopped) },
	"last-dies": func(f *fake) { // when all the others have ended
		f.start()
		f.on(1, f.die, func() { f.exitAll(); f.waitStop(); f.finish() })
	},
	"fails": func(f *fake) {
		f.start()
		f.on(1, func() {
			f.ranks(func(rank int) {
				f.print(rank, wire.Err, "first line\nlast line\n")
				f.exit(wire.Exited{Rank: rank, Code: 3, At: time.Second})
			})
			f.waitStop()
			f.finish()
		}, f.untilStopped)
	},
	"not-started": func(f *fake) {
		f.start()
		f.on(1, func() {
			f.ranks(func(rank int) { f.exit(wire.Exited{Rank: rank, Code: 126, Text: "start app: no memory"}) })
			f.waitStop()
			f.finish()
		}, f.untilStopped)
	},
	"all-fail": func(f *fake) { // the higher rank first
		f.start()
		f.ranks(func(rank int) {
			f.exit(wire.Exited{Rank: rank, Signal: 11, Core: true, At: time.Hour - time.Duration(rank)*time.Minute})
		})
		f.waitStop()
		f.finish()
	},
	"one-fails-others-end": func(f *fake) { // with --keep-going
		f.start()
		f.on(1, func() {
			f.ranks(func(rank int) { f.exit(wire.Exited{Rank: rank, Code: 7}) })
			f.mark("failed")
		}, func() {
			f.waitFor("failed")
			f.exitAll()
		})
		f.waitStop()
		f.finish()
	},
	"seen":     seen,
	"stubborn": func(f *fake) { f.start(); f.mark("running"); f.obey() },

	// While they are stopped.
	"never-done": func(f *fake) { f.start(); f.mark("running"); go f.beats(); f.exitAll(); f.hangReading() },
	"forgets-ranks": func(f *fake) {
		f.start()
		f.mark("running")
		f.waitStop()
		f.send(wire.Message{Done: &wire.Done{Killed: []int{0}, Left: []string{"pid 5 (app)\n in state D"}}})
	},
	"dies-stopping": func(f *fake) { f.start(); f.mark("running"); f.waitStop(); f.die() },
	"hurried": func(f *fake) { // says Done only to the second stop
		f.start()
		f.mark("running")
		f.exitAll()
		f.waitStop()
		f.mark("stopping")
		f.waitStop()
		f.finish()
	},
	"fails-then-hurried": func(f *fake) {
		f.start()
		f.ranks(func(rank int) { f.exit(wire.Exited{Rank: rank, Code: 3}) })
		f.waitStop()
		f.mark("stopping")
		f.waitStop()
		f.finish()
	},

	// What passes along.
	"logs": func(f *fake) {
		f.start()
		f.send(wire.Message{Log: &wire.Log{Level: "info", Text: "only with -v"}})
		f.send(wire.Message{Log: &wire.Log{Level: "warn", Text: "a \x1b[1mwarning\nof two lines"}})
		f.exitAll()
		f.waitStop()
		f.finish()
	},
	"pauses-in-a-line": func(f *fake) {
		f.start()
		f.print(0, wire.Err, "first half, ")
		f.waitFor("logged")
		f.print(0, wire.Err, "second half\n")
		f.exitAll()
		f.waitStop()
		f.finish()
	},
	"echo": func(f *fake) { f.start(); f.echo() },
	"echo-one": func(f *fake) { // the rank that has stdin
		f.start()
		if f.plan.Ranks[0].Stdin {
			f.echo()
			return
		}
		f.exitAll()
		f.waitStop()
		f.finish()
	},
	"echo-or-die": func(f *fake) { f.start(); f.on(1, f.die, f.echo) },
	"reads-nothing": func(f *fake) { // of its stream, though it grants credit for stdin
		f.start()
		go f.beats()
		f.out.Send(wire.CreditFrame(wire.StreamID(0, wire.In), 1<<30))
		f.hang()
	},
	"flood":          func(f *fake) { f.start(); f.flood(); f.exitAll(); f.waitStop(); f.finish() },
	"stubborn-flood": func(f *fake) { f.start(); f.flood(); f.obey() },
	"floods-on": func(f *fake) { // it has more to send before it is done
		f.start()
		f.flood()
		f.exitAll()
		f.waitStop()
		f.mark("stopping")
		for {
			fr := f.read()
			if fr.Kind == wire.Credit {
				break
			}
			f.mark("hurried") // by a second stop
		}
		f.finish()
	},
	"no-port": func(f *fake) {
		f.send(wire.Message{Hello: &wire.Hello{Cores: 1}})
		f.waitPlan()
		f.send(wire.Message{Prepared: &wire.Prepared{}})
		f.begin()
		f.exitAll()
		f.waitStop()
		f.finish()
	},
	"asks-without-ranks": func(f *fake) {
		f.hello()
		m := f.message()
		if m.Plan == nil { // it is told to stop
			q := rendezvous.Request{ID: 1, Op: "barrier", Key: "b", Missing: []int{0}}
			f.out.Send(wire.Frame{Kind: wire.Store, Payload: q.Append(nil)})
			f.mark("asked")
			f.finish()
			return
		}
		f.waitFor("asked")
		f.plan = m.Plan
		f.send(wire.Message{Prepared: &wire.Prepared{}})
		f.begin()
		f.exitAll()
		f.waitStop()
		f.finish()
	},
	"store":   storing,
	"signals": obeying,
}

// seen answers the look at its ranks, of which rank 1 is stopped, and waits for its end.
func seen(f *fake) {
	f.start()
	f.ranks(func(rank int) { f.print(rank, wire.Out, "step 1\n") })
	f.mark("running")
	for {
		switch m := f.message(); {
		case m.Inspect != nil:
			p := wire.Picture{ID: m.Inspect.ID, Took: time.Second}
			f.ranks(func(rank int) {
				s := wire.Sight{Rank: rank, Processes: 1, Threads: 1, Name: "a\x1bpp", State: "S", Call: "futex"}
				if rank == 1 {
					s.State, s.Call = "T", ""
				}
				p.Sights = append(p.Sights, s)
			})
			f.send(wire.Message{Picture: &p})
		case m.Signal != nil:
			f.mark(fmt.Sprintf("signal-%d-%v", m.Signal.Num, m.Signal.Caught))
		case m.Stop != nil:
			f.stopAll()
			f.finish()
			return
		}
	}
}

// answerAndStop prepares, but starts nothing.
func (f *fake) answerAndStop() {
	f.send(wire.Message{Prepared: &wire.Prepared{}})
	f.waitStop()
	f.finish()
}

// waitFor waits for another agent's mark.
func (f *fake) waitFor(mark string) {
	for !f.has(mark) {
		time.Sleep(time.Millisecond)
	}
}

func (f *fake) has(mark string) bool {
	_, err := os.Stat(f.dir + "/" + mark)
	return err == nil
}

func printing(f *fake) {
	f.start()
	f.ranks(func(rank int) {
		f.print(rank, wire.Out, fmt.Sprintf("out of %d on node %d\n", rank, f.plan.Node))
		f.print(rank, wire.Err, fmt.Sprintf("err of %d\n", rank))
	})
	f.exitAll()
	f.waitStop()
	f.finish()
}

// flood writes to rank 0's stdout as much as its credit allows.
func (f *fake) flood() {
	for left := f.plan.Credit; left > 0; {
		n := min(left, wire.MaxPayload)
		f.print(0, wire.Out, strings.Repeat("x", n-1)+"\n")
		left -= n
	}
}

// hangReading reads all that comes, and does nothing about it.
func (f *fake) hangReading() {
	for {
		f.read()
	}
}

// obey ends the ranks only when no grace is given, and says what it was told.
func (f *fake) obey() {
	for {
		switch m := f.message(); {
		case m.Stop != nil:
			f.mark(fmt.Sprintf("stop-%v", m.Stop.Grace))
			if m.Stop.Grace > 0 {
				continue
			}
			f.ranks(func(rank int) { f.exit(wire.Exited{Rank: rank, Signal: 9, ByStop: true}) })
			f.finish()
			return
		case m.Signal != nil:
			f.mark(fmt.Sprintf("signal-%d", m.Signal.Num))
		}
	}
}

// obeying ends its ranks by the signal that the head passes on.
func obeying(f *fake) {
	f.start()
	f.mark("running")
	for {
		switch m := f.message(); {
		case m.Pause != nil:
			f.mark(fmt.Sprintf("pause-%v", m.Pause.On))
		case m.Signal != nil && m.Signal.Num != int(syscall.SIGINT):
			f.mark(fmt.Sprintf("signal-%d", m.Signal.Num))
		case m.Signal != nil:
			f.ranks(func(rank int) { f.exit(wire.Exited{Rank: rank, Signal: m.Signal.Num}) })
		case m.Stop != nil:
			f.finish()
			return
		}
	}
}

// echo writes what comes for the stdin of its ranks to their stdout, against small
// credit, until the end of file.
func (f *fake) echo() {
	const window = 1000
	open := 0
	f.ranks(func(rank int) {
		open++
		f.out.Send(wire.CreditFrame(wire.StreamID(rank, wire.In), window))
	})
	for open > 0 {
		fr := f.read()
		rank, _ := wire.SplitStream(fr.Stream)
		switch {
		case fr.Kind != wire.Stdin:
		case len(fr.Payload) == 0:
			open--
			f.exit(wire.Exited{Rank: rank})
		default:
			f.print(rank, wire.Out, string(fr.Payload))
			f.out.Send(wire.CreditFrame(fr.Stream, len(fr.Payload)))
		}
	}
	f.waitStop()
	f.finish()
}

// storing lets rank 1 wait for a key that rank 0 puts, and then for one that nobody
// puts, until the store says that rank 0 has ended; their exit codes say what went
// wrong.
func storing(f *fake) {
	f.start()
	code := 0
	f.on(0, func() {
		if r := f.ask(rendezvous.Request{ID: 1, Op: "put", Key: "k", Rank: 0, Value: []byte("v")}); r.Code != "" {
			code = 1
		}
	}, func() {
		from := 0
		if r := f.ask(rendezvous.Request{ID: 7, Op: "get", Key: "k", Rank: 1, From: &from, Timeout: time.Minute}); string(r.Value) != "v" || r.ID != 7 {
			code = 2
		}
		r := f.ask(rendezvous.Request{ID: 8, Op: "get", Key: "never", Rank: 1, From: &from, Timeout: 30 * time.Millisecond})
		if r.Code != "deadline" || !strings.Contains(r.Err, "rank 0") {
			code = 3
		}
		for !strings.HasSuffix(r.Err, "rank 0 on localhost has not written it; it is gone") { // it ends
			r = f.ask(rendezvous.Request{ID: 9, Op: "get", Key: "never", Rank: 1, From: &from, Timeout: 30 * time.Millisecond})
		}
	})
	f.ranks(func(rank int) { f.exit(wire.Exited{Rank: rank, Code: code}) })
	f.waitStop()
	f.finish()
}
