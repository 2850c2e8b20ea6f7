package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gorun/launcher/output"
	"gorun/preflight"
)

// checkResult finds out before the job whether the file of --result can be written
// after it; "" is none.
func checkResult(path string) error { return checkFile("--result", path) }

// checkFiles finds out before hosts are looked at whether what is found can be written.
func (p *preflightOptions) checkFiles() error {
	if p.mode == preflight.Off || !p.asked() {
		return nil
	}
	if err := checkFile("--save-facts", p.save); err != nil {
		return err
	}
	return checkFile("--html", p.html)
}

// checkFile finds out whether the file of a flag can be written; "" is none.
func checkFile(flag, path string) error {
	if path == "" || isStream(path) {
		return nil
	}
	if path == "-" { // for other flags it is no file, either
		return &usageError{flag + " -: names no file", []string{flag + " /dev/stdout writes to the standard output"}}
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		err = errors.New("is a directory")
	case err == nil || errors.Is(err, fs.ErrNotExist):
		file, _ := target(path) // what is wrong with it the check says
		err = checkDir(filepath.Dir(file))
	default:
		err = errors.Unwrap(err)
	}
	if err != nil {
		return &usageError{fmt.Sprintf("%s %s: %v", flag, path, err), nil}
	}
	return nil
}

// checkOutputDir finds out before the job whether files can be made in the directory
// of --output-dir, which is made with its parents if it is missing; "" is none. Of a
// pattern it looks at the directory before the first placeholder.
func checkOutputDir(pattern string) error {
	if pattern == "" {
		return nil
	}
	path := output.FixedDir(pattern)
	dir := path
	_, err := os.Stat(dir)
	for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
		_, err = os.Stat(dir)
	}
	if err := checkDir(dir); err != nil {
		return &usageError{fmt.Sprintf("--output-dir %s: %v", path, err), nil}
	}
	return nil
}

// checkDir tells whether something can be made in the directory path, by doing so:
// what its mode says is not all.
func checkDir(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("there is no directory %s", path)
	case err != nil:
		return errors.Unwrap(err)
	case !info.IsDir():
		return fmt.Errorf("%s is no directory", path)
	}
	probe, err := os.MkdirTemp(path, ".gorun-")
	if err != nil {
		return fmt.Errorf("nothing can be made in %s: %w", path, errors.Unwrap(err))
	}
	return os.Remove(probe)
}
