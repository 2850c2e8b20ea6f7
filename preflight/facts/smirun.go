package facts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// within is ctx with a part of its time kept back, to look at what hangs and to report
// it. A context without a deadline gets DefaultLimit.
func within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := DefaultLimit
	if end, ok := ctx.Deadline(); ok {
		limit = time.Until(end)
	}
	limit = max(0, limit-min(limit/4, 3*killWait))
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %v", limit.Round(100*time.Millisecond)))
}

// smi runs nvidia-smi.
func (s *source) smi(ctx context.Context, args ...string) ([]byte, error) {
	path := s.program("nvidia-smi")
	if path == "" {
		return nil, errors.New("nvidia-smi is not installed")
	}
	ctx, cancel := within(ctx)
	defer cancel()
	out, err := s.run(ctx, path, args...)
	exit, ended := errors.AsType[*exitError](err)
	if ended && (exit.text == "" || strings.HasPrefix(exit.text, "<?xml")) {
		exit.text = smiMeaning(exit.code)
	}
	return out, err
}

// smiMeaning is what an exit code of nvidia-smi means, from its manual; "" if nothing.
func smiMeaning(code int) string {
	return map[int]string{
		2:             "an argument is wrong",
		smiNotOffered: "the GPU does not offer this",
		4:             "this user has no permission",
		6:             "no GPU was found",
		8:             "a GPU's power cables are not attached properly",
		9:             "the driver is not loaded",
		10:            "the kernel found a problem with a GPU's interrupt",
		12:            "the library libnvidia-ml was not found",
		13:            "the library libnvidia-ml lacks a function",
		14:            "a GPU's infoROM is corrupt",
		15:            "a GPU has fallen off the bus or cannot be reached",
		18:            "the driver and libnvidia-ml have different versions",
	}[code]
}

// smiNotOffered is the exit code for what the GPUs have not got.
const smiNotOffered = 3

// smiNothing reports whether an exit code says that there is no GPU to be used, so that
// no list of GPUs is the truth.
func smiNothing(code int) bool { return code == 6 || code == 9 }
