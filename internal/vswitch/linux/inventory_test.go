package linux

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
)

// Finds namespaces by the addresses of their interfaces, allocated ones included.
func TestNamespacesByAddress(t *testing.T) {
	i := newInventory()
	pod := func(name string, inode uint64, addresses ...string) namespaces.ID {
		id := namespaces.ID{Ino: inode}
		ref := &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: name}
		i.put(&linux_interfaces.Interface{Name: name, Namespace: ref, IpAddresses: addresses}, deviceID{ns: id, index: 2})
		return id
	}
	a := pod("a", 1, "10.1.1.2/32", "fd10::2/128")
	b := pod("b", 2, "alloc:net1/b", "10.1.1.3/24")
	i.setAddress("b", netip.MustParsePrefix("10.1.1.4/24"), true)
	for addr, want := range map[string][]namespaces.ID{"10.1.1.2": {a}, "fd10::2": {a}, "10.1.1.3": {b}, "10.1.1.4": {b}, "10.1.1.5": nil} {
		got := i.namespacesWith(netip.MustParseAddr(addr))
		if ids := slices.Collect(maps.Keys(got)); !slices.Equal(ids, want) {
			t.Errorf("%s is in %v, want %v", addr, ids, want)
		}
	}
}

// While an interface is created again on its device, events of the previous address are not drift.
func TestAddressThatIsYetToBeAddedIsNotMissed(t *testing.T) {
	i, address := newInventory(), netip.MustParsePrefix("10.1.1.2/32")
	device := deviceID{ns: namespaces.ID{Ino: 1}, index: 2}
	b := newBatch()
	b.addresses[addressID{device, address}] = false
	missed := func() bool { return len(b.drift(i, nil).keys) > 0 }
	i.put(&linux_interfaces.Interface{Name: "a", IpAddresses: []string{address.String()}}, device)
	if missed() {
		t.Error("missed before it was added")
	}
	i.setAddress("a", address, true)
	if !missed() {
		t.Error("not missed after it was added")
	}
	i.put(&linux_interfaces.Interface{Name: "a", IpAddresses: []string{address.String()}}, deviceID{ns: device.ns, index: 3})
	b.addresses[addressID{deviceID{device.ns, 3}, address}] = false
	if missed() {
		t.Error("missed on another device, before it was added there")
	}
}
