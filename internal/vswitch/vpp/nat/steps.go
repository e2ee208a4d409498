package nat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/nat44_ed"
	"go.fd.io/govpp/binapi/nat_types"
)

// natStep is a request and its reversal.
type natStep struct {
	phase    int
	add      bool
	request  func(add bool) api.Message
	newReply func() api.Message
	what     string
}

// Phases: deleted mappings and locals, new mappings, then replacing locals.
const (
	phaseRemove = iota
	phaseAdd
	phaseRemoveLocal
)

func natStepOf[P any, Rep interface {
	*P
	api.Message
}](phase int, add bool, what string, request func(add bool) api.Message) natStep {
	return natStep{phase: phase, add: add, what: what, request: request, newReply: func() api.Message { return Rep(new(P)) }}
}

// run sends all requests and waits for them. If one is refused, the others are reverted, the last
// one first.
func (v *NAT) run(ctx context.Context, steps []natStep) error {
	if len(steps) == 0 {
		return nil
	}
	l, err := v.vpp.Use(module)
	if err != nil {
		return err
	}
	pending := make([]*vppapi.Pending, len(steps))
	for i, s := range steps {
		pending[i] = l.Start(ctx, s.request(s.add))
	}
	var done []natStep
	var failed error
	for i, s := range steps {
		switch err := pending[i].Wait(ctx, s.newReply()); {
		case err == nil:
			done = append(done, s)
		case !s.add && vppapi.Refused(err, api.NO_SUCH_ENTRY):
		case vppapi.Refused(err, api.UNSUPPORTED):
			failed = errors.Join(failed, errNATOff)
		default:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.what, err))
		}
	}
	if failed == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	for _, s := range slices.Backward(done) {
		if err := l.Call(ctx, s.request(!s.add), s.newReply()); err != nil {
			failed = errors.Join(failed, fmt.Errorf("taking back %s: %w", s.what, err))
		}
	}
	return failed
}

func addMapping(key natKey, m *natMapping) []natStep { return mappingSteps(phaseAdd, true, key, m) }
func removeMapping(key natKey, m *natMapping) []natStep {
	return mappingSteps(phaseRemove, false, key, m)
}

// changeMapping changes the backends of load-balanced mappings in place; other mappings are deleted
// and created. With session affinity, VPP would keep sending clients of a removed backend to it,
// because it stores the backend's number. So the mapping is created again, which forgets all
// clients.
func changeMapping(key natKey, now, wanted *natMapping) []natStep {
	var gone, come []natLocal
	for _, l := range now.locals {
		if !slices.Contains(wanted.locals, l) {
			gone = append(gone, l)
		}
	}
	for _, l := range wanted.locals {
		if !slices.Contains(now.locals, l) {
			come = append(come, l)
		}
	}
	sameBut := *now
	sameBut.locals = wanted.locals
	if now.kind != natBalanced || !sameBut.equal(wanted) || wanted.affinity > 0 && len(gone) > 0 || !slices.Contains(now.locals, placeholder) {
		return append(removeMapping(key, now), addMapping(key, wanted)...)
	}
	local := func(l natLocal) func(add bool) api.Message {
		return func(add bool) api.Message {
			return &nat44_ed.Nat44LbStaticMappingAddDelLocal{
				IsAdd: add, ExternalAddr: ip_types.IP4Address(key.addr.As4()), ExternalPort: key.port, Protocol: key.proto, Local: balanced(l),
			}
		}
	}
	var steps []natStep
	sameAddress := func(l natLocal) bool {
		return slices.ContainsFunc(come, func(c natLocal) bool { return c.addr == l.addr && c.port == l.port && c.vrf == l.vrf })
	}
	for _, l := range gone {
		phase := phaseRemoveLocal
		if sameAddress(l) { // it comes back with another weight
			phase = phaseRemove
		}
		steps = append(steps, natStepOf[nat44_ed.Nat44LbStaticMappingAddDelLocalReply](phase, false, fmt.Sprintf("%s no longer to %s", key, l.addr), local(l)))
	}
	for _, l := range come {
		steps = append(steps, natStepOf[nat44_ed.Nat44LbStaticMappingAddDelLocalReply](phaseAdd, true, fmt.Sprintf("%s to %s", key, l.addr), local(l)))
	}
	return steps
}

func balanced(l natLocal) nat44_ed.Nat44LbAddrPort {
	return nat44_ed.Nat44LbAddrPort{Addr: ip_types.IP4Address(l.addr.As4()), Port: l.port, Probability: l.weight, VrfID: l.vrf}
}

// mappingSteps creates or removes a mapping. Mappings apply to entering packets only, not to
// connections opened by local addresses.
func mappingSteps(phase int, add bool, key natKey, m *natMapping) []natStep {
	addr := ip_types.IP4Address(key.addr.As4())
	flags := nat_types.NAT_IS_OUT2IN_ONLY
	switch m.mode {
	case vpp_nat.DNat44_StaticMapping_ENABLED:
		flags |= nat_types.NAT_IS_TWICE_NAT
	case vpp_nat.DNat44_StaticMapping_SELF:
		flags |= nat_types.NAT_IS_SELF_TWICE_NAT
	}
	if key.wholeAddress() {
		flags |= nat_types.NAT_IS_ADDR_ONLY
	}
	what := "mapping " + key.String()
	switch m.kind {
	case natBalanced:
		var locals []nat44_ed.Nat44LbAddrPort
		for _, l := range m.locals {
			locals = append(locals, balanced(l))
		}
		return []natStep{natStepOf[nat44_ed.Nat44AddDelLbStaticMappingReply](phase, add, what, func(add bool) api.Message {
			return &nat44_ed.Nat44AddDelLbStaticMapping{
				IsAdd: add, Flags: flags, ExternalAddr: addr, ExternalPort: key.port, Protocol: key.proto, Affinity: m.affinity, Tag: m.tag, Locals: locals,
			}
		})}
	case natStatic:
		var pool ip_types.IP4Address
		if m.pool.IsValid() {
			pool = ip_types.IP4Address(m.pool.As4())
		}
		l := m.locals[0]
		return []natStep{natStepOf[nat44_ed.Nat44AddDelStaticMappingV2Reply](phase, add, what, func(add bool) api.Message {
			return &nat44_ed.Nat44AddDelStaticMappingV2{
				IsAdd: add, Flags: flags, MatchPool: m.pool.IsValid(), PoolIPAddress: pool,
				LocalIPAddress: ip_types.IP4Address(l.addr.As4()), LocalPort: l.port, VrfID: l.vrf,
				ExternalIPAddress: addr, ExternalPort: key.port, Protocol: key.proto, ExternalSwIfIndex: ^ownership.Index(0), Tag: m.tag,
			}
		})}
	}
	var steps []natStep
	for _, l := range m.locals {
		steps = append(steps, natStepOf[nat44_ed.Nat44AddDelIdentityMappingReply](phase, add, what+" to itself", func(add bool) api.Message {
			return &nat44_ed.Nat44AddDelIdentityMapping{
				IsAdd: add, Flags: flags &^ nat_types.NAT_IS_OUT2IN_ONLY, IPAddress: addr, Port: key.port, Protocol: key.proto, SwIfIndex: ^ownership.Index(0), VrfID: l.vrf, Tag: m.tag,
			}
		}))
	}
	return steps
}

// readDNAT reads the mappings of everybody.
func (v *NAT) readDNAT(ctx context.Context) (map[natKey]*natMapping, error) {
	static := session.StartDump[nat44_ed.Nat44StaticMappingDetails](ctx, v.vpp, module, &nat44_ed.Nat44StaticMappingDump{})
	lb := session.StartDump[nat44_ed.Nat44LbStaticMappingDetails](ctx, v.vpp, module, &nat44_ed.Nat44LbStaticMappingDump{})
	identity := session.StartDump[nat44_ed.Nat44IdentityMappingDetails](ctx, v.vpp, module, &nat44_ed.Nat44IdentityMappingDump{})
	statics, err1 := static.Wait(ctx)
	balanced, err2 := lb.Wait(ctx)
	identities, err3 := identity.Wait(ctx)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, fmt.Errorf("listing mappings of NAT: %w", err)
	}
	all := map[natKey]*natMapping{}
	for _, d := range statics {
		if d.ExternalSwIfIndex != ^ownership.Index(0) { // a foreign one for an interface's address, whose mapping is listed too
			continue
		}
		m := &natMapping{
			kind: natStatic, tag: d.Tag, mode: twiceNAT(d.Flags), locals: []natLocal{{addr: netip.AddrFrom4(d.LocalIPAddress), port: d.LocalPort, vrf: d.VrfID}},
		}
		m.readTag()
		all[natKey{netip.AddrFrom4(d.ExternalIPAddress), d.ExternalPort, d.Protocol}] = m
	}
	for _, d := range balanced {
		m := &natMapping{kind: natBalanced, tag: d.Tag, mode: twiceNAT(d.Flags)}
		for _, l := range d.Locals {
			m.locals = append(m.locals, natLocal{netip.AddrFrom4(l.Addr), l.Port, l.VrfID, l.Probability})
		}
		m.sort()
		m.readTag()
		all[natKey{netip.AddrFrom4(d.ExternalAddr), d.ExternalPort, d.Protocol}] = m
	}
	for _, d := range identities {
		if d.SwIfIndex != ^ownership.Index(0) {
			continue
		}
		key := natKey{netip.AddrFrom4(d.IPAddress), d.Port, d.Protocol}
		if all[key] == nil {
			all[key] = &natMapping{kind: natIdentity, tag: d.Tag}
		}
		all[key].locals = append(all[key].locals, natLocal{vrf: d.VrfID})
		all[key].sort()
	}
	return all, nil
}

func twiceNAT(flags nat_types.NatConfigFlags) vpp_nat.DNat44_StaticMapping_TwiceNatMode {
	switch {
	case flags&nat_types.NAT_IS_SELF_TWICE_NAT != 0:
		return vpp_nat.DNat44_StaticMapping_SELF
	case flags&nat_types.NAT_IS_TWICE_NAT != 0:
		return vpp_nat.DNat44_StaticMapping_ENABLED
	}
	return vpp_nat.DNat44_StaticMapping_DISABLED
}
