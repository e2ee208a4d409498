package service

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/plugins/service/processor"
)

func (s *Service) redirectOf(c Connection) (key string, f *contiv_nat.HostRedirect_Frontend) {
	for key, value := range s.rendered {
		r, is := value.(*contiv_nat.HostRedirect)
		if !is {
			continue
		}
		for _, f := range r.GetFrontends() {
			if f.GetAddress() == c.To.String() && f.GetPort() == uint32(c.Port) && f.GetProtocol() == redirectProtocols[c.Protocol] {
				return key, f
			}
		}
	}
	return "", nil
}

// redirected returns the connection that the vswitch sees if the host redirects one, and otherwise
// explains why the host does not.
func (s *Service) redirected(e *Explanation, c Connection) (there Connection, ok bool) {
	if c.Port == 0 || !s.translates() || !s.ownStack() || !s.passesHost(c) {
		return c, false
	}
	key, f := s.redirectOf(c)
	if f == nil {
		s.explainHost(e, c)
		return c, false
	}
	there = c
	there.To, _ = netip.ParseAddr(f.GetToAddress())
	there.Port = uint16(cmp.Or(f.GetToPort(), f.GetPort()))
	there.From, _ = netip.ParseAddr(f.GetSourceAddress())
	if slices.Contains(s.self.ownAddresses(), c.From) {
		there.From = s.processes(c.To.Is6())
	}
	e.Seen = there.From
	e.Way = append(e.Way, fmt.Sprintf("%s is at an address of the host: its kernel sends connections to %v, where VPP sees %v as the client (`contivctl explain %s`)",
		c.target(), netip.AddrPortFrom(there.To, there.Port), there.From, key))
	s.wantConfigured(e, c.target()+" is not redirected as it should be", key)
	return there, true
}

// passesHost reports whether the host receives a connection before the vswitch: from its own
// processes, to an address that only the host has, or from outside without a shared card. Packets
// of local pods enter the vswitch first.
func (s *Service) passesHost(c Connection) bool {
	own := s.self.ownAddresses()
	switch {
	case slices.Contains(own, c.From), slices.Contains(own, c.To) && !slices.Contains(s.openAddresses(), c.To):
		return true
	}
	return s.config.Resolved().Stolen == nil && !s.isInside(c.From)
}

func (s *Service) processes(ipv6 bool) netip.Addr {
	if s.config.Resolved().Stolen != nil {
		return first(ofVersion(s.openAddresses(), ipv6))
	}
	return s.self.host(ipv6)
}

func first(addresses []netip.Addr) (a netip.Addr) {
	if len(addresses) > 0 {
		a = addresses[0]
	}
	return a
}

func (s *Service) explainHost(e *Explanation, c Connection) {
	if !slices.Contains(s.self.ownAddresses(), c.To) || slices.Contains(s.openAddresses(), c.To) {
		return
	}
	id, f, found := s.nodePort(c)
	if !found {
		e.Way = append(e.Way, fmt.Sprintf("%s is at an address of the host, and the node port of no service: it is the host's own, and does not pass VPP", c.target()))
		return
	}
	name := fmt.Sprintf("%s (NodePort of service %v, at an address of the host)", c.target(), id)
	switch translator, _ := s.hostDetector.last(); {
	case !slices.Contains(s.listeningAddresses(), c.To):
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s is not sent to VPP: nodePortAddresses in service.conf leaves the address out", name))
	case translator != "":
		e.Way = append(e.Way, fmt.Sprintf("%s is not sent to VPP: it is left to another proxy on the host: found %s", name, translator))
	case !s.hostEntrance(c.To.Is6()).to.IsValid():
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s is not sent to VPP: the part of vppHostSubnetCIDR that is this node's has no address for its clients: give it more room with a smaller vppHostSubnetOneNodePrefixLen", name))
	case f.Drop:
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s has no endpoint on this node (externalTrafficPolicy: Local), so that it is left to the host, which refuses clients unless something listens there; `contivctl services %v` says why", name, id))
	case len(f.Outside) == 0:
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s has no endpoint, so that it is left to the host, which refuses clients unless something listens there; `contivctl services %v` says why", name, id))
	default:
		e.Wrong = append(e.Wrong, fmt.Sprintf("%s is not sent to VPP", name))
	}
}

func (s *Service) nodePort(c Connection) (id processor.ID, f processor.Frontend, found bool) {
	for _, addr := range s.nodePortAddresses() {
		if addr.Is6() != c.To.Is6() {
			continue
		}
		for _, svc := range s.services.At(addr) {
			for _, f := range svc.Frontends {
				if f.Kind == processor.NodePort && f.Addr == netip.AddrPortFrom(addr, c.Port) && f.Protocol == c.Protocol {
					return svc.ID, f, true
				}
			}
		}
	}
	return id, f, false
}
