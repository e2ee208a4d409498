// Package startup generates VPP's start-up configuration, and reads socket paths from an existing
// one.
package startup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Config holds the settings that VPP takes at its start. New returns the defaults.
type Config struct {
	// RuntimeDir is the existing directory of the sockets: api.sock, cli.sock, stats.sock.
	RuntimeDir string `json:"-"`
	// PluginPath is the directory of the plugins; "": VPP's default.
	PluginPath string `json:"pluginPath,omitempty"`
	// HeapMiB is the size of the main heap with VPP's tables, in MiB.
	HeapMiB int `json:"heapMiB,omitempty"`
	// StatsMiB is the size of the statistics segment, in MiB.
	StatsMiB int `json:"statsMiB,omitempty"`
	// Buffers is the number of packet buffers per NUMA node.
	Buffers int `json:"buffers,omitempty"`
	// Hugepages is the page size of heap and buffers: "2M" or "1G", reserved on the machine; "":
	// ordinary pages.
	Hugepages string `json:"hugepages,omitempty"`
	// Workers is the number of forwarding threads. With none, the main thread forwards.
	Workers int `json:"workers,omitempty"`
	// PollSleepMicros is how long VPP sleeps between polls of its interfaces, in microseconds. 0:
	// until an interrupt, or not at all if it has to poll, as with most DPDK NICs. nil: 100 with
	// DPDK, else 0.
	PollSleepMicros *int `json:"pollSleepMicros,omitempty"`
	// DPDKDevices lists the PCI addresses (0000:00:08.0) of NICs driven by VPP. Without them and
	// DPDKOptions, the plugin dpdk is not loaded.
	DPDKDevices []string `json:"dpdkDevices,omitempty"`
	// DPDKOptions are further lines of VPP's section dpdk, such as
	// "dev default { num-rx-queues 2 }".
	DPDKOptions []string `json:"dpdkOptions,omitempty"`
	// Plugins maps plugin names (acl, nat44_ei) to whether they are loaded. VPP decides on others.
	Plugins map[string]bool `json:"plugins,omitempty"`
	// APITrace is the number of API messages that VPP records; 0: none.
	APITrace int `json:"apiTrace,omitempty"`
	// TCPSessionSeconds and OtherSessionSeconds are the idle timeouts of cnat sessions, for TCP and
	// for others; 0: VPP's default.
	TCPSessionSeconds   uint32 `json:"-"`
	OtherSessionSeconds uint32 `json:"-"`
	// CoreDumps makes VPP dump its entire memory on a crash.
	CoreDumps bool `json:"-"`
}

// New returns the configuration for a VPP that shares the machine with others.
func New(runtimeDir string, m Machine) Config {
	return Config{
		RuntimeDir: runtimeDir, HeapMiB: m.heapMiB(), StatsMiB: 64, Buffers: m.buffers(),
		APITrace: 5000,
	}
}

// Sockets of a runtime directory.
func (c Config) APISocket() string   { return filepath.Join(c.RuntimeDir, "api.sock") }
func (c Config) CLISocket() string   { return filepath.Join(c.RuntimeDir, "cli.sock") }
func (c Config) StatsSocket() string { return filepath.Join(c.RuntimeDir, "stats.sock") }

// PuntSocket is the socket on which VPP receives replies to punted packets.
func (c Config) PuntSocket() string { return filepath.Join(c.RuntimeDir, "punt.sock") }

// prefix separates the shared memory of several VPPs.
func (c Config) prefix() string {
	return strings.Trim(strings.ReplaceAll(c.RuntimeDir, "/", "-"), "-")
}

// SharedMemory lists the files that a killed VPP leaves behind, and the directory that DPDK always
// leaves.
func (c Config) SharedMemory() []string {
	files := []string{"/dev/shm/" + c.prefix() + "-global_vm", "/dev/shm/" + c.prefix() + "-vpe-api"}
	if c.usesDPDK() {
		files = append(files, "/run/dpdk/"+c.prefix())
	}
	return files
}

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
	section("unix", append([]string{
		"nodaemon", "nosyslog", "nocolor", "nobanner", "cli-no-pager",
		"cli-listen " + c.CLISocket(), "runtime-dir " + c.RuntimeDir,
		unless(c.pollSleep() == 0, "poll-sleep-usec %d", c.pollSleep()),
	}, c.coreDumps()...)...)
	section("logging", "default-syslog-log-level notice")
	section("socksvr", "socket-name "+c.APISocket())
	section("statseg", "socket-name "+c.StatsSocket(), fmt.Sprintf("size %dM", c.StatsMiB), "page-size default", "per-node-counters on")
	section("punt", "socket "+c.PuntSocket())
	section("api-segment", "prefix "+c.prefix())
	if c.APITrace > 0 {
		section("api-trace", "on", fmt.Sprintf("nitems %d", c.APITrace))
	}
	pages := c.Hugepages
	if pages == "" {
		pages = "default"
	}
	section("memory", fmt.Sprintf("main-heap-size %dM", c.HeapMiB), "main-heap-page-size "+pages)
	section("buffers", fmt.Sprintf("buffers-per-numa %d", c.requestedBuffers()), "page-size "+pages)
	if c.Workers > 0 {
		section("cpu", fmt.Sprintf("workers %d", c.Workers))
	}
	section("plugins", c.plugins()...)
	if c.usesDPDK() {
		section("dpdk", c.dpdk()...)
	}
	// Merging tuples makes lookups in large access lists faster, but changes slow.
	if enabled, named := c.Plugins["acl"]; enabled || !named {
		section("acl-plugin", "use tuple merge 0")
	}
	if ages := c.sessionAges(); len(ages) > 0 {
		section("cnat", ages...)
	}
	return b.String()
}

// sessionAges returns the lines of the section cnat, which VPP refuses without the plugin.
func (c Config) sessionAges() (lines []string) {
	if enabled, named := c.Plugins["cnat"]; named && !enabled {
		return nil
	}
	if c.OtherSessionSeconds > 0 {
		lines = append(lines, fmt.Sprintf("session-max-age %d", c.OtherSessionSeconds))
	}
	if c.TCPSessionSeconds > 0 {
		lines = append(lines, fmt.Sprintf("tcp-max-age %d", c.TCPSessionSeconds))
	}
	return lines
}

// pollSleep returns the sleep between polls, in microseconds.
func (c Config) pollSleep() int {
	switch {
	case c.PollSleepMicros != nil:
		return *c.PollSleepMicros
	case c.usesDPDK():
		return 100
	}
	return 0
}

// requestedBuffers returns how many buffers to request for the wanted number: VPP takes an ordinary
// page for each, but uses only those that end in the page they begin in, 27 of 37.
func (c Config) requestedBuffers() int {
	if c.Hugepages != "" {
		return c.Buffers
	}
	return (c.Buffers*37 + 26) / 27
}

func unless(no bool, format string, args ...any) string {
	if no {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func (c Config) coreDumps() []string {
	if !c.CoreDumps {
		return nil
	}
	return []string{"coredump-size unlimited", "full-coredump"}
}

func (c Config) usesDPDK() bool { return len(c.DPDKDevices)+len(c.DPDKOptions) > 0 }

func (c Config) dpdk() []string {
	// DPDK processes with one prefix would share memory and fail to start.
	lines := []string{"file-prefix " + c.prefix()}
	for _, address := range c.DPDKDevices {
		lines = append(lines, "dev "+address)
	}
	return append(lines, c.DPDKOptions...)
}

func (c Config) plugins() (lines []string) {
	lines = append(lines, unless(c.PluginPath == "", "path %s", c.PluginPath))
	wanted := map[string]bool{"dpdk": c.usesDPDK()}
	for name, load := range c.Plugins {
		wanted[name] = load
	}
	var names []string
	for name := range wanted {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		what := "disable"
		if wanted[name] {
			what = "enable"
		}
		lines = append(lines, fmt.Sprintf("plugin %s_plugin.so { %s }", name, what))
	}
	return lines
}

// PluginPath returns the plugin directory of a binary that is not installed; "" if VPP finds it
// itself.
func PluginPath(binary string) string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(binary), "../lib/*/vpp_plugins"))
	if len(found) == 0 || strings.HasPrefix(found[0], "/usr/lib") {
		return ""
	}
	return found[0]
}
