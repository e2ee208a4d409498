package vpp

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"

	"github.com/contiv/contiv/internal/vswitch/vpp/dhcp"
	"github.com/contiv/contiv/internal/vswitch/vpp/drops"
	"github.com/contiv/contiv/internal/vswitch/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vpp/stats"

	"github.com/contiv/contiv/internal/vswitch/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch/vpp/l3xc"
	"github.com/contiv/contiv/internal/vswitch/vpp/neighbours"
	"github.com/contiv/contiv/internal/vswitch/vpp/proxyarp"
	"github.com/contiv/contiv/internal/vswitch/vpp/punt"
	"github.com/contiv/contiv/internal/vswitch/vpp/routes"
	"github.com/contiv/contiv/internal/vswitch/vpp/span"
	"github.com/contiv/contiv/internal/vswitch/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch/vpp/stn"
	"github.com/contiv/contiv/internal/vswitch/vpp/teib"
	"github.com/contiv/contiv/internal/vswitch/vpp/vrf"
	"github.com/contiv/contiv/internal/vswitch/vpp/wireguard"

	"github.com/contiv/contiv/internal/vswitch/vpp/abf"
	"github.com/contiv/contiv/internal/vswitch/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch/vpp/cnat"
	"github.com/contiv/contiv/internal/vswitch/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/podguard"
	"github.com/contiv/contiv/internal/vswitch/vpp/policies"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/vishvananda/netns"
)

// Options of a VSwitch.
type Options struct {
	// Socket is the path of VPP's API socket; "": /run/vpp/api.sock.
	Socket string
	// StatsSocket is the path of VPP's statistics socket; "": stats.sock next to Socket.
	StatsSocket string
	// XDPDevices lists the devices of VPP's network namespace that it takes over by AF_XDP; others
	// use AF_PACKET.
	XDPDevices []string
	// Lent reports whether another party lends VPP a device of its network namespace and shields
	// the device's packets from the host's stack while VPP forwards; may be nil.
	Lent func(device string) bool
	// Namespaces calls do with each pod network namespace that should have an address; nil:
	// unknown, so connections of pods are not reset.
	Namespaces func(addr netip.Addr, do func(ns netns.NsHandle) error) error
	// TracePackets makes VPP trace the first packets that it receives, for debugging.
	TracePackets bool
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

func (o *Options) setDefaults() {
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.StatsSocket == "" {
		o.StatsSocket = filepath.Join(filepath.Dir(o.Socket), "stats.sock")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
}

// DefaultSocket is VPP's default API socket.
const DefaultSocket = "/run/vpp/api.sock"

// VSwitch is a VPP process, across restarts, as a vswitch: a session and the subsystems that use
// it.
type VSwitch struct {
	vswitch.NoExtras

	vpp *session.Session
	ifs *ownership.Registry
	hub *subsystem.Hub

	interfaces *interfaces.Interfaces
	clients    *dhcp.Clients
	proxies    *dhcp.Proxies
	stats      *stats.Segment
	l2         *l2.L2
	spans      *span.Spans
	routes     *routes.Routes
	neighbours *neighbours.Neighbours
	scans      *neighbours.Scans
	vrfs       *vrf.Tables
	proxyARP   *proxyarp.ProxyARP
	l3xc       *l3xc.CrossConnects
	teibs      *teib.Entries
	acls       *acl.ACLs
	abfs       *abf.ABFs
	nat        *nat.NAT
	services   *cnat.Translations
	srv6       *srv6.SRv6
	stn        *stn.Rules
	punts      *punt.Punts
	peers      *wireguard.Peers
	guards     *podguard.Guards
	policies   *policies.Driver
	drops      *drops.Capture

	closing context.Context // ends with Close
	stop    context.CancelFunc
	ahead   sync.WaitGroup
	close   sync.Once
}

var _ vswitch.VSwitch = (*VSwitch)(nil)

// New connects to VPP, waiting until ctx ends. The caller closes the VSwitch.
func New(ctx context.Context, opts Options) (*VSwitch, error) {
	v := Open(opts)
	if err := v.Ready(ctx); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// Open is New without waiting for VPP. Watch does not report the first connection. The caller
// closes the VSwitch.
func Open(opts Options) *VSwitch {
	opts.setDefaults()
	log := opts.Logger

	vpp := session.New(opts.Socket, log)
	ifs := ownership.New(vpp)
	hub := subsystem.NewHub()
	v := &VSwitch{vpp: vpp, ifs: ifs, hub: hub}
	v.closing, v.stop = context.WithCancel(context.Background())

	// Subsystems precede their users.
	v.stats = stats.New(vpp, opts.StatsSocket, log)
	v.routes = routes.New(vpp, ifs, srv6.IsQuestion)
	v.acls = acl.New(vpp, ifs, v.stats)
	v.drops = drops.New(vpp)
	v.policies = policies.New(v.acls, ifs, v.drops)
	v.clients = dhcp.NewClients(vpp, ifs, hub)
	v.proxies = dhcp.NewProxies(vpp)
	v.guards = podguard.New(vpp, ifs, v.stats, log)
	v.l2 = l2.New(vpp, ifs, v.guards)
	v.spans = span.New(vpp, ifs)
	v.neighbours = neighbours.New(vpp, ifs, hub)
	v.scans = neighbours.NewScans(vpp)
	v.vrfs = vrf.New(vpp)
	v.proxyARP = proxyarp.New(vpp, ifs)
	v.l3xc = l3xc.New(vpp, ifs)
	v.teibs = teib.New(vpp, ifs)
	v.abfs = abf.New(vpp, ifs, v.acls)
	v.nat = nat.New(vpp, ifs)
	v.services = cnat.New(vpp, ifs, v.routes, v.guards, opts.Namespaces, log)
	v.stn = stn.New(vpp, ifs, v.services)
	v.srv6 = srv6.New(vpp, ifs, v.guards.EndsChanged, log)
	v.punts = punt.New(vpp, ifs, v.stn)
	v.peers = wireguard.New(vpp, ifs)
	v.interfaces = interfaces.New(interfaces.Options{
		Session: vpp, Registry: ifs, Hub: hub, Log: log, XDPDevices: opts.XDPDevices, Lent: opts.Lent, Counters: v.stats, Clients: v.clients,
		OnAddress: func(ctx context.Context, i ownership.Index, addr netip.Addr) error {
			return errors.Join(v.stn.AddressAdded(ctx, i, addr), v.guards.AddressAdded(ctx, i, addr))
		},
		OnCreate: []func(context.Context, ownership.Index) error{v.guards.InterfaceCreated, v.policies.InterfaceCreated, v.services.InterfaceCreated},
		OnDelete: []func(context.Context, ownership.Index) error{
			v.guards.InterfaceLeaving, v.l3xc.InterfaceLeaving, v.proxyARP.InterfaceLeaving, v.l2.InterfaceLeaving, v.spans.InterfaceLeaving, v.services.InterfaceLeaving,
		},
		OnTunnels: v.guards.EndsChanged,
	})

	// Interfaces come first, because others depend on their indexes, which a new connection
	// invalidates.
	hub.Add(v.interfaces, v.stats, v.clients, v.proxies, v.l2, v.spans, v.routes, v.neighbours, v.scans, v.vrfs, v.proxyARP, v.l3xc, v.teibs,
		v.acls, v.policies, v.abfs, v.nat, v.services, v.srv6, v.stn, v.punts, v.peers, v.guards, v.drops)
	if opts.TracePackets {
		hub.Add(&tracer{log: log})
	}
	vpp.Start(hub.Hooks())
	return v
}

// Ready waits until VPP has been connected once.
func (v *VSwitch) Ready(ctx context.Context) error { return v.vpp.Ready(ctx) }

// Connected returns nil while VPP is connected, otherwise the reason.
func (v *VSwitch) Connected() error {
	_, err := v.vpp.Link()
	return err
}

// ReadAhead starts slow reads for the first lists of values in the background, once VPP is
// connected.
func (v *VSwitch) ReadAhead() {
	v.ahead.Go(func() {
		if v.Ready(v.closing) == nil {
			v.services.ReadAhead(v.closing)
		}
	})
}

// Close ends the connection; VPP keeps its configuration.
func (v *VSwitch) Close() error {
	v.close.Do(func() {
		v.stop()
		v.ahead.Wait()
		v.vpp.Close()
		v.stats.Close()
	})
	return nil
}

// Watch reports foreign changes of values. After a reconnection it reports, without keys, that
// everything may have changed.
func (v *VSwitch) Watch(ctx context.Context, report func(reason string, keys ...string)) error {
	v.hub.Watch(ctx, v.vpp.Ended, report)
	return nil
}

// Filter returns the port that implements policies by access lists of interfaces.
func (v *VSwitch) Filter() vswitch.Filter { return v.policies }

// Denials returns packets denied by policies; with live, also flows.
func (v *VSwitch) Denials(ctx context.Context, live bool) (policyrules.Denials, error) {
	return v.policies.Denials(ctx, live)
}
