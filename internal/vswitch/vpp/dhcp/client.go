package dhcp

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

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/dhcp"
	"google.golang.org/protobuf/proto"
)

// maxHostName is the maximum length of names in VPP's messages.
const maxHostName = 63

var dhcpModule = session.NewModule("dhcp_plugin.so", "DHCP clients",
	&dhcp.DHCPClientConfig{}, &dhcp.DHCPClientConfigReply{}, &dhcp.DHCPClientDump{}, &dhcp.DHCPClientDetails{}, &dhcp.DHCPComplEvent{})

// leaseInterval is how often leases are read while clients exist. VPP sends events for obtained
// leases but not for expired ones, and only on the connection that configured the client.
const leaseInterval = 2 * time.Second

// Clients are VPP's DHCP clients and the observers of their leases.
type Clients struct {
	subsystem.Base
	vpp *session.Session
	ifs *ownership.Registry
	hub *subsystem.Hub

	mu        sync.Mutex
	observers []func(string, *vpp_interfaces.DHCPLease)
	some      bool                                 // VPP may have clients
	last      map[string]*vpp_interfaces.DHCPLease // last reported, by interface
	wake      chan struct{}                        // has room for one
}

func NewClients(vpp *session.Session, ifs *ownership.Registry, hub *subsystem.Hub) *Clients {
	return &Clients{Base: subsystem.Base{Uses: []*session.Module{dhcpModule}}, vpp: vpp, ifs: ifs, hub: hub,
		last: map[string]*vpp_interfaces.DHCPLease{}, wake: make(chan struct{}, 1)}
}

// look requests a read of the leases.
func (v *Clients) look() {
	v.mu.Lock()
	v.some = true
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// due reports whether leases may have changed, and resets the flag.
func (v *Clients) due() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	due := v.some || len(v.last) > 0
	v.some = false
	return due
}

// notify reports new, changed and lost leases to the observers.
func (v *Clients) notify(now []*vpp_interfaces.DHCPLease) {
	v.mu.Lock()
	left := maps.Clone(v.last)
	changed := map[string]*vpp_interfaces.DHCPLease{}
	for _, l := range now {
		name := l.GetInterfaceName()
		delete(left, name)
		if !proto.Equal(v.last[name], l) {
			v.last[name], changed[name] = l, l
		}
	}
	for name := range left {
		delete(v.last, name)
		changed[name] = nil
	}
	observers := slices.Clone(v.observers)
	v.mu.Unlock()
	for name, lease := range changed {
		for _, report := range observers {
			report(name, lease)
		}
		v.hub.Publish(subsystem.Event{Kind: subsystem.AddressesChanged, Interface: name})
	}
}

// Watch reports the known leases and then each change; nil for a lost lease.
func (v *Clients) Watch(report func(iface string, lease *vpp_interfaces.DHCPLease)) {
	v.mu.Lock()
	v.observers = append(v.observers, report)
	known := maps.Clone(v.last)
	v.mu.Unlock()
	for name, lease := range known {
		report(name, lease)
	}
}

// Opened lets VPP's events wake Follow, which first reads the present leases.
func (v *Clients) Opened(_ context.Context, l *session.Link) error {
	if l.Lacking(dhcpModule) != nil {
		return nil
	}
	v.look()
	_, err := vppapi.Subscribe(l.Conn, func(*dhcp.DHCPComplEvent) { v.look() })
	return err
}

// Follow reports changes of leases until ctx ends.
func (v *Clients) Follow(ctx context.Context) {
	ticker := time.NewTicker(leaseInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-v.wake:
		}
		if !v.due() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, session.Timeout)
		clients, leases, err := v.read(ctx)
		cancel()
		if err == nil {
			v.notify(leases)
		}
		if err != nil || clients > 0 { // the ticker looks again
			v.mu.Lock()
			v.some = true
			v.mu.Unlock()
		}
	}
}

// SetDHCPClient starts a client. VPP assigns the address and the default route.
func (v *Clients) SetDHCPClient(ctx context.Context, iface string) error {
	i, err := v.ifs.Index(ctx, iface)
	if err == nil {
		err = v.capable(ctx, i)
	}
	if err == nil {
		host, _ := os.Hostname()
		err = v.vpp.Call(ctx, dhcpModule, &dhcp.DHCPClientConfig{IsAdd: true, Client: dhcp.DHCPClient{
			SwIfIndex: i, Hostname: host[:min(len(host), maxHostName)], WantDHCPEvent: true, SetBroadcastFlag: true, PID: uint32(os.Getpid()),
			// The client ID identifies the client to the server, in addition to its MAC.
			ID: clientID(host, iface),
		}}, &dhcp.DHCPClientConfigReply{})
		if vppapi.Refused(err, api.INVALID_VALUE) { // it has one
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("starting a DHCP client on interface %q: %w", iface, err)
	}
	v.look()
	return nil
}

// capable returns an error for an interface without hardware address, on which a client crashes VPP
// 25.10.
func (v *Clients) capable(ctx context.Context, i ownership.Index) error {
	frames, err := v.ifs.CarriesFrames(ctx, i)
	if err == nil && !frames {
		err = vswitch.Unsupported("set_dhcp_client: the interface carries no Ethernet frames: give it ip_addresses")
	}
	return err
}

// clientID returns the stable ID of a client for servers.
func clientID(host, iface string) []byte {
	id := make([]byte, maxHostName+1)
	copy(id[:maxHostName], host+"/"+iface)
	return id
}

// UnsetDHCPClient stops a client. VPP removes address and route, and sends no release.
func (v *Clients) UnsetDHCPClient(ctx context.Context, iface string) error {
	err := v.ifs.OnExisting(ctx, iface, func(i ownership.Index) error {
		err := v.vpp.Call(ctx, dhcpModule, &dhcp.DHCPClientConfig{Client: dhcp.DHCPClient{SwIfIndex: i, ID: clientID("", "")}}, &dhcp.DHCPClientConfigReply{})
		if vppapi.Refused(err, api.INVALID_VALUE) { // it has none
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("ending the DHCP client on interface %q: %w", iface, err)
	}
	v.look()
	return nil
}

// Leases returns the leases of our interfaces.
func (v *Clients) Leases(ctx context.Context) ([]*vpp_interfaces.DHCPLease, error) {
	_, leases, err := v.read(ctx)
	return leases, err
}

// Start starts reading the clients. The returned function waits for the leased address of each
// client, by interface index; the zero Prefix if none.
func (v *Clients) Start(ctx context.Context) (wait func() (map[ownership.Index]netip.Prefix, error)) {
	pending := session.StartDump[dhcp.DHCPClientDetails](ctx, v.vpp, dhcpModule, &dhcp.DHCPClientDump{})
	return func() (map[ownership.Index]netip.Prefix, error) {
		clients, err := session.ByKey(ctx, pending, clientIndex)
		leased := make(map[ownership.Index]netip.Prefix, len(clients))
		for i, d := range clients {
			leased[i] = leasedAddress(d)
		}
		return leased, err
	}
}

func clientIndex(d *dhcp.DHCPClientDetails) ownership.Index { return d.Client.SwIfIndex }

// read returns the number of clients, and the leases on our interfaces.
func (v *Clients) read(ctx context.Context) (n int, list []*vpp_interfaces.DHCPLease, err error) {
	clients, err := session.ByKey(ctx, session.StartDump[dhcp.DHCPClientDetails](ctx, v.vpp, dhcpModule, &dhcp.DHCPClientDump{}),
		clientIndex)
	if err != nil {
		return 0, nil, fmt.Errorf("reading DHCP leases: %w", err)
	}
	for i, d := range clients {
		name, err := v.ifs.Name(ctx, i)
		if err != nil {
			return 0, nil, fmt.Errorf("reading DHCP leases: %w", err)
		}
		if l := describeLease(name, d); l != nil && name != "" {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b *vpp_interfaces.DHCPLease) int {
		return strings.Compare(a.GetInterfaceName(), b.GetInterfaceName())
	})
	return len(clients), list, nil
}

// describeLease returns the lease of a client; nil if none.
func describeLease(iface string, d *dhcp.DHCPClientDetails) *vpp_interfaces.DHCPLease {
	addr := leasedAddress(d)
	if !addr.IsValid() {
		return nil
	}
	l := &vpp_interfaces.DHCPLease{
		InterfaceName: iface, HostName: strings.TrimRight(d.Lease.Hostname, "\x00"), HostPhysAddress: d.Lease.HostMac.String(), HostIpAddress: addr.String(),
	}
	if router := convert.Addr(d.Lease.RouterAddress); !router.IsUnspecified() {
		l.RouterIpAddress = netip.PrefixFrom(router, addr.Bits()).String()
	}
	return l
}

// leasedAddress is the zero Prefix without lease.
func leasedAddress(d *dhcp.DHCPClientDetails) netip.Prefix {
	addr := convert.Addr(d.Lease.HostAddress)
	if d.Lease.State != dhcp.DHCP_CLIENT_STATE_API_BOUND || addr.IsUnspecified() {
		return netip.Prefix{}
	}
	return netip.PrefixFrom(addr, int(d.Lease.MaskWidth))
}
