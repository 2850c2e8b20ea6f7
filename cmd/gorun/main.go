// Command gorun starts a program on many hosts over ssh, one process per slot, and
// follows it to its end.
//
// This package turns flags into a launcher.Job, runs it, and turns the result into
// text and an exit code. What a job is and how it runs is the business of package
// launcher. The same binary is the agent that runs on every host ("gorun agent"), so
// nothing may happen before main that an agent does not need.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
}
