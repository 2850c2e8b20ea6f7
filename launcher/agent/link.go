package agent

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"gorun/launcher/wire"
	"gorun/rendezvous"
)

// readLink handles the head's frames until the link ends. It never waits for a rank.
func (a *agent) readLink() {
	defer close(a.read)
	r := wire.NewReader(bufio.NewReaderSize(a.r, 2*wire.MaxPayload), wire.MaxMessage)
	for {
		f, err := r.Read()
		if err == nil {
			a.heard.Store(int64(time.Since(a.began)))
			err = a.handle(f)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = errors.New("gorun is gone")
		}
		a.end.lose(fmt.Sprintf("link lost: %v", err), time.Duration(a.grace.Load()))
		return
	}
}

// errFrame is the end of a link on which came what the head must not send.
var errFrame = errors.New("unexpected frame")

// handle carries out one frame. An error ends the link.
func (a *agent) handle(f wire.Frame) error {
	j := a.job.Load()
	switch f.Kind {
	case wire.Heartbeat:
		return nil
	case wire.Control:
		m, err := wire.Decode(f)
		if err != nil {
			return err
		}
		return a.message(j, m)
	case wire.Credit:
		return a.credit(j, f)
	case wire.Stdin:
		return a.stdin(j, f)
	case wire.Store:
		return a.reply(f)
	case wire.Content:
		return a.takeContent(f)
	}
	return fmt.Errorf("%w of kind %d", errFrame, f.Kind)
}

func (a *agent) credit(j *job, f wire.Frame) error {
	if j != nil {
		if s := j.stream(f.Stream); s != nil {
			s.grant(wire.CreditOf(f))
			return nil
		}
	}
	return fmt.Errorf("%w: credit for stream %d", errFrame, f.Stream)
}

func (a *agent) stdin(j *job, f wire.Frame) error {
	if j != nil {
		if d := j.feed(f.Stream); d != nil {
			return d.push(f.Payload)
		}
	}
	return fmt.Errorf("%w: stdin for stream %d", errFrame, f.Stream)
}

// reply hands an answer of the store's to the server; there are none before its
// ranks run, or after.
func (a *agent) reply(f wire.Frame) error {
	r, err := rendezvous.ParseReply(append([]byte(nil), f.Payload...))
	if err != nil {
		return fmt.Errorf("%w: %v", errFrame, err)
	}
	if s := a.store.Load(); s != nil {
		s.Deliver(r)
	}
	return nil
}

// message carries out one control message.
func (a *agent) message(j *job, m wire.Message) error {
	switch {
	case m.Plan != nil:
		return a.takePlan(j, m.Plan)
	case m.Files != nil:
		a.files = m.Files.List
		return nil
	case m.Stage != nil:
		m.Stage.Files = a.files
		return a.stage(m.Stage)
	case m.Look != nil || m.Fetch != nil:
		return a.order(m)
	case m.Stop != nil:
		a.end.order("", exitDone, m.Stop.Grace)
		return nil
	case m.Pause != nil:
		a.pause(j, m.Pause.On)
		return nil
	case m.Window != nil:
		if j != nil { // else the plan will tell
			j.resize(*m.Window)
		}
		return nil
	case m.Ask != nil:
		select {
		case a.own.asks <- *m.Ask:
			return nil
		default:
			return fmt.Errorf("%w: a second question", errFrame)
		}
	case m.Examine != nil || m.Listen != nil || m.Probe != nil:
		return a.exam.take(m)
	case j == nil:
		return fmt.Errorf("%w: a message before the plan", errFrame)
	case m.Start != nil:
		select {
		case a.starts <- time.Now():
			return nil
		default:
			return fmt.Errorf("%w: a second start", errFrame)
		}
	case m.Signal != nil:
		return a.passSignal(j, *m.Signal)
	case m.Inspect != nil:
		a.inspect(j, *m.Inspect)
		return nil
	case m.Watch != nil:
		return a.takeWatch(j, m.Watch)
	}
	return fmt.Errorf("%w: a message that only agents send", errFrame)
}

func (a *agent) takePlan(j *job, p *wire.Plan) error {
	if j != nil {
		return fmt.Errorf("%w: a second plan", errFrame)
	}
	j, err := newJob(p, a.out.Send, a.bulk)
	if err != nil {
		return fmt.Errorf("%w: %v", errFrame, err)
	}
	j.alien = a.alien
	j.send = func(x wire.Exited) { a.out.SendMessage(wire.Message{Exited: &x}) }
	a.grace.Store(int64(max(p.Grace, 0)))
	if p.LostAfter > 0 {
		a.lost.Store(int64(p.LostAfter))
	}
	a.job.Store(j)
	a.plans <- j
	return nil
}

// maxSignal is the highest signal number of Linux.
const maxSignal = 64

func (a *agent) passSignal(j *job, s wire.Signal) error {
	switch {
	case s.Num < 1 || s.Num > maxSignal:
		return fmt.Errorf("%w: signal %d", errFrame, s.Num)
	case s.Caught:
		j.signalCaught(syscall.Signal(s.Num))
	default:
		j.signal(syscall.Signal(s.Num))
	}
	return nil
}

// pause stops or continues all processes of the job, if there is one yet. While the
// head is suspended it sends no heartbeats, and is not missed.
func (a *agent) pause(j *job, on bool) {
	if on {
		a.paused.Store(true)
	}
	if s := a.store.Load(); s != nil {
		s.Pause(on)
	}
	if j != nil && on {
		j.signalAll(syscall.SIGSTOP)
	} else if j != nil {
		j.signalAll(syscall.SIGCONT)
	}
	if on {
		return
	}
	a.heard.Store(int64(time.Since(a.began)))
	a.paused.Store(false)
}
