package kernel

import (
	"context"
	"log/slog"
	"sync"
	"time"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/filter"
	"github.com/contiv/contiv/netlink/conntrack"
	"github.com/contiv/contiv/netlink/rtnl"

	"github.com/contiv/contiv/vswitch/kernel/bridges"
	"github.com/contiv/contiv/vswitch/kernel/drift"
	"github.com/contiv/contiv/vswitch/kernel/hostnet"
	"github.com/contiv/contiv/vswitch/kernel/links"
	"github.com/contiv/contiv/vswitch/kernel/neighbours"
	"github.com/contiv/contiv/vswitch/kernel/podguard"
	"github.com/contiv/contiv/vswitch/kernel/redirect"
	"github.com/contiv/contiv/vswitch/kernel/routes"
	"github.com/contiv/contiv/vswitch/kernel/srv6"
	"github.com/contiv/contiv/vswitch/kernel/vrf"

	"github.com/contiv/contiv/vswitch/kernel/acl"
	"github.com/contiv/contiv/vswitch/kernel/nat"

	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/contiv/contiv/vswitch/kernel/policies"

	"github.com/contiv/contiv/vswitch"
)

// Options of a VSwitch. The zero value is usable.
type Options struct {
	// NetNS is the path of the network namespace to work in, such as
	// /var/run/netns/node1. Empty: that of the process.
	NetNS string
	// Established and CloseWait are how long TCP connections that pods open may be silent, and how long they may be
	// half-closed. 0: podguard.DefaultTimeouts.
	Established, CloseWait time.Duration
	// Logger; nil: slog.Default().
	Logger *slog.Logger

	// For tests: how long a DHCP client waits at first, 0: its default; and not to mark
	// addresses.
	dhcpTimeout time.Duration
	noMarks     bool
	// vrfRules: VRFs are policy rules even if the kernel has VRF devices.
	vrfRules bool
}

// VSwitch is the Linux kernel as a vswitch.
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

	receiveBuffer int          // of events, 0: the default
	eventFault    func() error // of tests
	watchers      sync.WaitGroup
	ending        sync.WaitGroup // of connections of former pods, and of clients of former endpoints
	closing       chan struct{}
	close         sync.Once
}

var _ vswitch.VSwitch = (*VSwitch)(nil)

// New prepares the network namespace for forwarding and returns a vswitch that
// works in it; Close it. Nothing else is created or changed.
//
//	own.Host ─┬─> vrf ─┬─> routes ─────────┐
//	          │        ├─> neighbours, srv6 ├─> links ──> bridges
//	          │        └────────────────────┘
//	          └─> nat, acl, policies, redirect, hostnet
//
// Arrows lead to the subsystems that are given the one before them. After the kernel has removed
// dependent objects together with a device or an address, links asks their subsystems to create
// them again.
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
	v.ending.Go(func() { v.nat.ForgetClients(v.closing) })
	return v, nil
}

func (v *VSwitch) open(opts Options) (err error) {
	if err := v.EnableForwarding(); err != nil {
		return err
	}
	if v.vrf, err = vrf.New(v.Host, vrf.Options{Interfaces: restorer{v}, RulesOnly: opts.vrfRules}); err != nil {
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

// subsystems are the parts of the driver that events concern, in the order in which they
// look at them.
func (v *VSwitch) subsystems() []drift.Subsystem {
	return []drift.Subsystem{v.links, v.vrf, v.bridges, v.routes, v.neighbours, v.segments, v.redirect, v.nat, v.acl, v.guards, v.policies, v.host}
}

// Warnings says which settings of the host keep pods from being reached, and what to do
// about it.
func (v *VSwitch) Warnings(ctx context.Context) ([]string, error) { return v.host.Warnings(ctx) }

// NATSessionsByProtocol counts the connections that the kernel translates to other destinations.
func (v *VSwitch) NATSessionsByProtocol(ctx context.Context) (tcp, other uint64, err error) {
	return v.nat.Sessions(ctx)
}

// enabler lets routes enable devices.
type enabler struct{ v *VSwitch }

func (e enabler) EnableDevice(iface string) bool { return e.v.links.EnableDevice(iface) }

// restorer lets VRFs restore what devices lose.
type restorer struct{ v *VSwitch }

func (r restorer) RestoreInterface(iface string, index int) error {
	return r.v.links.RestoreInterface(iface, index)
}

// ReadAhead reads in the background what takes long, for the first time that the values of it are listed.
func (v *VSwitch) ReadAhead() { v.watchers.Go(v.nat.ReadAhead) }

// Close ends Watch, DHCP clients and connections of former pods, and releases resources; what is configured stays.
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

// Capabilities: pods' interfaces are in the node's own stack, and in its main table.
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

// Filter is the driver of policies.
func (v *VSwitch) Filter() vswitch.Filter { return v.policies }

// Denials reads what was denied. It is bounded, whatever pods send.
func (v *VSwitch) Denials(ctx context.Context, live bool) (filter.Denials, error) {
	return v.policies.Denials(ctx, live)
}
