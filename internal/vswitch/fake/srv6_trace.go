package fake

import (
	"net/netip"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
)

// header is a segment routing header around or in a packet.
type header struct {
	rest []netip.Addr // segments after the current destination
	// Addresses of the inner packet. inserted: only the destination is restored, as last segment.
	src, dst netip.Addr
}

// segment handles a packet to a local SID, a binding SID or into a policy, and returns true for
// these.
func (t *tracer) segment(n *Node, in string, vrf uint32) bool {
	if sid := n.localSID(vrf, t.dst); sid != nil {
		t.atSegment(n, in, vrf, sid)
		return true
	}
	for _, v := range n.features {
		if p, ok := v.(*vpp_srv6.Policy); ok && p.GetInstallationVrfId() == vrf && sameAddr(p.GetBsid(), t.dst) {
			if t.nextSegment(n) {
				t.into(n, in, p)
			}
			return true
		}
	}
	if s := n.steering(vrf, t.dst); s != nil {
		t.hop(n, "%s is steered by %s", t.dst, s.GetName())
		if p := n.policy(s.GetPolicyBsid()); p != nil {
			t.into(n, in, p)
		} else {
			t.drop(n, "policy %s does not exist", s.GetPolicyBsid())
		}
		return true
	}
	return false
}

func (n *Node) localSID(vrf uint32, addr netip.Addr) *vpp_srv6.LocalSID {
	for _, v := range n.features {
		if s, ok := v.(*vpp_srv6.LocalSID); ok && s.GetInstallationVrfId() == vrf && sameAddr(s.GetSid(), addr) {
			return s
		}
	}
	return nil
}

func (n *Node) steering(vrf uint32, addr netip.Addr) (best *vpp_srv6.Steering) {
	bits := -1
	for _, v := range n.features {
		s, ok := v.(*vpp_srv6.Steering)
		if !ok || s.GetL3Traffic() == nil || s.GetL3Traffic().GetInstallationVrfId() != vrf {
			continue
		}
		if dst, err := netip.ParsePrefix(s.GetL3Traffic().GetPrefixAddress()); err == nil && dst.Contains(addr) && dst.Bits() > bits {
			best, bits = s, dst.Bits()
		}
	}
	route, connected := n.lookup(vrf, addr)
	if dst, err := netip.ParsePrefix(route.GetDstNetwork()); err == nil && dst.Bits() > bits {
		return nil
	}
	if connected.out != "" {
		for prefix := range n.all()[connected.out].addrs {
			if prefix.Contains(addr) && prefix.Bits() > bits {
				return nil
			}
		}
	}
	return best
}

// into encapsulates the packet for the segment list with the greatest weight.
func (t *tracer) into(n *Node, in string, p *vpp_srv6.Policy) {
	var way *vpp_srv6.Policy_SegmentList
	for _, list := range p.GetSegmentLists() {
		if way == nil || max(list.GetWeight(), 1) > max(way.GetWeight(), 1) {
			way = list
		}
	}
	h := header{}
	for _, text := range way.GetSegments() {
		if addr, err := netip.ParseAddr(text); err == nil {
			h.rest = append(h.rest, addr)
		}
	}
	if p.GetSrhEncapsulation() {
		h.src, h.dst = t.Src, t.dst
		for _, v := range n.features {
			if g, ok := v.(*vpp_srv6.SRv6Global); ok {
				t.Src = vswitch.EncapSource(g)
			}
		}
	} else {
		h.rest = append(h.rest, t.dst)
	}
	t.dst, h.rest = h.rest[0], h.rest[1:]
	t.headers = append(t.headers, h)
	t.hop(n, "policy %s: on the way to %s", p.GetBsid(), t.dst)
	t.resume(n, in, n.vrf(in, true))
}

// nextSegment sets the destination to the next segment; it ends the trace if none is left.
func (t *tracer) nextSegment(n *Node) bool {
	last := len(t.headers) - 1
	if last < 0 || len(t.headers[last].rest) == 0 {
		t.drop(n, "%s is not the last segment, but no segment is left", t.dst)
		return false
	}
	h := &t.headers[last]
	t.hop(n, "segment %s: next is %s", t.dst, h.rest[0])
	t.dst, h.rest = h.rest[0], h.rest[1:]
	if len(h.rest) == 0 && !h.dst.IsValid() {
		t.headers = t.headers[:last]
	}
	return true
}

// unpack removes the header if the inner packet has the IP version.
func (t *tracer) unpack(n *Node, ipv6 bool) bool {
	last := len(t.headers) - 1
	if last < 0 || len(t.headers[last].rest) > 0 || t.headers[last].dst.Is6() != ipv6 {
		t.drop(n, "segment %s: no inner packet to decapsulate", t.dst)
		return false
	}
	t.hop(n, "segment %s: the packet is taken out", t.dst)
	t.Src, t.dst = t.headers[last].src, t.headers[last].dst
	t.headers = t.headers[:last]
	return true
}

func (t *tracer) resume(n *Node, in string, vrf uint32) {
	switch owner := n.ownerOf(t.dst); {
	case len(t.Hops) > maxHops:
		t.drop(n, "the packet goes round in circles")
	case owner != "":
		t.hop(n, "%s is an address of %s", t.dst, owner)
		t.end(n, Local, owner)
	case !t.segment(n, in, vrf):
		if path, ok := t.route(n, vrf, t.dst); ok {
			t.forward(n, in, path)
		}
	}
}

func (t *tracer) atSegment(n *Node, in string, vrf uint32, s *vpp_srv6.LocalSID) {
	via := func(iface, nextHop string) {
		addr, _ := netip.ParseAddr(nextHop)
		t.forward(n, in, path{out: iface, nextHop: addr})
	}
	switch f := s.GetEndFunction().(type) {
	case *vpp_srv6.LocalSID_BaseEndFunction:
		if t.nextSegment(n) {
			t.resume(n, in, vrf)
		}
	case *vpp_srv6.LocalSID_EndFunctionT:
		if t.nextSegment(n) {
			t.resume(n, in, f.EndFunctionT.GetVrfId())
		}
	case *vpp_srv6.LocalSID_EndFunctionX:
		if t.nextSegment(n) {
			via(f.EndFunctionX.GetOutgoingInterface(), f.EndFunctionX.GetNextHop())
		}
	case *vpp_srv6.LocalSID_EndFunctionDx4:
		if t.unpack(n, false) {
			via(f.EndFunctionDx4.GetOutgoingInterface(), f.EndFunctionDx4.GetNextHop())
		}
	case *vpp_srv6.LocalSID_EndFunctionDx6:
		if t.unpack(n, true) {
			via(f.EndFunctionDx6.GetOutgoingInterface(), f.EndFunctionDx6.GetNextHop())
		}
	case *vpp_srv6.LocalSID_EndFunctionDt4:
		if t.unpack(n, false) {
			t.resume(n, in, f.EndFunctionDt4.GetVrfId())
		}
	case *vpp_srv6.LocalSID_EndFunctionDt6:
		if t.unpack(n, true) {
			t.resume(n, in, f.EndFunctionDt6.GetVrfId())
		}
	default:
		t.drop(n, "segment %s: traces do not follow frames and proxies", t.dst)
	}
}
