package own

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/contiv/contiv/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch"
	"github.com/vishvananda/netlink"
)

// DeviceCache remembers which device is behind a logical name. What it says is only a
// guess: an index may belong to another device by now, such as one that was moved here
// from another namespace. WithDevice looks before anything is changed.
type DeviceCache struct {
	mu      sync.Mutex
	indexes map[string]int
	names   map[int]string
}

func NewDeviceCache() *DeviceCache {
	return &DeviceCache{indexes: map[string]int{}, names: map[int]string{}}
}

func (c *DeviceCache) Get(logical string) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	index, ok := c.indexes[logical]
	return index, ok
}

// Name returns the logical name behind a device, also if that is gone.
func (c *DeviceCache) Name(index int) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok := c.names[index]
	return name, ok
}

func (c *DeviceCache) Put(logical string, index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, c.indexes[logical])
	c.indexes[logical] = index
	c.names[index] = logical
}

func (c *DeviceCache) Forget(logical string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.names, c.indexes[logical])
	delete(c.indexes, logical)
}

// WithDevice calls fn with the index of the device behind a logical name. An index from the cache
// that turns out to be stale is looked up again, once.
func (v *Host) WithDevice(logical string, fn func(index int) error) error {
	index, cached, err := v.cachedDevice(logical)
	if err != nil {
		return err
	}
	if cached {
		err := fn(index)
		if !rtnl.IsGone(err) {
			return err
		}
	}
	link, err := v.Link(logical)
	if err != nil {
		return err
	}
	if found := link.Attrs().Index; !cached || found != index {
		v.Dev.Put(logical, found)
		return fn(found)
	}
	return fn(index)
}

// cachedDevice returns the index from the cache, if it still is that of the device behind
// the logical name.
//
// A device of ours was found by its name and its alias before it came into the cache. Its index still
// having that name, which nobody else gives, is enough: the kernel counts indexes up, so that
// another device would have to be made with both or be brought from another namespace with both. Names
// that are not ours prove less, and all that the device is known by is read.
func (v *Host) cachedDevice(logical string) (index int, ok bool, err error) {
	index, cached := v.Dev.Get(logical)
	if !cached {
		return 0, false, nil
	}
	if name, err := v.Net.LinkName(index); err == nil && name == DeviceName(DevInterface, logical) {
		return index, true, nil
	}
	id, err := v.Net.LinkIdentity(index)
	switch {
	case err == nil && v.isBehind(id, logical):
		return index, true, nil
	case err == nil, rtnl.IsGone(err):
		v.Dev.Forget(logical)
		return 0, false, nil
	}
	return 0, false, fmt.Errorf("looking up the device of interface %q: %w", logical, err)
}

// isBehind reports whether a device is that behind a logical name, as Link would find it.
func (v *Host) isBehind(id rtnl.LinkIdentity, logical string) bool {
	if strings.HasPrefix(id.Alias, "contiv:vpp") {
		return id.Alias == AliasInterface+logical
	}
	if known := v.Reg.Iface(logical); known.GetType() == vpp_interfaces.Interface_AF_PACKET {
		if name := known.GetAfpacket().GetLinuxInterface(); name != "" {
			return id.Alias == aliasLinux+name
		}
		return id.Name == known.GetAfpacket().GetHostIfName()
	}
	return id.Name == logical
}

// aliasLinux begins the alias of devices of the linux.* models.
const aliasLinux = "contiv:linux/"

// Link finds the device behind the logical name of an L3 interface.
func (v *Host) Link(logical string) (netlink.Link, error) {
	link, err := v.LinkNamed(DeviceName(DevInterface, logical))
	switch {
	case err == nil && link.Attrs().Alias == AliasInterface+logical:
		return link, nil
	case err != nil && !rtnl.IsGone(err):
		return nil, fmt.Errorf("looking up the device of interface %q: %w", logical, err)
	}
	name := logical
	if known := v.Reg.Iface(logical); known != nil {
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
func (v *Host) Device(logical string) (name, mac string, ok bool) {
	link, err := v.Link(logical)
	if err != nil {
		return "", "", false
	}
	return link.Attrs().Name, link.Attrs().HardwareAddr.String(), true
}

// existing finds a device that is not ours, by its own name.
func (v *Host) existing(name string) (netlink.Link, error) {
	link, err := v.LinkNamed(name)
	switch {
	case rtnl.IsGone(err):
		return nil, noDevice(name)
	case err != nil:
		return nil, fmt.Errorf("looking up device %s: %w", name, err)
	case strings.HasPrefix(link.Attrs().Alias, "contiv:vpp"):
		return nil, fmt.Errorf("device %s belongs to %q: %w", name, link.Attrs().Alias, rtnl.ErrNoDevice)
	}
	return link, nil
}

// hostLink finds the host interface that an AF_PACKET interface takes as a port
// of the vswitch.
func (v *Host) hostLink(iface *vpp_interfaces.Interface) (netlink.Link, error) {
	if name := iface.GetAfpacket().GetLinuxInterface(); name != "" {
		link, err := v.Net.LinkByAlias(aliasLinux + name)
		if rtnl.IsGone(err) {
			return nil, fmt.Errorf("host side %q of interface %q: %w in the network namespace of the vswitch", name, iface.GetName(), rtnl.ErrNoDevice)
		}
		return link, err
	}
	link, err := v.existing(iface.GetAfpacket().GetHostIfName())
	if err != nil {
		return nil, fmt.Errorf("host side of interface %q: %w", iface.GetName(), err)
	}
	return link, nil
}

// LinkNamed returns an error for which isGone is true if there is no device.
func (v *Host) LinkNamed(name string) (netlink.Link, error) {
	if name == "" || len(name) > MaxDeviceName {
		return nil, rtnl.ErrNoDevice
	}
	return v.Net.LinkByName(name)
}

// Devices is what List methods know about the devices, read in one go.
type Devices struct {
	ByIndex   map[int]netlink.Link
	ByLogical map[string]netlink.Link
}

// Devices reads the devices, without their counters.
func (v *Host) Devices() (*Devices, error) { return indexDevices(v.Net.Links()) }

// DevicesAndCounters reads the devices and their counters.
func (v *Host) DevicesAndCounters() (*Devices, error) {
	return indexDevices(rtnl.Dump(v.Net.LinkList))
}

func indexDevices(links []netlink.Link, err error) (*Devices, error) {
	if err != nil {
		return nil, fmt.Errorf("reading the devices: %w", err)
	}
	d := &Devices{ByIndex: make(map[int]netlink.Link, len(links)), ByLogical: map[string]netlink.Link{}}
	for _, link := range links {
		d.ByIndex[link.Attrs().Index] = link
		if name, ok := strings.CutPrefix(link.Attrs().Alias, AliasInterface); ok {
			d.ByLogical[name] = link
		}
	}
	return d, nil
}

// IsOurs reports whether we made the device.
func IsOurs(link netlink.Link) bool {
	return strings.HasPrefix(link.Attrs().Alias, "contiv:vpp") || IsUnmarked(link)
}

// IsUnmarked reports whether we made the device and were interrupted before marking it.
func IsUnmarked(link netlink.Link) bool {
	attrs := link.Attrs()
	if attrs.Group != DeviceGroup || attrs.Alias != "" {
		return false
	}
	for _, prefix := range []string{DevInterface, DevBridge, devVXLAN} {
		if strings.HasPrefix(attrs.Name, prefix) {
			return true
		}
	}
	return false
}

// Logical returns the name that NB values know the device by: its own, if it is
// an existing device. AF_PACKET interfaces are resolved by the callers.
func (d *Devices) Logical(index int) (string, bool) {
	link, ok := d.ByIndex[index]
	if !ok {
		return "", false
	}
	if name, ok := strings.CutPrefix(link.Attrs().Alias, AliasInterface); ok {
		return name, true
	}
	if IsOurs(link) {
		return "", false
	}
	return link.Attrs().Name, true
}

func noDevice(logical string) error {
	return fmt.Errorf("interface %q: %w in the network namespace of the vswitch", logical, rtnl.ErrNoDevice)
}

func (v *Host) DelLink(index int) error { return v.Net.DeleteLink(index) }

// ParseMAC returns nil for an unset address.
func ParseMAC(text string) net.HardwareAddr {
	mac, err := net.ParseMAC(text)
	if err != nil {
		return nil
	}
	return mac
}

// LogicalOf returns the logical name behind a device, ours or existing.
func (v *Host) LogicalOf(link netlink.Link) string {
	if name, ok := strings.CutPrefix(link.Attrs().Alias, AliasInterface); ok {
		return name
	}
	if name, ok := strings.CutPrefix(link.Attrs().Alias, AliasPort); ok {
		return name
	}
	if name, ok := v.Dev.Name(link.Attrs().Index); ok {
		return name
	}
	return link.Attrs().Name
}

// DeviceOrUnknown names the device of a route that is ours.
func DeviceOrUnknown(devs *Devices, index int) string {
	if name, ok := devs.Logical(index); ok {
		return name
	}
	if link := devs.ByIndex[index]; link != nil {
		return UnknownPrefix + link.Attrs().Name
	}
	return fmt.Sprintf("%sdevice-%d", UnknownPrefix, index)
}

// HostSides returns the AF_PACKET interfaces by the index of their device.
func (v *Host) HostSides(devs *Devices) map[int]string {
	names := map[int]string{}
	for _, iface := range All[*vpp_interfaces.Interface](v.Reg) {
		if iface.GetType() != vpp_interfaces.Interface_AF_PACKET {
			continue
		}
		if link := devs.HostSide(iface); link != nil {
			names[link.Attrs().Index] = iface.GetName()
		}
	}
	return names
}

func (d *Devices) Named(name string) netlink.Link {
	for _, link := range d.ByIndex {
		if link.Attrs().Name == name {
			return link
		}
	}
	return nil
}

// HostSide finds the device of an AF_PACKET interface.
func (d *Devices) HostSide(iface *vpp_interfaces.Interface) netlink.Link {
	alias := aliasLinux + iface.GetAfpacket().GetLinuxInterface()
	for _, link := range d.ByIndex {
		if iface.GetAfpacket().GetLinuxInterface() == "" && link.Attrs().Name == iface.GetAfpacket().GetHostIfName() ||
			iface.GetAfpacket().GetLinuxInterface() != "" && link.Attrs().Alias == alias {
			return link
		}
	}
	return nil
}

// Include adds a device that was looked up.
func (d *Devices) Include(link netlink.Link, err error) bool {
	if err == nil {
		d.ByIndex[link.Attrs().Index] = link
	}
	return err == nil
}
