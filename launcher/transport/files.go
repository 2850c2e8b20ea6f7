package transport

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// readFile reads a file that the user names, or ssh's files do. It waits for no writer
// and reads no more than limit: a FIFO, a device and a file without end are errors.
// What the file system may still make it wait for is the caller's affair: see await.
func readFile(name string, limit int64) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, err
	case st.IsDir():
		return nil, st, &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	case !st.Mode().IsRegular():
		return nil, st, &fs.PathError{Op: "read", Path: name, Err: errNotRegular}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = &fs.PathError{Op: "read", Path: name, Err: errTooLong}
	}
	return data, st, err
}

// Reasons of gorun's own not to read a file.
var (
	errNotRegular = errors.New("not a regular file")
	errTooLong    = errors.New("too long")
)

// missing reports whether an error of readFile says that there is no such file, of
// which ssh says nothing either.
func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// reason is an error without the name of the file.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return err.Error()
}

// await runs f, which uses the user's files, and returns what it does, or when ctx
// ends: a file server that is gone keeps f for ever, and must not keep the user. Only
// then is f left behind; nothing that it holds may be waited for outside of await.
func await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := f()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
