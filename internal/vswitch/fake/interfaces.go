package fake

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"google.golang.org/protobuf/proto"
)

type interfaces struct{ v *VSwitch }

func (p interfaces) Create(ctx context.Context, value *vpp_interfaces.Interface) error {
	return p.v.do(ctx, func(n *Node) error {
		name := value.GetName()
		if i := n.ifaces[name]; i != nil {
			i.set(value)
			n.reportState(name)
			return nil
		}
		switch value.GetType() {
		case vpp_interfaces.Interface_TAP, vpp_interfaces.Interface_SOFTWARE_LOOPBACK, vpp_interfaces.Interface_VXLAN_TUNNEL:
			n.ifaces[name] = newIface(value)
		case vpp_interfaces.Interface_DPDK, vpp_interfaces.Interface_AF_PACKET:
			d := n.devices[deviceOf(value)]
			if d == nil {
				return fmt.Errorf("create interface %s: node %s has no device %s", name, n.name, deviceOf(value))
			}
			d.set(value)
			n.ifaces[name] = d
		default:
			return vswitch.Unsupported("interfaces of type %v: not supported by the fake vswitch", value.GetType())
		}
		n.reportState(name)
		return nil
	})
}

// deviceOf returns the existing device of an interface; "" if none.
func deviceOf(value *vpp_interfaces.Interface) string {
	switch value.GetType() {
	case vpp_interfaces.Interface_DPDK:
		return value.GetName()
	case vpp_interfaces.Interface_AF_PACKET:
		return value.GetAfpacket().GetHostIfName()
	}
	return ""
}

func (i *iface) set(value *vpp_interfaces.Interface) {
	mac, mtu, up := i.value.GetPhysAddress(), i.value.GetMtu(), i.value.GetEnabled()
	i.value = newIface(value).value
	if i.value.PhysAddress == "" {
		i.value.PhysAddress = mac
	}
	if i.value.Mtu == 0 {
		i.value.Mtu = mtu
	}
	if deviceOf(value) != "" {
		i.value.Enabled = up || value.GetEnabled()
	}
}

func (p interfaces) Update(ctx context.Context, _, value *vpp_interfaces.Interface) error {
	return p.v.do(ctx, func(n *Node) error {
		i, err := n.iface(value.GetName())
		if d := n.devices[deviceOf(value)]; err != nil && d != nil {
			n.ifaces[value.GetName()], i, err = d, d, nil
		}
		if err != nil {
			return fmt.Errorf("update interface %s: %w", value.GetName(), err)
		}
		i.set(value)
		n.reportState(value.GetName())
		return nil
	})
}

func (p interfaces) Delete(ctx context.Context, value *vpp_interfaces.Interface) error {
	return p.v.do(ctx, func(n *Node) error {
		n.removeInterface(value.GetName())
		return nil
	})
}

func (p interfaces) List(ctx context.Context, expected []*vpp_interfaces.Interface) (list []*vpp_interfaces.Interface, err error) {
	err = p.v.do(ctx, func(n *Node) error {
		want := map[string]*vpp_interfaces.Interface{}
		found := map[string]*iface{}
		for _, e := range expected {
			want[e.GetName()] = e
			if d := n.devices[deviceOf(e)]; d != nil {
				found[e.GetName()] = d
			}
		}
		maps.Copy(found, n.ifaces)
		for _, name := range slices.Sorted(maps.Keys(found)) {
			list = append(list, found[name].describe(want[name]))
		}
		return nil
	})
	return list, err
}

func (p interfaces) Find(ctx context.Context, expected []*vpp_interfaces.Interface) ([]*vpp_interfaces.Interface, error) {
	list, err := p.List(ctx, expected)
	return slices.DeleteFunc(list, func(v *vpp_interfaces.Interface) bool {
		return !slices.ContainsFunc(expected, func(e *vpp_interfaces.Interface) bool { return e.GetName() == v.GetName() })
	}), err
}

// describe returns the interface. It includes foreign addresses only if they are wanted.
func (i *iface) describe(want *vpp_interfaces.Interface) *vpp_interfaces.Interface {
	v := proto.CloneOf(i.value)
	wanted := map[netip.Prefix]bool{}
	for _, text := range want.GetIpAddresses() {
		if addr, err := netip.ParsePrefix(text); err == nil {
			wanted[addr] = true
		}
	}
	for addr, ours := range i.addrs {
		if ours || wanted[addr] {
			v.IpAddresses = append(v.IpAddresses, addr.String())
		}
	}
	slices.Sort(v.IpAddresses)
	v.SetDhcpClient = i.dhcp
	v.Vrf = max(i.v4, i.v6)
	if i.lender != "" {
		v.Vrf, v.Unnumbered = 0, &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: i.lender}
	}
	return v
}

func (p interfaces) AddAddress(ctx context.Context, name string, addr netip.Prefix) error {
	return p.v.do(ctx, func(n *Node) error {
		i, err := n.iface(name)
		if err != nil {
			return fmt.Errorf("assign address %s: %w", addr, err)
		}
		if _, exists := i.addrs[addr]; !exists {
			i.addrs[addr] = true
		}
		return nil
	})
}

func (p interfaces) DeleteAddress(ctx context.Context, name string, addr netip.Prefix) error {
	return p.v.do(ctx, func(n *Node) error {
		if i := n.ifaces[name]; i != nil && i.addrs[addr] {
			delete(i.addrs, addr)
		}
		return nil
	})
}

func (p interfaces) SetVRF(ctx context.Context, name string, vrf uint32, versions vswitch.IPVersions) error {
	return p.v.do(ctx, func(n *Node) error {
		i, err := n.iface(name)
		for _, ipv6 := range []bool{false, true} {
			if ipv6 && versions.V6 || !ipv6 && versions.V4 {
				if vrfErr := n.checkVRF(vrf, ipv6); err == nil {
					err = vrfErr
				}
			}
		}
		if err != nil {
			return fmt.Errorf("move %s into VRF %d: %w", name, vrf, err)
		}
		i.setVRF(vrf, versions)
		return nil
	})
}

func (i *iface) setVRF(vrf uint32, versions vswitch.IPVersions) {
	if versions.V4 {
		i.v4 = vrf
	}
	if versions.V6 {
		i.v6 = vrf
	}
}

func (p interfaces) UnsetVRF(ctx context.Context, name string, _ uint32, versions vswitch.IPVersions) error {
	return p.v.do(ctx, func(n *Node) error {
		if i := n.ifaces[name]; i != nil {
			i.setVRF(0, versions)
		}
		return nil
	})
}

func (p interfaces) SetUnnumbered(ctx context.Context, name, lender string) error {
	return p.v.do(ctx, func(n *Node) error {
		i, err := n.iface(name)
		if err == nil {
			_, err = n.iface(lender)
		}
		if err != nil {
			return fmt.Errorf("let %s use the addresses of %s: %w", name, lender, err)
		}
		i.lender = lender
		return nil
	})
}

func (p interfaces) UnsetUnnumbered(ctx context.Context, name string) error {
	return p.v.do(ctx, func(n *Node) error {
		if i := n.ifaces[name]; i != nil {
			i.lender = ""
		}
		return nil
	})
}

func (n *Node) vrf(name string, ipv6 bool) uint32 {
	i := n.ifaces[name]
	if i == nil {
		return 0
	}
	if lender := n.ifaces[i.lender]; lender != nil {
		i = lender
	}
	if ipv6 {
		return i.v6
	}
	return i.v4
}
