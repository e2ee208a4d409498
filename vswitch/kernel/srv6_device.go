package kernel

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// A nexthop needs a device, though none of its packets leaves through it. From one
// segment to another of the same node packets do not get with the loopback device: so
// there is a veth pair, while there are nexthops. Its MTU less the headers is that
// of the node's own packets.
const (
	srDevice, srDeviceFar = "contiv-sr0", "contiv-sr1"
	srAlias               = "contiv:segments"
)

// ensureSRDevice returns the index of the device.
func (v *VSwitch) ensureSRDevice() (int, error) {
	link, err := v.linkNamed(srDevice)
	switch {
	case isGone(err):
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Group = srDevice, deviceGroup
		veth := netlink.NewVeth(attrs)
		veth.PeerName = srDeviceFar
		if err := v.nl.LinkAdd(veth); err != nil {
			return 0, fmt.Errorf("adding the veth pair %s, %s: %w", srDevice, srDeviceFar, err)
		}
		if link, err = v.linkNamed(srDevice); err != nil {
			return 0, err
		}
	case err != nil:
		return 0, err
	case link.Attrs().Group != deviceGroup:
		return 0, fmt.Errorf("device %s exists and is not ours: remove or rename it", srDevice)
	}
	if err := v.ns.run(func() error { return ensureSysctl("ipv6/conf/"+srDevice+"/disable_ipv6", "0") }); err != nil {
		return 0, err
	}
	if err := v.disableIPv6(srDeviceFar); err != nil {
		return 0, err
	}
	far, err := v.linkNamed(srDeviceFar)
	if err != nil {
		return 0, err
	}
	for _, l := range []netlink.Link{far, link} {
		if err := v.raw.setLink(l.Attrs().Index, linkChange{alias: srAlias, up: true}); err != nil {
			return 0, fmt.Errorf("preparing device %s: %w", l.Attrs().Name, err)
		}
	}
	return link.Attrs().Index, nil
}

// dropSRDevice removes the device, if there is one.
func (v *VSwitch) dropSRDevice() error {
	link, err := v.linkNamed(srDevice)
	if err != nil || link.Attrs().Group != deviceGroup {
		return ignoreGone(err)
	}
	return ignoreGone(v.delLink(link.Attrs().Index))
}
