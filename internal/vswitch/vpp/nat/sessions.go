package nat

import (
	"context"
	"errors"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/nat44_ed"
	"go.fd.io/govpp/binapi/nat_types"
)

// endSessions ends flows that began before the mappings existed, because VPP continues them while
// packets come. TCP connections continue.
func (v *NAT) endSessions(ctx context.Context, added map[natKey]*natMapping) error {
	matches := func(addr netip.Addr, port uint16, proto uint8) bool {
		return added[natKey{addr, port, proto}] != nil || added[natKey{addr: addr}] != nil
	}
	needed := false
	for key := range added {
		needed = needed || key.proto != vswitch.ProtocolTCP
	}
	if !needed {
		return nil
	}
	users, err := session.Dump[nat44_ed.Nat44UserDetails](ctx, v.vpp, module, &nat44_ed.Nat44UserDump{})
	if err != nil {
		return err
	}
	dumps := make([]*session.Pending[nat44_ed.Nat44UserSessionV3Details, *nat44_ed.Nat44UserSessionV3Details], len(users))
	for i, u := range users {
		dumps[i] = session.StartDump[nat44_ed.Nat44UserSessionV3Details](ctx, v.vpp, module, &nat44_ed.Nat44UserSessionV3Dump{IPAddress: u.IPAddress, VrfID: u.VrfID})
	}
	var ended []api.Message
	for i, d := range dumps {
		sessions, err := d.Wait(ctx)
		if err != nil {
			return err
		}
		for _, s := range sessions {
			proto := uint8(s.Protocol)
			untranslated := s.InsideIPAddress == s.OutsideIPAddress && matches(netip.AddrFrom4(s.InsideIPAddress), s.InsidePort, proto)
			if proto == vswitch.ProtocolTCP || !untranslated && !matches(netip.AddrFrom4(s.ExtHostAddress), s.ExtHostPort, proto) {
				continue
			}
			ended = append(ended, &nat44_ed.Nat44DelSession{
				Address: s.InsideIPAddress, Port: s.InsidePort, Protocol: proto, VrfID: users[i].VrfID, Flags: nat_types.NAT_IS_INSIDE,
				ExtHostAddress: s.ExtHostAddress, ExtHostPort: s.ExtHostPort,
			})
		}
	}
	_, errs := session.CallAll[nat44_ed.Nat44DelSessionReply](ctx, v.vpp, module, ended)
	for i, err := range errs {
		if vppapi.Refused(err, api.NO_SUCH_ENTRY, api.UNSPECIFIED) { // it has ended itself
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// Concerns returns the DNAT values that depend on an interface's addresses, whose mappings are
// outdated.
func (v *NAT) Concerns(e subsystem.Event) (keys []string) {
	if e.Kind != subsystem.AddressesChanged {
		return nil
	}
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	for label := range v.notes.byInterface[e.Interface] {
		keys = append(keys, models.DNAT44.KeyPrefix()+label)
	}
	return keys
}
