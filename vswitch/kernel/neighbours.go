package kernel

import (
	"context"
	"fmt"
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/vishvananda/netlink"
)

// All configured entries are permanent: the kernel would forget others, or
// learn something else. What an entry says about being static is taken from the
// expected value.

type neighbours struct{ *VSwitch }

func (v neighbours) Create(_ context.Context, entry *vpp_l3.ARPEntry) error {
	n, err := neighbourOf(entry)
	if err == nil {
		err = v.withDevice(entry.GetInterface(), func(index int) error {
			n.index = index
			return v.raw.setNeighbour(n)
		})
	}
	if err != nil {
		return fmt.Errorf("adding neighbour %s of interface %q: %w", entry.GetIpAddress(), entry.GetInterface(), err)
	}
	v.reg.put(entry)
	return nil
}

func neighbourOf(entry *vpp_l3.ARPEntry) (neighbour, error) {
	ip, err := netip.ParseAddr(entry.GetIpAddress())
	return neighbour{ip: ip.Unmap(), mac: parseMAC(entry.GetPhysAddress()), state: netlink.NUD_PERMANENT, proto: protoOurs}, err
}

func (v neighbours) Delete(_ context.Context, entry *vpp_l3.ARPEntry) error {
	err := v.reg.during(entry, func() error {
		n, err := neighbourOf(entry)
		if err != nil {
			return err
		}
		return ignoreGone(v.withDevice(entry.GetInterface(), func(index int) error {
			return v.raw.delNeighbour(neighbour{index: index, ip: n.ip})
		}))
	})
	if err != nil {
		return fmt.Errorf("deleting neighbour %s of interface %q: %w", entry.GetIpAddress(), entry.GetInterface(), err)
	}
	return nil
}

func (v neighbours) List(_ context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	devs, err := v.devices()
	if err != nil {
		return nil, err
	}
	found, err := v.raw.neighbours()
	if err != nil {
		return nil, fmt.Errorf("reading neighbours: %w", err)
	}
	type id struct {
		iface string
		ip    netip.Addr
	}
	wanted := make(map[id]*vpp_l3.ARPEntry, len(expected))
	for _, e := range expected {
		ip, _ := netip.ParseAddr(e.GetIpAddress())
		wanted[id{e.GetInterface(), ip}] = e
	}
	hostSides := v.hostSides(devs)
	var list []*vpp_l3.ARPEntry
	for _, n := range found {
		if !n.isOurs() {
			continue
		}
		name, ok := hostSides[n.index]
		if !ok {
			name = deviceOrUnknown(devs, n.index)
		}
		list = append(list, describeNeighbour(n, name, wanted[id{name, n.ip}]))
	}
	settle(v.reg, expected, list)
	return list, nil
}

func (n neighbour) isOurs() bool { return n.proto == protoOurs && n.state&netlink.NUD_PERMANENT != 0 }

// describeNeighbour returns the value of an entry; want may be nil.
func describeNeighbour(n neighbour, iface string, want *vpp_l3.ARPEntry) *vpp_l3.ARPEntry {
	entry := &vpp_l3.ARPEntry{Interface: iface, IpAddress: n.ip.String(), PhysAddress: n.mac.String(), Static: true}
	if want != nil {
		entry.IpAddress, entry.Static = want.GetIpAddress(), want.GetStatic()
	}
	return entry
}
