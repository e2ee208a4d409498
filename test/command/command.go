// Package command runs programs for tests.
package command

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Output runs a program and returns what it writes to its standard output. What it writes to its standard error is in
// the error only, for it may be about others: ip warns of the network namespaces of tests that run beside, which come and go.
func Output(program string, args ...string) (string, error) {
	out, err := exec.Command(program, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)+string(exit.Stderr)))
	}
	return string(out), err
}

// Run is Output for a program that must not fail.
func Run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := Output(program, args...)
	if err != nil {
		t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return out
}

// In runs commands of the shell, none of which may fail, in a network namespace.
func In(t testing.TB, netns, commands string) string {
	t.Helper()
	return Run(t, "ip", "netns", "exec", netns, "sh", "-ec", commands)
}
