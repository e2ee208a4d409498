package links

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/dhcp"
)

// dhcpClients holds the running DHCP clients by interface, and the observer of their leases.
type dhcpClients struct {
	mu           sync.Mutex
	clients      map[string]*dhcp.Client
	observers    []func(iface string, lease *vpp_interfaces.DHCPLease)
	firstTimeout time.Duration
}

func newDHCPClients() *dhcpClients { return &dhcpClients{clients: map[string]*dhcp.Client{}} }

func (d *dhcpClients) running() map[string]bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := make(map[string]bool, len(d.clients))
	for name := range d.clients {
		names[name] = true
	}
	return names
}

func (d *dhcpClients) take(iface string) *dhcp.Client {
	d.mu.Lock()
	defer d.mu.Unlock()
	client := d.clients[iface]
	delete(d.clients, iface)
	return client
}

func (d *dhcpClients) check(iface string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if client := d.clients[iface]; client != nil {
		client.Check()
	}
}

func (d *dhcpClients) checkAll() {
	for name := range d.running() {
		d.check(name)
	}
}

func (d *dhcpClients) tell(iface string, lease *vpp_interfaces.DHCPLease) {
	d.mu.Lock()
	observers := slices.Clone(d.observers)
	d.mu.Unlock()
	for _, report := range observers {
		report(iface, lease)
	}
}

// stop ends all clients. Leases stay in use.
func (d *dhcpClients) stop() {
	for name := range d.running() {
		if client := d.take(name); client != nil {
			client.Stop()
		}
	}
}

func (v *Driver) WatchLeases(report func(iface string, lease *vpp_interfaces.DHCPLease)) {
	v.dhcp.mu.Lock()
	defer v.dhcp.mu.Unlock()
	v.dhcp.observers = append(v.dhcp.observers, report)
}

func (v interfaces) SetDHCPClient(_ context.Context, iface string) error {
	if !v.marks {
		return vswitch.Unsupported("set_dhcp_client needs a kernel that can mark addresses (Linux 5.18): let the DHCP client of the host configure the device")
	}
	if err := own.OnlyMain(v.Reg.Iface(iface).GetVrf(), "set_dhcp_client"); err != nil {
		return err
	}
	device := &leaseDevice{Driver: v.Driver, iface: iface}
	if _, err := v.Link(iface); err != nil {
		return fmt.Errorf("starting a DHCP client on interface %q: %w", iface, err)
	}
	v.dhcp.mu.Lock()
	defer v.dhcp.mu.Unlock()
	if v.dhcp.clients[iface] == nil {
		v.dhcp.clients[iface] = dhcp.Start(dhcp.Options{
			Device: device, FirstTimeout: v.dhcp.firstTimeout,
			Report: func(lease *dhcp.Lease) { v.dhcp.tell(iface, device.describe(lease)) },
			Log:    v.Log.With("interface", iface),
		})
	}
	return nil
}

func (v interfaces) UnsetDHCPClient(_ context.Context, iface string) error {
	var err error
	if client := v.dhcp.take(iface); client != nil {
		err = client.Release()
	} else {
		err = (&leaseDevice{Driver: v.Driver, iface: iface}).Apply(nil) // of an earlier process
	}
	if rtnl.IgnoreGone(err) != nil {
		return fmt.Errorf("release the DHCP lease of interface %q: %w", iface, err)
	}
	v.dhcp.tell(iface, nil)
	return nil
}

func (v interfaces) Leases(context.Context) ([]*vpp_interfaces.DHCPLease, error) {
	v.dhcp.mu.Lock()
	clients := maps.Clone(v.dhcp.clients)
	v.dhcp.mu.Unlock()
	var list []*vpp_interfaces.DHCPLease
	for name, client := range clients {
		if lease := client.Lease(); lease != nil {
			list = append(list, (&leaseDevice{Driver: v.Driver, iface: name}).describe(lease))
		}
	}
	slices.SortFunc(list, func(a, b *vpp_interfaces.DHCPLease) int {
		return strings.Compare(a.GetInterfaceName(), b.GetInterfaceName())
	})
	return list, nil
}
