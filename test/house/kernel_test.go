package house

import (
	"os"
	"path/filepath"
	"testing"
)

// subsystem lists the allowed imports of the kernel driver's subsystems, which may import only
// subsystems below them (docs/design/adr/006). For others they declare interfaces, which package kernel
// implements.
var subsystem = []string{"api", "models", "kvscheduler", "internal/vswitch", "internal/lib/delta", "internal/netlink", "internal/vswitch/kernel/own", "internal/vswitch/kernel/drift"}

func subsystemAbove(below ...string) []string { return append(below, subsystem...) }

var kernelRooms = map[string][]string{
	"internal/vswitch/kernel/vrf":        subsystem,
	"internal/vswitch/kernel/routes":     subsystemAbove("internal/vswitch/kernel/vrf"),
	"internal/vswitch/kernel/neighbours": subsystem,
	"internal/vswitch/kernel/srv6":       subsystem,
	"internal/vswitch/kernel/links":      subsystemAbove("internal/vswitch/kernel/vrf", "internal/vswitch/kernel/dhcp", "internal/netlink/nsfile"),
	"internal/vswitch/kernel/bridges":    subsystem,
	"internal/vswitch/kernel/redirect":   subsystem,
	"internal/vswitch/kernel/nat":        subsystem,
	"internal/vswitch/kernel/acl":        subsystem,
	"internal/vswitch/kernel/policies":   subsystemAbove("internal/vswitch/policyrules"),
	"internal/vswitch/kernel/hostnet":    subsystem,
	"internal/vswitch/kernel/podguard":   subsystem,
}

// Every package of the kernel driver is listed, because an unlisted one would have the wiring's
// permissions.
func TestKernelSubsystemsAreListed(t *testing.T) {
	const driver = "internal/vswitch/kernel"
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
