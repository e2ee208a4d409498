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
//
// What backends send to VPP itself, and to a host that has VPP's address, must pass a check of the reverse path
// (ip4_local_check_src, ip6_urpf_loose_check). VPP does not check what comes by a route to another VRF, as that to
// the pods is; but the entry of a backend, which follows that route, is checked (fib_entry_src_rr_use_covers_pl
// takes the paths alone). So backends that are held are accepted. Agents before that held them with the port 0: what they hold
// counts as not held, so that the first resync of a later agent holds it anew.

// holder are unassigned addresses, the VIPs of translations that hold backends; their port is a number. Packets of
// holderProto, which none have, would be translated.
var holder = [...]netip.Addr{v4: netip.MustParseAddr("192.0.0.171"), v6: netip.MustParseAddr("100::2")}

const (
	holderProto = ip_types.IP_API_PROTO_RESERVED
	// heldPort is the port of backends that are accepted, too.
	heldPort = 1
	// VPP looks at all backends of a translation whenever the route to one of them changes.
	holderSize = 64
	// So many translations hold backends that no service has, before VPP is asked for the connections to them.
	idleHolders = 64
)

func (k natKey) holds() bool {
	return k.proto == holderProto && k.addr.Addr() == holder[familyOf(k.addr.Addr())]
}

// records reports whether it is that of marks, see translation.
func (k natKey) records() bool { return k.proto == recordProto && !k.holds() }

// hold holds the backends that translations are to have.
func (v *Translations) hold(ctx context.Context, f family, k *known, wanted map[natKey]*translation) error {
	need := map[netip.Addr]bool{}
	for _, t := range wanted {
		for _, b := range t.backends {
			if !k.holds(b.Addr()) {
				need[b.Addr()] = true
			}
		}
	}
	fresh := slices.SortedFunc(maps.Keys(need), netip.Addr.Compare)
	if len(fresh) == 0 {
		return nil
	}
	if err := v.acceptReverse(ctx, "add", fresh...); err != nil {
		return err
	}
	requests := session.NewBatch(k.link)
	var noted []func()
	number := uint16(0)
	for part := range slices.Chunk(fresh, holderSize) {
		key := natKey{proto: holderProto}
		for key.addr = netip.AddrPortFrom(holder[f], number); k.all[key] != nil; key.addr = netip.AddrPortFrom(holder[f], number) {
			number++
		}
		t, reply := &translation{}, &cnat.CnatTranslationUpdateReply{}
		req := &cnat.CnatTranslationUpdate{Translation: cnat.CnatTranslation{Vip: endpoint(key.addr), IPProto: key.proto, IsRealIP: 1}}
		for _, addr := range part {
			t.backends = append(t.backends, netip.AddrPortFrom(addr, heldPort))
			req.Translation.Paths = append(req.Translation.Paths, cnat.CnatEndpointTuple{DstEp: endpoint(netip.AddrPortFrom(addr, heldPort)), SrcEp: endpoint(netip.AddrPortFrom(anyClient[f], 0))})
		}
		requests.Add(ctx, fmt.Sprintf("holding the routes to %v", part), req, reply)
		k.put(key, t)
		noted = append(noted, func() { t.id = reply.ID })
	}
	v.notes.known[f] = nil
	if err := requests.Wait(ctx); err != nil {
		return err
	}
	for _, note := range noted {
		note()
	}
	v.notes.known[f] = k
	return nil
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

// letGo removes translations that hold backends that no service has and no connection goes to, after changes. To list the
// connections holds up packets: it does so only if there are many that no service has, or no service is left.
func (v *Translations) letGo(ctx context.Context, f family, k *known, changes []changed) error {
	unused := func(b netip.AddrPort) bool { return k.uses[b.Addr()] == 0 }
	if !slices.ContainsFunc(changes, func(c changed) bool { return slices.ContainsFunc(c.backends(), unused) }) {
		return nil
	}
	used := map[netip.Addr]bool{}
	idle := map[natKey]*translation{}
	for key, t := range k.holders {
		if !slices.ContainsFunc(t.backends, func(b netip.AddrPort) bool { return !unused(b) }) {
			idle[key] = t
		}
	}
	left := len(k.all) - len(k.holders)
	if len(idle) == 0 || left > 0 && len(idle) < idleHolders+2*v.notes.inUse[f] {
		return nil
	}
	sessions, err := session.Dump[cnat.CnatSessionDetails](ctx, v.vpp, module, &cnat.CnatSessionDump{})
	if err != nil {
		return fmt.Errorf("listing connections: %w", err)
	}
	for _, s := range sessions {
		used[convert.Addr(s.Session.New.Addr)] = true
	}
	v.notes.known[f] = nil
	requests := session.NewBatch(k.link)
	v.notes.inUse[f] = 0
	var free []netip.Addr
	for key, t := range idle {
		if t.leadsTo(used) {
			v.notes.inUse[f]++
			continue
		}
		requests.Add(ctx, fmt.Sprintf("no longer holding the routes to %v", t.backends), &cnat.CnatTranslationDel{ID: t.id}, &cnat.CnatTranslationDelReply{}, api.NO_SUCH_ENTRY)
		k.put(key, nil)
		for _, b := range t.backends {
			if b.Port() == heldPort && k.held[b.Addr()] == 0 {
				free = append(free, b.Addr())
			}
		}
	}
	if err := requests.Wait(ctx); err != nil {
		return err
	}
	if err := v.acceptReverse(ctx, "del", free...); err != nil {
		return err
	}
	v.notes.known[f] = k
	return nil
}

// holdsAll reports whether all backends of translations are held.
func (k *known) holdsAll(list map[natKey]*translation) bool {
	for _, t := range list {
		if slices.ContainsFunc(t.backends, func(b netip.AddrPort) bool { return !k.holds(b.Addr()) }) {
			return false
		}
	}
	return true
}

// holds reports whether a backend is held, or has a route of its own.
func (k *known) holds(backend netip.Addr) bool {
	return k.held[backend] > 0 || backend == refuser[familyOf(backend)]
}

// leadsTo reports whether one of the backends has one of the addresses.
func (t *translation) leadsTo(addrs map[netip.Addr]bool) bool {
	return slices.ContainsFunc(t.backends, func(b netip.AddrPort) bool { return addrs[b.Addr()] })
}
