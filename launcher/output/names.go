package output

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Rank is what the names of a rank's files can tell of it.
type Rank struct {
	Host       string
	Local, App int // local rank, and number of its program
}

// ofRank is the name of a rank's files in a directory that a pattern names.
const ofRank = "rank.%r"

// placeholders says what may stand after a % in a pattern, for messages.
const placeholders = "%r is the rank, %l the local rank, %h the host, %j the job's ID, %a the number of the program, %% a percent sign"

// PatternError is a pattern of file names that cannot be used.
type PatternError struct{ Text, Hint string }

func (e *PatternError) Error() string { return e.Text }

// CheckPattern returns a *PatternError if pattern has a % that means nothing.
func CheckPattern(pattern string) error {
	for rest := pattern; ; {
		_, after, found := strings.Cut(rest, "%")
		if !found {
			return nil
		}
		if after == "" || !strings.Contains("rlhja%", after[:1]) {
			return &PatternError{fmt.Sprintf("%q: %q means nothing", pattern, "%"+firstRune(after)), placeholders}
		}
		rest = after[1:]
	}
}

func firstRune(s string) string {
	for _, r := range s {
		return string(r)
	}
	return ""
}

// FixedDir returns the directory that pattern names before its first placeholder, or
// the one that it names if it has none.
func FixedDir(pattern string) string {
	fixed := filepath.Clean(pattern)
	var dir []string
	for _, part := range strings.Split(fixed, "/") {
		if strings.Contains(strings.ReplaceAll(part, "%%", ""), "%") {
			break
		}
		dir = append(dir, strings.ReplaceAll(part, "%%", "%"))
	}
	switch {
	case len(dir) > 1 || len(dir) == 1 && dir[0] != "":
		return strings.Join(dir, "/")
	case filepath.IsAbs(fixed):
		return "/"
	}
	return "."
}

// FileNames returns by rank the path of its two files, without their endings .out and
// .err. A pattern whose last part holds the rank, as %r or %l, names the files; any
// other names the directory in which they are called rank.N. Numbers are padded with
// zeros to equal width. Two ranks of one name are a *PatternError.
func FileNames(pattern, job string, ranks []Rank) ([]string, error) {
	if err := CheckPattern(pattern); err != nil {
		return nil, err
	}
	if last := filepath.Base(pattern); strings.HasSuffix(pattern, "/") || !holds(last, 'r') && !holds(last, 'l') {
		pattern = filepath.Join(pattern, ofRank)
	}
	n := namer{pattern: pattern, job: job, rank: width(len(ranks))}
	most := 0
	for _, r := range ranks {
		most = max(most, r.Local)
	}
	n.local = width(most + 1)
	names := make([]string, len(ranks))
	first := make(map[string]int, len(ranks))
	for i, r := range ranks {
		names[i] = n.name(i, r)
		if other, taken := first[names[i]]; taken {
			return nil, &PatternError{fmt.Sprintf("%q: ranks %d and %d would write the same file, %s.out", pattern, other, i, names[i]), "with %r in it every rank has files of its own"}
		}
		first[names[i]] = i
	}
	return names, nil
}

// holds reports whether the placeholder %c stands in s.
func holds(s string, c byte) bool {
	return strings.Contains(strings.ReplaceAll(s, "%%", ""), "%"+string(c))
}

// width is how many digits the numbers below n need.
func width(n int) int { return len(strconv.Itoa(max(n, 1) - 1)) }

// namer fills a pattern in that CheckPattern has let pass.
type namer struct {
	pattern, job string
	rank, local  int // widths
}

func (n namer) name(rank int, r Rank) string {
	var b strings.Builder
	rest := n.pattern
	for {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if !found {
			return filepath.Clean(b.String())
		}
		switch after[0] {
		case 'r':
			fmt.Fprintf(&b, "%0*d", n.rank, rank)
		case 'l':
			fmt.Fprintf(&b, "%0*d", n.local, r.Local)
		case 'h':
			b.WriteString(pathPart(r.Host))
		case 'j':
			b.WriteString(n.job)
		case 'a':
			b.WriteString(strconv.Itoa(r.App))
		default:
			b.WriteByte('%')
		}
		rest = after[1:]
	}
}

// pathPart makes a host's name one part of a path, and no other directory than it says.
func pathPart(host string) string {
	if strings.Trim(host, ".") == "" {
		return strings.Repeat("_", max(1, len(host)))
	}
	return strings.ReplaceAll(Clean(host), "/", "_")
}
