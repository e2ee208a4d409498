package cnat

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
)

// known caches the translations of an IP version on one connection to VPP, as last listed and with
// all later changes. Listing 10,000 services takes a tenth of a second and holds up packets, so a
// change of one service must not list. The next resync, which lists again, detects foreign changes.
type known struct {
	link    *session.Link
	all     map[natKey]*translation            // of all owners, including pins
	labels  map[string]map[natKey]*translation // ours
	records map[netip.AddrPort]uint32          // numbers, as VPP gave them
	vips    map[netip.Addr]int                 // how many translations an address has
	uses    map[netip.Addr]int                 // number of translations per backend, without pins
	pinned  map[netip.Addr]int                 // number of pins per backend
	pinners map[natKey]*translation
	// readAhead is the time of a listing that no list of values has used yet; zero if none.
	readAhead time.Time
}

// readAheadTTL is the maximum age of a listing used for a list of values. VPP lists both IP
// versions at once and forwards nothing meanwhile. A resync lists one version after the other, and
// this avoids the second listing.
const readAheadTTL = 10 * time.Second

func newKnown(link *session.Link) *known {
	return &known{
		link: link, all: map[natKey]*translation{}, labels: map[string]map[natKey]*translation{}, records: map[netip.AddrPort]uint32{},
		vips: map[netip.Addr]int{}, uses: map[netip.Addr]int{}, pinned: map[netip.Addr]int{}, pinners: map[natKey]*translation{},
	}
}

// put records a translation; nil records its absence.
func (k *known) put(key natKey, t *translation) {
	if old := k.all[key]; old != nil {
		delete(k.all, key)
		delete(k.pinners, key)
		k.count(key, old, -1)
		if of := k.labels[old.label]; old.ours {
			if delete(of, key); len(of) == 0 {
				delete(k.labels, old.label)
			}
		}
	}
	if t == nil {
		return
	}
	k.all[key] = t
	k.count(key, t, 1)
	switch {
	case key.pins():
		k.pinners[key] = t
	case t.ours:
		if k.labels[t.label] == nil {
			k.labels[t.label] = map[natKey]*translation{}
		}
		k.labels[t.label][key] = t
	}
}

func (k *known) count(key natKey, t *translation, n int) {
	add := func(counts map[netip.Addr]int, a netip.Addr) {
		if counts[a] += n; counts[a] == 0 {
			delete(counts, a)
		}
	}
	add(k.vips, key.addr.Addr())
	for _, b := range t.backends {
		switch {
		case !key.pins():
			add(k.uses, b.Addr())
		case b.Port() == pinnedPort:
			add(k.pinned, b.Addr())
		}
	}
}

// record returns the request that updates the marks of the translations at an address and port.
func (k *known) record(at netip.AddrPort) (doing string, req api.Message) {
	r := cnat.CnatTranslation{Vip: endpoint(at), IPProto: recordProto, IsRealIP: 1}
	for _, proto := range marked {
		if t := k.all[natKey{at, proto}]; t != nil && t.ours {
			for _, part := range t.mark() {
				r.Paths = append(r.Paths, cnat.CnatEndpointTuple{
					DstEp: endpoint(netip.AddrPortFrom(refuser[familyOf(at.Addr())], uint16(proto))), SrcEp: endpoint(netip.AddrPortFrom(part, 0)),
				})
			}
		}
	}
	if len(r.Paths) > 0 {
		return fmt.Sprintf("recording the owners of translations of %s", at), &cnat.CnatTranslationUpdate{Translation: r}
	}
	id := k.records[at]
	delete(k.records, at)
	return fmt.Sprintf("deleting the owners of translations of %s", at), &cnat.CnatTranslationDel{ID: id}
}

// know returns the cached translations, reading them if needed. The caller holds changing.
func (v *Translations) know(ctx context.Context, f family) (*known, error) {
	l, err := v.vpp.Use(module)
	if err != nil {
		return nil, err
	}
	if k := v.notes.known[f]; k != nil && k.link == l {
		return k, nil
	}
	if err := v.read(ctx); err != nil {
		return nil, err
	}
	return v.notes.known[f], nil
}

// ReadAhead reads the translations for the first lists of values, while the agent still reads its
// services from etcd. It does nothing if they are known already.
func (v *Translations) ReadAhead(ctx context.Context) {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	if v.notes.known != [2]*known{} {
		return
	}
	now := time.Now()
	if v.read(ctx) != nil {
		return // the next caller gets the error
	}
	for _, k := range v.notes.known {
		k.readAhead = now
	}
}

// listed returns VPP's translations for a list of an IP version's values. The caller holds
// changing.
func (v *Translations) listed(ctx context.Context, f family) (*known, error) {
	l, err := v.vpp.Use(module)
	if err != nil {
		return nil, err
	}
	if k := v.notes.known[f]; k != nil && k.link == l && time.Since(k.readAhead) < readAheadTTL {
		k.readAhead = time.Time{}
		return k, nil
	}
	now := time.Now()
	if err := v.read(ctx); err != nil {
		return nil, err
	}
	v.notes.known[f.other()].readAhead = now
	return v.notes.known[f], nil
}

// read lists all translations of both IP versions. The caller holds changing.
func (v *Translations) read(ctx context.Context) error {
	v.notes.known = [2]*known{}
	l, err := v.vpp.Use(module)
	if err != nil {
		return err
	}
	details, err := session.Dump[cnat.CnatTranslationDetails](ctx, v.vpp, module, &cnat.CnatTranslationDump{})
	if err != nil {
		return fmt.Errorf("listing translations: %w", err)
	}
	both := [2]*known{newKnown(l), newKnown(l)}
	all := make(map[natKey]*translation, len(details))
	marks := make(map[natKey][]byte, len(details)/2)
	for _, d := range details {
		key, t := readTranslation(&d.Translation)
		if key.records() {
			both[familyOf(key.addr.Addr())].records[key.addr] = t.id
			readRecord(&d.Translation, key.addr, marks)
		} else {
			all[key] = t
		}
	}
	for key, mark := range marks {
		if all[key] == nil {
			all[key] = &translation{absent: true}
		}
		all[key].readMark(mark)
	}
	for key, t := range all {
		both[familyOf(key.addr.Addr())].put(key, t)
	}
	v.notes.known = both
	return nil
}

// send makes and records changes. After an error, the state of VPP is unknown.
func (v *Translations) send(ctx context.Context, k *known, f family, changes []changed) error {
	v.notes.known[f] = nil
	b := session.NewBatch(k.link)
	var noted []func()
	add := func(doing string, req api.Message, note func(id uint32)) {
		if _, deletes := req.(*cnat.CnatTranslationDel); deletes {
			b.Add(ctx, doing, req, &cnat.CnatTranslationDelReply{}, api.NO_SUCH_ENTRY)
			return
		}
		reply := &cnat.CnatTranslationUpdateReply{}
		b.Add(ctx, doing, req, reply)
		noted = append(noted, func() { note(reply.ID) })
	}
	for _, c := range changes {
		if c.deletes() {
			add(fmt.Sprintf("no longer translating %s", c.key), &cnat.CnatTranslationDel{ID: c.before.id}, nil)
		}
		k.put(c.key, c.after)
		if at := c.key.addr; c.changesMark() {
			doing, req := k.record(at)
			add(doing, req, func(id uint32) { k.records[at] = id })
		}
		if c.after != nil {
			add(fmt.Sprintf("translating %s", c.key), c.after.request(c.key), func(id uint32) { c.after.id = id })
		}
	}
	if err := b.Wait(ctx); err != nil {
		return err
	}
	for _, note := range noted {
		note()
	}
	v.notes.known[f] = k
	return nil
}

// marked lists the protocols of marked translations, in order.
var marked = slices.Sorted(maps.Keys(protocols))
