package linux

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/models"
)

// inventory caches the configured interfaces: logical name to device, and device to its values.
// Each Retrieve replaces its content. RetrieveKeys adds unknown values but neither changes nor
// removes any, because it may run for a mere comparison and Watch must keep reporting missing
// values.
type inventory struct {
	mu         sync.Mutex
	interfaces map[string]*entry   // by logical name
	devices    map[deviceID]string // logical name
}

// deviceID identifies a device for its lifetime.
type deviceID struct {
	ns    namespaces.ID
	index int
}

type entry struct {
	value  *linux_interfaces.Interface
	device deviceID
	routes map[string]*linux_l3.Route    // by key
	arps   map[string]*linux_l3.ARPEntry // by key
	// addresses holds the addresses on the device, with references resolved. While the interface is
	// created or deleted, some of its value's addresses are missing.
	addresses map[netip.Prefix]bool
}

// onDevice is a copy of an entry.
type onDevice = entry

func newInventory() *inventory {
	return &inventory{interfaces: map[string]*entry{}, devices: map[deviceID]string{}}
}

// put records that the interface is configured on the device.
func (i *inventory) put(value *linux_interfaces.Interface, device deviceID) {
	i.mu.Lock()
	defer i.mu.Unlock()
	e := i.interfaces[value.GetName()]
	if e == nil {
		e = &entry{routes: map[string]*linux_l3.Route{}, arps: map[string]*linux_l3.ARPEntry{}, addresses: map[netip.Prefix]bool{}}
		i.interfaces[value.GetName()] = e
	}
	if e.device != device {
		delete(i.devices, e.device)
		clear(e.addresses)
	}
	e.value, e.device = value, device
	i.devices[device] = value.GetName()
}

// note records the device of an interface, and its value if none is known.
func (i *inventory) note(value *linux_interfaces.Interface, device deviceID) {
	if known, at, ok := i.get(value.GetName()); ok {
		if at == device {
			return
		}
		value = known
	}
	i.put(value, device)
}

// remove deletes an interface and everything on it.
func (i *inventory) remove(name string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e := i.interfaces[name]; e != nil {
		if i.devices[e.device] == name {
			delete(i.devices, e.device)
		}
		delete(i.interfaces, name)
	}
}

func (i *inventory) get(name string) (*linux_interfaces.Interface, deviceID, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e := i.interfaces[name]; e != nil {
		return e.value, e.device, true
	}
	return nil, deviceID{}, false
}

func (i *inventory) nameOf(device deviceID) (string, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	name, ok := i.devices[device]
	return name, ok
}

// entryOf returns a copy of the entry of a device.
func (i *inventory) entryOf(device deviceID) (onDevice, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	name, ok := i.devices[device]
	if !ok {
		return onDevice{}, false
	}
	e := i.interfaces[name]
	return onDevice{value: e.value, device: e.device, routes: maps.Clone(e.routes), arps: maps.Clone(e.arps), addresses: maps.Clone(e.addresses)}, true
}

func (i *inventory) devicesIn(ns namespaces.ID) map[int]string {
	i.mu.Lock()
	defer i.mu.Unlock()
	names := map[int]string{}
	for device, name := range i.devices {
		if device.ns == ns {
			names[device.index] = name
		}
	}
	return names
}

func (i *inventory) namespaces() map[namespaces.ID]*linux_namespace.NetNamespace {
	i.mu.Lock()
	defer i.mu.Unlock()
	refs := map[namespaces.ID]*linux_namespace.NetNamespace{}
	for _, e := range i.interfaces {
		refs[e.device.ns] = e.value.GetNamespace()
	}
	return refs
}

// namespacesWith returns references to the namespaces where an interface has the address.
func (i *inventory) namespacesWith(addr netip.Addr) map[namespaces.ID]*linux_namespace.NetNamespace {
	i.mu.Lock()
	defer i.mu.Unlock()
	refs := map[namespaces.ID]*linux_namespace.NetNamespace{}
	for _, e := range i.interfaces {
		if e.hasAddress(addr) {
			refs[e.device.ns] = e.value.GetNamespace()
		}
	}
	return refs
}

func (e *entry) hasAddress(addr netip.Addr) bool {
	for p := range e.addresses {
		if p.Addr() == addr {
			return true
		}
	}
	return slices.ContainsFunc(e.value.GetIpAddresses(), func(text string) bool {
		p, err := netip.ParsePrefix(text)
		return err == nil && p.Addr() == addr
	})
}

func (i *inventory) names() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Collect(maps.Keys(i.interfaces))
}

func (i *inventory) putRoute(key string, route *linux_l3.Route) {
	i.update(route.GetOutgoingInterface(), func(e *entry) { e.routes[key] = route })
}

// noteRoute records a route unless its key is known.
func (i *inventory) noteRoute(key string, route *linux_l3.Route) {
	i.update(route.GetOutgoingInterface(), func(e *entry) {
		if e.routes[key] == nil {
			e.routes[key] = route
		}
	})
}

func (i *inventory) removeRoute(key string, route *linux_l3.Route) {
	i.update(route.GetOutgoingInterface(), func(e *entry) { delete(e.routes, key) })
}

func (i *inventory) putARP(key string, arp *linux_l3.ARPEntry) {
	i.update(arp.GetInterface(), func(e *entry) { e.arps[key] = arp })
}

// noteARP records a neighbour unless its key is known.
func (i *inventory) noteARP(key string, arp *linux_l3.ARPEntry) {
	i.update(arp.GetInterface(), func(e *entry) {
		if e.arps[key] == nil {
			e.arps[key] = arp
		}
	})
}

func (i *inventory) removeARP(key string, arp *linux_l3.ARPEntry) {
	i.update(arp.GetInterface(), func(e *entry) { delete(e.arps, key) })
}

func (i *inventory) setAddress(name string, addr netip.Prefix, has bool) {
	i.update(name, func(e *entry) {
		if has {
			e.addresses[addr] = true
		} else {
			delete(e.addresses, addr)
		}
	})
}

// forgetAddresses clears an interface's addresses before they are read.
func (i *inventory) forgetAddresses(name string) {
	i.update(name, func(e *entry) { clear(e.addresses) })
}

func (i *inventory) update(name string, change func(*entry)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if e := i.interfaces[name]; e != nil {
		change(e)
	}
}

// keys returns the keys of the interface, of everything on it, and of its TAP: both ends disappear
// together.
func (e onDevice) keys() []string {
	keys := []string{models.LinuxInterfaceKey(e.value.GetName())}
	keys = slices.AppendSeq(keys, maps.Keys(e.routes))
	keys = slices.AppendSeq(keys, maps.Keys(e.arps))
	if tap := e.value.GetTap().GetVppTapIfName(); tap != "" {
		keys = append(keys, models.VPPInterfaceKey(tap))
	}
	return keys
}
