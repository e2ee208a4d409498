package startup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var machine = Machine{MemoryMiB: 8192, CPUs: 4}

func TestConfigurationOfEveryOption(t *testing.T) {
	c := New("/run/vpp", machine)
	c.DPDKDevices, c.Workers, c.Hugepages, c.CoreDumps = []string{"0000:00:08.0", "0000:00:09.0"}, 2, "2M", true
	c.DPDKOptions = []string{"dev default { num-rx-queues 2 }", "no-hugetlb"}
	c.TCPSessionSeconds, c.OtherSessionSeconds = 7200, 60
	c.Plugins, c.PluginPath, c.PollSleepMicros = map[string]bool{"acl": false, "abf": false}, "/opt/plugins", new(0)
	if err := c.Check(machine); err != nil {
		t.Fatal(err)
	}
	want := `unix {
  nodaemon
  nosyslog
  nocolor
  nobanner
  cli-no-pager
  cli-listen /run/vpp/cli.sock
  runtime-dir /run/vpp
  coredump-size unlimited
  full-coredump
}
logging {
  default-syslog-log-level notice
}
socksvr {
  socket-name /run/vpp/api.sock
}
statseg {
  socket-name /run/vpp/stats.sock
  size 64M
  page-size default
  per-node-counters on
}
punt {
  socket /run/vpp/punt.sock
}
api-segment {
  prefix run-vpp
}
api-trace {
  on
  nitems 5000
}
memory {
  main-heap-size 1024M
  main-heap-page-size 2M
}
buffers {
  buffers-per-numa 16384
  page-size 2M
}
cpu {
  workers 2
}
plugins {
  path /opt/plugins
  plugin abf_plugin.so { disable }
  plugin acl_plugin.so { disable }
  plugin dpdk_plugin.so { enable }
}
dpdk {
  file-prefix run-vpp
  dev 0000:00:08.0
  dev 0000:00:09.0
  dev default { num-rx-queues 2 }
  no-hugetlb
}
cnat {
  session-max-age 60
  tcp-max-age 7200
}
`
	if got := c.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	plain := New("/run/vpp", machine).String()
	for _, line := range []string{"plugin dpdk_plugin.so { disable }", "use tuple merge 0", "page-size default", "buffers-per-numa 22453"} {
		if !strings.Contains(plain, line) {
			t.Errorf("%q is not in\n%s", line, plain)
		}
	}
}

func TestMemoryIsSizedToTheMachine(t *testing.T) {
	for mib, want := range map[int][3]int{
		1024: {256, 8192, 9216}, 4096: {512, 8192, 36864}, 8192: {1024, 16384, 73728}, 24 << 10: {2048, 32768, 96768}, 1 << 20: {2048, 32768, 96768},
	} {
		c, taps := New("/run/vpp", Machine{MemoryMiB: mib, CPUs: 1}), New("/run/vpp", Machine{MemoryMiB: mib, CPUs: 1, TAPs: true})
		if got := [3]int{c.HeapMiB, c.Buffers, taps.Buffers}; got != want {
			t.Errorf("%d MiB: heap, buffers, and those with TAPs are %v, want %v", mib, got, want)
		}
	}
	if m := ThisMachine(); m.MemoryMiB < 256 || m.CPUs < 1 {
		t.Errorf("this machine is %+v", m)
	}
}

func TestMemoryOfAContainer(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, strconv.Itoa(len(text))+".txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	meminfo := file("MemFree:  1 kB\nMemTotal:       16777216 kB\n")
	for want, limits := range map[int][]string{
		16384: {file("max\n"), "/does/not/exist"},
		2048:  {file("2147483648\n")},
		1024:  {"/does/not/exist", file(" 1073741824 \n")},
		16383: {file("9223372036854771712\n"), file("17178820608\n")}, // of cgroups v1: none; and another one
	} {
		if got := memoryMiB(meminfo, limits...); got != want {
			t.Errorf("%v: got %d, want %d", limits, got, want)
		}
	}
	if got := memoryMiB("/does/not/exist"); got != 4096 {
		t.Errorf("nothing known: %d", got)
	}
}

// VPP sleeps until an interrupt, except with NICs without interrupts.
func TestPausesOfDPDKOnly(t *testing.T) {
	c := New("/run/vpp", machine)
	if text := c.String(); strings.Contains(text, "poll-sleep-usec") {
		t.Errorf("without DPDK:\n%s", text)
	}
	c.DPDKDevices = []string{"0000:00:08.0"}
	if text := c.String(); !strings.Contains(text, "poll-sleep-usec 100\n") {
		t.Errorf("with DPDK:\n%s", text)
	}
	c.DPDKDevices, c.PollSleepMicros = nil, new(20)
	if text := c.String(); !strings.Contains(text, "poll-sleep-usec 20\n") {
		t.Errorf("as requested:\n%s", text)
	}
}

func TestMistakesSayWhatToChange(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"give an absolute path":  func(c *Config) { c.RuntimeDir = "run" },
		"paths with spaces":      func(c *Config) { c.PluginPath = "/opt/my plugins" },
		"at most 107 characters": func(c *Config) { c.RuntimeDir = "/" + strings.Repeat("x", 100) },
		"use 256 to 8192":        func(c *Config) { c.HeapMiB = 9000 },
		"use 16 to 4096":         func(c *Config) { c.StatsMiB = 1 },
		"buffers is 1":           func(c *Config) { c.Buffers = 1 },
		"use 2M or 1G":           func(c *Config) { c.Hugepages = "4K" },
		"use 0 to 3":             func(c *Config) { c.Workers = 4 },
		"use 0 (no pauses)":      func(c *Config) { c.PollSleepMicros = new(-1) },
		"use 0 (none)":           func(c *Config) { c.APITrace = -1 },
		"as lspci -D does":       func(c *Config) { c.DPDKDevices = []string{"eth0"} },
		"is there twice":         func(c *Config) { c.DPDKDevices = []string{"0000:00:08.0", "0000:00:08.0"} },
		`"}": give one option`:   func(c *Config) { c.DPDKOptions = []string{"}"} },
		`{": give one option`:    func(c *Config) { c.DPDKOptions = []string{"dev default {"} },
		`" ": give one option`:   func(c *Config) { c.DPDKOptions = []string{" "} },
		"dpdkOptions: drop one":  func(c *Config) { c.DPDKOptions, c.Plugins = []string{"no-pci"}, map[string]bool{"dpdk": false} },
		"without _plugin.so":     func(c *Config) { c.Plugins = map[string]bool{"acl_plugin.so": true} },
		"without acl, abf makes": func(c *Config) { c.Plugins = map[string]bool{"acl": false} },
		"drop one of them":       func(c *Config) { c.DPDKDevices, c.Plugins = []string{"0000:00:08.0"}, map[string]bool{"dpdk": false} },
		"no runtime dire":        func(c *Config) { c.RuntimeDir = "" },
	} {
		c := New("/run/vpp", machine)
		spoil(&c)
		if err := c.Check(machine); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestMistakesOnAMachineThatIsNotKnown(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"":                     func(c *Config) { c.HeapMiB, c.Workers = 1<<20, 100 },
		"use at least 256":     func(c *Config) { c.HeapMiB = 255 },
		"workers is -1: use 0": func(c *Config) { c.Workers = -1 },
	} {
		c := New("/run/vpp", Machine{})
		if err := c.Check(Machine{}); err != nil {
			t.Fatalf("the default: %v", err)
		}
		spoil(&c)
		if err := c.Check(Machine{}); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestAPISocketOfAnotherConfiguration(t *testing.T) {
	for text, want := range map[string]string{
		New("/run/x", machine).String():                             "/run/x/api.sock",
		"unix { nodaemon }\nsocksvr{default}":                       "/run/vpp/api.sock",
		"socksvr { # socket-name /no\n default }":                   "/run/vpp/api.sock",
		"unix {runtime-dir /a\n}\nsocksvr {\n default\n}":           "/a/api.sock",
		"plugins { plugin x { enable } }\nsocksvr {socket-name /b}": "/b",
	} {
		if got, err := APISocketOf(text); got != want || err != nil {
			t.Errorf("%s:\ngot %s, %v, want %s", text, got, err, want)
		}
	}
	if _, err := APISocketOf("plugins { plugin socksvr { enable } }"); err == nil || !strings.Contains(err.Error(), "socksvr { default }") {
		t.Errorf("without socksvr: %v", err)
	}
}
