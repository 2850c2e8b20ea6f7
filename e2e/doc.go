// Package e2e has tests only: it runs the built gorun as a user would, on the testbed's
// real sshd hosts, breaks things, and looks at what the user is told and at what is left
// on every host. It uses the programs, never the packages.
//
// The tests need root and the Debian packages that scripts/need lists. One testbed serves
// the whole package. A test takes hosts for itself (see hosts), so that tests may run in
// parallel; it must leave them without a process or file of its own. Tests that take
// longer than some seconds are named TestSlow and left to `make test-slow`.
package e2e
