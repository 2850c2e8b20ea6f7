package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// environment is a list of NAME=value, as os.Environ returns it.
type environment []string

// get returns the value of name, "" if it is not set.
func (e environment) get(name string) string {
	for _, v := range e {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// workDir is the current directory under the name the user knows it by: PWD, if it
// names that directory, so that a path through a symbolic link stays as it is.
func workDir(env environment) (string, error) {
	pwd := env.get("PWD")
	if here, err := os.Stat("."); err == nil && filepath.IsAbs(pwd) {
		if there, err := os.Stat(pwd); err == nil && os.SameFile(here, there) {
			return pwd, nil
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoDir, err)
	}
	return dir, nil
}

// errNoDir is workDir's for a directory that has been removed, or is out of reach.
var errNoDir = errors.New("the current directory has no name any more")
