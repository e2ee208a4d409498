package own

import (
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
)

// DeviceCache caches the device of each logical name. Entries are hints: an index may belong to
// another device by now, for example one from another namespace. WithDevice verifies it before a
// change.
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

// Name returns the logical name of a device, even after its deletion.
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

// WithDevice calls fn with the index of the device behind a logical name. If the cached index is
// stale, it looks the device up again, once.
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

// cachedDevice returns the cached index if it still belongs to the logical name.
//
// Our devices were verified by name and alias before caching. Afterwards the name suffices, because
// no other software uses it and the kernel assigns ascending indexes: another device would need the
// same name and index. For names of existing devices, it compares all properties.
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

// Device returns the current device of an interface; false if none.
func (v *Host) Device(logical string) (name, mac string, ok bool) {
	link, err := v.Link(logical)
	if err != nil {
		return "", "", false
	}
	return link.Attrs().Name, link.Attrs().HardwareAddr.String(), true
}

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

// LinkNamed returns an error with rtnl.IsGone if the device does not exist.
func (v *Host) LinkNamed(name string) (netlink.Link, error) {
	if name == "" || len(name) > MaxDeviceName {
		return nil, rtnl.ErrNoDevice
	}
	return v.Net.LinkByName(name)
}

// Devices is a snapshot of all devices for List methods.
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

// IsOurs reports whether the driver created the device.
func IsOurs(link netlink.Link) bool {
	return strings.HasPrefix(link.Attrs().Alias, "contiv:vpp") || IsUnmarked(link)
}

// IsUnmarked reports whether the driver created the device and was interrupted before marking it.
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

// Logical returns the northbound name of a device; for existing devices, their own name. Callers
// resolve AF_PACKET interfaces.
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

// LogicalOf returns the logical name of a device, ours or existing.
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

// DeviceOrUnknown returns the logical name for the device of our route, or an unknown name.
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
