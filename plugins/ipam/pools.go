package ipam

import (
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/plugins/ipam/cidr"
	"github.com/contiv/contiv/plugins/podmanager"
)

// pools has one pool for each IP version of the pods; the first is that of their
// first addresses.
type pools []*pool

// addresses returns the addresses of a pod's main interface, in the order of the pools.
func (ps pools) addresses(id podmanager.PodID) []netip.Addr { return ps.addressesOf(mainOf(id)) }

// addressesOf is the same for any interface.
func (ps pools) addressesOf(o owner) []netip.Addr {
	var addrs []netip.Addr
	for _, p := range ps {
		if addr, ok := p.byOwner[o]; ok {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// complete reports whether the pod has an address from each pool.
func (ps pools) complete(id podmanager.PodID) bool { return len(ps.addresses(id)) == len(ps) }

// pods returns all pods that have an address.
func (ps pools) pods() map[podmanager.PodID]bool {
	ids := make(map[podmanager.PodID]bool)
	for _, p := range ps {
		for o := range p.byOwner {
			ids[o.pod] = true
		}
	}
	return ids
}

// allocate returns the addresses of an interface: one from each pool, or an error and
// what it had before.
func (ps pools) allocate(o owner) (addrs []netip.Addr, undo func(), err error) {
	var fresh []*pool
	undo = func() {
		for _, p := range fresh {
			p.release(o)
		}
	}
	for _, p := range ps {
		if _, known := p.byOwner[o]; !known {
			fresh = append(fresh, p)
		}
		addr, err := p.allocate(o)
		if err != nil {
			undo()
			return nil, undo, err
		}
		addrs = append(addrs, addr)
	}
	return addrs, undo, nil
}

// of returns the pool that the address belongs to, nil if there is none.
func (ps pools) of(addr netip.Addr) *pool {
	for _, p := range ps {
		if p.subnet.Contains(addr) {
			return p
		}
	}
	return nil
}

// learn assigns an address that the owner already uses.
func (ps pools) learn(o owner, addr netip.Addr) error {
	p := ps.of(addr)
	if p == nil {
		return fmt.Errorf("%v is in no pod subnet of this node", addr)
	}
	return p.learn(o, addr)
}

// isLast reports whether allocation continues behind an address of a pool.
func (ps pools) isLast(addr netip.Addr) bool {
	p := ps.of(addr)
	number, _ := cidr.Index(p.subnet, addr)
	return number == p.last
}

func (ps pools) release(o owner) {
	for _, p := range ps {
		p.release(o)
	}
}

// haveSubnets reports whether the pools are those of the subnets.
func (ps pools) haveSubnets(subnets []netip.Prefix) bool {
	if len(ps) != len(subnets) {
		return false
	}
	for i, p := range ps {
		if p.subnet != subnets[i] {
			return false
		}
	}
	return true
}
