// Hello says which rank it is, and where.
//
//	gorun -np 4 hello
//
// A program learns its place from the environment; it needs no library of gorun's.
package main

import (
	"fmt"
	"os"
)

func main() {
	host, err := os.Hostname()
	if err != nil {
		host = "an unknown host"
	}
	rank, launched := os.LookupEnv("GORUN_RANK")
	if !launched {
		fmt.Printf("hello from %s: one process, without gorun; to start four, run: gorun -np 4 %s\n", host, os.Args[0])
		return
	}
	fmt.Printf("hello from rank %s of %s on %s (local rank %s of %s)\n",
		rank, os.Getenv("GORUN_SIZE"), host, os.Getenv("GORUN_LOCAL_RANK"), os.Getenv("GORUN_LOCAL_SIZE"))
}
