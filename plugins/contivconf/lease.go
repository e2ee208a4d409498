package contivconf

import (
	"context"
	"net/netip"
	"sync"
)

// leases are what DHCP leased to interfaces of a vswitch with a network stack of its
// own, by the name of the interface.
type leases struct {
	mu     sync.Mutex
	byName map[string]netip.Prefix
}

func (l *leases) set(iface string, address netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]netip.Prefix{}
	}
	l.byName[iface] = address
}

func (l *leases) of(iface Interface) netip.Prefix {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !iface.UseDHCP {
		return netip.Prefix{}
	}
	return l.byName[iface.Name]
}

// LeaseChanged takes the DHCP lease of an interface of the vswitch, the zero Prefix if there is
// none (any more); from any goroutine. It is as if the address were one of a link of the host: see
// LinksChanged. Where the host's stack is shared, it is one, and LeaseChanged does nothing.
func (c *ContivConf) LeaseChanged(ctx context.Context, iface string, address netip.Prefix) {
	if c.links != nil {
		return
	}
	c.leases.set(iface, address)
	c.LinksChanged(ctx)
}
