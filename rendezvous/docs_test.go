package rendezvous

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
)

// The conversation in the protocol's description is a real one, of rank 0 on node1 in
// a job with another rank on node2.
func TestDocumentedConversation(t *testing.T) {
	doc, err := os.ReadFile("../docs/store.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```text\n")
	talk, _, ok := strings.Cut(rest, "```")
	if !ok || strings.Count(talk, "\n") < 20 {
		t.Fatalf("no conversation in docs/store.md: %q", talk)
	}
	conn := newTestJob(t, 1, 1).raw(0)
	for line := range strings.Lines(talk) {
		text := line[2:]
		switch {
		case !strings.HasPrefix(text, "{"): // a value has no line's end
			text = strings.TrimSuffix(text, "\n")
		case strings.Contains(text, `"len":65537`):
			text += strings.Repeat("x", 10) // more is not needed to be refused
		}
		if text == "(32 bytes)" {
			text = string(testSecret[:])
		}
		if line[0] == '>' {
			io.WriteString(conn, text)
			continue
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, []byte(text)) {
			t.Fatalf("got %q, %v; want %q", got, err, text)
		}
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("after a value that is too long: got %d bytes; want the connection closed", n)
	}
}
