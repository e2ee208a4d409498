package kernel

import (
	"fmt"
	"strings"
	"sync"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch"
	"github.com/vishvananda/netlink"
)

// deviceCache remembers which device is behind a logical name. The kernel does
// not use an index twice, so a stale one gives ENODEV, never the wrong device.
type deviceCache struct {
	mu      sync.Mutex
	indexes map[string]int
	names   map[int]string
}

func newDeviceCache() *deviceCache {
	return &deviceCache{indexes: map[string]int{}, names: map[int]string{}}
}

func (c *deviceCache) get(logical string) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	index, ok := c.indexes[logical]
	return index, ok
}

// name returns the logical name behind a device, also if that is gone.
func (c *deviceCache) name(index int) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok := c.names[index]
	return name, ok
}

func (c *deviceCache) put(logical string, index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, c.indexes[logical])
	c.indexes[logical] = index
	c.names[index] = logical
}

func (c *deviceCache) forget(logical string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, c.indexes[logical])
	delete(c.indexes, logical)
}

// withDevice calls fn with the index of the device behind a logical name. An
// index from the cache that turns out to be stale is looked up anew, once.
func (v *VSwitch) withDevice(logical string, fn func(index int) error) error {
	index, cached := v.dev.get(logical)
	if cached {
		err := fn(index)
		if !isGone(err) {
			return err
		}
	}
	link, err := v.link(logical)
	if err != nil {
		return err
	}
	if found := link.Attrs().Index; !cached || found != index {
		v.dev.put(logical, found)
		return fn(found)
	}
	return fn(index)
}

// link finds the device behind the logical name of an L3 interface.
func (v *VSwitch) link(logical string) (netlink.Link, error) {
	link, err := v.linkNamed(deviceName(devInterface, logical))
	switch {
	case err == nil && link.Attrs().Alias == aliasInterface+logical:
		return link, nil
	case err != nil && !isGone(err):
		return nil, fmt.Errorf("looking up the device of interface %q: %w", logical, err)
	}
	name := logical
	if known := v.reg.iface(logical); known != nil {
		switch known.GetType() {
		case vpp_interfaces.Interface_VXLAN_TUNNEL:
			return nil, vswitch.Unsupported("VXLAN tunnel %q is no IP interface in the Linux kernel: "+
				"put it into a bridge domain with a virtual interface, and use that", logical)
		case vpp_interfaces.Interface_AF_PACKET:
			return v.hostLink(known)
		}
	}
	return v.existing(name)
}

// Device returns the device behind the logical name of an interface; false if
// there is none now.
func (v *VSwitch) Device(logical string) (name, mac string, ok bool) {
	link, err := v.link(logical)
	if err != nil {
		return "", "", false
	}
	return link.Attrs().Name, link.Attrs().HardwareAddr.String(), true
}

// existing finds a device that is not ours, by its own name.
func (v *VSwitch) existing(name string) (netlink.Link, error) {
	link, err := v.linkNamed(name)
	switch {
	case isGone(err):
		return nil, noDevice(name)
	case err != nil:
		return nil, fmt.Errorf("looking up device %s: %w", name, err)
	case strings.HasPrefix(link.Attrs().Alias, "contiv:vpp"):
		return nil, fmt.Errorf("device %s belongs to %q: %w", name, link.Attrs().Alias, errNoDevice)
	}
	return link, nil
}

// hostLink finds the host interface that an AF_PACKET interface takes as a port
// of the vswitch.
func (v *VSwitch) hostLink(iface *vpp_interfaces.Interface) (netlink.Link, error) {
	if name := iface.GetAfpacket().GetLinuxInterface(); name != "" {
		link, err := v.nl.LinkByAlias("contiv:linux/" + name)
		if isGone(err) {
			return nil, fmt.Errorf("host side %q of interface %q: %w in the network namespace of the vswitch", name, iface.GetName(), errNoDevice)
		}
		return link, err
	}
	link, err := v.existing(iface.GetAfpacket().GetHostIfName())
	if err != nil {
		return nil, fmt.Errorf("host side of interface %q: %w", iface.GetName(), err)
	}
	return link, nil
}

// linkNamed returns an error for which isGone is true if there is no device.
func (v *VSwitch) linkNamed(name string) (netlink.Link, error) {
	if name == "" || len(name) > maxDeviceName {
		return nil, errNoDevice
	}
	return v.nl.LinkByName(name)
}

// devices is what List methods know about the devices, read in one go.
type devices struct {
	byIndex   map[int]netlink.Link
	byLogical map[string]netlink.Link
}

func (v *VSwitch) devices() (*devices, error) {
	links, err := dump(v.nl.LinkList)
	if err != nil {
		return nil, fmt.Errorf("reading the devices: %w", err)
	}
	d := &devices{byIndex: make(map[int]netlink.Link, len(links)), byLogical: map[string]netlink.Link{}}
	for _, link := range links {
		d.byIndex[link.Attrs().Index] = link
		if name, ok := strings.CutPrefix(link.Attrs().Alias, aliasInterface); ok {
			d.byLogical[name] = link
		}
	}
	return d, nil
}

// isOurs tells if we made the device.
func isOurs(link netlink.Link) bool {
	return strings.HasPrefix(link.Attrs().Alias, "contiv:vpp") || isUnmarked(link)
}

// isUnmarked tells if we made the device and were interrupted before marking it.
func isUnmarked(link netlink.Link) bool {
	attrs := link.Attrs()
	if attrs.Group != deviceGroup || attrs.Alias != "" {
		return false
	}
	for _, prefix := range []string{devInterface, devBD, devVXLAN} {
		if strings.HasPrefix(attrs.Name, prefix) {
			return true
		}
	}
	return false
}

// logical returns the name that NB values know the device by: its own, if it is
// an existing device. AF_PACKET interfaces are resolved by the callers.
func (d *devices) logical(index int) (string, bool) {
	link, ok := d.byIndex[index]
	if !ok {
		return "", false
	}
	if name, ok := strings.CutPrefix(link.Attrs().Alias, aliasInterface); ok {
		return name, true
	}
	if isOurs(link) {
		return "", false
	}
	return link.Attrs().Name, true
}
