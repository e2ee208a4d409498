package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

// redirected returns the connection that the vswitch sees if the host redirects one, and otherwise
// explains why the host does not.
func (x *explainer) redirected(e *Explanation, c Connection) (there Connection, ok bool) {
	if c.Port == 0 || !x.proxy.Translates() || !x.node.HasOwnStack() || !x.passesHost(c) {
		return c, false
	}
	key, f := x.proxy.Redirect(netip.AddrPortFrom(c.To, c.Port), c.Protocol)
	if f == nil {
		x.explainHost(e, c)
		return c, false
	}
	there = c
	there.To, _ = netip.ParseAddr(f.GetToAddress())
	there.Port = uint16(cmp.Or(f.GetToPort(), f.GetPort()))
	there.From, _ = netip.ParseAddr(f.GetSourceAddress())
	if slices.Contains(x.node.AllAddresses(), c.From) {
		there.From = x.processes(c.To.Is6())
	}
	e.Seen = there.From
	e.Way = append(e.Way, fmt.Sprintf("%s is at an address of the host: its kernel sends connections to %v, where VPP sees %v as the client (`contivctl explain %s`)",
		c.target(), netip.AddrPortFrom(there.To, there.Port), there.From, key))
	x.wantConfigured(e, c.target()+" is not redirected as it should be", key)
	return there, true
}

// passesHost reports whether the host receives a connection before the vswitch: from its own
// processes, to an address that only the host has, or from outside without a shared card. Packets
// of local pods enter the vswitch first.
func (x *explainer) passesHost(c Connection) bool {
	own := x.node.AllAddresses()
	switch {
	case slices.Contains(own, c.From), slices.Contains(own, c.To) && !slices.Contains(x.node.OpenAddresses(), c.To):
		return true
	}
	return !x.node.SharesCard() && !x.isInside(c.From)
}

func (x *explainer) processes(ipv6 bool) netip.Addr {
	if x.node.SharesCard() {
		return first(localnode.OfVersion(x.node.OpenAddresses(), ipv6))
	}
	return x.node.HostAddress(ipv6)
}

func first(addresses []netip.Addr) (a netip.Addr) {
	if len(addresses) > 0 {
		a = addresses[0]
	}
	return a
}

func (x *explainer) explainHost(e *Explanation, c Connection) {
	if !slices.Contains(x.node.AllAddresses(), c.To) || slices.Contains(x.node.OpenAddresses(), c.To) {
		return
	}
	id, f, found := x.nodePort(c)
	if !found {
		e.Way = append(e.Way, fmt.Sprintf("%s is at an address of the host, and the node port of no service: it is the host's own, and does not pass VPP", c.target()))
		return
	}
	name := fmt.Sprintf("%s (NodePort of service %v, at an address of the host)", c.target(), id)
	switch translator := x.proxy.OtherProxies.OnHost(); {
	case !slices.Contains(x.node.ListeningAddresses(), c.To):
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s is not sent to VPP: nodePortAddresses in service.conf leaves the address out", name))
	case translator != "":
		e.Way = append(e.Way, fmt.Sprintf("%s is not sent to VPP: it is left to another proxy on the host: found %s", name, translator))
	case !x.proxy.Entrances.NodePorts(c.To.Is6()).To.IsValid():
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s is not sent to VPP: the part of vppHostSubnetCIDR that is this node's has no address for its clients: give it more room with a smaller vppHostSubnetOneNodePrefixLen", name))
	case f.Drop:
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s has no endpoint on this node (externalTrafficPolicy: Local), so that it is left to the host, which refuses clients unless something listens there; `contivctl services %v` says why", name, id))
	case len(f.Outside) == 0:
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s has no endpoint, so that it is left to the host, which refuses clients unless something listens there; `contivctl services %v` says why", name, id))
	default:
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s is not sent to VPP", name))
	}
}

func (x *explainer) nodePort(c Connection) (id processor.ID, f processor.Frontend, found bool) {
	for _, addr := range x.proxy.Entrances.NodePortAddresses() {
		if addr.Is6() != c.To.Is6() {
			continue
		}
		for _, svc := range x.proxy.Services.At(addr) {
			for _, f := range svc.Frontends {
				if f.Kind == processor.NodePort && f.Addr == netip.AddrPortFrom(addr, c.Port) && f.Protocol == c.Protocol {
					return svc.ID, f, true
				}
			}
		}
	}
	return id, f, false
}
