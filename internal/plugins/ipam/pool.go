package ipam

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/plugins/ipam/cidr"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// ErrExhausted is wrapped if all addresses of the node are in use.
var ErrExhausted = errors.New("no IP address is free for allocation in the subnet")

// owner is a pod's main interface or a custom interface of a pod.
type owner struct {
	pod   podmanager.PodID
	iface string // "" for the main interface
}

func mainOf(id podmanager.PodID) owner { return owner{pod: id} }

func (o owner) String() string {
	if o.iface == "" {
		return fmt.Sprintf("pod %v", o.pod)
	}
	return fmt.Sprintf("interface %s of pod %v", o.iface, o.pod)
}

// pool assigns the addresses of one subnet to pods.
//
//	#0 network | #1 gateway | #2 … #2^n-3 pods | #2^n-2 NAT loopback | #2^n-1 broadcast
//
// Allocation continues after the last assigned address and wraps around.
type pool struct {
	subnet  netip.Prefix
	last    uint64
	byOwner map[owner]netip.Addr
	byAddr  map[netip.Addr]owner
	// option is the option that sets the size, for messages.
	option string
}

func newPool(subnet netip.Prefix, option string) *pool {
	return &pool{subnet: subnet, last: podGatewayNumber, option: option,
		byOwner: make(map[owner]netip.Addr), byAddr: make(map[netip.Addr]owner)}
}

func (p *pool) end() uint64 { return 1<<min(cidr.HostBits(p.subnet), maxNumberedHostBits) - 2 }

func (p *pool) capacity() uint64 { return p.end() - podGatewayNumber - 1 }

// allocate returns the address of an owner. It assigns one if necessary.
func (p *pool) allocate(o owner) (netip.Addr, error) {
	if addr, ok := p.byOwner[o]; ok {
		return addr, nil
	}
	if uint64(len(p.byAddr)) >= p.capacity() {
		return netip.Addr{}, fmt.Errorf("%w %v: all %d are in use; remove pods, or enlarge the subnet with %s",
			ErrExhausted, p.subnet, p.capacity(), p.option)
	}
	number := p.last
	for {
		if number++; number >= p.end() {
			number = podGatewayNumber + 1
		}
		addr := cidr.Add(p.subnet.Addr(), number)
		if _, used := p.byAddr[addr]; !used {
			p.assign(o, addr)
			p.last = number
			return addr, nil
		}
	}
}

func (p *pool) assign(o owner, addr netip.Addr) {
	p.byOwner[o], p.byAddr[addr] = addr, o
}

func (p *pool) learn(o owner, addr netip.Addr) error {
	number, ok := cidr.Index(p.subnet, addr)
	switch {
	case !ok || number <= podGatewayNumber || number >= p.end():
		return fmt.Errorf("%v is not an address for pods in %v", addr, p.subnet)
	case p.byOwner[o] == addr:
		return nil
	case p.byOwner[o].IsValid():
		return fmt.Errorf("%v already has the address %v", o, p.byOwner[o])
	}
	if other, used := p.byAddr[addr]; used {
		return fmt.Errorf("%v belongs to %v", addr, other)
	}
	p.assign(o, addr)
	return nil
}

func (p *pool) moveTo(addr netip.Addr) {
	if number, ok := cidr.Index(p.subnet, addr); ok && number > podGatewayNumber && number < p.end() {
		p.last = number
	}
}

func (p *pool) release(o owner) {
	delete(p.byAddr, p.byOwner[o])
	delete(p.byOwner, o)
}
