package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/term"
)

// askPassphrase is a command for scripts: it asks on the terminal, if there is one,
// and prints the answer. With an argument it reads a line, asks for another one that nobody
// types, and prints whether the terminal is left as it was.
func askPassphrase() {
	tty := openTerminal()
	if tty.prompt() == nil {
		fmt.Println("no terminal")
		return
	}
	if len(os.Args) == 1 {
		answer, err := tty.prompt()("passphrase: ")
		fmt.Printf("answer %q, error %v\n", answer, err)
		tty.close()
		return
	}
	tty.file.Read(make([]byte, 100)) // the line that the script has typed
	fd := int(tty.file.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		panic(err)
	}
	go tty.ask("passphrase: ")
	asked := until(5*time.Second, func() bool {
		now, err := term.GetState(fd)
		return err == nil && *now != *before
	})
	tty.close()
	after, err := term.GetState(fd)
	fmt.Printf("asked %v, restored %v\n", asked, err == nil && *after == *before)
}
