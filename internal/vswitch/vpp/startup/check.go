package startup

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxSocketPath is the maximum length of a socket path.
const maxSocketPath = 107

var (
	pciAddress = regexp.MustCompile(`^[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$`)
	pluginName = regexp.MustCompile(`^[a-z0-9_]+$`)
)

// Check returns an error with a remedy if the configuration does not suit the machine.
func (c Config) Check(m Machine) error {
	var errs []error
	wrong := func(is bool, format string, args ...any) {
		if is {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	for option, path := range map[string]string{"runtime directory": c.RuntimeDir, "pluginPath": c.PluginPath} {
		wrong(path != "" && !filepath.IsAbs(path), "%s %q: give an absolute path", option, path)
		wrong(strings.ContainsAny(path, " \t\n{}#"), "%s %q: VPP cannot read paths with spaces, braces or #", option, path)
	}
	wrong(c.RuntimeDir == "", "no runtime directory")
	wrong(len(c.StatsSocket()) > maxSocketPath, "runtime directory %s: choose a shorter one, so that socket paths have at most %d characters", c.RuntimeDir, maxSocketPath)
	wrong(m.MemoryMiB == 0 && c.HeapMiB < minHeapMiB, "heapMiB is %d: use at least %d", c.HeapMiB, minHeapMiB)
	wrong(m.MemoryMiB > 0 && (c.HeapMiB < minHeapMiB || c.HeapMiB > m.MemoryMiB), "heapMiB is %d: use %d to %d, the memory of this machine or container", c.HeapMiB, minHeapMiB, m.MemoryMiB)
	wrong(c.StatsMiB < 16 || c.StatsMiB > 4096, "statsMiB is %d: use 16 to 4096", c.StatsMiB)
	wrong(c.Buffers < 4096 || c.Buffers > 1<<22, "buffers is %d: use 4096 to %d", c.Buffers, 1<<22)
	wrong(!slices.Contains([]string{"", "2M", "1G"}, c.Hugepages), "hugepages is %q: use 2M or 1G, or leave it out for ordinary pages", c.Hugepages)
	wrong(m.CPUs == 0 && c.Workers < 0, "workers is %d: use 0 or more, one less than the machine has CPUs at most", c.Workers)
	wrong(m.CPUs > 0 && (c.Workers < 0 || c.Workers >= m.CPUs), "workers is %d: this machine has %d CPUs, of which one is for the main thread; use 0 to %d", c.Workers, m.CPUs, m.CPUs-1)
	wrong(c.pollSleep() < 0 || c.pollSleep() > 1e6, "pollSleepMicros is %d: use 0 (no pauses) to 1000000", c.pollSleep())
	wrong(c.APITrace < 0 || c.APITrace > 1e6, "apiTrace is %d: use 0 (none) to 1000000", c.APITrace)
	for i, address := range c.DPDKDevices {
		wrong(!pciAddress.MatchString(address), "dpdkDevices: %q is no PCI address: give it as lspci -D does, such as 0000:00:08.0", address)
		wrong(slices.Contains(c.DPDKDevices[:i], address), "dpdkDevices: %s is there twice", address)
	}
	for _, line := range c.DPDKOptions {
		wrong(!isOption(line), "dpdkOptions: %q: give one option each, such as no-hugetlb, with all its braces", line)
	}
	for name := range c.Plugins {
		wrong(!pluginName.MatchString(name), "plugins: %q: give the name without _plugin.so, such as nat44_ei", name)
	}
	if load, named := c.Plugins["dpdk"]; named && !load {
		wrong(c.usesDPDK(), "plugins: dpdk is not to be loaded, but needed for dpdkDevices and dpdkOptions: drop one of them")
	}
	acl, named := c.Plugins["acl"]
	abf, decided := c.Plugins["abf"]
	wrong(named && !acl && (abf || !decided), "plugins: without acl, abf makes VPP end at its start: enable acl, which agents need for pods, or also set abf: false")
	return errors.Join(errs...)
}

// isOption reports whether a line keeps the braces of VPP's configuration balanced.
func isOption(line string) bool {
	depth := 0
	for _, r := range line {
		switch r {
		case '{':
			depth++
		case '}':
			depth--
		case '\n', '#':
			return false
		}
		if depth < 0 {
			return false
		}
	}
	return depth == 0 && strings.TrimSpace(line) != ""
}
