package probe

import "time"

// Skew compares a remote clock with the local one that sent and received are times of:
// when remote was asked for, and when it had come. The remote clock is ahead by offset,
// give or take uncertainty, which is half the round trip: the answer may have been given
// at any time of it.
func Skew(sent, received, remote time.Time) (offset, uncertainty time.Duration) {
	uncertainty = received.Sub(sent).Abs() / 2
	middle := sent.Add(received.Sub(sent) / 2)
	// Without monotonic readings, which would compare something else than the clocks.
	return remote.Round(0).Sub(middle.Round(0)), uncertainty
}
