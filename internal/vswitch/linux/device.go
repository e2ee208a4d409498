package linux

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// location is a configured interface, found in the kernel.
type location struct {
	ns *namespaces.Namespace
	// link is nil if the caller asked for the index only.
	link    netlink.Link
	index   int
	value   *linuxInterface
	release func()
}

// onDeviceOf calls do with the device of a configured interface, by logical name.
func (p *Plugin) onDeviceOf(name string, do func(at *location) error) error {
	v, _, ok := p.inventory.get(name)
	if !ok {
		return fmt.Errorf("interface %s is not configured: %w", name, rtnl.ErrNoDevice)
	}
	return p.onDevice(v, do)
}

// onDevice calls do with the device of an interface, without its link. It first tries the last
// known device. The kernel never reuses an index, so if that device is gone, do gets ENODEV and is
// called again with the device that now has the mark.
func (p *Plugin) onDevice(v *linuxInterface, do func(at *location) error) error {
	if !isExisting(v) {
		if done, err := p.whereLastSeen(v, do); done {
			return err
		}
	}
	at, err := p.locateInterface(v)
	if err != nil {
		return err
	}
	defer at.release()
	return do(at)
}

func (p *Plugin) whereLastSeen(v *linuxInterface, do func(at *location) error) (done bool, err error) {
	_, device, known := p.inventory.get(v.GetName())
	if !known {
		return false, nil
	}
	ns, err := p.namespaces.Acquire(v.GetNamespace())
	if err != nil {
		return true, err
	}
	defer p.namespaces.Release(ns)
	if device.ns != ns.ID {
		return false, nil
	}
	err = do(&location{ns: ns, index: device.index, value: v})
	return !errors.Is(err, unix.ENODEV), err
}

// locateInterface finds the device of an interface at its last known place or by its mark. The
// caller releases the location.
func (p *Plugin) locateInterface(v *linuxInterface) (*location, error) {
	ns, err := p.namespaces.Acquire(v.GetNamespace())
	if err != nil {
		return nil, err
	}
	link, err := p.findDevice(ns, v)
	if err != nil {
		p.namespaces.Release(ns)
		return nil, err
	}
	return &location{ns: ns, link: link, index: link.Attrs().Index, value: v, release: func() { p.namespaces.Release(ns) }}, nil
}

func (p *Plugin) findDevice(ns *namespaces.Namespace, v *linuxInterface) (netlink.Link, error) {
	if isExisting(v) {
		return ns.LinkByName(deviceName(v))
	}
	alias := aliasPrefix + v.GetName()
	configured, device, known := p.inventory.get(v.GetName())
	if known && device.ns == ns.ID {
		if link, err := ns.LinkByIndex(device.index); err == nil && link.Attrs().Alias == alias {
			return link, nil
		}
	}
	links, err := ns.Links()
	if err != nil {
		return nil, err
	}
	if link := findByAlias(links, alias); link != nil {
		if known {
			p.inventory.put(configured, deviceID{ns: ns.ID, index: link.Attrs().Index})
		}
		return link, nil
	}
	return nil, fmt.Errorf("device with alias %q in %s: %w", alias, ns.Name, rtnl.ErrNoDevice)
}

func findByAlias(links []netlink.Link, alias string) netlink.Link {
	return find(links, func(l netlink.Link) bool { return l.Attrs().Alias == alias })
}

func findByName(links []netlink.Link, name string) netlink.Link {
	return find(links, func(l netlink.Link) bool { return l.Attrs().Name == name })
}

func findByIndex(links []netlink.Link, index int) netlink.Link {
	return find(links, func(l netlink.Link) bool { return l.Attrs().Index == index })
}

func find(links []netlink.Link, is func(netlink.Link) bool) netlink.Link {
	for _, l := range links {
		if is(l) {
			return l
		}
	}
	return nil
}

// isUp reports whether a device is administratively up.
func isUp(l netlink.Link) bool { return l.Attrs().Flags&net.FlagUp != 0 }

// temporaryName returns the name of a new device until it is in its namespace.
func temporaryName(name string) string {
	h := fnv.New32a()
	h.Write([]byte(name))
	return fmt.Sprintf("cv-%08x", h.Sum32())
}
