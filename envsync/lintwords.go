package envsync

import (
	"strconv"
	"strings"
)

// vocabulary is how a variable takes words.
type vocabulary struct {
	words   []string
	fold    bool     // in any case
	list    string   // what may stand between several; "": there is one
	inverse bool     // "^" makes it all others
	quiet   []string // further words that say what NCCL takes them for
	old     string   // digits that old versions want may begin it
	others  string   // what NCCL does with other words
}

// vocabularyOf is for the variables of the kind Words.
func vocabularyOf(name string) vocabulary {
	levels := []string{"LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"}
	logs := []string{"VERSION", "WARN", "INFO", "ABORT", "TRACE"}
	switch name {
	case "NCCL_P2P_LEVEL", "NCCL_NET_GDR_LEVEL":
		return vocabulary{words: levels, old: "0123456789", others: "ignores it"}
	case "NCCL_NET_MERGE_LEVEL":
		return vocabulary{words: []string{"LOC", "PORT", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS"}, others: "merges nothing then"}
	case "NCCL_NET_MERGE_POLICY":
		return vocabulary{words: []string{"ALL", "RAIL"}, fold: true, others: "takes ALL instead"}
	case "NCCL_NETDEVS_POLICY":
		return vocabulary{words: []string{"AUTO", "ALL", "MAX:1"}, fold: true, others: "takes AUTO instead"}
	case "NCCL_SOCKET_FAMILY", "NCCL_IB_ADDR_FAMILY":
		return vocabulary{words: []string{"AF_INET", "AF_INET6"}, others: "ignores it"}
	case "NCCL_LAUNCH_MODE":
		return vocabulary{words: []string{"GROUP", "PARALLEL"}, fold: true, others: "takes PARALLEL instead"}
	case "NCCL_CTA_POLICY":
		return vocabulary{words: []string{"DEFAULT", "EFFICIENCY", "ZERO"}, fold: true, list: "|", old: "012", others: "ignores it"}
	case "NCCL_CHECK_MODE":
		return vocabulary{words: []string{"DEFAULT", "DEBUG_LOCAL", "DEBUG_GLOBAL"}, fold: true, others: "takes DEFAULT instead"}
	case "NCCL_DEBUG":
		return vocabulary{words: logs, fold: true, quiet: []string{"NONE", "0", "OFF"}, others: "logs nothing then"}
	case "NCCL_DEBUG_TIMESTAMP_LEVELS":
		return vocabulary{words: append(logs, "ALL"), fold: true, list: ",", inverse: true, others: "does not take the list then"}
	case "NCCL_DEBUG_SUBSYS":
		return vocabulary{words: []string{"INIT", "COLL", "P2P", "SHM", "NET", "GRAPH", "TUNING", "ENV", "ALLOC", "ALLOC_HOST", "CALL", "PROXY", "NVLS", "BOOTSTRAP",
			"REG", "PROFILE", "RAS", "DESTROY", "ALL"}, fold: true, list: ",", inverse: true, others: "does not take the list then"}
	}
	return vocabulary{}
}

// words looks at a word or a list of them.
func (l *linter) words(v Var) {
	voc := vocabularyOf(v.Name)
	text := v.Value
	if voc.words == nil || text == "" || strings.ContainsRune(voc.old, rune(text[0])) {
		return
	}
	if voc.inverse {
		text = strings.TrimPrefix(text, "^")
	}
	list := []string{text}
	if voc.list != "" {
		list = strings.Split(text, voc.list)
	}
	for _, w := range list {
		if w != "" && !voc.has(w) && !(v.Name == "NCCL_NETDEVS_POLICY" && isLimit(w)) {
			l.wrong(v, voc.hint(v.Name, w, len(list) == 1), "NCCL does not know %s, and %s", quoted(w), voc.others)
			return
		}
	}
}

// has reports whether NCCL takes word for what it says.
func (voc vocabulary) has(word string) bool {
	for _, w := range voc.words {
		if w == word || voc.fold && strings.EqualFold(w, word) {
			return true
		}
	}
	return isOneOf(word, voc.quiet)
}

// hint says what may be meant by word, which is the whole value or part of it.
func (voc vocabulary) hint(name, word string, whole bool) string {
	near := nearestOf(word, voc.words, 2)
	switch {
	case near == "":
		return name + " takes " + strings.Join(voc.words, ", ")
	case whole:
		return "write " + name + "=" + near
	}
	return "write " + near
}

// isLimit reports whether text is MAX:n.
func isLimit(text string) bool {
	what, number, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(number)
	return strings.EqualFold(what, "MAX") && err == nil && n > 0
}

// quoted is a part of a value, for people.
func quoted(s string) string { return strconv.QuoteToGraphic(cutShort(s)) }

// collectives are NCCL's, as the variables of the kind Grammar name them.
var collectives = []string{"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"}

// grammarWords are what a variable of the kind Grammar chooses among.
func grammarWords(name string) []string {
	if name == "NCCL_ALGO" {
		return []string{"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"}
	}
	return []string{"LL", "LL128", "Simple"}
}

// grammar looks at algorithms and protocols: words with commas between, "^" in front for
// all others; since 2.24 such lists for each collective, as in
// "ring;allreduce:tree,nvls". NCCL refuses what it cannot read.
func (l *linter) grammar(v Var) {
	known := grammarWords(v.Name)
	for i, part := range strings.Split(v.Value, ";") {
		collective, list, named := strings.Cut(part, ":")
		switch {
		case part == "":
			continue
		case !named && i > 0:
			l.wrong(v, "write it first, or a collective and a colon before it", "%s is for all collectives and stands behind another list, which NCCL refuses", quoted(part))
			return
		case !named:
			list = part
		case !isOneOf(collective, collectives):
			l.wrong(v, "the collectives are "+strings.Join(collectives, ", "), "NCCL does not know the collective %s", quoted(collective))
			return
		}
		for w := range strings.SplitSeq(strings.TrimPrefix(list, "^"), ",") {
			if w != "" && !isOneOf(w, known) {
				l.unknownWord(v, w, known)
				return
			}
		}
	}
}

// unknownWord is about a word that is none of the algorithms or protocols.
func (l *linter) unknownWord(v Var, word string, known []string) {
	bare := strings.Trim(word, " \t^")
	switch near := nearestOf(bare, known, 2); {
	case strings.EqualFold(word, "Collnet") && v.Name == "NCCL_ALGO":
		l.warn(v, "since 2.14 they are CollnetDirect and CollnetChain", "the algorithm %s is one of old versions; newer ones refuse it", quoted(word))
	case bare != word && isOneOf(bare, known) && strings.Contains(word, "^"):
		l.wrong(v, "write one ^, in front of all", "NCCL refuses %s: a ^ in front is for the whole list", quoted(word))
	case bare != word && isOneOf(bare, known):
		l.wrong(v, "write it without blanks", "NCCL refuses %s: the blank is part of it", quoted(word))
	case near != "":
		l.wrong(v, "write "+near, "NCCL refuses %s, which it does not know", quoted(word))
	default:
		l.wrong(v, "it knows "+strings.Join(known, ", "), "NCCL refuses %s, which it does not know", quoted(word))
	}
}
