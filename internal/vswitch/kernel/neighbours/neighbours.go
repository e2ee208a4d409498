package neighbours

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/vishvananda/netlink"
)

// Driver configures neighbours and proxy ARP in one network namespace. All entries are permanent,
// because the kernel would expire or relearn others. The field static is reported as expected.
type Driver struct{ *own.Host }

// New returns a Driver, which needs no closing.
func New(host *own.Host) *Driver { return &Driver{host} }

type neighbours struct{ *Driver }

func (v *Driver) NeighbourPort() vswitch.Neighbours { return neighbours{v} }

func (v neighbours) Create(_ context.Context, entry *vpp_l3.ARPEntry) error {
	n, err := neighbourOf(entry)
	if err == nil {
		err = v.WithDevice(entry.GetInterface(), func(index int) error {
			n.Index = index
			return v.Net.SetNeighbour(n)
		})
	}
	if err != nil {
		return fmt.Errorf("adding neighbour %s of interface %q: %w", entry.GetIpAddress(), entry.GetInterface(), err)
	}
	v.Reg.Put(entry)
	return nil
}

func neighbourOf(entry *vpp_l3.ARPEntry) (rtnl.Neighbour, error) {
	ip, err := netip.ParseAddr(entry.GetIpAddress())
	return rtnl.Neighbour{Ip: ip.Unmap(), Mac: own.ParseMAC(entry.GetPhysAddress()), State: netlink.NUD_PERMANENT, Proto: own.ProtoOurs}, err
}

func (v neighbours) Delete(_ context.Context, entry *vpp_l3.ARPEntry) error {
	err := v.Reg.During(entry, func() error {
		n, err := neighbourOf(entry)
		if err != nil {
			return err
		}
		return rtnl.IgnoreGone(v.WithDevice(entry.GetInterface(), func(index int) error {
			return v.Net.DelNeighbour(rtnl.Neighbour{Index: index, Ip: n.Ip})
		}))
	})
	if err != nil {
		return fmt.Errorf("deleting neighbour %s of interface %q: %w", entry.GetIpAddress(), entry.GetInterface(), err)
	}
	return nil
}

func (v neighbours) List(_ context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	devs, err := v.Devices()
	if err != nil {
		return nil, err
	}
	found, err := v.Net.Neighbours()
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
	hostSides := v.HostSides(devs)
	var list []*vpp_l3.ARPEntry
	for _, n := range found {
		if !isOurNeighbour(n) {
			continue
		}
		name, ok := hostSides[n.Index]
		if !ok {
			name = own.DeviceOrUnknown(devs, n.Index)
		}
		list = append(list, describeNeighbour(n, name, wanted[id{name, n.Ip}]))
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func isOurNeighbour(n rtnl.Neighbour) bool {
	return n.Proto == own.ProtoOurs && n.State&netlink.NUD_PERMANENT != 0
}

func describeNeighbour(n rtnl.Neighbour, iface string, want *vpp_l3.ARPEntry) *vpp_l3.ARPEntry {
	entry := &vpp_l3.ARPEntry{Interface: iface, IpAddress: n.Ip.String(), PhysAddress: n.Mac.String(), Static: true}
	if want != nil {
		entry.IpAddress, entry.Static = want.GetIpAddress(), want.GetStatic()
	}
	return entry
}
