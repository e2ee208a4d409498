package vpp

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch"
)

// Options of a VSwitch.
type Options struct {
	// Socket is the path of VPP's API socket; "": /run/vpp/api.sock.
	Socket string
	// StatsSocket is the path of the socket of VPP's statistics; "": stats.sock beside
	// Socket.
	StatsSocket string
	// XDPDevices are the devices of VPP's network namespace that it takes over by AF_XDP
	// when they are asked for as existing network cards; others by AF_PACKET.
	XDPDevices []string
	// TracePackets makes VPP trace the first packets that it receives, for debugging.
	TracePackets bool
	// Logger; nil: slog.Default().
	Logger *slog.Logger
}

// DefaultSocket is where VPP listens for API clients if it is not told otherwise.
const DefaultSocket = "/run/vpp/api.sock"

// VSwitch is a VPP process as a vswitch, and the ones that follow it.
type VSwitch struct {
	vswitch.NoExtras

	log     *slog.Logger
	session *session
	stats   statsSegment
	ifs     *ifIndex

	xdpDevices []string
	traced     bool

	events   *ifEvents
	states   vswitch.StateReports
	leases   *dhcpLeases
	sr       srLock
	nextHops nextHops
	abfMu    sync.Mutex
	aclIDs   aclIDs
	nat      natNotes
	cnat     cnatNotes

	neighbours neighbourNotes

	mu       sync.Mutex
	watchers map[*mailbox]struct{} // told what somebody else has changed

	close sync.Once
}

var _ vswitch.VSwitch = (*VSwitch)(nil)

// New connects to VPP; it waits for it until ctx ends. Close the VSwitch.
func New(ctx context.Context, opts Options) (*VSwitch, error) {
	v := Open(opts)
	if err := v.Ready(ctx); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// Open is New without waiting for VPP. That VPP is there for the first time is no
// change that Watch reports. Close the VSwitch.
func Open(opts Options) *VSwitch {
	v := &VSwitch{log: opts.Logger, xdpDevices: opts.XDPDevices, traced: opts.TracePackets, watchers: map[*mailbox]struct{}{}, events: newIfEvents(), leases: newDHCPLeases()}
	if v.log == nil {
		v.log = slog.Default()
	}
	if opts.Socket == "" {
		opts.Socket = DefaultSocket
	}
	if opts.StatsSocket == "" {
		opts.StatsSocket = filepath.Join(filepath.Dir(opts.Socket), "stats.sock")
	}
	v.stats.socket = opts.StatsSocket
	v.session = newSession(opts.Socket, v.log)
	v.ifs = newIfIndex(v)
	v.nat = newNATNotes()
	v.WatchLeases(func(iface string, _ *vpp_interfaces.DHCPLease) { v.addressesChanged(iface) })
	v.session.opened = v.opened
	v.session.changed = v.everythingChanged
	v.session.beside = []func(context.Context){v.watchInterfaces, v.watchLeases, v.askForNextHops}
	v.session.start()
	return v
}

// Ready waits until VPP has been there for the first time.
func (v *VSwitch) Ready(ctx context.Context) error { return v.session.ready(ctx) }

// Connected returns nil while VPP is connected to, else why it is not.
func (v *VSwitch) Connected() error {
	_, err := v.session.link()
	return err
}

// opened prepares a new connection: what was known of VPP may not be true any more.
func (v *VSwitch) opened(ctx context.Context, l *link) error {
	v.ifs.forget()
	v.setCNATOn(false)
	v.stats.forget()
	if err := errors.Join(v.subscribe(ctx, l), v.subscribeLeases(l), v.subscribeNeighbours(ctx, l)); err != nil {
		return err
	}
	v.tracePackets(ctx, l)
	return v.prepareACLs(ctx, l)
}

// Close ends the connection; VPP goes on as it is configured.
func (v *VSwitch) Close() error {
	v.close.Do(func() {
		v.session.close()
		v.stats.forget()
	})
	return nil
}

// Capabilities: VPP has a stack of its own, and tables; it cannot do NAT66, see there. It
// makes TAPs through the machine's vhost-net.
func (v *VSwitch) Capabilities() vswitch.Capabilities {
	return vswitch.Capabilities{HostStackShared: false, MultipleVRFs: true, IPv6SourceNAT: false, IPv6DNAT: true, TAPs: vhostNet()}
}

// vhostNet tells if the machine, which is also VPP's, has what VPP needs for TAPs. To
// open it loads the kernel's module.
func vhostNet() bool {
	f, err := os.OpenFile("/dev/vhost-net", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}
