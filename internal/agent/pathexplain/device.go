package pathexplain

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
)

// Device is a device towards other nodes, of the kernel or of a separate vswitch.
type Device struct {
	Name    string
	Address netip.Addr // of the node
	MAC     string
	Up      bool
	Carrier bool
	MTU     int // 0: unknown
}

// trouble returns the reason why a device passes no packets, or "".
func (d Device) trouble() string {
	switch {
	case !d.Up:
		return fmt.Sprintf("its device %s is down", d.Name)
	case !d.Carrier:
		return fmt.Sprintf("its device %s has no carrier: check the cable and the switch port", d.Name)
	}
	return ""
}

// tooSmall returns a finding if packets of size, plus the tunnel's overhead, exceed the device's
// MTU, or "". such may describe the packets.
func (d Device) tooSmall(size, overhead int, such string) string {
	if needed := size + overhead; size > 0 && d.MTU > 0 && d.MTU < needed {
		return fmt.Sprintf("device %s has MTU %d, but packets of pods (%d bytes%s) need %d on it: raise its MTU, or lower mtuSize", d.Name, d.MTU, size, such, needed)
	}
	return ""
}

// show adds a node's devices to the report, with findings.
func (e *Explainer) show(r *Report, where string, devices []Device) {
	for _, d := range devices {
		if text := d.tooSmall(e.o.MTU(), e.o.Overhead(d.Address), ""); text != "" {
			r.find(where, text)
		}
		r.Links = append(r.Links, Link{d.Address.String(), d.Name, d.MAC})
		if text := d.trouble(); text != "" {
			r.find(where, text)
		}
	}
}

// ownDevices returns the devices with this node's addresses, one entry per address.
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

// DeviceOf describes a kernel device that has an address of the node.
func DeviceOf(link netlink.Link, addr netip.Addr) Device {
	attrs := link.Attrs()
	return Device{attrs.Name, addr, attrs.HardwareAddr.String(), attrs.Flags&net.FlagUp != 0, carrier(link), attrs.MTU}
}
