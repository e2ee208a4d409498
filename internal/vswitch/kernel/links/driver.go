package links

import (
	"time"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/internal/vswitch/kernel/vrf"
)

// Driver configures the interfaces of one network namespace.
type Driver struct {
	*own.Host
	vrf        *vrf.Driver
	routes     Routes
	neighbours Neighbours
	segments   Segments
	guards     Guards

	dhcp    *dhcpClients
	reports vswitch.StateReports
	marks   bool
	// movedFrom holds the VXLAN device of a deleted tunnel, by the tunnel's name, while that device
	// exists.
	movedFrom map[string]own.VXLANID
}

// Options configures a Driver.
type Options struct {
	VRFs       *vrf.Driver
	Routes     Routes
	Neighbours Neighbours
	Segments   Segments
	Guards     Guards
	// MarksAddresses: the kernel stores the protocol of addresses.
	MarksAddresses bool
	// DHCPTimeout is the first retransmission timeout of DHCP clients; 0: their default.
	DHCPTimeout time.Duration
}

// Routes restores the registered routes that were lost with a device or its addresses.
type Routes interface {
	RestoreRoutes(iface string, index int) error
	RestoreL3XConnects(iface string) error
	// ResolveRoutes restores the routes with a device chosen by the kernel.
	ResolveRoutes() error
}

// Neighbours restores registered neighbours.
type Neighbours interface {
	RestoreNeighbours(iface string, index int) error
	RestoreProxyARP(iface string, index int) error
}

// Segments restores registered segments.
type Segments interface {
	RestoreSegments(iface string) error
}

// Guards restricts the packets of tunnels to their peers.
type Guards interface {
	PermitTunnel(own.Tunnel) error
	ForbidTunnel(own.Tunnel) error
	// Tunnels returns the permitted tunnels.
	Tunnels() (map[own.Tunnel]bool, error)
}

// New returns a Driver. The caller stops it.
func New(host *own.Host, opts Options) *Driver {
	v := &Driver{
		Host: host, vrf: opts.VRFs, routes: opts.Routes, neighbours: opts.Neighbours, segments: opts.Segments, guards: opts.Guards,
		dhcp: newDHCPClients(), marks: opts.MarksAddresses, movedFrom: map[string]own.VXLANID{},
	}
	v.dhcp.firstTimeout = opts.DHCPTimeout
	return v
}

// Stop ends the DHCP clients. Leases stay in use.
func (v *Driver) Stop() { v.dhcp.stop() }
