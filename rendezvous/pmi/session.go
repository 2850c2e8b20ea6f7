package pmi

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gorun/rendezvous"
)

// Limits of a spawn, which is read and refused.
const maxSpawnLines = 10000

// session is the conversation with one rank: what it says and what the store answers go
// in, lines come out. A client waits for each answer before it asks again; so there is
// one request at a time.
type session struct {
	server *Server
	member *member
	ask    func(rendezvous.Request) // of the store; the answer comes to answered
	say    func(line string)        // to the client

	fences int // barriers that this rank has passed
	serial uint64
	waits  func(rendezvous.Reply) // for the answer of serial; nil: for none
	spawn  int                    // lines of a spawn so far
}

// idle reports whether the client's next line may be handled.
func (s *session) idle() bool { return s.waits == nil }

// line handles a line of the client's. After an error nothing the client says can be
// understood.
func (s *session) line(text string) error {
	if s.spawn > 0 {
		return s.spawnLine(text)
	}
	c, err := parse(text)
	if err != nil {
		return err
	}
	if c.lines {
		s.spawn = 1
		return nil
	}
	return s.command(c)
}

func (s *session) command(c command) error {
	cfg := s.server.cfg
	switch c.name {
	case "init":
		s.init(c)
	case "get_maxes":
		s.say(reply("maxes", "kvsname_max", strconv.Itoa(maxName), "keylen_max", strconv.Itoa(maxKey), "vallen_max", strconv.Itoa(maxValue)))
	case "get_appnum":
		s.say(reply("appnum", "appnum", strconv.Itoa(s.member.App)))
	case "get_my_kvsname":
		s.say(reply("my_kvsname", "kvsname", cfg.Name))
	case "get_universe_size":
		s.say(reply("universe_size", "size", strconv.Itoa(cfg.Size)))
	case "put":
		s.put(c)
	case "get":
		s.get(c.get("kvsname"), c.get("key"))
	case "barrier_in":
		s.barrier()
	case "finalize":
		s.server.part(s.member, Finalized)
		s.say(reply("finalize_ack"))
	case "abort":
		s.abort(c)
	case "publish_name", "unpublish_name", "lookup_name":
		s.say(refuse(strings.TrimSuffix(c.name, "_name")+"_result", "gorun does not connect jobs with each other"))
	default:
		s.say(refuse(c.name+"_result", "unknown command"))
	}
	return nil
}

func (s *session) init(c command) {
	if c.get("pmi_version") != "1" {
		s.say(refuse("response_to_init", "gorun speaks version 1", "pmi_version", "1", "pmi_subversion", "1"))
		return
	}
	if !s.server.join(s.member) {
		s.say(refuse("response_to_init", "this rank has been an MPI process already", "pmi_version", "1", "pmi_subversion", "1"))
		return
	}
	s.say(reply("response_to_init", "pmi_version", "1", "pmi_subversion", "1", "rc", "0"))
}

// spawnLine reads on to the end of a block, or of the last of several, and refuses it.
func (s *session) spawnLine(text string) error {
	if s.spawn++; s.spawn > maxSpawnLines {
		return fmt.Errorf("a spawn of more than %d lines", maxSpawnLines)
	}
	if text == "endcmd" {
		s.spawn = 0
		s.say(refuse("spawn_result", "gorun starts no ranks in a running job"))
	}
	return nil
}

func (s *session) put(c command) {
	key, value := c.get("key"), c.get("value")
	var why string
	switch {
	case c.get("kvsname") != s.server.cfg.Name:
		why = "no such kvsname"
	case key == "" || len(key) >= maxKey:
		why = fmt.Sprintf("a key of %d bytes", len(key))
	case value == "" || len(value) >= maxValue:
		why = fmt.Sprintf("a value of %d bytes", len(value))
	case strings.HasPrefix(key, "PMI_"):
		why = "keys that begin with PMI_ are the server's"
	}
	if why != "" {
		s.say(refuse("put_result", why))
		return
	}
	table, err := s.server.put(key, value)
	switch {
	case err != nil:
		s.say(refuse("put_result", err.Error()))
	case table == nil:
		s.say(reply("put_result", "rc", "0", "msg", "success"))
	default:
		s.wait(*table, func(r rendezvous.Reply) {
			if r.Code != "" {
				s.say(refuse("put_result", r.Err))
				return
			}
			s.say(reply("put_result", "rc", "0", "msg", "success"))
		})
	}
}

// wait asks the store, and goes on when it has answered.
func (s *session) wait(r rendezvous.Request, then func(rendezvous.Reply)) {
	s.waits = then
	s.send(r)
}

func (s *session) send(r rendezvous.Request) {
	s.serial++
	r.ID = s.serial
	s.ask(r)
}

// answered takes an answer of the store's. Those of requests that nobody waits for are
// good, or are errors of the store that the next request meets again.
func (s *session) answered(r rendezvous.Reply) {
	if then := s.waits; then != nil && r.ID == s.serial {
		s.waits = nil
		then(r)
		return
	}
	if r.Code != "" {
		s.fail(r.Err)
	}
}

// fail ends the job: the rank cannot go on.
func (s *session) fail(text string) {
	s.server.cfg.Abort(Abort{Rank: s.member.Rank, Text: text})
}

func (s *session) get(space, key string) {
	if space != s.server.cfg.Name {
		s.say(refuse("get_result", "no such kvsname", "value", "unknown"))
		return
	}
	value, piece, err := s.server.find(key, s.fences)
	switch {
	case err != nil:
		s.say(refuse("get_result", err.Error(), "value", "unknown"))
	case value != "":
		s.say(reply("get_result", "rc", "0", "msg", "success", "value", value))
	case piece == "":
		s.say(refuse("get_result", "key_"+key+"_not_found", "value", "unknown"))
	default:
		s.wait(rendezvous.Request{Op: "get", Key: piece}, func(r rendezvous.Reply) {
			if r.Code != "" {
				s.say(refuse("get_result", r.Err, "value", "unknown"))
				return
			}
			if err := s.server.load(piece, r.Value); err != nil {
				s.say(refuse("get_result", err.Error(), "value", "unknown"))
				return
			}
			s.get(space, key)
		})
	}
}

// barrier waits for all ranks of the job, for as long as it takes: programs may compute
// for hours before they meet. That a rank cannot come any more is the head's to find.
func (s *session) barrier() {
	if table := s.server.enter(s.member); table != nil {
		s.send(*table)
	}
	s.wait(rendezvous.Request{Op: "barrier", Key: fenceName(s.fences), Timeout: never}, func(r rendezvous.Reply) {
		if r.Code != "" {
			s.fail(r.Err)
			return
		}
		s.fences++
		s.server.passed(s.member, s.fences)
		s.say(reply("barrier_out"))
	})
}

// never is longer than any job.
const never = 365 * 24 * time.Hour

func (s *session) abort(c command) {
	code, err := strconv.Atoi(c.get("exitcode"))
	if err != nil {
		code = 1
	}
	s.server.cfg.Abort(Abort{Rank: s.member.Rank, Code: code})
	s.server.part(s.member, Aborted)
}
