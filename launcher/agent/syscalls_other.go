//go:build !amd64

package agent

// oldCalls adds nothing: newer architectures have only the calls that all have.
func oldCalls(map[int]string) {}
