package house

import (
	"os"
	"path/filepath"
	"testing"
)

// subsystem is what the packages of the kernel driver's subsystems may import: none of
// them another one that is not below it (docs/adr/006). What a subsystem needs of one
// beside it is an interface of its own, which package kernel fills in.
var subsystem = []string{"api", "models", "kvscheduler", "vswitch", "delta", "netlink", "vswitch/kernel/own", "vswitch/kernel/drift"}

func subsystemAbove(below ...string) []string { return append(below, subsystem...) }

var kernelRooms = map[string][]string{
	"vswitch/kernel/vrf":        subsystem,
	"vswitch/kernel/routes":     subsystemAbove("vswitch/kernel/vrf"),
	"vswitch/kernel/neighbours": subsystem,
	"vswitch/kernel/srv6":       subsystem,
	"vswitch/kernel/links":      subsystemAbove("vswitch/kernel/vrf", "vswitch/kernel/dhcp", "nsfile"),
	"vswitch/kernel/bridges":    subsystem,
	"vswitch/kernel/redirect":   subsystem,
	"vswitch/kernel/nat":        subsystem,
	"vswitch/kernel/acl":        subsystem,
	"vswitch/kernel/policies":   subsystemAbove("filter"),
	"vswitch/kernel/hostnet":    subsystem,
	"vswitch/kernel/podguard":   subsystem,
}

// Every package of the kernel driver is restricted: one that is not listed would be allowed
// what the wiring is.
func TestKernelSubsystemsAreListed(t *testing.T) {
	const driver = "vswitch/kernel"
	dirs, err := os.ReadDir(filepath.Join("..", "..", driver))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if room, _, _ := roomOf(driver + "/" + d.Name()); d.IsDir() && d.Name() != "testdata" && room == driver {
			t.Errorf("%s/%s may import any subsystem: add it to kernelRooms with what it needs (docs/adr/006)", driver, d.Name())
		}
	}
}
