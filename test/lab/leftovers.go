package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Leftovers finds the namespaces, processes and files of a lab on this machine. It finds processes
// by their environment and ignores the state of the lab, which may be incomplete.
func Leftovers(opts Options) ([]string, error) {
	opts = opts.withDefaults()
	var left []string
	for _, pattern := range []string{NetnsPath(opts.Name + "-*"), filepath.Join(opts.Root, opts.Name), filepath.Join(opts.Root, opts.Name+".*"),
		filepath.Join("/dev/shm", strings.Trim(strings.ReplaceAll(filepath.Join(opts.Root, opts.Name), "/", "-"), "-")+"-nodes-*")} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		left = append(left, files...)
	}
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return nil, err
	}
	for _, file := range environs {
		data, err := os.ReadFile(file)
		if err != nil || !slices.Contains(strings.Split(string(data), "\x00"), labVariable+"="+opts.Name) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if len(command) == 0 {
			continue // ended, but not yet reaped
		}
		left = append(left, fmt.Sprintf("process %s: %s", filepath.Base(filepath.Dir(file)), strings.ReplaceAll(string(command), "\x00", " ")))
	}
	return left, nil
}
