package nodesync

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
)

// Host describes a machine's network stack, of which other nodes see only the addresses in
// Kubernetes and of the vswitch. It is immutable.
type Host struct {
	// Addresses of the network devices that Contiv did not make, sorted and unique.
	Addresses []netip.Addr
	// InUse lists the ports at which the machine receives from any peer, sorted by port and unique.
	InUse []Socket
}

// Socket is a port at which a process or the kernel of a node receives from any peer.
type Socket struct {
	// Protocol is "TCP", "UDP" or "SCTP".
	Protocol string
	// An unspecified Addr stands for all addresses of the IP version.
	Addr netip.Addr
	Port uint16
}

// Bounds of a Host, in records of other nodes, too. They exceed what machines have. Lower addresses
// and ports are preferred.
const (
	maxHostAddresses = 128
	maxPortsInUse    = 512
)

// HostPeriod is the period of WatchHost in agents.
const HostPeriod = 5 * time.Second

// NewHost returns what other nodes need to know of a machine. It leaves out addresses and sockets
// that other machines cannot reach.
func NewHost(addresses []netip.Addr, inUse []Socket) Host {
	h := Host{}
	for _, addr := range addresses {
		if addr = addr.Unmap().WithZone(""); reachable(addr) && !addr.IsUnspecified() {
			h.Addresses = append(h.Addresses, addr)
		}
	}
	for _, s := range inUse {
		if s.Addr = s.Addr.Unmap().WithZone(""); reachable(s.Addr) && s.Port > 0 {
			h.InUse = append(h.InUse, s)
		}
	}
	slices.SortFunc(h.Addresses, netip.Addr.Compare)
	slices.SortFunc(h.InUse, Socket.Compare)
	h.Addresses, h.InUse = slices.Compact(h.Addresses), slices.Compact(h.InUse)
	h.Addresses, h.InUse = h.Addresses[:min(len(h.Addresses), maxHostAddresses)], h.InUse[:min(len(h.InUse), maxPortsInUse)]
	return h
}

func reachable(addr netip.Addr) bool {
	return addr.IsValid() && !addr.IsLoopback() && !addr.IsLinkLocalUnicast() && !addr.IsMulticast()
}

func (h Host) equal(o Host) bool {
	return slices.Equal(h.Addresses, o.Addresses) && slices.Equal(h.InUse, o.InUse)
}

// Compare sorts by port, protocol and address.
func (s Socket) Compare(o Socket) int {
	return cmp.Or(cmp.Compare(s.Port, o.Port), cmp.Compare(s.Protocol, o.Protocol), s.Addr.Compare(o.Addr))
}

func (s Socket) String() string {
	return netip.AddrPortFrom(s.Addr, s.Port).String() + "/" + s.Protocol
}

var protocolNames = []string{"TCP", "UDP", "SCTP"}

func parseSocket(text string) (s Socket, ok bool) {
	at, protocol, _ := strings.Cut(text, "/")
	addr, err := netip.ParseAddrPort(at)
	i := slices.Index(protocolNames, protocol)
	if err != nil || i < 0 {
		return s, false
	}
	return Socket{Protocol: protocolNames[i], Addr: addr.Addr(), Port: addr.Port()}, true
}

// hostOf returns the valid entries of a VppNode, which another node may have written.
func hostOf(v *vppnode.VppNode) Host {
	var addresses []netip.Addr
	for _, text := range v.GetHostAddresses() {
		if addr, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, addr)
		}
	}
	var inUse []Socket
	for _, text := range v.GetPortsInUse() {
		if s, ok := parseSocket(text); ok {
			inUse = append(inUse, s)
		}
	}
	return NewHost(addresses, inUse)
}

func (h Host) publish(v *vppnode.VppNode) {
	for _, addr := range h.Addresses {
		v.HostAddresses = append(v.HostAddresses, addr.String())
	}
	for _, s := range h.InUse {
		v.PortsInUse = append(v.PortsInUse, s.String())
	}
}

// HostChange reports a change of this machine's addresses, or of its ports in use.
type HostChange struct {
	controller.NonBlocking
	Host Host
}

func (*HostChange) Name() string                                { return "Host Change" }
func (*HostChange) Method() controller.EventMethod              { return controller.Update }
func (*HostChange) TransactionType() controller.TransactionType { return controller.BestEffort }
func (*HostChange) Direction() controller.Direction             { return controller.Forward }
func (e *HostChange) String() string {
	return fmt.Sprintf("Host Change: this machine has the addresses %v, and %d ports in use", e.Host.Addresses, len(e.Host.InUse))
}

// WatchHost publishes the machine's addresses and ports in use until ctx ends. A change is published
// if two readings in a row agree, so that short-lived sockets cause no writes.
func (n *NodeSync) WatchHost(ctx context.Context, period time.Duration) {
	if n.self.Host == nil {
		return
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for before, first := (Host{}), true; ; first = false {
		now, err := n.self.Host()
		if err != nil {
			n.log.Debug("The addresses and ports of this machine cannot be read: other nodes know earlier ones", "error", err)
		}
		if err == nil && (first || now.equal(before)) && !n.knows(now) {
			if err := n.loop.PushEvent(ctx, &HostChange{Host: now}); err != nil {
				n.log.Debug("Publishing the addresses of this machine failed, retrying", "error", err)
			}
		}
		if err == nil {
			before = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (n *NodeSync) knows(h Host) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	own := n.nodes[n.nodeName]
	return own != nil && own.ID != 0 && own.Host.equal(h)
}

func (n *NodeSync) hostChanged(ctx context.Context, h Host) (string, error) {
	n.mu.Lock()
	own := n.nodes[n.nodeName]
	if own == nil || own.ID == 0 || own.Host.equal(h) { // without an ID, WatchHost retries
		n.mu.Unlock()
		return "", nil
	}
	next := *own
	next.Host = h
	n.replace(&next)
	n.mu.Unlock()
	if err := n.loop.PushEvent(ctx, &NodeUpdate{NodeName: n.nodeName, PrevState: own, NewState: &next}); err != nil {
		return "", fmt.Errorf("announce the addresses of this machine: %w", err)
	}
	for _, update := range n.recompute(ctx) { // another node may publish an address of this machine
		if err := n.loop.PushEvent(ctx, update); err != nil {
			return "", fmt.Errorf("announce the update of node %s: %w", update.NodeName, err)
		}
	}
	const what = "publish the addresses and ports of this machine"
	if !n.identified || n.failures > 0 { // PublishNodeIPs comes first
		return what, nil
	}
	return what, n.store(ctx, next.vppNode())
}
