package rendezvous

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// quickPair returns both ends of a connection, the first of them quick.
func quickPair(t *testing.T) (quick, other net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(privateDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if other, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	quick = quicken(dialled)
	if _, ok := quick.(*quickConn); !ok {
		t.Fatalf("got a %T; want a *quickConn", quick)
	}
	t.Cleanup(func() { quick.Close(); other.Close() })
	return quick, other
}

func TestQuickConn(t *testing.T) {
	quick, other := quickPair(t)
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // far more than the kernel takes at once
	wrote := make(chan error, 1)
	go func() {
		n, err := quick.Write(sent)
		if n != len(sent) && err == nil {
			t.Errorf("wrote %d bytes and got no error; want %d", n, len(sent))
		}
		wrote <- err
	}()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(other, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("what was read is not what was written; error %v", err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	go other.Write(sent)
	if _, err := io.ReadFull(quick, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("what came back is not what was written; error %v", err)
	}
}

func TestQuickConnEnds(t *testing.T) {
	b := make([]byte, 8)
	t.Run("deadline", func(t *testing.T) {
		quick, _ := quickPair(t)
		quick.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if n, err := quick.Read(b); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %d, %v; want the deadline", n, err)
		}
	})
	t.Run("closed-here", func(t *testing.T) {
		quick, _ := quickPair(t)
		time.AfterFunc(20*time.Millisecond, func() { quick.Close() })
		if n, err := quick.Read(b); n != 0 || !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %d, %v; want that it is closed", n, err)
		}
	})
	t.Run("closed-there", func(t *testing.T) {
		quick, other := quickPair(t)
		other.Write([]byte("bye"))
		other.Close()
		if got, err := io.ReadAll(quick); string(got) != "bye" || err != nil {
			t.Errorf("got %q, %v; want all and the end", got, err)
		}
		if n, err := quick.Write(b); n != 0 || !errors.Is(err, syscall.EPIPE) {
			t.Errorf("got %d, %v; want a broken pipe", n, err)
		}
	})
	t.Run("nobody-reads", func(t *testing.T) {
		quick, _ := quickPair(t)
		quick.SetWriteDeadline(time.Now().Add(20 * time.Millisecond))
		all := make([]byte, 16<<20)
		if n, err := quick.Write(all); n == len(all) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %d, %v; want a part, and the deadline", n, err)
		}
	})
}
