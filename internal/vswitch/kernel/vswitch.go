package kernel

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/policyrules"

	"github.com/contiv/contiv/internal/vswitch/kernel/bridges"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/internal/vswitch/kernel/hostnet"
	"github.com/contiv/contiv/internal/vswitch/kernel/links"
	"github.com/contiv/contiv/internal/vswitch/kernel/neighbours"
	"github.com/contiv/contiv/internal/vswitch/kernel/podguard"
	"github.com/contiv/contiv/internal/vswitch/kernel/redirect"
	"github.com/contiv/contiv/internal/vswitch/kernel/routes"
	"github.com/contiv/contiv/internal/vswitch/kernel/srv6"
	"github.com/contiv/contiv/internal/vswitch/kernel/vrf"

	"github.com/contiv/contiv/internal/vswitch/kernel/acl"
	"github.com/contiv/contiv/internal/vswitch/kernel/nat"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/internal/vswitch/kernel/policies"

	"github.com/contiv/contiv/internal/vswitch"
)

// Options configures a VSwitch. The zero value is usable.
type Options struct {
	// NetNS is the path of the network namespace, such as /var/run/netns/node1. Empty: the
	// process's own.
	NetNS string
	// Established and CloseWait are the idle timeouts of established and half-closed TCP
	// connections that pods open. 0: podguard.DefaultTimeouts.
	Established, CloseWait time.Duration
	// Logger defaults to slog.Default().
	Logger *slog.Logger

	// For tests: the first retransmission timeout of DHCP clients (0: default), and whether to leave
	// addresses unmarked.
	dhcpTimeout time.Duration
	noMarks     bool
}

// VSwitch implements vswitch.VSwitch with the Linux kernel.
type VSwitch struct {
	vswitch.NoExtras
	*own.Host

	vrf        *vrf.Driver
	routes     *routes.Driver
	neighbours *neighbours.Driver
	segments   *srv6.Driver
	links      *links.Driver
	bridges    *bridges.Driver
	redirect   *redirect.Driver
	nat        *nat.Driver
	acl        *acl.Driver
	guards     *podguard.Guards
	policies   *policies.Driver
	host       *hostnet.Driver

	receiveBuffer int
	eventFault    func() error
	watchers      sync.WaitGroup
	ending        sync.WaitGroup // of connections of former pods
	closing       chan struct{}
	close         sync.Once
}

var _ vswitch.VSwitch = (*VSwitch)(nil)

// New prepares the network namespace for forwarding and returns a vswitch for it. The caller closes
// it.
//
//	own.Host ─┬─> vrf ─┬─> routes ─────────┐
//	          │        ├─> neighbours, srv6 ├─> links ──> bridges
//	          │        └────────────────────┘
//	          └─> nat, acl, policies, redirect, hostnet
//
// An arrow leads from a subsystem to its users. When the kernel removes a device or an address
// together with dependent objects, links asks their subsystems to recreate them.
func New(opts Options) (*VSwitch, error) {
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	host, err := own.Open(opts.NetNS, opts.Logger)
	if err != nil {
		return nil, err
	}
	v := &VSwitch{Host: host, closing: make(chan struct{})}
	if err := v.open(opts); err != nil {
		host.Close()
		return nil, err
	}
	v.ending.Go(func() { v.guards.EndConnections(v.closing) })
	v.ending.Go(func() { v.guards.FollowNeighbours(v.closing) })
	return v, nil
}

func (v *VSwitch) open(opts Options) (err error) {
	if err := v.EnableForwarding(); err != nil {
		return err
	}
	if v.vrf, err = vrf.New(v.Host, restorer{v}); err != nil {
		return err
	}
	marks, err := rtnl.StoresAddressProtocol()
	if err != nil {
		return err
	}
	marks = marks && !opts.noMarks
	if !marks {
		v.Log.Warn("this kernel cannot mark addresses (IFA_PROTO, Linux 5.18): after a restart, addresses that are no " +
			"longer wanted stay, and unnumbered interfaces are set again; use a newer kernel")
	}
	v.routes = routes.New(v.Host, v.vrf, enabler{v})
	v.neighbours = neighbours.New(v.Host)
	v.segments = srv6.New(v.Host)
	v.guards = podguard.New(v.Host, podguard.Timeouts{Established: opts.Established, CloseWait: opts.CloseWait})
	v.links = links.New(v.Host, links.Options{
		Guards: v.guards,
		VRFs:   v.vrf, Routes: v.routes, Neighbours: v.neighbours, Segments: v.segments,
		MarksAddresses: marks, DHCPTimeout: opts.dhcpTimeout,
	})
	v.bridges = bridges.New(v.Host)
	v.redirect = redirect.New(v.Host)
	v.nat, v.acl = nat.New(v.Host), acl.New(v.Host)
	v.policies = policies.New(v.NFT, func(mask uint32, stale func(uint32) bool) error {
		return conntrack.ClearMarks(v.NS.Handle, mask, stale)
	}, v.Log)
	v.host, err = hostnet.New(v.Host)
	return err
}

func (v *VSwitch) subsystems() []drift.Subsystem {
	return []drift.Subsystem{v.links, v.vrf, v.bridges, v.routes, v.neighbours, v.segments, v.redirect, v.nat, v.acl, v.guards, v.policies, v.host}
}

// Warnings returns the host settings that make pods unreachable, with their remedies.
func (v *VSwitch) Warnings(ctx context.Context) ([]string, error) { return v.host.Warnings(ctx) }

// NATSessionsByProtocol counts the connections with a translated destination.
func (v *VSwitch) NATSessionsByProtocol(ctx context.Context) (tcp, other uint64, err error) {
	return v.nat.Sessions(ctx)
}

// ClientsNotRemembered counts connections to services with session affinity whose clients have no
// place among those that the kernel remembers.
func (v *VSwitch) ClientsNotRemembered(ctx context.Context) (uint64, error) {
	return v.nat.ClientsNotRemembered(ctx)
}

type enabler struct{ v *VSwitch }

func (e enabler) EnableDevice(iface string) bool { return e.v.links.EnableDevice(iface) }

type restorer struct{ v *VSwitch }

func (r restorer) RestoreInterface(iface string, index int) error {
	return r.v.links.RestoreInterface(iface, index)
}

// ReadAhead starts reading slow state in the background, for the first List of its values.
func (v *VSwitch) ReadAhead() { v.watchers.Go(v.nat.ReadAhead) }

// Close stops Watch and DHCP clients, ends background work and releases resources. The
// configuration stays.
func (v *VSwitch) Close() error {
	v.close.Do(func() {
		close(v.closing)
		v.links.Stop()
		v.watchers.Wait()
		v.ending.Wait()
		v.Host.Close()
	})
	return nil
}

// Capabilities: pod interfaces are in the node's own stack and main table.
func (v *VSwitch) Capabilities() vswitch.Capabilities {
	return vswitch.Capabilities{HostStackShared: true, MultipleVRFs: false, IPv6SourceNAT: true, IPv6DNAT: true, ClientScopes: true, ResetsConnections: true, TAPs: true, SourceGuards: true, ConnectionLimits: true, Filter: true,
		SegmentRouting: v.segments.Supported()}
}

func (v *VSwitch) Interfaces() vswitch.Interfaces { return v.links.InterfacePort() }
func (v *VSwitch) Bridges() vswitch.Bridges       { return v.bridges.BridgePort() }
func (v *VSwitch) FIB() vswitch.FIB               { return v.bridges.FIBPort() }
func (v *VSwitch) Routes() vswitch.Routes         { return v.routes.RoutePort() }
func (v *VSwitch) Neighbours() vswitch.Neighbours { return v.neighbours.NeighbourPort() }
func (v *VSwitch) VRFs() vswitch.VRFs             { return v.vrf.VRFPort() }
func (v *VSwitch) NAT() vswitch.NAT               { return v.nat.NAT44() }
func (v *VSwitch) NAT66() vswitch.NAT66           { return v.nat.SourceNAT66() }
func (v *VSwitch) DNAT66() vswitch.DNAT66         { return v.nat.DestinationNAT66() }
func (v *VSwitch) ServiceNetworks() vswitch.Values[*contiv_nat.ServiceNetwork] {
	return v.nat.ServiceNetworks()
}
func (v *VSwitch) ACLs() vswitch.ACLs                 { return v.acl.AccessLists() }
func (v *VSwitch) SourceGuards() vswitch.SourceGuards { return v.guards }

// GuardNeighbours sets the networks of all pods of the cluster. Where routes of the vswitch lead to
// subnets of them by a network card, only the next hop may send with addresses of these subnets.
func (v *VSwitch) GuardNeighbours(networks []netip.Prefix) { v.guards.GuardNeighbours(networks) }

// Filter returns the policy driver.
func (v *VSwitch) Filter() vswitch.Filter { return v.policies }

// Denials returns the denied traffic. Its size is bounded.
func (v *VSwitch) Denials(ctx context.Context, live bool) (policyrules.Denials, error) {
	return v.policies.Denials(ctx, live)
}
