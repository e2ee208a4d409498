package processor

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/plugins/service/reserved"
)

// PodPort is a host port of a pod.
type PodPort struct {
	// Addr is an address of the pod's node with the port.
	Addr     netip.AddrPort
	Protocol Protocol
	// Pod is "<namespace>/<name>".
	Pod string
	// To is the address and port of the pod.
	To netip.AddrPort
}

// SetPodPorts replaces the host ports of pods, which have precedence over external IPs. It returns
// the changed services.
func (p *Processor) SetPodPorts(list []PodPort) []ID {
	before, next := p.node.podPorts, map[claim]PodPort{}
	for _, port := range list {
		next[claim{port.Addr, port.Protocol}] = port
	}
	requesters := map[ID]bool{}
	for _, ports := range []map[claim]PodPort{before, next} {
		for c := range ports {
			if before[c] != next[c] {
				maps.Copy(requesters, p.requested.external[transport{c.protocol, c.addr.Port()}])
			}
		}
	}
	changed := p.reclaim(requesters, func() { p.node.podPorts = next })
	changed = append(changed, p.leadingTo(changed...)...)
	slices.SortFunc(changed, ID.Compare)
	return slices.Compact(changed)
}

func (n Node) ofPod(kind Kind, at netip.AddrPort, protocol Protocol) (reserved.Entry, bool) {
	port, has := n.podPorts[claim{at, protocol}]
	if kind != ExternalIP || !has {
		return reserved.Entry{}, false
	}
	return reserved.Entry{Protocol: string(protocol), Port: at.Port(), Addr: at.Addr(), Owner: "the host port of pod " + port.Pod}, true
}

// leadsToPodPort reports whether a pod that has an external IP's port is an endpoint of the service.
func (p *Processor) leadsToPodPort(id ID, kind Kind, c claim) bool {
	port, has := p.node.podPorts[c]
	return has && kind == ExternalIP && p.lists(id, port.To, c.protocol)
}
