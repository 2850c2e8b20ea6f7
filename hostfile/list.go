package hostfile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// ParseList reads the command line's list: names with commas between, each in the
// forms of a hostfile's first word ("a:4,b,ann@c,gpu[01-16]:8,[fd00::2]:2222,^gpu03").
// A name alone is one slot, repeats add, "a:*" leaves the number to the host and "^a"
// leaves it out. Blanks inside are an error. The error is a *SyntaxError whose File is
// ListName.
func ParseList(s string) ([]Host, error) {
	l := lister{set: newSet(true)}
	if err := l.parse(s, ListName); err != nil {
		return nil, err
	}
	hosts := l.set.finish()
	if len(hosts) == 0 {
		x := l.set.without[0].at
		x.Msg, x.Hint = "nothing to leave it out of", "name the hosts by -hostfile FILE, or before it in the list"
		return nil, &x
	}
	return exclude(hosts, hosts, l.set.without)
}

// Exclude returns hosts without those that the list s names. A name that is not among
// them is a *SyntaxError whose File is ExcludeName. Exclude keeps no argument.
func Exclude(hosts []Host, s string) ([]Host, error) {
	without, err := excluded(s)
	if err != nil {
		return nil, err
	}
	return exclude(hosts, hosts, without)
}

// ExcludeIfThere is Exclude, but passes over names that are not among hosts.
func ExcludeIfThere(hosts []Host, s string) ([]Host, error) {
	without, err := excluded(s)
	if err != nil {
		return nil, err
	}
	names := index(hosts)
	for i := range without {
		without[i].names = slices.DeleteFunc(without[i].names, func(name string) bool { _, ok := names[sameHost(name)]; return !ok })
	}
	return exclude(hosts, hosts, without)
}

// excluded reads a list of hosts to leave out.
func excluded(s string) ([]exclusion, error) {
	l := lister{set: newSet(true), out: true}
	err := l.parse(s, ExcludeName)
	return l.set.without, err
}

// lister reads a list of the command line.
type lister struct {
	set  *set
	out  bool   // it is a list of hosts to leave out
	file []Host // that "+n0" counts in; nil: there is none
}

// parse reads s, the value of the flag of that name.
func (l *lister) parse(s, flag string) error {
	if len(s) > maxFile {
		return &SyntaxError{File: flag, Text: clip(s), Msg: "the list is too long"}
	}
	trimmed := strings.Trim(s, " \t\r\n")
	if trimmed == "" {
		return &SyntaxError{File: flag, Msg: "the list is empty", Hint: "write " + flag + " host1,host2"}
	}
	if i := strings.IndexAny(trimmed, " \t\r\n"); i >= 0 {
		return &SyntaxError{File: flag, Text: clip(trimmed), Msg: "a blank in the list", Hint: blankHint(flag, trimmed)}
	}
	for i, it := range splitList(trimmed) {
		at := *(&mistake{off: it.off}).errorIn(flag, i+1, trimmed)
		if m := l.item(it.text, at); m != nil {
			return m.shift(it.off).errorIn(flag, i+1, trimmed)
		}
	}
	return nil
}

// item reads one item of the list, which stands at that place.
func (l *lister) item(text string, at SyntaxError) *mistake {
	if text == "" {
		return &mistake{0, "", "it is empty", "write host1,host2 with no blank after a comma and no comma at the end"}
	}
	name, _, keyed := strings.Cut(text, "=")
	switch {
	case keyed:
		return &mistake{0, text, "key=value belongs into a hostfile", fmt.Sprintf("for slots write %s:2", name)}
	case l.out || text[0] == '^':
		return l.leaveOut(text, at)
	case text[0] == '+':
		return l.relative(text, at)
	}
	return l.add(text, at)
}

// add reads an item that names hosts.
func (l *lister) add(text string, at SyntaxError) *mistake {
	e, m := parseHost(text)
	if m != nil {
		return m
	}
	e.File, e.Line = at.File, at.Line
	return l.set.add(e)
}

// leaveOut reads "^host", or "host" in a list of hosts to leave out.
func (l *lister) leaveOut(text string, at SyntaxError) *mistake {
	sign := 0
	if text[0] != '^' {
		text, sign = "^"+text, 1
	}
	if l.out && strings.ContainsAny(text, "@:") && !strings.Contains(text, "::") {
		hint := "hosts stand there by their names alone, with commas between"
		if strings.Contains(text, ":") {
			hint = "hosts are left out whole; for some GPUs of a host set CUDA_VISIBLE_DEVICES"
		}
		return &mistake{0, text[sign:], "not the name of a host", hint}
	}
	x, m := parseExclusion(text)
	if m != nil {
		return m.shift(-sign)
	}
	x.at = at
	l.set.without = append(l.set.without, x)
	return nil
}

// relative reads "+n2", the file's third host, and "+n2:4".
func (l *lister) relative(text string, at SyntaxError) *mistake {
	word, number, counts := strings.Cut(text, ":")
	var nth uint64
	switch {
	case strings.HasPrefix(text, "+e"):
		return &mistake{0, text, "no host is busy when a job starts", "leave it out, or name the hosts"}
	case !strings.HasPrefix(word, "+n") || !parseNumber(word[2:], &nth):
		return &mistake{0, text, "not +n with a number", "+n0 is the first host of the hostfile"}
	case l.file == nil:
		return &mistake{0, text, "it counts in a hostfile, and there is none", "add -hostfile FILE, or name the hosts"}
	case nth >= uint64(len(l.file)):
		return &mistake{0, text, fmt.Sprintf("not in %s, whose last host is +n%d", l.file[0].File, len(l.file)-1), ""}
	}
	e := entry{Host: Host{Slots: -1, File: at.File, Line: at.Line}, names: []string{l.file[nth].Name}}
	if counts {
		n, m := parseSlots(number)
		if m != nil {
			return m.shift(len(word) + 1)
		}
		e.style, e.Slots = counted, n
	}
	return l.set.add(e)
}

// blankHint shows a list with its blanks taken out.
func blankHint(flag, s string) string {
	if strings.Contains(s, "=") {
		return "key=value belongs into a hostfile; in -H write host1:4,host2:4"
	}
	out := strings.Join(strings.Fields(s), " ")
	for _, sep := range []string{",", ":", "@", "[", "]", "-"} {
		out = strings.ReplaceAll(out, " "+sep, sep)
		out = strings.ReplaceAll(out, sep+" ", sep)
	}
	return "write " + flag + " " + clip(strings.ReplaceAll(out, " ", ","))
}

// Filter narrows the hosts of a hostfile to those of a command line's list. Order,
// slots, user and port are the file's; the list may lower the slots with a number
// (a name alone keeps them) and give a user, port or slots that the file leaves
// open. "+n0" is the file's first host; a list of nothing but "^host" selects all
// others. A name that is not in the file, more slots
// than the file gives, or another user or port is a *SyntaxError. Filter keeps no
// argument.
func Filter(file []Host, s string) ([]Host, error) { return Filters(file)(s) }

// Filters returns what filters the same file by many lists, in less time for each.
func Filters(file []Host) func(s string) ([]Host, error) {
	at := index(file)
	return func(s string) ([]Host, error) {
		l := lister{set: newSet(true), file: file}
		if err := l.parse(s, ListName); err != nil {
			return nil, err
		}
		hosts := file
		if list := l.set.finish(); len(list) > 0 {
			var err error
			if hosts, err = narrowAll(file, at, list); err != nil {
				return nil, err
			}
		}
		return exclude(hosts, file, l.set.without)
	}
}

// narrowAll returns the hosts of file, of which at is the index, that list names, in the
// order of file.
func narrowAll(file []Host, at map[string]int, list []Host) ([]Host, error) {
	chosen := make(map[int]Host, len(list))
	for _, want := range list {
		i, ok := at[sameHost(want.Name)]
		if !ok {
			return nil, notAmong(file, want.Name, SyntaxError{File: want.File, Line: want.Line})
		}
		h, err := narrow(file[i], want)
		if err != nil {
			return nil, err
		}
		chosen[i] = h
	}
	hosts := make([]Host, 0, len(chosen))
	for _, i := range slices.Sorted(maps.Keys(chosen)) {
		hosts = append(hosts, chosen[i])
	}
	return hosts, nil
}

// narrow returns h as want, the same host in a list, asks for it.
func narrow(h, want Host) (Host, error) {
	wrong := func(format string, args ...any) (Host, error) {
		return Host{}, &SyntaxError{File: want.File, Line: want.Line, Text: clip(want.Name), Msg: fmt.Sprintf(format, args...)}
	}
	switch {
	case want.User != "" && h.User != "" && want.User != h.User:
		return wrong("user %q here, %q in %s:%d", want.User, h.User, h.File, h.Line)
	case want.Addr != "" && h.Addr != "" && want.Addr != h.Addr:
		return wrong("public_addr %q here, %q in %s:%d", want.Addr, h.Addr, h.File, h.Line)
	case want.Port != 0 && h.Port != 0 && want.Port != h.Port:
		return wrong("port %d here, %d in %s:%d", want.Port, h.Port, h.File, h.Line)
	case !want.Bare && want.Slots >= 0 && h.Slots >= 0 && want.Slots > h.Slots:
		return wrong("%d slots here, %d in %s:%d", want.Slots, h.Slots, h.File, h.Line)
	}
	if !want.Bare && want.Slots >= 0 {
		h.Slots = want.Slots
	}
	h.User, h.Port, h.Addr = cmp.Or(want.User, h.User), cmp.Or(want.Port, h.Port), cmp.Or(want.Addr, h.Addr)
	return h, nil
}

// notAmong says that a name of a list is none of the hosts', and which one may be meant.
func notAmong(hosts []Host, name string, at SyntaxError) error {
	err := &at
	err.Text = clip(name)
	if len(hosts) == 0 {
		err.Msg = "not in the hostfile"
		return err
	}
	where := hosts[0].File
	err.Msg = "not in " + where
	if where == at.File {
		err.Msg = "not among its hosts"
	}
	low := strings.ToLower(name)
	short, _, _ := strings.Cut(low, ".")
	var names []string
	for _, h := range hosts {
		other := strings.ToLower(h.Name)
		if strings.HasPrefix(other, low+".") || other == short {
			err.Hint = "there is " + h.Name
			return err
		}
		if len(names) < 4 {
			names = append(names, h.Name)
		}
	}
	err.Hint = "there are " + strings.Join(names, ", ")
	if len(hosts) == 1 {
		err.Hint = "there is only " + hosts[0].Name
	}
	if more := len(hosts) - len(names); more > 0 {
		err.Hint += fmt.Sprintf(" and %d more", more)
	}
	return err
}

// Union returns the hosts of several lists, each once, in order of their first mention
// and with the most slots that a list gives it (-1, where the host itself tells, is more
// than any number), and the lists with its spelling of the names. A host of which two
// lists give another user or port is a *SyntaxError. Union keeps none of its arguments.
func Union(lists ...[]Host) (hosts []Host, same [][]Host, err error) {
	index := map[string]int{}
	for _, list := range lists {
		list = slices.Clone(list)
		for k, want := range list {
			i, ok := index[sameHost(want.Name)]
			if !ok {
				index[sameHost(want.Name)] = len(hosts)
				hosts = append(hosts, want)
				continue
			}
			h := &hosts[i]
			list[k].Name = h.Name
			if h.Slots >= 0 && (want.Slots < 0 || want.Slots > h.Slots) {
				h.Slots = want.Slots
			}
			if m := h.agree(want); m != "" {
				return nil, nil, &SyntaxError{File: want.File, Line: want.Line, Text: clip(want.Name), Msg: m}
			}
		}
		same = append(same, list)
	}
	return hosts, same, nil
}

// agree takes over the user and port that only want gives, and says if there is another.
func (h *Host) agree(want Host) string {
	switch {
	case want.User != "" && h.User != "" && want.User != h.User:
		return fmt.Sprintf("user %q here, %q in item %d of another list", want.User, h.User, h.Line)
	case want.Port != 0 && h.Port != 0 && want.Port != h.Port:
		return fmt.Sprintf("port %d here, %d in item %d of another list", want.Port, h.Port, h.Line)
	}
	h.User, h.Port = cmp.Or(h.User, want.User), cmp.Or(h.Port, want.Port)
	return ""
}
