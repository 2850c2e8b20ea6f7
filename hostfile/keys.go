package hostfile

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// key is one of the attributes a hostfile line can have.
type key int

const (
	unknownKey key = iota
	slotsKey
	maxSlotsKey
	userKey
	portKey
	addrKey
	rackKey
	switchKey
	domainKey
)

// parseKeyName knows every spelling that Open MPI accepts, KungFu's public_addr, and
// three labels.
func parseKeyName(s string) key {
	switch strings.ReplaceAll(s, "-", "_") {
	case "slots", "cpu", "count":
		return slotsKey
	case "max_slots", "slots_max", "max_cpu", "cpu_max", "max_count", "count_max":
		return maxSlotsKey
	case "user", "username", "user_name":
		return userKey
	case "port":
		return portKey
	case "public_addr":
		return addrKey
	case "rack":
		return rackKey
	case "switch":
		return switchKey
	case "domain":
		return domainKey
	}
	return unknownKey
}

// parseKeys reads "key = value ..." into e. Offsets are those of the line.
func (e *entry) parseKeys(tokens []token) *mistake {
	given := map[key]bool{slotsKey: e.style != plain, userKey: e.User != "", portKey: e.Port != 0, addrKey: e.Addr != ""}
	var limit token
	for len(tokens) > 0 {
		name := tokens[0]
		k, m := checkKey(tokens, given)
		if m != nil {
			return m
		}
		given[k] = true
		if k == maxSlotsKey {
			limit = name
		}
		if m := e.setKey(k, tokens[2].text); m != nil {
			return &mistake{name.off, name.text + "=" + tokens[2].text, m.msg, m.hint}
		}
		tokens = tokens[3:]
	}
	return e.applyMax(limit)
}

// applyMax gives e, without slots, as many as its limit; limit is where that stands.
func (e *entry) applyMax(limit token) *mistake {
	if e.MaxSlots == 0 {
		return nil
	}
	if e.Slots > e.MaxSlots {
		return &mistake{limit.off, limit.text, fmt.Sprintf("%d slots are more than max_slots, %d", e.Slots, e.MaxSlots), ""}
	}
	if e.Slots < 0 {
		e.Slots = e.MaxSlots
	}
	e.style = keyed
	return nil
}

// checkKey checks the form of the first "key = value" of tokens.
func checkKey(tokens []token, given map[key]bool) (key, *mistake) {
	name := tokens[0]
	if name.text == "=" {
		return 0, &mistake{name.off, "=", "no key before it", ""}
	}
	if len(tokens) < 2 || tokens[1].text != "=" {
		return 0, &mistake{name.off, name.text, "not a key=value", strayHint(name.text)}
	}
	k := parseKeyName(name.text)
	switch {
	case k == unknownKey:
		return 0, &mistake{name.off, name.text, "unknown key", keyHint(name.text)}
	case len(tokens) < 3 || tokens[2].text == "=":
		return 0, &mistake{name.off, name.text, "no value after it", ""}
	case given[k]:
		return 0, &mistake{name.off, name.text, "given twice in this line", ""}
	}
	return k, nil
}

// setKey gives k its value.
func (e *entry) setKey(k key, value string) (m *mistake) {
	switch k {
	case slotsKey:
		e.style = keyed
		e.Slots, m = parseSlots(value)
	case maxSlotsKey:
		if e.MaxSlots, m = parseSlots(value); m == nil && e.MaxSlots == 0 {
			m = &mistake{0, value, "a limit of no slots", "for no limit leave max_slots out; slots=0 leaves the host unused"}
		}
	case userKey:
		e.User, m = value, checkUser(value)
	case portKey:
		e.Port, m = parsePort(value)
	case addrKey:
		if e.Addr, m = value, checkAddr(value); m == nil && len(e.names) > 1 {
			m = &mistake{0, value, "one address for several hosts", "write a line for each host"}
		}
	case rackKey:
		e.Rack, m = value, checkLabel(value)
	case switchKey:
		e.Switch, m = value, checkLabel(value)
	case domainKey:
		e.Domain, m = value, checkLabel(value)
	}
	return m
}

// checkLabel says what is wrong with the name of a rack, a switch or a domain.
func checkLabel(s string) *mistake {
	if len(s) > maxName || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return &mistake{0, s, "not a name", fmt.Sprintf("write at most %d letters that can be printed", maxName)}
	}
	return nil
}

// parseSlots reads a number of slots, 0 to MaxSlots.
func parseSlots(text string) (int, *mistake) {
	if !digits(text) {
		return 0, &mistake{0, text, "not a number of slots", ""}
	}
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || n > MaxSlots {
		return 0, &mistake{0, text, fmt.Sprintf("more than %d slots", MaxSlots), ""}
	}
	return int(n), nil
}

const keyList = "the keys are slots, max_slots, user, port, public_addr, rack, switch and domain"

// strayHint helps with a word that is no key=value.
func strayHint(word string) string {
	switch {
	case digits(word):
		return "for a number of slots write slots=" + word
	case parseKeyName(word) != unknownKey:
		return "write " + word + "=VALUE"
	case strings.HasPrefix(word, ":"):
		return "write host:slots without blanks"
	case strings.ContainsAny(word, "[]"):
		return "write a range without blanks, as n[1-4,7]"
	}
	return "write one host per line, then key=value; " + keyList
}

// keyHint names the key that an unknown one was meant to be.
func keyHint(name string) string {
	low := strings.ReplaceAll(strings.ToLower(name), "-", "_")
	switch low {
	case "gpu", "gpus", "ngpus", "np", "n", "ppn", "procs", "nproc", "nprocs", "cores", "ncpus", "cpus", "ntasks", "tasks", "slot_count":
		return "did you mean slots?"
	case "maxslots", "slotsmax", "limit", "max":
		return "did you mean max_slots?"
	case "login", "login_name", "ssh_user", "ansible_user":
		return "did you mean user?"
	case "ssh_port", "sshport", "ansible_port":
		return "did you mean port?"
	case "ansible_host", "hostname", "addr", "address", "ip", "public_ip", "public_address":
		return "did you mean public_addr?"
	case "ifname", "iface":
		return "leave it out: the interface is found for each host, or is named for all by --interface"
	case "binding", "bind_to":
		return "leave it out: ranks are bound by --bind-to"
	}
	if best := nearest(low, []string{"slots", "max_slots", "user", "port", "count", "username", "public_addr", "rack", "switch", "domain"}); best != "" {
		return "did you mean " + best + "?"
	}
	return keyList
}

// nearest returns the candidate that differs from word in the fewest letters, or ""
// if none is near.
func nearest(word string, candidates []string) string {
	best, least := "", 1
	if len(word) >= 4 {
		least = 2
	}
	for _, c := range candidates {
		if len(c)-len(word) > least || len(word)-len(c) > least {
			continue
		}
		if d := distance(word, c); d < least || d == least && best == "" {
			best, least = c, d
		}
	}
	return best
}

// distance is the least number of letters to insert, delete or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
