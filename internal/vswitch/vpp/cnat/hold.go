package cnat

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
)

// A session of an external client forwards by the load balance index of the backend's FIB entry,
// without a lock. VPP frees the entry when the last translation releases the backend, and
// cnat_translation_update releases all backends before it takes the new ones. Connections to
// removed backends would be dropped, and any connection could be forwarded by another backend's
// entry:
//
//	session of a client outside ──index──> load balance of the entry 10.1.1.2/32 <── translation of the service
//	                                                                             <── translation that pins it
//
// So unused translations pin the backends. They never change: each pins the new backends of one
// change. They outlive the services, like connections do.
//
// Packets from backends to VPP itself, and to a host with VPP's address, must pass a reverse path
// check (ip4_local_check_src, ip6_urpf_loose_check). VPP does not check packets that arrive by a
// route to another VRF, like the route to the pods. But a backend's entry, which follows that
// route, is checked (fib_entry_src_rr_use_covers_pl copies only the paths). So pinned backends are
// exempted. Earlier agents pinned them with port 0; these pins do not count, so the first resync
// after an upgrade pins the backends again.

// pinner lists unassigned addresses: the VIPs of pinning translations, whose port is a number.
// pinProto is an unused protocol.
var pinner = [...]netip.Addr{v4: netip.MustParseAddr("192.0.0.171"), v6: netip.MustParseAddr("100::2")}

const (
	pinProto = ip_types.IP_API_PROTO_RESERVED
	// pinnedPort is the port of pinned and exempted backends.
	pinnedPort = 1
	// VPP examines all backends of a translation whenever the route to one changes.
	pinSize = 64
	// idlePins is the number of translations pinning only unused backends from which VPP's
	// connections are listed.
	idlePins = 64
)

func (k natKey) pins() bool {
	return k.proto == pinProto && k.addr.Addr() == pinner[familyOf(k.addr.Addr())]
}

// records reports whether the key is of a record of marks; see translation.
func (k natKey) records() bool { return k.proto == recordProto && !k.pins() }

// pin pins the backends of translations.
func (v *Translations) pin(ctx context.Context, f family, k *known, wanted map[natKey]*translation) error {
	need := map[netip.Addr]bool{}
	for _, t := range wanted {
		for _, b := range t.backends {
			if !k.pins(b.Addr()) {
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
	for part := range slices.Chunk(fresh, pinSize) {
		key := natKey{proto: pinProto}
		for key.addr = netip.AddrPortFrom(pinner[f], number); k.all[key] != nil; key.addr = netip.AddrPortFrom(pinner[f], number) {
			number++
		}
		t, reply := &translation{}, &cnat.CnatTranslationUpdateReply{}
		req := &cnat.CnatTranslationUpdate{Translation: cnat.CnatTranslation{Vip: endpoint(key.addr), IPProto: key.proto, IsRealIP: 1}}
		for _, addr := range part {
			t.backends = append(t.backends, netip.AddrPortFrom(addr, pinnedPort))
			req.Translation.Paths = append(req.Translation.Paths, cnat.CnatEndpointTuple{DstEp: endpoint(netip.AddrPortFrom(addr, pinnedPort)), SrcEp: endpoint(netip.AddrPortFrom(anyClient[f], 0))})
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

// backends returns the backends before and after the change.
func (c changed) backends() (list []netip.AddrPort) {
	for _, t := range []*translation{c.before, c.after} {
		if t != nil {
			list = append(list, t.backends...)
		}
	}
	return list
}

// unpin removes, after changes, translations that pin only backends without service and connection.
// Listing the connections holds up packets, so it does that only if many pins are idle, or no
// service is left.
func (v *Translations) unpin(ctx context.Context, f family, k *known, changes []changed) error {
	unused := func(b netip.AddrPort) bool { return k.uses[b.Addr()] == 0 }
	if !slices.ContainsFunc(changes, func(c changed) bool { return slices.ContainsFunc(c.backends(), unused) }) {
		return nil
	}
	used := map[netip.Addr]bool{}
	idle := map[natKey]*translation{}
	for key, t := range k.pinners {
		if !slices.ContainsFunc(t.backends, func(b netip.AddrPort) bool { return !unused(b) }) {
			idle[key] = t
		}
	}
	left := len(k.all) - len(k.pinners)
	if len(idle) == 0 || left > 0 && len(idle) < idlePins+2*v.notes.inUse[f] {
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
			if b.Port() == pinnedPort && k.pinned[b.Addr()] == 0 {
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

// pinsAll reports whether all backends of translations are pinned.
func (k *known) pinsAll(list map[natKey]*translation) bool {
	for _, t := range list {
		if slices.ContainsFunc(t.backends, func(b netip.AddrPort) bool { return !k.pins(b.Addr()) }) {
			return false
		}
	}
	return true
}

// pins reports whether a backend is pinned or has its own route.
func (k *known) pins(backend netip.Addr) bool {
	return k.pinned[backend] > 0 || backend == refuser[familyOf(backend)]
}

// leadsTo reports whether a backend has one of the addresses.
func (t *translation) leadsTo(addrs map[netip.Addr]bool) bool {
	return slices.ContainsFunc(t.backends, func(b netip.AddrPort) bool { return addrs[b.Addr()] })
}
