package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"gorun/envsync"
)

// sshArguments returns the flags of gorun that mean the same as arguments for the ssh
// client. The error, a *usageError, is about one that gorun itself can do nothing with.
func sshArguments(text string) (uses []use, err error) {
	words := strings.Fields(text)
	for len(words) > 0 {
		letter, value, rest, err := sshArgument(words)
		if err != nil {
			return nil, err
		}
		u, err := sshMeaning(letter, value)
		if err != nil {
			return nil, err
		}
		uses = append(uses, u...)
		words = rest
	}
	return uses, nil
}

// sshArgument cuts the first argument, and its value if it takes one, off words.
func sshArgument(words []string) (letter, value string, rest []string, err error) {
	word, rest := words[0], words[1:]
	if len(word) < 2 || word[0] != '-' {
		return "", "", nil, &usageError{fmt.Sprintf("%q is no argument of ssh's", envsync.Conceal(word)), nil}
	}
	letter, value = word[1:2], word[2:]
	switch {
	case !strings.Contains("bceiIlmopBDEFJLOQRSwW", letter):
		if value != "" { // letters without values can share a word
			rest = append([]string{"-" + value}, rest...)
		}
		return letter, "", rest, nil
	case value == "" && len(rest) == 0:
		return "", "", nil, &usageError{word + " of ssh needs a value", nil}
	case value == "":
		value, rest = rest[0], rest[1:]
	}
	return letter, value, rest, nil
}

// sshMeaning is what gorun does for one argument of ssh's.
func sshMeaning(letter, value string) ([]use, error) {
	inConfig := func(line string) error {
		return &usageError{fmt.Sprintf("ssh -%s %s: gorun starts no ssh client", letter, shellQuote(value)), []string{"write " + line + " in ~/.ssh/config"}}
	}
	switch letter {
	case "p":
		return []use{{name: "ssh-port", value: value}}, nil
	case "o":
		return sshOption(value)
	case "l":
		return nil, inConfig("User " + value)
	case "i":
		return nil, inConfig("IdentityFile " + value)
	case "F":
		return []use{{name: "ssh-config", value: value}}, nil
	case "J":
		return nil, inConfig("ProxyJump " + value)
	}
	if strings.Contains("qvxXYTtnakNC", letter) { // about a client's own ways
		return nil, nil
	}
	return nil, &usageError{"ssh -" + letter + ": gorun starts no ssh client", []string{"gorun reads ~/.ssh/config; write there what it has a keyword for"}}
}

// sshOption is what gorun does for "-o Key=value".
func sshOption(option string) ([]use, error) {
	key, value, _ := strings.Cut(option, "=")
	value = strings.Trim(value, `"`)
	switch strings.ToLower(key) {
	case "port":
		return []use{{name: "ssh-port", value: value}}, nil
	case "connecttimeout":
		return []use{{name: "connect-timeout", value: value}}, nil
	case "stricthostkeychecking":
		switch strings.ToLower(value) {
		case "no", "off", "accept-new":
			return []use{{name: "accept-new-host-keys", value: "true"}}, nil
		}
		return nil, nil
	case "batchmode", "connectionattempts", "loglevel", "serveraliveinterval", "serveralivecountmax", "tcpkeepalive", "forwardx11",
		"forwardx11trusted", "requesttty", "compression", "passwordauthentication", "kbdinteractiveauthentication", "controlmaster",
		"controlpath", "controlpersist", "checkhostip", "visualhostkey":
		return nil, nil // gorun logs in with keys only, watches its links and has one for each host
	}
	return nil, &usageError{"ssh -o " + shellQuote(option) + ": gorun starts no ssh client", []string{"write " + strings.TrimSpace(key+" "+value) + " in ~/.ssh/config"}}
}

// sshAgent is what gorun does for the command with which mpirun is to reach hosts; of
// "ssh : rsh" mpirun takes the first that it finds.
func sshAgent(command string) ([]use, error) {
	first, _, _ := strings.Cut(command, ":")
	words := strings.Fields(first)
	switch {
	case len(words) == 0:
		return nil, &usageError{"the command is empty", nil}
	case filepath.Base(words[0]) == "ssh":
		return sshArguments(strings.Join(words[1:], " "))
	}
	return []use{{name: "rsh", value: strings.ReplaceAll(strings.Join(words, " "), "{", "{{")}}, nil
}
