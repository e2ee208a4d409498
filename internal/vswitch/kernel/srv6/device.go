package srv6

import (
	"fmt"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/vishvananda/netlink"
)

// A nexthop needs a device, although no packet leaves through it. With the loopback device, packets
// would not pass from one segment of the node to another. So a veth pair exists while nexthops do.
// Its MTU, less the headers, limits the node's own packets.
const (
	srDevice, srDeviceFar = own.SegmentsDevice, "contiv-sr1"
	srAlias               = "contiv:segments"
)

func (v *Driver) ensureSRDevice() (int, error) {
	link, err := v.LinkNamed(srDevice)
	switch {
	case rtnl.IsGone(err):
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Group = srDevice, own.DeviceGroup
		veth := netlink.NewVeth(attrs)
		veth.PeerName = srDeviceFar
		if err := v.Net.LinkAdd(veth); err != nil {
			return 0, fmt.Errorf("adding the veth pair %s, %s: %w", srDevice, srDeviceFar, err)
		}
		if link, err = v.LinkNamed(srDevice); err != nil {
			return 0, err
		}
	case err != nil:
		return 0, err
	case link.Attrs().Group != own.DeviceGroup:
		return 0, fmt.Errorf("device %s exists and is not ours: remove or rename it", srDevice)
	}
	if err := v.NS.Run(func() error { return namespace.EnsureSysctl("ipv6/conf/"+srDevice+"/disable_ipv6", "0") }); err != nil {
		return 0, err
	}
	if err := v.DisableIPv6(srDeviceFar); err != nil {
		return 0, err
	}
	far, err := v.LinkNamed(srDeviceFar)
	if err != nil {
		return 0, err
	}
	for _, l := range []netlink.Link{far, link} {
		if err := v.Net.SetLink(l.Attrs().Index, rtnl.LinkChange{Alias: srAlias, Up: true}); err != nil {
			return 0, fmt.Errorf("preparing device %s: %w", l.Attrs().Name, err)
		}
	}
	return link.Attrs().Index, nil
}

func (v *Driver) dropSRDevice() error {
	link, err := v.LinkNamed(srDevice)
	if err != nil || link.Attrs().Group != own.DeviceGroup {
		return rtnl.IgnoreGone(err)
	}
	return rtnl.IgnoreGone(v.DelLink(link.Attrs().Index))
}
