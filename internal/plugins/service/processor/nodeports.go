package processor

import (
	"net/netip"

	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/service/reserved"
)

// A node port of a service is open on all nodes. This node translates only its own addresses, so an
// external or load balancer's IP that is the address of another node would take the node port there
// from clients of this node. It is refused, whatever the addresses at which the other node opens
// node ports.

func (n Node) nodePortOfOther(own ID, kind Kind, at netip.AddrPort, protocol Protocol) (reserved.Entry, bool) {
	if n.requested == nil || kind != ExternalIP && kind != LoadBalancer || !n.Reserved.OfNode(at.Addr()) {
		return reserved.Entry{}, false
	}
	owner, has := n.requested.nodePortOf(own, transport{protocol, at.Port()})
	if !has {
		return reserved.Entry{}, false
	}
	return reserved.Entry{Protocol: string(protocol), Port: at.Port(), Addr: at.Addr(), Owner: "the node port of service " + owner.String()}, true
}

// nodePortOf returns the service with a node port, the first by name of several. It returns false if own
// has the node port.
func (r *requestedPorts) nodePortOf(own ID, t transport) (owner ID, has bool) {
	ids := r.nodePorts[t]
	if ids[own] {
		return ID{}, false
	}
	for id := range ids {
		if !has || id.Compare(owner) < 0 {
			owner, has = id, true
		}
	}
	return owner, has
}

// requesters returns the other services that request external or load balancer IPs at the node ports of any
// of the versions of a service.
func (r *requestedPorts) requesters(own ID, versions ...*service.Service) map[ID]bool {
	ids := map[ID]bool{}
	for _, svc := range versions {
		for _, port := range svc.GetPort() {
			for id := range r.external[transport{protocolOf(port.GetProtocol()), uint16(port.GetNodePort())}] {
				if id != own {
					ids[id] = true
				}
			}
		}
	}
	return ids
}
