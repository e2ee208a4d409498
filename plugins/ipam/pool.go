package ipam

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/plugins/ipam/cidr"
	"github.com/contiv/contiv/plugins/podmanager"
)

// ErrExhausted is wrapped when all addresses of the node are in use.
var ErrExhausted = errors.New("no IP address is free for allocation in the subnet")

// pool assigns the addresses of one subnet to pods.
//
//	#0 network | #1 gateway | #2 … #2^n-3 pods | #2^n-2 NAT loopback | #2^n-1 broadcast
//
// Allocation continues behind the last address assigned and goes round at the
// end.
type pool struct {
	subnet netip.Prefix
	last   uint64
	byPod  map[podmanager.PodID]netip.Addr
	byAddr map[netip.Addr]podmanager.PodID
}

func newPool(subnet netip.Prefix) *pool {
	return &pool{subnet: subnet, last: podGatewayNumber,
		byPod: make(map[podmanager.PodID]netip.Addr), byAddr: make(map[netip.Addr]podmanager.PodID)}
}

// end is the first number behind those of pods.
func (p *pool) end() uint64 { return 1<<min(cidr.HostBits(p.subnet), maxNumberedHostBits) - 2 }

// capacity is the number of pods that have room.
func (p *pool) capacity() uint64 { return p.end() - podGatewayNumber - 1 }

// allocate returns the address of a pod, a new one if it has none.
func (p *pool) allocate(id podmanager.PodID) (netip.Addr, error) {
	if addr, ok := p.byPod[id]; ok {
		return addr, nil
	}
	if uint64(len(p.byAddr)) >= p.capacity() {
		return netip.Addr{}, fmt.Errorf("%w %v: all %d are in use; remove pods, or enlarge the subnet with ipamConfig.podSubnetOneNodePrefixLen",
			ErrExhausted, p.subnet, p.capacity())
	}
	number := p.last
	for {
		if number++; number >= p.end() {
			number = podGatewayNumber + 1
		}
		addr := cidr.Add(p.subnet.Addr(), number)
		if _, used := p.byAddr[addr]; !used {
			p.assign(id, addr)
			p.last = number
			return addr, nil
		}
	}
}

func (p *pool) assign(id podmanager.PodID, addr netip.Addr) {
	p.byPod[id], p.byAddr[addr] = addr, id
}

// learn assigns an address that the pod already uses.
func (p *pool) learn(id podmanager.PodID, addr netip.Addr) error {
	number, ok := cidr.Index(p.subnet, addr)
	switch {
	case !ok || number <= podGatewayNumber || number >= p.end():
		return fmt.Errorf("%v is not an address for pods in %v", addr, p.subnet)
	case p.byPod[id] == addr:
		return nil
	case p.byPod[id].IsValid():
		return fmt.Errorf("pod %v already has the address %v", id, p.byPod[id])
	}
	if other, used := p.byAddr[addr]; used {
		return fmt.Errorf("%v belongs to pod %v", addr, other)
	}
	p.assign(id, addr)
	return nil
}

// moveTo continues allocation behind the address.
func (p *pool) moveTo(addr netip.Addr) {
	if number, ok := cidr.Index(p.subnet, addr); ok && number > podGatewayNumber && number < p.end() {
		p.last = number
	}
}

func (p *pool) release(id podmanager.PodID) {
	delete(p.byAddr, p.byPod[id])
	delete(p.byPod, id)
}
