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

// unmet says why the place where ranks will meet, an address with a port of another host,
// cannot be reached from this host; "": it can.
func unmet(place string) string {
	if toItself(place) {
		return "that is this host itself"
	}
	return unanswered(place)
}

// toItself reports whether this host would speak to itself at place. It refuses then as another
// would, or has somebody listen there. A UDP connect sends nothing.
func toItself(place string) bool {
	conn, err := net.Dial("udp", place)
	if err != nil {
		return false
	}
	defer conn.Close()
	here, there := conn.LocalAddr().(*net.UDPAddr), conn.RemoteAddr().(*net.UDPAddr)
	return there.IP.IsLoopback() || here.IP.Equal(there.IP)
}

// unanswered says why place gives no answer. Nobody listens there yet, which its host says
// at once.
func unanswered(place string) string {
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
