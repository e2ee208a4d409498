package path

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Device is a device that leads to other nodes, of the kernel or of a separate vswitch.
type Device struct {
	Name    string
	Address netip.Addr // of the node
	MAC     string
	Up      bool
	Carrier bool
	MTU     int // 0: unknown
}

// trouble returns the reason why a device of the node passes no packets; "" if it does.
func (d Device) trouble() string {
	switch {
	case !d.Up:
		return fmt.Sprintf("its device %s is down", d.Name)
	case !d.Carrier:
		return fmt.Sprintf("its device %s has no carrier: the cable, or the port of the switch", d.Name)
	}
	return ""
}

// show adds devices of a node to the report, and findings about them.
func (r *Report) show(where string, devices []Device) {
	for _, d := range devices {
		r.Links = append(r.Links, Link{d.Address.String(), d.Name, d.MAC})
		if text := d.trouble(); text != "" {
			r.find(where, text)
		}
	}
}

// ownDevices returns the devices with addresses of this node, one for each address.
func (e *Explainer) ownDevices(ctx context.Context) (list []Device, err error) {
	if !e.o.HostStack {
		return e.o.Devices(ctx)
	}
	own := e.ownAddresses()
	links, err := netlink.LinkList()
	for _, link := range links {
		addrs, _ := netlink.AddrList(link, netlink.FAMILY_ALL)
		for _, a := range addrs {
			addr, _ := netip.AddrFromSlice(a.IP)
			if addr = addr.Unmap(); slices.Contains(own, addr) {
				list = append(list, DeviceOf(link, addr))
			}
		}
	}
	return list, err
}

// DeviceOf describes a device of the kernel that has an address of the node.
func DeviceOf(link netlink.Link, addr netip.Addr) Device {
	attrs := link.Attrs()
	return Device{attrs.Name, addr, attrs.HardwareAddr.String(), attrs.Flags&net.FlagUp != 0, carrier(link), attrs.MTU}
}
