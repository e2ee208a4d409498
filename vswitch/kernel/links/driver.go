package links

import (
	"time"

	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/contiv/contiv/vswitch/kernel/vrf"
)

// Driver is the interfaces of one network namespace.
type Driver struct {
	*own.Host
	vrf        *vrf.Driver
	routes     Routes
	neighbours Neighbours
	segments   Segments
	guards     Guards

	dhcp    *dhcpClients
	reports vswitch.StateReports
	marks   bool // the kernel stores the protocol of addresses
	// movedFrom has the VXLAN device that a deleted tunnel was on, by the tunnel's name, while that device exists.
	movedFrom map[string]own.VXLANID
}

// Options of a Driver.
type Options struct {
	VRFs       *vrf.Driver
	Routes     Routes
	Neighbours Neighbours
	Segments   Segments
	Guards     Guards
	// MarksAddresses: the kernel stores the protocol of addresses.
	MarksAddresses bool
	// DHCPTimeout is how long DHCP clients wait for a first answer, 0: their default.
	DHCPTimeout time.Duration
}

// Routes makes again what went along with a device or its addresses, as far as it
// exists according to the registry.
type Routes interface {
	RestoreRoutes(iface string, index int) error
	RestoreL3XConnects(iface string) error
	// ResolveRoutes makes the routes again whose device is for the kernel to find.
	ResolveRoutes() error
}

// Neighbours does likewise.
type Neighbours interface {
	RestoreNeighbours(iface string, index int) error
	RestoreProxyARP(iface string, index int) error
}

// Segments does likewise.
type Segments interface {
	RestoreSegments(iface string) error
}

// Guards takes packets of tunnels from their other end only.
type Guards interface {
	PermitTunnel(own.Tunnel) error
	ForbidTunnel(own.Tunnel) error
	// Tunnels returns those that are permitted.
	Tunnels() (map[own.Tunnel]bool, error)
}

// New returns a Driver; Stop it.
func New(host *own.Host, opts Options) *Driver {
	v := &Driver{
		Host: host, vrf: opts.VRFs, routes: opts.Routes, neighbours: opts.Neighbours, segments: opts.Segments, guards: opts.Guards,
		dhcp: newDHCPClients(), marks: opts.MarksAddresses, movedFrom: map[string]own.VXLANID{},
	}
	v.dhcp.firstTimeout = opts.DHCPTimeout
	return v
}

// Stop ends the DHCP clients; what is leased stays in use.
func (v *Driver) Stop() { v.dhcp.stop() }
