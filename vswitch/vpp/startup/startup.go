// Package startup writes VPP's start-up configuration.
package startup

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Config is what of VPP is decided when it starts. RuntimeDir must be set.
type Config struct {
	// RuntimeDir is the directory of the sockets: api.sock, cli.sock, stats.sock. The
	// directory exists.
	RuntimeDir string
	// PluginPath is the directory of the plugins; "": where VPP itself looks.
	PluginPath string
	// HeapMiB is the size of the main heap, in MiB.
	HeapMiB int
	// Buffers is how many packets VPP can hold, per NUMA node.
	Buffers int
}

// Sockets of a runtime directory.
func (c Config) APISocket() string   { return filepath.Join(c.RuntimeDir, "api.sock") }
func (c Config) CLISocket() string   { return filepath.Join(c.RuntimeDir, "cli.sock") }
func (c Config) StatsSocket() string { return filepath.Join(c.RuntimeDir, "stats.sock") }

// String is the configuration in VPP's syntax.
func (c Config) String() string {
	var b strings.Builder
	section := func(name string, lines ...string) {
		fmt.Fprintf(&b, "%s {\n", name)
		for _, line := range lines {
			if line != "" {
				fmt.Fprintf(&b, "  %s\n", line)
			}
		}
		b.WriteString("}\n")
	}
	section("unix", "nodaemon", "nobanner", "cli-no-pager", "cli-listen "+c.CLISocket(), "runtime-dir "+c.RuntimeDir, "poll-sleep-usec 100")
	section("socksvr", "socket-name "+c.APISocket())
	section("statseg", "socket-name "+c.StatsSocket(), "size 64M", "page-size default", "per-node-counters on")
	section("api-segment", "prefix "+strings.Trim(strings.ReplaceAll(c.RuntimeDir, "/", "-"), "-"))
	section("memory", fmt.Sprintf("main-heap-size %dM", c.HeapMiB), "main-heap-page-size default")
	section("buffers", fmt.Sprintf("buffers-per-numa %d", c.Buffers), "page-size default")
	path := ""
	if c.PluginPath != "" {
		path = "path " + c.PluginPath
	}
	section("plugins", path, "plugin dpdk_plugin.so { disable }")
	return b.String()
}
