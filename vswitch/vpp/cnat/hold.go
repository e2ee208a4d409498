package cnat

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/vswitch/vpp/convert"
	"github.com/contiv/contiv/vswitch/vpp/session"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
)

// A session of a client outside forwards by the load balance of the backend's entry in the FIB, whose
// index it has without a lock. VPP frees the entry when the last translation lets go of the backend, and
// cnat_translation_update lets go of all its backends before it takes the new ones. Connections to
// backends that are removed would then be dropped, and any could be led by the entry of another backend:
//
//	session of a client outside ──index──> load balance of the entry 10.1.1.2/32 <── translation of the service
//	                                                                             <── translation that holds it
//
// So translations that nobody uses hold the backends. They are never changed: each has the backends of one
// change that were not held before. They outlive the services, as connections do.

// holder are unassigned addresses, the VIPs of translations that hold backends; their port is a number. Packets of
// holderProto, which none have, would be translated.
var holder = [...]netip.Addr{v4: netip.MustParseAddr("192.0.0.171"), v6: netip.MustParseAddr("100::2")}

const (
	holderProto = ip_types.IP_API_PROTO_RESERVED
	// VPP looks at all backends of a translation whenever the route to one of them changes.
	holderSize = 64
	// So many translations hold backends that no service has, before VPP is asked for the connections to them.
	idleHolders = 64
)

func (k natKey) holds() bool {
	return k.proto == holderProto && k.addr.Addr() == holder[familyOf(k.addr.Addr())]
}

// hold holds the backends that translations have, or are to have. All are the translations of the IP version.
func (v *Translations) hold(ctx context.Context, f family, all map[natKey]*translation, changes []changed) error {
	held := map[netip.Addr]bool{refuser[f]: true} // which has a route
	for key, t := range all {
		if key.holds() {
			for _, b := range t.backends {
				held[b.Addr()] = true
			}
		}
	}
	var fresh []netip.Addr
	for _, c := range changes {
		for _, b := range c.backends() {
			if !held[b.Addr()] {
				held[b.Addr()] = true
				fresh = append(fresh, b.Addr())
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	l, err := v.vpp.Use(module)
	if err != nil {
		return err
	}
	requests := session.NewBatch(l)
	number := uint16(0)
	for part := range slices.Chunk(fresh, holderSize) {
		key := natKey{proto: holderProto}
		for key.addr = netip.AddrPortFrom(holder[f], number); all[key] != nil; key.addr = netip.AddrPortFrom(holder[f], number) {
			number++
		}
		number++
		req := &cnat.CnatTranslationUpdate{Translation: cnat.CnatTranslation{Vip: endpoint(key.addr), IPProto: key.proto, IsRealIP: 1}}
		for _, addr := range part {
			req.Translation.Paths = append(req.Translation.Paths, cnat.CnatEndpointTuple{DstEp: endpoint(netip.AddrPortFrom(addr, 0)), SrcEp: endpoint(netip.AddrPortFrom(anyClient[f], 0))})
		}
		requests.Add(ctx, fmt.Sprintf("holding the routes to %v", part), req, &cnat.CnatTranslationUpdateReply{})
	}
	return requests.Wait(ctx)
}

// backends are those before and after the change.
func (c changed) backends() (list []netip.AddrPort) {
	for _, t := range []*translation{c.before, c.after} {
		if t != nil {
			list = append(list, t.backends...)
		}
	}
	return list
}

// letGo removes translations that hold backends that no service has and no connection goes to. To list the
// connections holds up packets: it does so only if there are many that no service has, or no service is left.
func (v *Translations) letGo(ctx context.Context, f family, all map[natKey]*translation, changes []changed) error {
	left := maps.Clone(all)
	maps.DeleteFunc(left, func(key natKey, _ *translation) bool { return key.holds() })
	for _, c := range changes {
		if c.after != nil {
			left[c.key] = c.after
		} else {
			delete(left, c.key)
		}
	}
	used := map[netip.Addr]bool{}
	for _, t := range left {
		for _, b := range t.backends {
			used[b.Addr()] = true
		}
	}
	var idle []*translation
	for key, t := range all {
		if key.holds() && !t.leadsTo(used) {
			idle = append(idle, t)
		}
	}
	if len(idle) == 0 || len(left) > 0 && len(idle) < idleHolders+2*v.notes.inUse[f] {
		return nil
	}
	sessions, err := session.Dump[cnat.CnatSessionDetails](ctx, v.vpp, module, &cnat.CnatSessionDump{})
	if err != nil {
		return fmt.Errorf("listing connections: %w", err)
	}
	for _, s := range sessions {
		used[convert.Addr(s.Session.New.Addr)] = true
	}
	l, err := v.vpp.Use(module)
	if err != nil {
		return err
	}
	requests := session.NewBatch(l)
	v.notes.inUse[f] = 0
	for _, t := range idle {
		if t.leadsTo(used) {
			v.notes.inUse[f]++
			continue
		}
		requests.Add(ctx, fmt.Sprintf("no longer holding the routes to %v", t.backends), &cnat.CnatTranslationDel{ID: t.id}, &cnat.CnatTranslationDelReply{}, api.NO_SUCH_ENTRY)
	}
	return requests.Wait(ctx)
}

// leadsTo reports whether one of the backends has one of the addresses.
func (t *translation) leadsTo(addrs map[netip.Addr]bool) bool {
	return slices.ContainsFunc(t.backends, func(b netip.AddrPort) bool { return addrs[b.Addr()] })
}
