package srv6

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

type srPolicies srv6

func policySupported(p *vpp_srv6.Policy) error {
	switch {
	case p.GetInstallationVrfId() != 0:
		return own.OnlyMain(p.GetInstallationVrfId(), "segment routing")
	case p.GetSprayBehaviour():
		return vswitch.Unsupported("spray_behaviour: the Linux kernel sends no copies: it chooses a way for each flow by its weight")
	case len(p.GetSegmentLists()) >= maxWays/2:
		return vswitch.Unsupported("%d segment lists: use at most %d", len(p.GetSegmentLists()), maxWays/2-1)
	}
	for _, list := range p.GetSegmentLists() {
		if list.GetWeight() > own.MaxWeight {
			return vswitch.Unsupported("weight %d: use at most %d", list.GetWeight(), own.MaxWeight)
		}
	}
	return nil
}

func (v srPolicies) Create(_ context.Context, p *vpp_srv6.Policy) error {
	if err := policySupported(p); err != nil {
		return err
	}
	if err := v.EnableForwarding6(); err != nil {
		return err
	}
	if err := v.set(p); err != nil {
		return fmt.Errorf("making policy %s: %w", p.GetBsid(), srError(err))
	}
	v.Reg.Put(p)
	return nil
}

func (v srPolicies) set(p *vpp_srv6.Policy) error {
	v.srMu.Lock()
	defer v.srMu.Unlock()
	state, err := v.readSR()
	if err != nil {
		return err
	}
	if err := v.sweep(state); err != nil {
		return err
	}
	dst := own.HostPrefix(netip.MustParseAddr(p.GetBsid()))
	first := state.policyID(dst)
	insert := !p.GetSrhEncapsulation()
	steeredWays, boundWays := make([]srWay, 0, len(p.GetSegmentLists())), make([]srWay, 0, len(p.GetSegmentLists()))
	for _, list := range p.GetSegmentLists() {
		segments, weight := addresses(list.GetSegments()), max(list.GetWeight(), 1)
		steeredWays = append(steeredWays, srWay{nl.LWTUNNEL_ENCAP_SEG6, srTunnel(segments, insert), weight})
		f := srFunction{action: nl.SEG6_LOCAL_ACTION_END_B6_ENCAPS, through: srh(segments, insert)}
		if insert {
			f.action = nl.SEG6_LOCAL_ACTION_END_B6
		}
		boundWays = append(boundWays, srWay{nl.LWTUNNEL_ENCAP_SEG6_LOCAL, f.encode(), weight})
	}
	if err := v.setGroup(state, first|steered, steeredWays); err != nil {
		return err
	}
	if err := v.setGroup(state, first|bound, boundWays); err != nil {
		return err
	}
	return v.setSRRoute(state, srRoute{dst: dst, metric: metricOf(dst), nhid: first | bound})
}

func addresses(texts []string) []netip.Addr {
	addrs := make([]netip.Addr, len(texts))
	for i, text := range texts {
		addrs[i] = netip.MustParseAddr(text)
	}
	return addrs
}

// srWay is a future member of a group.
type srWay struct {
	kind   uint16
	encap  []byte
	weight uint32
}

// setGroup changes a group atomically: it adds new members, sets the group and deletes old members.
func (v srPolicies) setGroup(state *srState, group uint32, ways []srWay) error {
	device, err := v.ensureSRDevice()
	if err != nil {
		return err
	}
	var members []srMember
	for _, way := range ways {
		id := state.memberFor(group, way)
		if _, ok := state.nexthops[id]; !ok {
			n := srNexthop{id: id, index: device, kind: way.kind, encap: way.encap}
			if err := setNexthop(v.Net, n); err != nil {
				return err
			}
			state.nexthops[id] = n
		}
		members = append(members, srMember{id, way.weight})
	}
	if err := setNexthop(v.Net, srNexthop{id: group, members: members}); err != nil {
		return err
	}
	for _, id := range state.membersOf(group) {
		if id == group || slices.ContainsFunc(members, func(m srMember) bool { return m.id == id }) {
			continue
		}
		if err := rtnl.IgnoreGone(delNexthop(v.Net, id)); err != nil {
			return err
		}
	}
	return nil
}

// memberFor returns the ID of the group member with the same function, or a free ID. A group has
// twice as many IDs as a policy may have members.
func (s *srState) memberFor(group uint32, way srWay) (free uint32) {
	for id := group + maxWays; id > group; id-- {
		n, ok := s.nexthops[id]
		switch {
		case !ok:
			free = id
		case n.kind == way.kind && sameEncap(n, way):
			return id
		}
	}
	return free
}

// sameEncap compares encapsulations, because the kernel orders attributes differently.
func sameEncap(n srNexthop, way srWay) bool {
	if n.kind == nl.LWTUNNEL_ENCAP_SEG6 {
		a, insertA := parseSRTunnel(n.encap)
		b, insertB := parseSRTunnel(way.encap)
		return insertA == insertB && slices.Equal(a, b)
	}
	a, b := parseSRFunction(n.encap), parseSRFunction(way.encap)
	insert := a.action == nl.SEG6_LOCAL_ACTION_END_B6
	return a.action == b.action && slices.Equal(parseSRH(a.through, insert), parseSRH(b.through, insert))
}

// policyID returns the first ID of a policy, even if it does not exist.
func (s *srState) policyID(dst netip.Prefix) uint32 {
	if have, ok := s.route(dst); ok && have.nhid&tagMask == policyTag {
		return objectOf(have.nhid)
	}
	return policyTag | slot(dst.Addr(), policySlots, func(n uint32) bool {
		return len(s.membersOf(policyTag|n<<slotShift|steered))+len(s.membersOf(policyTag|n<<slotShift|bound)) > 0
	})<<slotShift
}

func (v srPolicies) Delete(_ context.Context, p *vpp_srv6.Policy) error {
	err := v.Reg.During(p, func() error {
		return v.deleteRoute(own.HostPrefix(netip.MustParseAddr(p.GetBsid())), policyTag|bound)
	})
	if err != nil {
		return fmt.Errorf("deleting policy %s: %w", p.GetBsid(), err)
	}
	return nil
}

func (s *srState) membersOf(group uint32) (ids []uint32) {
	for id := group; id <= group+maxWays; id++ {
		if _, ok := s.nexthops[id]; ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (v srPolicies) List(_ context.Context, expected []*vpp_srv6.Policy) ([]*vpp_srv6.Policy, error) {
	state, err := v.readSR()
	if err != nil {
		return nil, ignoreNoSegments(err)
	}
	wanted := map[netip.Addr]string{}
	for _, p := range expected {
		if addr, err := netip.ParseAddr(p.GetBsid()); err == nil {
			wanted[addr] = p.GetBsid()
		}
	}
	var list []*vpp_srv6.Policy
	for _, r := range state.routes {
		if r.nhid&tagMask != policyTag || r.nhid&(1<<slotShift-1) != bound || r.table != unix.RT_TABLE_MAIN {
			continue
		}
		p := state.describePolicy(r.nhid)
		if p.Bsid = wanted[r.dst.Addr()]; p.Bsid == "" {
			p.Bsid = r.dst.Addr().String()
		}
		list = append(list, p)
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

// describePolicy returns segment lists only if both groups agree.
func (s *srState) describePolicy(boundGroup uint32) *vpp_srv6.Policy {
	p := &vpp_srv6.Policy{}
	other := s.nexthops[boundGroup].members
	for _, m := range s.nexthops[boundGroup&^(bound)].members {
		segments, insert := parseSRTunnel(s.nexthops[m.id].encap)
		agree := slices.ContainsFunc(other, func(o srMember) bool {
			return o.weight == m.weight && slices.Equal(segments, parseSRH(parseSRFunction(s.nexthops[o.id].encap).through, insert))
		})
		if !agree {
			continue
		}
		list := &vpp_srv6.Policy_SegmentList{Weight: m.weight}
		for _, segment := range segments {
			list.Segments = append(list.Segments, segment.String())
		}
		p.SegmentLists = append(p.SegmentLists, list)
		p.SrhEncapsulation = !insert
	}
	return p
}
