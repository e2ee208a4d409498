package house

import (
	"os"
	"path/filepath"
	"testing"
)

// subsystem lists the allowed imports of the kernel driver's subsystems, which may import only
// subsystems below them (docs/design/adr/006). For others they declare interfaces, which package kernel
// implements.
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

// Every package of the kernel driver is listed, because an unlisted one would have the wiring's
// permissions.
func TestKernelSubsystemsAreListed(t *testing.T) {
	const driver = "vswitch/kernel"
	dirs, err := os.ReadDir(filepath.Join("..", "..", driver))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if room, _, _ := roomOf(driver + "/" + d.Name()); d.IsDir() && d.Name() != "testdata" && room == driver {
			t.Errorf("%s/%s may import any subsystem: add it to kernelRooms with its imports (docs/design/adr/006)", driver, d.Name())
		}
	}
}
