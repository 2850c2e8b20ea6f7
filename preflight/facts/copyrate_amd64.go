package facts

// passesCaches is whether copyMemory writes past the caches. Then what it has written is
// read from memory, too, when it is copied back, however small a buffer is.
const passesCaches = true

// copyMemory copies from, whose length is a multiple of 64, to another place as large, at
// a multiple of 16 bytes. Whether copy passes the caches differs from processor to
// processor: of Go 1.26, only pieces of a MiB or more, not without AVX, and not where REP
// MOVS is preferred, as on recent Intel ones (runtime/memmove_amd64.s).
func copyMemory(to, from []byte) {
	stream(&to[0], &from[0], len(from))
}

// stream copies with non-temporal stores of SSE2, which every processor of the kind has.
//
//go:noescape
func stream(to, from *byte, n int)
