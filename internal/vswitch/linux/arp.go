package linux

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"google.golang.org/protobuf/proto"
)

// ARPDescriptor is the name of the descriptor of static neighbours.
const ARPDescriptor = "linux-arp"

type arpItem = kvscheduler.Item[*linux_l3.ARPEntry, kvscheduler.NoMetadata]

func (p *Plugin) arpDescriptor() kvscheduler.Descriptor[*linux_l3.ARPEntry, kvscheduler.NoMetadata] {
	return kvscheduler.Descriptor[*linux_l3.ARPEntry, kvscheduler.NoMetadata]{
		Name:       ARPDescriptor,
		Keys:       kvscheduler.KeySpace{Prefix: models.LinuxARP.KeyPrefix()},
		NB:         true,
		Equivalent: func(_ string, old, new *linux_l3.ARPEntry) bool { return equivalentARPs(old, new) },
		Validate:   func(_ string, v *linux_l3.ARPEntry) error { return validateARP(v) },
		Create: func(_ context.Context, key string, v *linux_l3.ARPEntry) (none kvscheduler.NoMetadata, err error) {
			return none, p.resolvedARP(v, func(v *linux_l3.ARPEntry) error { return p.setARP(key, v) })
		},
		Update: func(_ context.Context, key string, _, v *linux_l3.ARPEntry, none kvscheduler.NoMetadata) (kvscheduler.NoMetadata, error) {
			return none, p.resolvedARP(v, func(v *linux_l3.ARPEntry) error { return p.setARP(key, v) })
		},
		UpdateWithRecreate: func(_ string, old, new *linux_l3.ARPEntry, _ kvscheduler.NoMetadata) bool {
			return old.GetInterface() != new.GetInterface()
		},
		Delete: func(ctx context.Context, key string, v *linux_l3.ARPEntry, none kvscheduler.NoMetadata) error {
			return ifAllocated(p.resolvedARP(v, func(v *linux_l3.ARPEntry) error { return p.deleteARP(ctx, key, v, none) }))
		},
		Retrieve:      p.retrieveARPs,
		RetrieveKeys:  p.retrieveARPKeys,
		RetrieveAfter: []string{netalloc.Descriptor, InterfaceDescriptor},
		Retriable:     retriable,
		Dependencies: func(_ string, v *linux_l3.ARPEntry) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{interfaceIsUp("interface-is-up", v.GetInterface()),
				interfaceHasAddress("interface-has-ip-address", v.GetInterface())}
			return append(deps, netalloc.Dependency("ip_address", v.GetIpAddress(), "")...)
		},
	}
}

func interfaceIsUp(label, iface string) kvscheduler.Dependency {
	return kvscheduler.Dependency{Label: label, Key: models.LinuxInterfaceStateKey(iface, true)}
}

func interfaceHasAddress(label, iface string) kvscheduler.Dependency {
	return kvscheduler.Dependency{Label: label, AnyOf: kvscheduler.AnyOf{
		KeyPrefixes: []string{models.LinuxInterfaceAddressPrefix(iface)},
	}}
}

func equivalentARPs(old, new *linux_l3.ARPEntry) bool {
	oldIP, _ := netip.ParseAddr(old.GetIpAddress())
	newIP, _ := netip.ParseAddr(new.GetIpAddress())
	if netalloc.HasRef(old.GetIpAddress(), new.GetIpAddress()) && old.GetIpAddress() != new.GetIpAddress() {
		return false
	}
	return old.GetInterface() == new.GetInterface() && oldIP == newIP && sameMAC(old.GetHwAddress(), new.GetHwAddress())
}

func validateARP(v *linux_l3.ARPEntry) error {
	if v.GetInterface() == "" {
		return kvscheduler.NewInvalidValueError(fmt.Errorf("ARP entry has no interface"), "interface")
	}
	if netalloc.IsRef(v.GetIpAddress()) {
		if _, err := netalloc.ParseRef(v.GetIpAddress(), ""); err != nil {
			return kvscheduler.NewInvalidValueError(err, "ip_address")
		}
	} else if _, err := netip.ParseAddr(v.GetIpAddress()); err != nil {
		return kvscheduler.NewInvalidValueError(fmt.Errorf("%q is no IP address", v.GetIpAddress()), "ip_address")
	}
	if _, err := net.ParseMAC(v.GetHwAddress()); err != nil {
		return kvscheduler.NewInvalidValueError(fmt.Errorf("%q is no hardware address", v.GetHwAddress()), "hw_address")
	}
	return nil
}

func neighbour(index int, v *linux_l3.ARPEntry) (n rtnl.Neighbour, err error) {
	n = rtnl.Neighbour{Index: index, State: netlink.NUD_PERMANENT}
	if n.Ip, err = netip.ParseAddr(v.GetIpAddress()); err != nil {
		return n, err
	}
	n.Mac, err = net.ParseMAC(v.GetHwAddress())
	return n, err
}

// setARP adds the entry or replaces the one of the same address.
func (p *Plugin) setARP(key string, v *linux_l3.ARPEntry) error {
	p.inventory.putARP(key, v)
	err := p.onDeviceOf(v.GetInterface(), func(at *location) error {
		n, err := neighbour(at.index, v)
		if err == nil {
			err = at.ns.SetNeighbour(n)
		}
		if err != nil {
			return fmt.Errorf("in %s: %w", at.ns.Name, err)
		}
		return nil
	})
	if err != nil {
		p.inventory.removeARP(key, v)
		return fmt.Errorf("set neighbour %s of interface %s: %w", v.GetIpAddress(), v.GetInterface(), err)
	}
	return nil
}

func (p *Plugin) deleteARP(_ context.Context, key string, v *linux_l3.ARPEntry, _ kvscheduler.NoMetadata) error {
	p.inventory.removeARP(key, v)
	err := p.onDeviceOf(v.GetInterface(), func(at *location) error {
		n, err := neighbour(at.index, v)
		if err != nil {
			return err
		}
		return at.ns.DelNeighbour(n)
	})
	if err != nil && !isGone(err) {
		return fmt.Errorf("delete neighbour %s of interface %s: %w", v.GetIpAddress(), v.GetInterface(), err)
	}
	return nil
}

// retrieveARPs reads the permanent neighbours on all configured interfaces.
func (p *Plugin) retrieveARPs(ctx context.Context, expected []arpItem) ([]arpItem, error) {
	return p.readARPs(ctx, expected, p.inventory.names(), false)
}

func (p *Plugin) retrieveARPKeys(ctx context.Context, expected []arpItem) ([]arpItem, error) {
	var interfaces []string
	for _, item := range expected {
		interfaces = append(interfaces, item.Value.GetInterface())
	}
	return p.readARPs(ctx, expected, interfaces, true)
}

func (p *Plugin) readARPs(ctx context.Context, expected []arpItem, interfaces []string, onlyExpected bool) ([]arpItem, error) {
	type id struct {
		iface string
		ip    netip.Addr
	}
	want := make(map[id]arpItem, len(expected))
	for _, item := range expected {
		if !onlyExpected {
			p.inventory.removeARP(item.Key, item.Value)
		}
		text, err := p.alloc.Addr(item.Value.GetIpAddress(), "")
		if err != nil {
			continue // its address is not allocated
		}
		if ip, err := netip.ParseAddr(text); err == nil {
			want[id{item.Value.GetInterface(), ip}] = item
		}
	}
	var items []arpItem
	err := p.eachNamespace(ctx, interfaces, func(ns *namespaces.Namespace, devices map[int]*linuxInterface) error {
		neighbours, err := permanentNeighbours(ns)
		if err != nil {
			return err
		}
		for _, n := range neighbours {
			iface, ours := devices[n.Index]
			if !ours {
				continue
			}
			wanted, isWanted := want[id{iface.GetName(), n.Ip}]
			if !isWanted && (onlyExpected || isExisting(iface)) {
				continue
			}
			there := &linux_l3.ARPEntry{Interface: iface.GetName(), IpAddress: n.Ip.String(), HwAddress: n.Mac.String()}
			v := proto.CloneOf(there)
			if isWanted {
				v.IpAddress = wanted.Value.GetIpAddress()
			}
			key := models.Key(v)
			items = append(items, arpItem{Key: key, Value: v, Origin: kvscheduler.FromNB})
			if onlyExpected {
				p.inventory.noteARP(key, there)
			} else {
				p.inventory.putARP(key, there)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("retrieve neighbours: %w", err)
	}
	return items, nil
}
