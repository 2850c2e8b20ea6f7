//go:build !amd64

package facts

// passesCaches is whether copyMemory writes past the caches.
const passesCaches = false

// copyMemory copies from to another place as large.
func copyMemory(to, from []byte) { copy(to, from) }
