package hostfile

import (
	"fmt"
	"strings"
)

// ParseList reads the command line's list: names with commas between, each in the
// forms of a hostfile's first word ("a:4,b,ann@c,gpu[01-16]:8,[fd00::2]:2222"). A
// name alone is one slot, repeats add, and "a:*" leaves the number to the host.
// Blanks inside are an error. The error is a *SyntaxError whose File is ListName.
func ParseList(s string) ([]Host, error) {
	if len(s) > maxFile {
		return nil, &SyntaxError{File: ListName, Text: clip(s), Msg: "the list is too long"}
	}
	trimmed := strings.Trim(s, " \t\r\n")
	if trimmed == "" {
		return nil, &SyntaxError{File: ListName, Msg: "the list is empty", Hint: "write -H host1:4,host2:4"}
	}
	if i := strings.IndexAny(trimmed, " \t\r\n"); i >= 0 {
		return nil, &SyntaxError{File: ListName, Text: clip(trimmed), Msg: "a blank in the list", Hint: blankHint(trimmed)}
	}
	set := newSet(true)
	for i, it := range splitList(trimmed) {
		if m := set.addItem(it.text, i+1); m != nil {
			return nil, m.shift(it.off).errorIn(ListName, i+1, trimmed)
		}
	}
	return set.finish(), nil
}

// addItem reads the list's item of that number into s.
func (s *set) addItem(text string, number int) *mistake {
	if text == "" {
		return &mistake{0, "", "it is empty", "write host1:4,host2:4 with no blank after a comma and no comma at the end"}
	}
	if name, _, ok := strings.Cut(text, "="); ok {
		return &mistake{0, text, "key=value belongs into a hostfile", fmt.Sprintf("for slots write %s:2", name)}
	}
	e, m := parseHost(text)
	if m != nil {
		return m
	}
	e.file, e.line = ListName, number
	return s.add(e)
}

// blankHint shows a list with its blanks taken out.
func blankHint(s string) string {
	if strings.Contains(s, "=") {
		return "key=value belongs into a hostfile; in -H write host1:4,host2:4"
	}
	out := strings.Join(strings.Fields(s), " ")
	for _, sep := range []string{",", ":", "@", "[", "]", "-"} {
		out = strings.ReplaceAll(out, " "+sep, sep)
		out = strings.ReplaceAll(out, sep+" ", sep)
	}
	return "write -H " + clip(strings.ReplaceAll(out, " ", ","))
}

// Filter narrows the hosts of a hostfile to those of a command line's list. Order,
// slots, user and port are the file's; the list may lower the slots with a number
// (a name alone keeps them) and give a user, port or slots that the file leaves
// open. A name that is not in the file, more slots than the file gives, or another
// user or port is a *SyntaxError. Filter keeps neither argument.
func Filter(file, list []Host) ([]Host, error) {
	index := make(map[string]int, len(file))
	for i, h := range file {
		index[sameHost(h.Name)] = i
	}
	chosen := make(map[int]Host, len(list))
	for _, want := range list {
		i, ok := index[sameHost(want.Name)]
		if !ok {
			return nil, notInFile(file, want)
		}
		h, err := narrow(file[i], want)
		if err != nil {
			return nil, err
		}
		chosen[i] = h
	}
	hosts := make([]Host, 0, len(chosen))
	for i := range file {
		if h, ok := chosen[i]; ok {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

// narrow returns h as want, the same host in a list, asks for it.
func narrow(h, want Host) (Host, error) {
	wrong := func(format string, args ...any) (Host, error) {
		return Host{}, &SyntaxError{File: want.File, Line: want.Line, Text: want.Name, Msg: fmt.Sprintf(format, args...)}
	}
	switch {
	case want.User != "" && h.User != "" && want.User != h.User:
		return wrong("user %q here, %q in %s:%d", want.User, h.User, h.File, h.Line)
	case want.Port != 0 && h.Port != 0 && want.Port != h.Port:
		return wrong("port %d here, %d in %s:%d", want.Port, h.Port, h.File, h.Line)
	case !want.Bare && want.Slots >= 0 && h.Slots >= 0 && want.Slots > h.Slots:
		return wrong("%d slots here, %d in %s:%d", want.Slots, h.Slots, h.File, h.Line)
	}
	if !want.Bare && want.Slots >= 0 {
		h.Slots = want.Slots
	}
	if want.User != "" {
		h.User = want.User
	}
	if want.Port != 0 {
		h.Port = want.Port
	}
	return h, nil
}

// notInFile says that a list's host is not in the file, and which one may be meant.
func notInFile(file []Host, want Host) error {
	err := &SyntaxError{File: want.File, Line: want.Line, Text: want.Name, Msg: "not in the hostfile"}
	if len(file) == 0 {
		return err
	}
	err.Msg = "not in " + file[0].File
	low := strings.ToLower(want.Name)
	short, _, _ := strings.Cut(low, ".")
	var names []string
	for _, h := range file {
		name := strings.ToLower(h.Name)
		if strings.HasPrefix(name, low+".") || name == short {
			err.Hint = "the file has " + h.Name
			return err
		}
		if len(names) < 4 {
			names = append(names, h.Name)
		}
	}
	err.Hint = "the file has " + strings.Join(names, ", ")
	if more := len(file) - len(names); more > 0 {
		err.Hint += fmt.Sprintf(" and %d more", more)
	}
	return err
}
