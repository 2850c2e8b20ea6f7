package rendezvous

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("rewrite", false, "write the scripts in testdata anew from what the code does")

// runScripts runs each file of a folder. Lines that are indented are what the line
// above them prints; all others are given to the do of a fresh world.
func runScripts(t *testing.T, folder string, world func() (do func(words []string) []string)) {
	files, err := filepath.Glob(filepath.Join("testdata", folder, "*.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts in %s: %v", folder, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playScript(string(want), world())
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("%s (-want +got; -rewrite accepts):\n%s", file, diff)
			}
		})
	}
}

func playScript(text string, do func([]string) []string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "  ") {
			continue
		}
		out.WriteString(line)
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			for _, printed := range do(words) {
				out.WriteString("  " + printed + "\n")
			}
		}
	}
	return out.String()
}

// epochZero is the time at which scripts begin.
var epochZero = time.Unix(1_000_000, 0)

// parseTestRequest reads "put KEY VALUE", "get KEY timeout=5s from=3" and so on.
func parseTestRequest(words []string) Request {
	r := Request{Op: words[0]}
	plain := 0
	for _, word := range words[1:] {
		option, value, ok := strings.Cut(word, "=")
		switch {
		case !ok && plain == 0:
			r.Key, plain = word, 1
		case !ok:
			r.Value = []byte(word)
		case option == "id":
			r.ID = uint64(mustAtoi(value))
		case option == "rank":
			r.Rank = mustAtoi(value)
		case option == "epoch":
			r.Epoch = mustAtoi(value)
		case option == "from":
			r.From = new(mustAtoi(value))
		case option == "timeout":
			r.Timeout = mustDuration(value)
		case option == "size":
			r.Value = make([]byte, mustAtoi(value))
		case option == "keysize":
			r.Key = strings.Repeat("k", mustAtoi(value))
		case option == "missing":
			r.Missing = mustRanks(value)
		case option == "left":
			r.Left = mustRanks(value)
		default:
			panic("unknown option " + word)
		}
	}
	return r
}

func showRequest(r Request) string {
	text := fmt.Sprintf("%s #%d", r.Op, r.ID)
	if r.Op == opCancel {
		return text
	}
	text += fmt.Sprintf(" %v", name{r.Epoch, r.Key})
	if r.Op != opPut && r.Op != opTry {
		text += fmt.Sprintf(" timeout=%v", r.Timeout)
	}
	if r.From != nil {
		text += fmt.Sprintf(" from=%d", *r.From)
	}
	if len(r.Missing) > 0 {
		text += " missing=" + ranges(r.Missing)
	}
	if len(r.Left) > 0 {
		text += " left=" + ranges(r.Left)
	}
	return text
}

func showReply(r Reply) string {
	switch {
	case r.Code == codeWithdrawn:
		return fmt.Sprintf("#%d withdrawn", r.ID)
	case r.Code != "":
		return fmt.Sprintf("#%d %s: %s", r.ID, r.Code, r.Err)
	case len(r.Value) > 40:
		return fmt.Sprintf("#%d ok, %d bytes", r.ID, len(r.Value))
	case len(r.Value) > 0:
		return fmt.Sprintf("#%d ok %q", r.ID, r.Value)
	}
	return fmt.Sprintf("#%d ok", r.ID)
}

func mustAtoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return n
}

func mustDuration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		panic(err)
	}
	return d
}

// mustRanks reads "0-2,5".
func mustRanks(text string) (list []int) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, ok := strings.Cut(part, "-")
		if !ok {
			to = from
		}
		for n := mustAtoi(from); n <= mustAtoi(to); n++ {
			list = append(list, n)
		}
	}
	return list
}

// testHosts reads "node1=0-1 node2=2-3".
func testHosts(words []string) (hosts []string, ranks [][]int, hostOf map[int]int) {
	hostOf = map[int]int{}
	for i, word := range words {
		host, list, _ := strings.Cut(word, "=")
		hosts = append(hosts, host)
		ranks = append(ranks, mustRanks(list))
		for _, rank := range ranks[i] {
			hostOf[rank] = i
		}
	}
	return hosts, ranks, hostOf
}
