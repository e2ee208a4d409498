// Package delegate executes other CNI plugins.
//
// It does what package invoke of the CNI library does, which links OpenTelemetry, and with it
// net/http and crypto/tls: that doubles the size of contiv-cni, which is loaded
// for every pod.
package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/version"
)

// Call executes a plugin of CNI_PATH with the environment of this one, and returns what it
// printed. A *types.Error is what the plugin said, or that it said nothing.
func Call(ctx context.Context, command, plugin string, stdin []byte) ([]byte, error) {
	path, err := find(plugin)
	if err != nil {
		return nil, err
	}
	return run(ctx, path, stdin, append(os.Environ(), "CNI_COMMAND="+command)) // the last one counts
}

// run executes a program, later if it is being replaced.
func run(ctx context.Context, path string, stdin []byte, env []string) ([]byte, error) {
	const attempts, busyPause = 6, time.Second
	for attempt := 1; ; attempt++ {
		cmd := exec.CommandContext(ctx, path)
		cmd.Env, cmd.Stdin = env, bytes.NewReader(stdin)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.WaitDelay = busyPause // for children of the plugin that hold its output
		err := cmd.Run()
		switch {
		case err == nil:
			os.Stderr.Write(stderr.Bytes())
			return stdout.Bytes(), nil
		case !errors.Is(err, syscall.ETXTBSY) || attempt == attempts:
			return nil, pluginError(err, stdout.Bytes(), stderr.Bytes())
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(busyPause):
		}
	}
}

// Add returns the result of an ADD. cniVersion is that of the configuration, stdin.
func Add(ctx context.Context, plugin, cniVersion string, stdin []byte) (types.Result, error) {
	stdout, err := Call(ctx, "ADD", plugin, stdin)
	if err != nil {
		return nil, err
	}
	var result map[string]any
	if err := json.Unmarshal(stdout, &result); err != nil {
		return nil, fmt.Errorf("its result is no JSON object: %w", err)
	}
	if given, _ := result["cniVersion"].(string); given != "" {
		return create.Create(given, stdout)
	}
	// A result without a version has that of the configuration.
	if result == nil {
		result = map[string]any{}
	}
	result["cniVersion"] = cniVersion
	if stdout, err = json.Marshal(result); err != nil {
		return nil, err
	}
	return create.Create(cniVersion, stdout)
}

// Versions returns the versions of the CNI specification that the program of a plugin
// supports. Programs from before the command VERSION support 0.1.0.
func Versions(ctx context.Context, path string) ([]string, error) {
	env := append(os.Environ(), "CNI_COMMAND=VERSION", "CNI_NETNS=dummy", "CNI_IFNAME=dummy", "CNI_PATH=dummy") // old ones ask for them
	stdout, err := run(ctx, path, fmt.Appendf(nil, `{"cniVersion":%q}`, version.Current()), env)
	var said *types.Error
	switch {
	case errors.As(err, &said) && said.Msg == "unknown CNI_COMMAND: VERSION":
		return []string{"0.1.0"}, nil
	case err != nil:
		return nil, err
	}
	info, err := (&version.PluginDecoder{}).Decode(stdout)
	if err != nil {
		return nil, err
	}
	return info.SupportedVersions(), nil
}

// find looks for a plugin in the folders of CNI_PATH.
func find(plugin string) (string, error) {
	if plugin == "" || strings.ContainsRune(plugin, os.PathSeparator) {
		return "", fmt.Errorf("%q is no name of a plugin", plugin)
	}
	path := os.Getenv("CNI_PATH")
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, plugin)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file, nil
		}
	}
	return "", fmt.Errorf("plugin %q in CNI_PATH %q: %w", plugin, path, fs.ErrNotExist)
}

// pluginError is the error that a plugin which failed has printed.
func pluginError(err error, stdout, stderr []byte) error {
	said := &types.Error{}
	switch {
	case len(stdout) > 0:
		if jsonErr := json.Unmarshal(stdout, said); jsonErr == nil {
			return said
		}
		said.Msg = fmt.Sprintf("it printed no error of CNI but %q (%v)", stdout, err)
	case len(stderr) > 0:
		said.Msg = fmt.Sprintf("it printed %q (%v)", stderr, err)
	default:
		said.Msg = fmt.Sprintf("it printed no error message (%v)", err)
	}
	return said
}
