// Package startup writes VPP's start-up configuration, and reads the paths of sockets from an
// existing one.
package startup

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// Config is what of VPP is decided when it starts. New has the defaults.
type Config struct {
	// RuntimeDir is the directory of the sockets: api.sock, cli.sock, stats.sock. The
	// directory exists.
	RuntimeDir string `json:"-"`
	// PluginPath is the directory of the plugins; "": where VPP itself looks.
	PluginPath string `json:"pluginPath,omitempty"`
	// HeapMiB is the size of the main heap, in MiB, in which VPP keeps its tables.
	HeapMiB int `json:"heapMiB,omitempty"`
	// StatsMiB is the size of the segment of counters, in MiB.
	StatsMiB int `json:"statsMiB,omitempty"`
	// Buffers is how many packets VPP can hold, per NUMA node.
	Buffers int `json:"buffers,omitempty"`
	// Hugepages is the size of the pages of heap and buffers: "2M" or "1G", which must
	// be reserved on the machine; "": ordinary pages.
	Hugepages string `json:"hugepages,omitempty"`
	// Workers is the number of threads that forward packets. With none, the main thread does.
	Workers int `json:"workers,omitempty"`
	// PollSleepMicros is how long VPP sleeps between two looks at its interfaces, in
	// microseconds. 0: until there is something to do, or never if it has to look, as
	// with most NICs of DPDK. nil: 100 with DPDK, else 0.
	PollSleepMicros *int `json:"pollSleepMicros,omitempty"`
	// DPDKDevices are the PCI addresses (0000:00:08.0) of the NICs that VPP drives
	// itself. Without them and DPDKOptions, the plugin dpdk is not loaded.
	DPDKDevices []string `json:"dpdkDevices,omitempty"`
	// DPDKOptions are further lines of VPP's section dpdk, such as
	// "dev default { num-rx-queues 2 }".
	DPDKOptions []string `json:"dpdkOptions,omitempty"`
	// Plugins says by name (acl, nat44_ei) which plugins to load (true) or not. VPP decides on
	// others.
	Plugins map[string]bool `json:"plugins,omitempty"`
	// APITrace is how many messages of the API VPP remembers; 0: none.
	APITrace int `json:"apiTrace,omitempty"`
	// TCPSessionSeconds and OtherSessionSeconds are how long the plugin cnat keeps sessions without
	// packets, of TCP connections and of all others; 0: as long as VPP does.
	TCPSessionSeconds   uint32 `json:"-"`
	OtherSessionSeconds uint32 `json:"-"`
	// CoreDumps makes VPP dump all of its memory when it crashes.
	CoreDumps bool `json:"-"`
}

// New returns the configuration of a VPP that shares the machine with others.
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

// PuntSocket is where VPP gets answers to the packets that it hands to processes.
func (c Config) PuntSocket() string { return filepath.Join(c.RuntimeDir, "punt.sock") }

// prefix tells the shared memory of VPPs on one machine apart.
func (c Config) prefix() string {
	return strings.Trim(strings.ReplaceAll(c.RuntimeDir, "/", "-"), "-")
}

// SharedMemory returns the files that a VPP leaves behind that could not end in order, and
// the directory that DPDK always leaves.
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
	// To merge tuples makes the lookup in large access lists faster, and its changes slow.
	if enabled, named := c.Plugins["acl"]; enabled || !named {
		section("acl-plugin", "use tuple merge 0")
	}
	if ages := c.sessionAges(); len(ages) > 0 {
		section("cnat", ages...)
	}
	return b.String()
}

// sessionAges are lines of the section cnat, which VPP refuses without the plugin.
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

// pollSleep is how long VPP sleeps between two looks, in microseconds.
func (c Config) pollSleep() int {
	switch {
	case c.PollSleepMicros != nil:
		return *c.PollSleepMicros
	case c.usesDPDK():
		return 100
	}
	return 0
}

// requestedBuffers is how many buffers VPP has to be asked for to have as many as wanted: it
// takes an ordinary page for each, and then uses only those that end in the page they begin
// in, 27 of 37.
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
	// Processes of DPDK with one prefix would share memory, and not start.
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

// PluginPath returns the directory of the plugins that belong to a binary which is not
// installed, "" if VPP finds them itself.
func PluginPath(binary string) string {
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(binary), "../lib/*/vpp_plugins"))
	if len(found) == 0 || strings.HasPrefix(found[0], "/usr/lib") {
		return ""
	}
	return found[0]
}
