package rendezvous

import "testing"

// TestJobScripts plays clients of a whole job:
//
//	job node1=0-1 node2=2-3   the job's hosts and ranks
//	r0 put addr abc           a request of rank 0; r0/2 is another client of it
//	r0 close                  the client goes away
//	at 1.5s                   the time goes on
//	hold up node1             messages from node1 to the head wait (down: the other way)
//	flow up node1             they are delivered
//	state                     prints how much waits, and where
//	waiting                   prints what ranks wait for, and for how long already
func TestJobScripts(t *testing.T) {
	runScripts(t, "job", func() func([]string) []string {
		var w *world
		return func(words []string) []string {
			if words[0] == "job" {
				w = newWorld(testHosts(words[1:]))
				return nil
			}
			return w.do(words)
		}
	})
}
