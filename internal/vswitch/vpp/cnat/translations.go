package cnat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/internal/lib/delta"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/binapi/cnat"
)

var module = session.NewModule("cnat_plugin.so", "services and DNat66",
	&cnat.CnatTranslationUpdate{}, &cnat.CnatTranslationUpdateReply{},
	&cnat.CnatTranslationDel{}, &cnat.CnatTranslationDelReply{},
	&cnat.CnatTranslationDump{}, &cnat.CnatTranslationDetails{},
	&cnat.CnatSessionDump{}, &cnat.CnatSessionDetails{},
	&cnat.CnatSetSnatPolicy{}, &cnat.CnatSetSnatPolicyReply{},
	&cnat.CnatSetSnatAddresses{}, &cnat.CnatSetSnatAddressesReply{},
	&cnat.CnatGetSnatAddresses{}, &cnat.CnatGetSnatAddressesReply{},
	&cnat.CnatSnatPolicyAddDelIf{}, &cnat.CnatSnatPolicyAddDelIfReply{},
)

// Translations drives the plugin cnat by its features on all our interfaces (features.go). Marks
// identify our translations; see translation. Values of both IP versions are handled in the form of
// DNat66; a label names one value of each version.
type Translations struct {
	subsystem.Base
	vpp    *session.Session
	ifs    *ownership.Registry
	routes Routes
	guards Guards
	// namespaces may be nil.
	namespaces Namespaces
	log        *slog.Logger
	notes      notes
}

// Routes reports routes that translations would disable in VPP.
type Routes interface {
	// Exact returns the networks with a route of ours to exactly them in VRF 0.
	Exact(ctx context.Context, networks []netip.Prefix) ([]netip.Prefix, error)
	// SetRefused sets the refused networks of VRF 0; Refused returns them in order.
	SetRefused(ctx context.Context, networks []netip.Prefix) error
	Refused(ctx context.Context) ([]netip.Prefix, error)
}

// New returns the translations of a VPP.
func New(vpp *session.Session, ifs *ownership.Registry, routes Routes, guards Guards, namespaces Namespaces, log *slog.Logger) *Translations {
	return &Translations{
		Base: subsystem.Base{Uses: []*session.Module{module, featureModule, classifyModule, urpfModule}}, vpp: vpp, ifs: ifs, routes: routes, guards: guards, namespaces: namespaces, log: log,
		notes: notes{left: make(chan struct{}, 1)},
	}
}

// Opened is called after each connection to VPP, which may have been restarted: the interfaces must get
// cnat's features again, and connections to endpoints that left meanwhile are looked for.
func (v *Translations) Opened(context.Context, *session.Link) error {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	v.notes.on, v.notes.outside = [2]bool{}, nil
	v.backendsLeft()
	return nil
}

// notes holds the driver's state of cnat.
type notes struct {
	changing sync.Mutex    // held while translations change, including the check whether an address is free
	known    [2]*known     // by IP version; nil: must be read; guarded by changing
	left     chan struct{} // full: flows may have to move
	inUse    [2]int        // by IP version: the number of pins only of backends with connections at the last listing; guarded by changing

	silencing sync.Mutex // held while classifier tables of external clients change, because VPP reuses their numbers

	noResets sync.Once // logs once that connections cannot be reset

	mu      sync.Mutex
	on      [2]bool         // by IP version: new interfaces get the features
	outside map[string]bool // interfaces by which clients outside come
}

type value = contiv_nat.DNat66

// set creates or changes the translations of values of one IP version.
func (v *Translations) set(ctx context.Context, f family, values []*value) error {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	wanted := map[natKey]*translation{}
	for _, value := range values {
		list, err := translationsOf(f, value)
		if err != nil {
			return fmt.Errorf("setting %s %q: %w", f, value.GetLabel(), err)
		}
		for key, t := range list {
			if wanted[key] != nil {
				return fmt.Errorf("setting %s %q: another value has a mapping for %s", f, value.GetLabel(), key)
			}
			wanted[key] = t
		}
	}
	return session.Wrap("setting "+labelsOf(f, values), v.replace(ctx, f, values, wanted))
}

// remove removes the translations of values by label.
func (v *Translations) remove(ctx context.Context, f family, values []*value) error {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	err := v.replace(ctx, f, values, nil)
	if errors.Is(err, kvscheduler.ErrUnsupported) { // there can be none
		return nil
	}
	return session.Wrap("removing "+labelsOf(f, values), err)
}

func labelsOf(f family, values []*value) string {
	if len(values) == 1 {
		return fmt.Sprintf("%s %q", f, values[0].GetLabel())
	}
	return fmt.Sprintf("%d values of %s", len(values), f)
}

// replace makes the wanted translations those of the values.
func (v *Translations) replace(ctx context.Context, f family, values []*value, wanted map[natKey]*translation) error {
	k, err := v.know(ctx, f)
	if err != nil {
		return err
	}
	mine := map[natKey]*translation{}
	for _, value := range values {
		maps.Copy(mine, k.labels[value.GetLabel()])
	}
	for key := range wanted {
		switch now := k.all[key]; {
		case now == nil || mine[key] != nil:
		case !now.ours:
			return fmt.Errorf("%s already has a foreign translation", key)
		default:
			return fmt.Errorf("%s has a mapping already, of %s %q", key, f, now.label)
		}
	}
	var gone, come []changed
	for _, step := range delta.Between(mine, wanted, (*translation).equal) {
		c := changed{step.Key, step.Old, step.New}
		if step.Kind == delta.Remove {
			gone = append(gone, c)
		} else {
			come = append(come, c)
		}
	}
	for _, list := range [][]changed{gone, come} {
		slices.SortFunc(list, func(a, b changed) int { return a.key.compare(b.key) })
	}
	if err := v.checkRoutes(ctx, k, come); err != nil {
		return err
	}
	if err := v.prepare(ctx, f, wanted); err != nil {
		return err
	}
	changes := append(gone, come...)
	if err := v.pin(ctx, f, k, wanted); err != nil {
		return err
	}
	if err := v.run(ctx, k, f, changes); err != nil {
		return err
	}
	if slices.ContainsFunc(changes, changed.losesFlows) {
		v.backendsLeft()
	}
	return v.unpin(ctx, f, k, changes)
}

// checkRoutes refuses addresses with a route of ours, which cnat's would replace.
func (v *Translations) checkRoutes(ctx context.Context, k *known, come []changed) error {
	seen := map[netip.Addr]bool{}
	var networks []netip.Prefix
	for _, c := range come {
		if addr := c.key.addr.Addr(); k.vips[addr] == 0 && !seen[addr] {
			seen[addr] = true
			networks = append(networks, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	if len(networks) == 0 {
		return nil
	}
	taken, err := v.routes.Exact(ctx, networks)
	if err != nil || len(taken) == 0 {
		return err
	}
	return fmt.Errorf("VPP would stop using the existing route to exactly %s: remove it, or route its network", taken[0].Addr())
}

// changed is a created, changed or deleted translation; nil where it does not exist.
type changed struct {
	key           natKey
	before, after *translation
}

// deletes reports whether the old translation must be deleted first. VPP changes a translation's
// backends, but not how one is chosen.
func (c changed) deletes() bool {
	return c.before != nil && !c.before.absent && (c.after == nil || c.before.sticky() != c.after.sticky())
}

// changesMark reports whether the record changes.
func (c changed) changesMark() bool {
	return c.before == nil || c.after == nil || !c.before.marksAs(c.after)
}

// run sends all requests and waits for them. If one is refused, it restores the previous state.
func (v *Translations) run(ctx context.Context, k *known, f family, changes []changed) error {
	err := v.send(ctx, k, f, changes)
	if err == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if err2 := v.read(ctx); err2 != nil {
		return errors.Join(err, err2)
	}
	k = v.notes.known[f]
	var back []changed
	for _, c := range changes {
		now := k.all[c.key]
		if (now == nil) != (c.before == nil) || now != nil && !now.equal(c.before) {
			back = append(back, changed{c.key, now, c.before})
		}
	}
	return errors.Join(err, session.Wrap("taking it back", v.send(ctx, k, f, back)))
}

// list returns the expected values that are in place. None is if an interface lacks the features,
// nor one with an unpinned backend.
func (v *Translations) list(ctx context.Context, f family, expected []*value) ([]*value, error) {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	k, err := v.listed(ctx, f)
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	byLabel := maps.Clone(k.labels)
	covered := true
	if len(byLabel) > 0 {
		if covered, err = v.allCovered(ctx, f, byLabel); err != nil {
			return nil, err
		}
		v.setOn(f, covered) // otherwise the next set covers it
	}
	var found []*value
	for _, value := range expected {
		label := value.GetLabel()
		wanted, err := translationsOf(f, value)
		if err != nil {
			continue
		}
		same := maps.EqualFunc(wanted, byLabel[label], (*translation).equal)
		if same && (covered || len(wanted) == 0) && k.pinsAll(wanted) {
			found = append(found, value)
		}
		if same {
			delete(byLabel, label)
		}
	}
	for label, list := range byLabel {
		found = append(found, northbound(label, list))
	}
	return found, nil
}

// northbound describes translations as found.
func northbound(label string, list map[natKey]*translation) *value {
	value := &value{Label: label}
	for key, t := range list {
		m := &contiv_nat.DNat66_StaticMapping{
			ExternalIp: key.addr.Addr().String(), ExternalPort: uint32(key.addr.Port()), Protocol: protocols[key.proto], SessionAffinity: t.affinity, TwiceNat: t.mode,
		}
		m.MasqueradeOutside, m.ResetRemoved = t.hide, t.reset
		if t.source.IsValid() {
			m.TwiceNatIp = t.source.String()
		}
		count := map[netip.AddrPort]uint32{}
		for _, b := range t.backends {
			if b.Addr() == refuser[familyOf(b.Addr())] {
				continue
			}
			if count[b]++; count[b] == 1 {
				m.LocalIps = append(m.LocalIps, &contiv_nat.DNat66_StaticMapping_LocalIP{LocalIp: b.Addr().String(), LocalPort: uint32(b.Port())})
			}
		}
		if t.refuse {
			m.Otherwise = contiv_nat.DNat66_StaticMapping_REFUSE
		}
		for _, l := range m.LocalIps {
			l.Probability = count[netip.AddrPortFrom(netip.MustParseAddr(l.GetLocalIp()), uint16(l.GetLocalPort()))]
		}
		value.StMappings = append(value.StMappings, m)
	}
	slices.SortFunc(value.StMappings, func(a, b *contiv_nat.DNat66_StaticMapping) int {
		return cmp.Or(cmp.Compare(a.GetExternalIp(), b.GetExternalIp()), cmp.Compare(a.GetExternalPort(), b.GetExternalPort()), cmp.Compare(a.GetProtocol(), b.GetProtocol()))
	})
	return value
}
