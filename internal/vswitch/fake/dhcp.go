package fake

import (
	"context"
	"errors"
	"maps"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"google.golang.org/protobuf/proto"
)

// Lease simulates a DHCP server: it sets the lease of the interface, or removes it with nil. It
// returns an error if no DHCP client is set on the interface.
func (n *Node) Lease(name string, lease *vpp_interfaces.DHCPLease) error {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	i := n.ifaces[name]
	if i == nil || !i.dhcp {
		return errors.New("no DHCP client is set on interface " + name)
	}
	n.setLease(i, name, proto.CloneOf(lease))
	return nil
}

// setLease notifies all observers. The caller holds the lock.
func (n *Node) setLease(i *iface, name string, lease *vpp_interfaces.DHCPLease) {
	i.lease = lease
	for _, v := range n.opened {
		for _, report := range v.leases {
			report(name, lease)
		}
	}
}

func (v *VSwitch) WatchLeases(report func(string, *vpp_interfaces.DHCPLease)) {
	v.n.net.mu.Lock()
	defer v.n.net.mu.Unlock()
	v.leases = append(v.leases, report)
}

func (p interfaces) SetDHCPClient(ctx context.Context, name string) error {
	return p.v.do(ctx, func(n *Node) error {
		i, err := n.iface(name)
		if err == nil {
			i.dhcp = true
		}
		return err
	})
}

func (p interfaces) UnsetDHCPClient(ctx context.Context, name string) error {
	return p.v.do(ctx, func(n *Node) error {
		i := n.ifaces[name]
		if i == nil {
			return nil
		}
		i.dhcp = false
		if i.lease != nil {
			n.setLease(i, name, nil)
		}
		return nil
	})
}

func (p interfaces) Leases(ctx context.Context) (list []*vpp_interfaces.DHCPLease, err error) {
	err = p.v.do(ctx, func(n *Node) error {
		for _, name := range slices.Sorted(maps.Keys(n.ifaces)) {
			if lease := n.ifaces[name].lease; lease != nil {
				list = append(list, proto.CloneOf(lease))
			}
		}
		return nil
	})
	return list, err
}
