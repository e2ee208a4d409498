package vpp

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/dhcp"
	"google.golang.org/protobuf/proto"
)

var dhcpModule = newModule("dhcp_plugin.so", "DHCP clients",
	&dhcp.DHCPClientConfig{}, &dhcp.DHCPClientConfigReply{}, &dhcp.DHCPClientDump{}, &dhcp.DHCPClientDetails{}, &dhcp.DHCPComplEvent{})

// leaseInterval is how often leases are read while there are clients: VPP tells of those
// that are obtained, but not of those that run out, and tells only the connection over
// which the client was set.
const leaseInterval = 2 * time.Second

// dhcpLeases are who is told of leases, and what they were told last.
type dhcpLeases struct {
	mu        sync.Mutex
	observers []func(string, *vpp_interfaces.DHCPLease)
	clients   map[string]bool // interfaces that have one
	last      map[string]*vpp_interfaces.DHCPLease
	wake      chan struct{} // has room for one
}

func newDHCPLeases() *dhcpLeases {
	return &dhcpLeases{clients: map[string]bool{}, last: map[string]*vpp_interfaces.DHCPLease{}, wake: make(chan struct{}, 1)}
}

func (d *dhcpLeases) look() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// set notes whether an interface has a client.
func (d *dhcpLeases) set(iface string, has bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clients[iface] = has; !has {
		delete(d.clients, iface)
	}
	d.look()
}

func (d *dhcpLeases) wanted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.observers) > 0 && (len(d.clients) > 0 || len(d.last) > 0)
}

// tell reports leases that are new or changed, and those that are not there any more.
func (d *dhcpLeases) tell(now []*vpp_interfaces.DHCPLease) {
	d.mu.Lock()
	defer d.mu.Unlock()
	left := maps.Clone(d.last)
	for _, l := range now {
		name := l.GetInterfaceName()
		delete(left, name)
		if proto.Equal(d.last[name], l) {
			continue
		}
		d.last[name] = l
		for _, report := range d.observers {
			report(name, l)
		}
	}
	for name := range left {
		delete(d.last, name)
		for _, report := range d.observers {
			report(name, nil)
		}
	}
}

// WatchLeases also reports what was leased before, when that is read for the first time.
func (v *VSwitch) WatchLeases(report func(iface string, lease *vpp_interfaces.DHCPLease)) {
	v.leases.mu.Lock()
	defer v.leases.mu.Unlock()
	v.leases.observers = append(v.leases.observers, report)
}

// subscribeLeases makes VPP's events wake up watchLeases.
func (v *VSwitch) subscribeLeases(l *link) error {
	if l.lacks[dhcpModule] != nil {
		return nil
	}
	_, err := vppapi.Subscribe(l.Conn, func(*dhcp.DHCPComplEvent) { v.leases.look() })
	return err
}

// watchLeases reports changes of leases, until ctx ends.
func (v *VSwitch) watchLeases(ctx context.Context) {
	ticker := time.NewTicker(leaseInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-v.leases.wake:
		}
		if !v.leases.wanted() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		if now, err := (interfaces{v}).Leases(ctx); err == nil {
			v.leases.tell(now)
		}
		cancel()
	}
}

// SetDHCPClient: VPP assigns the address and the default route itself.
func (v interfaces) SetDHCPClient(ctx context.Context, iface string) error {
	i, err := v.ifs.index(ctx, iface)
	if err == nil {
		host, _ := os.Hostname()
		err = v.call(ctx, dhcpModule, &dhcp.DHCPClientConfig{IsAdd: true, Client: dhcp.DHCPClient{
			SwIfIndex: i, Hostname: host[:min(len(host), maxField)], WantDHCPEvent: true, SetBroadcastFlag: true, PID: uint32(os.Getpid()),
			// What names the client to the server, besides its MAC.
			ID: clientID(host, iface),
		}}, &dhcp.DHCPClientConfigReply{})
		if vppapi.Refused(err, api.INVALID_VALUE) { // it has one
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("starting a DHCP client on interface %q: %w", iface, err)
	}
	v.leases.set(iface, true)
	return nil
}

// clientID is what names a client to servers: it has to stay the same.
func clientID(host, iface string) []byte {
	id := make([]byte, maxField+1)
	copy(id[:maxField], host+"/"+iface)
	return id
}

// UnsetDHCPClient: VPP takes address and route away; it tells the server nothing.
func (v interfaces) UnsetDHCPClient(ctx context.Context, iface string) error {
	err := v.onExisting(ctx, iface, func(i index) error {
		err := v.call(ctx, dhcpModule, &dhcp.DHCPClientConfig{Client: dhcp.DHCPClient{SwIfIndex: i, ID: clientID("", "")}}, &dhcp.DHCPClientConfigReply{})
		if vppapi.Refused(err, api.INVALID_VALUE) { // it has none
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("ending the DHCP client on interface %q: %w", iface, err)
	}
	v.leases.set(iface, false)
	return nil
}

func (v interfaces) Leases(ctx context.Context) (list []*vpp_interfaces.DHCPLease, err error) {
	clients, err := byIndex(ctx, startDump[dhcp.DHCPClientDetails](ctx, v.VSwitch, dhcpModule, &dhcp.DHCPClientDump{}),
		func(d *dhcp.DHCPClientDetails) index { return d.Client.SwIfIndex })
	if err != nil {
		return nil, fmt.Errorf("reading DHCP leases: %w", err)
	}
	for i, d := range clients {
		name, err := v.ifs.name(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("reading DHCP leases: %w", err)
		}
		if l := describeLease(name, d); l != nil && name != "" {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b *vpp_interfaces.DHCPLease) int {
		return strings.Compare(a.GetInterfaceName(), b.GetInterfaceName())
	})
	return list, nil
}

// describeLease returns the lease of a client; nil if it has none.
func describeLease(iface string, d *dhcp.DHCPClientDetails) *vpp_interfaces.DHCPLease {
	addr := leasedAddress(d)
	if !addr.IsValid() {
		return nil
	}
	l := &vpp_interfaces.DHCPLease{
		InterfaceName: iface, HostName: strings.TrimRight(d.Lease.Hostname, "\x00"), HostPhysAddress: d.Lease.HostMac.String(), HostIpAddress: addr.String(),
	}
	if router := addrOf(d.Lease.RouterAddress); !router.IsUnspecified() {
		l.RouterIpAddress = netip.PrefixFrom(router, addr.Bits()).String()
	}
	return l
}

// leasedAddress is the zero Prefix if there is none.
func leasedAddress(d *dhcp.DHCPClientDetails) netip.Prefix {
	addr := addrOf(d.Lease.HostAddress)
	if d.Lease.State != dhcp.DHCP_CLIENT_STATE_API_BOUND || addr.IsUnspecified() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr, int(d.Lease.MaskWidth))
}
