// Package delegate executes other CNI plugins.
//
// It replaces package invoke of the CNI library, which links OpenTelemetry, net/http and
// crypto/tls. They would double the size of contiv-cni, which is loaded for every pod.
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

// Call executes a plugin of CNI_PATH with the current environment and returns its output. It
// returns a *types.Error if the plugin printed an error or nothing.
func Call(ctx context.Context, command, plugin string, stdin []byte) ([]byte, error) {
	path, err := find(plugin)
	if err != nil {
		return nil, err
	}
	return run(ctx, path, stdin, append(os.Environ(), "CNI_COMMAND="+command)) // the last value counts
}

func run(ctx context.Context, path string, stdin []byte, env []string) ([]byte, error) {
	const attempts, busyPause = 6, time.Second
	for attempt := 1; ; attempt++ {
		cmd := exec.CommandContext(ctx, path)
		cmd.Env, cmd.Stdin = env, bytes.NewReader(stdin)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		cmd.WaitDelay = busyPause // children of the plugin may hold its output open
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

// Add returns the result of an ADD. cniVersion is the version in stdin, the configuration.
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
	// A result without a version has the version of the configuration.
	if result == nil {
		result = map[string]any{}
	}
	result["cniVersion"] = cniVersion
	if stdout, err = json.Marshal(result); err != nil {
		return nil, err
	}
	return create.Create(cniVersion, stdout)
}

// Versions returns the CNI versions that a plugin supports: 0.1.0 if it does not know the command
// VERSION.
func Versions(ctx context.Context, path string) ([]string, error) {
	env := append(os.Environ(), "CNI_COMMAND=VERSION", "CNI_NETNS=dummy", "CNI_IFNAME=dummy", "CNI_PATH=dummy") // required by old plugins
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
