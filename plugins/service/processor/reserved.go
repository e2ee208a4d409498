package processor

import (
	"net/netip"
	"slices"
)

// Anybody who may create services may write any external IP. Those that would lead connections to pods to somebody else are
// nobody's, and so are those that the vswitch cannot translate.

func (n Node) ofHost(addr netip.Addr) bool { return slices.Contains(n.Host, addr) }

func (n Node) ofPods(addr netip.Addr) bool {
	return slices.ContainsFunc(n.PodNetworks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// AsksForHost reports whether a service asks for an address of Node.Host.
func (p *Processor) AsksForHost(id ID) bool { return p.asksFor(id, p.node.ofHost) }

// AsksForPods reports whether a service asks for an address of Node.PodNetworks.
func (p *Processor) AsksForPods(id ID) bool { return p.asksFor(id, p.node.ofPods) }

func (p *Processor) asksFor(id ID, reserved func(netip.Addr) bool) bool {
	svc := p.services[id]
	asked := slices.Clone(svc.GetExternalIps())
	if svc.GetServiceType() == "LoadBalancer" {
		asked = append(asked, svc.GetLbIngressIps()...)
	}
	return slices.ContainsFunc(asked, func(text string) bool {
		addr, err := netip.ParseAddr(text)
		return err == nil && reserved(addr.Unmap())
	})
}
