package links

import (
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/vishvananda/netlink"
)

// Find avoids a full dump: it requests the expected objects by name, device and destination. The
// result counts only if all of them exist. Otherwise it is inconclusive, because devices may be
// renamed and routes may hide each other; List detects both.

// inventoryByName returns an inventory of the expected interfaces only. It returns nil if any of
// them is missing, or is neither a TAP nor a loopback.
func (v interfaces) inventoryByName(expected []*vpp_interfaces.Interface) *inventory {
	inv := v.newInventory(&own.Devices{ByIndex: map[int]netlink.Link{}, ByLogical: map[string]netlink.Link{}}, expected)
	var lenders []int
	for _, iface := range expected {
		name := iface.GetName()
		if t := iface.GetType(); t != vpp_interfaces.Interface_TAP && t != vpp_interfaces.Interface_SOFTWARE_LOOPBACK {
			return nil
		}
		if !inv.Include(v.LinkNamed(own.DeviceName(own.DevInterface, name))) {
			return nil
		}
		inv.Include(v.LinkNamed(own.DeviceName(own.DevPort, name))) // of a loopback
		lender := iface.GetUnnumbered().GetInterfaceWithIp()
		if lender == "" || inv.expected[lender] != nil {
			continue
		}
		link, err := v.Link(lender)
		if !inv.Include(link, err) {
			return nil
		}
		inv.expected[lender] = v.Reg.Iface(lender)
		lenders = append(lenders, link.Attrs().Index)
	}
	for index := range inv.ByIndex {
		addrs, err := v.Net.Addresses(index)
		if err != nil {
			return nil
		}
		inv.addAddresses(addrs)
	}
	var err error
	if inv.vrfs, err = v.vrf.ViewVRFs(); err != nil || v.readIP6ND(inv) != nil {
		return nil
	}
	for _, index := range lenders {
		delete(inv.ByIndex, index) // read for its addresses only
	}
	return inv
}
