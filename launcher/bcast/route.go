package bcast

// relayFrom is how many bytes must stay at the head, by hosts passing files on, before
// that is worth it: about a second of a 1 Gbit/s link. Setting the connections between
// hosts up costs some round trips, and seconds where a firewall swallows them; what the
// head sends goes over the links that are there already.
const relayFrom = 128 << 20

// Relayed reports whether hosts that all lack so many bytes should pass them on to each
// other, instead of each getting them from the head.
func Relayed(hosts int, bytes int64) bool {
	return int64(hosts-1)*bytes >= relayFrom
}

// Parent returns from which host the i-th gets its files, -1 for the head.
//
// The hosts form a chain or a binary tree. In a chain every host sends one copy, so all
// go at the speed of one link, S/B for S bytes; the last host is behind by a piece for
// every host before it. In a binary tree every host sends two copies over the same link,
// which takes 2 S/B, but is behind by a piece for every level only. So the chain is the
// faster one until it has as many hosts as there are pieces. It follows the order of the
// hosts, as neighbours in a list mostly are neighbours in the network.
func Parent(i, hosts int, bytes int64) int {
	if hosts <= max(Pieces(bytes), 2) {
		return i - 1
	}
	return (i+1)/2 - 1
}
