package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

func run(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return commandError(name, args, out, err)
	}
	return nil
}

func commandError(name string, args []string, output []byte, err error) error {
	command := strings.Join(append([]string{name}, args...), " ")
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("%s: %w: install the programs of the lab with make packages", command, err)
	}
	if said := strings.TrimSpace(string(output)); said != "" {
		return fmt.Errorf("%s: %w: %s", command, err, said)
	}
	return fmt.Errorf("%s: %w", command, err)
}

func execIn(ctx context.Context, netns string, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := InNetns(NetnsPath(netns), cmd.Start)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return output.Bytes(), commandError(name, args, output.Bytes(), err)
	}
	return output.Bytes(), nil
}

// environment returns the environment of the lab's processes. It excludes the user's variables,
// which could configure them by accident.
func environment(lab string) []string {
	env := []string{labVariable + "=" + lab}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GOCOVERDIR", "GOTRACEBACK", "GODEBUG"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

const labVariable = "CONTIV_LAB"
