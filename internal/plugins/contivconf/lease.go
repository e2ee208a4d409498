package contivconf

import (
	"context"
	"net/netip"
	"sync"
)

// leases are the DHCP leases of a vswitch with its own network stack, by interface.
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

// LeaseChanged reports the DHCP lease of a vswitch interface, or the zero Prefix if it has none.
// The effect is the same as in LinksChanged. It may be called from any goroutine. It does nothing
// if the host's stack is shared, where the address belongs to a link.
func (c *ContivConf) LeaseChanged(ctx context.Context, iface string, address netip.Prefix) {
	if c.links != nil {
		return
	}
	c.leases.set(iface, address)
	c.LinksChanged(ctx)
}
