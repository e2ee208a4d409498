package ipam

import (
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/plugins/ipam/cidr"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

type pools []*pool

func (ps pools) addresses(id podmanager.PodID) []netip.Addr { return ps.addressesOf(mainOf(id)) }

func (ps pools) addressesOf(o owner) []netip.Addr {
	var addrs []netip.Addr
	for _, p := range ps {
		if addr, ok := p.byOwner[o]; ok {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func (ps pools) complete(id podmanager.PodID) bool { return len(ps.addresses(id)) == len(ps) }

func (ps pools) pods() map[podmanager.PodID]bool {
	ids := make(map[podmanager.PodID]bool)
	for _, p := range ps {
		for o := range p.byOwner {
			ids[o.pod] = true
		}
	}
	return ids
}

// allocate returns the addresses of an interface, one from each pool. On an error, it assigns
// nothing.
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

func (ps pools) of(addr netip.Addr) *pool {
	for _, p := range ps {
		if p.subnet.Contains(addr) {
			return p
		}
	}
	return nil
}

func (ps pools) learn(o owner, addr netip.Addr) error {
	p := ps.of(addr)
	if p == nil {
		return fmt.Errorf("%v is in no pod subnet of this node", addr)
	}
	return p.learn(o, addr)
}

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
