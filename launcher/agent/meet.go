package agent

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

// meetLimit is what a host's answer may take. It costs a job that much where a firewall
// drops packets, and else as good as nothing.
const meetLimit = time.Second

// unmet says why the place where ranks will meet, an address with a port, cannot be reached
// from this host; "": it can. Nobody listens there yet, which its host says at once.
func unmet(place string) string {
	conn, err := net.DialTimeout("tcp", place, meetLimit)
	if err == nil {
		conn.Close()
		return ""
	}
	if no, ok := errors.AsType[syscall.Errno](err); ok && no == syscall.ECONNREFUSED {
		return ""
	} else if ok {
		return no.Error()
	}
	return fmt.Sprintf("no answer in %v", meetLimit)
}

// tryMeeting begins to find out what unmet says.
func tryMeeting(place string) <-chan string {
	result := make(chan string, 1)
	if place == "" {
		result <- ""
		return result
	}
	go func() { result <- unmet(place) }()
	return result
}
