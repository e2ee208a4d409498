// Package command runs programs for tests.
package command

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// Output runs a program and returns its standard output. Standard error is only in the error,
// because it may be unrelated: ip warns about namespaces of other tests.
func Output(program string, args ...string) (string, error) {
	out, err := exec.Command(program, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)+string(exit.Stderr)))
	}
	return string(out), err
}

// Run is Output for a program that must succeed.
func Run(t testing.TB, program string, args ...string) string {
	t.Helper()
	out, err := Output(program, args...)
	if err != nil {
		t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	return out
}

// In runs shell commands in a network namespace, all of which must succeed.
func In(t testing.TB, netns, commands string) string {
	t.Helper()
	return Run(t, "ip", "netns", "exec", netns, "sh", "-ec", commands)
}
