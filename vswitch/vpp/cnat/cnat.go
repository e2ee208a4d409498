package cnat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"

	"github.com/contiv/contiv/delta"

	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/subsystem"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"google.golang.org/protobuf/proto"
)

var module = session.NewModule("cnat_plugin.so", "DNat66",
	&cnat.CnatTranslationUpdate{}, &cnat.CnatTranslationUpdateReply{},
	&cnat.CnatTranslationDel{}, &cnat.CnatTranslationDelReply{},
	&cnat.CnatTranslationDump{}, &cnat.CnatTranslationDetails{},
	&cnat.CnatSetSnatPolicy{}, &cnat.CnatSetSnatPolicyReply{},
	&cnat.CnatSetSnatAddresses{}, &cnat.CnatSetSnatAddressesReply{},
	&cnat.CnatGetSnatAddresses{}, &cnat.CnatGetSnatAddressesReply{},
	&cnat.CnatSnatPolicyAddDelIf{}, &cnat.CnatSnatPolicyAddDelIfReply{},
)

// DNAT66 is the plugin cnat, by its features on all interfaces of ours (features.go).
// Translations are ours by their marks, see translation.
type DNAT66 struct {
	subsystem.Base
	vpp    *session.Session
	ifs    *ownership.Registry
	routes Routes
	log    *slog.Logger
	notes  notes
}

// Routes knows what VPP would not use any more beside a translation.
type Routes interface {
	// Exact returns those of the networks to which there is a route of ours, to exactly
	// them, in VRF 0.
	Exact(ctx context.Context, networks []netip.Prefix) ([]netip.Prefix, error)
}

var _ vswitch.DNAT66 = (*DNAT66)(nil)

func New(vpp *session.Session, ifs *ownership.Registry, routes Routes, log *slog.Logger) *DNAT66 {
	return &DNAT66{Base: subsystem.Base{Uses: []*session.Module{module, featureModule}}, vpp: vpp, ifs: ifs, routes: routes, log: log}
}

// Opened forgets whether interfaces have the features.
func (v *DNAT66) Opened(context.Context, *session.Link) error {
	v.setOn(false)
	return nil
}

// notes are what the driver has to remember of cnat.
type notes struct {
	changing sync.Mutex // held while translations change: whether an address is free is asked first

	mu sync.Mutex
	on bool // new interfaces get the features
}

func (v *DNAT66) Set(ctx context.Context, values ...*contiv_nat.DNat66) error {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	wanted := map[natKey6]*translation{}
	for _, value := range values {
		list, err := translationsOf(value)
		if err != nil {
			return fmt.Errorf("setting DNAT66 %q: %w", value.GetLabel(), err)
		}
		for key, t := range list {
			if wanted[key] != nil {
				return fmt.Errorf("setting DNAT66 %q: another value has a mapping for %s", value.GetLabel(), key)
			}
			wanted[key] = t
		}
	}
	return session.Wrap("setting "+labelsOf66(values), v.replace(ctx, values, wanted))
}

func (v *DNAT66) Remove(ctx context.Context, values ...*contiv_nat.DNat66) error {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	err := v.replace(ctx, values, nil)
	if errors.Is(err, kvscheduler.ErrUnsupported) { // there can be none
		return nil
	}
	return session.Wrap("removing "+labelsOf66(values), err)
}

func labelsOf66(values []*contiv_nat.DNat66) string {
	if len(values) == 1 {
		return fmt.Sprintf("DNAT66 %q", values[0].GetLabel())
	}
	return fmt.Sprintf("%d values of DNAT66", len(values))
}

// replace makes the wanted translations those of the values.
func (v *DNAT66) replace(ctx context.Context, values []*contiv_nat.DNat66, wanted map[natKey6]*translation) error {
	all, err := v.read(ctx)
	if err != nil {
		return err
	}
	labels := map[string]bool{}
	for _, value := range values {
		labels[value.GetLabel()] = true
	}
	mine := map[natKey6]*translation{}
	for key, now := range all {
		switch {
		case now.ours && labels[now.label]:
			mine[key] = now
		case wanted[key] == nil:
		case !now.ours:
			return fmt.Errorf("%s has a translation already, of somebody else", key)
		default:
			return fmt.Errorf("%s has a mapping already, of DNAT66 %q", key, now.label)
		}
	}
	var gone, come []change66
	for _, step := range delta.Between(mine, wanted, (*translation).equal) {
		c := change66{step.Key, step.Old, step.New}
		if step.Kind == delta.Remove {
			gone = append(gone, c)
		} else {
			come = append(come, c)
		}
	}
	for _, list := range [][]change66{gone, come} {
		slices.SortFunc(list, func(a, b change66) int { return a.key.compare(b.key) })
	}
	if err := v.checkRoutes(ctx, all, come); err != nil {
		return err
	}
	if err := v.prepare(ctx, wanted); err != nil {
		return err
	}
	return v.run(ctx, append(gone, come...))
}

// checkRoutes refuses addresses that there is a route of ours to: that of cnat would take
// its place, and hide it.
func (v *DNAT66) checkRoutes(ctx context.Context, all map[natKey6]*translation, come []change66) error {
	known := map[netip.Addr]bool{}
	for key := range all {
		known[key.addr.Addr()] = true
	}
	var networks []netip.Prefix
	for _, c := range come {
		if addr := c.key.addr.Addr(); !known[addr] {
			known[addr] = true
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
	return fmt.Errorf("there is a route to exactly %s, which VPP would not use any more: remove it, or route its network", taken[0].Addr())
}

// change66 is a translation that comes, changes or goes; nil: there is none.
type change66 struct {
	key           natKey6
	before, after *translation
}

// requests returns what VPP is asked for. It changes backends of a translation that
// exists, but not how one of them is chosen.
func (c change66) requests() (list []api.Message) {
	if c.before != nil && (c.after == nil || c.before.sticky() != c.after.sticky()) {
		list = append(list, &cnat.CnatTranslationDel{ID: c.before.id})
	}
	if c.after != nil {
		list = append(list, c.after.request(c.key))
	}
	return list
}

// run sends all requests, and waits for them. If one is refused, the state before is
// restored.
func (v *DNAT66) run(ctx context.Context, changes []change66) error {
	err := v.send(ctx, changes)
	if err == nil {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	all, err2 := v.read(ctx)
	if err2 != nil {
		return errors.Join(err, err2)
	}
	var back []change66
	for _, c := range changes {
		now := all[c.key]
		if (now == nil) != (c.before == nil) || now != nil && !now.equal(c.before) {
			back = append(back, change66{c.key, now, c.before})
		}
	}
	return errors.Join(err, session.Wrap("taking it back", v.send(ctx, back)))
}

func (v *DNAT66) send(ctx context.Context, changes []change66) error {
	l, err := v.vpp.Use(module)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	for _, c := range changes {
		for _, req := range c.requests() {
			switch req := req.(type) {
			case *cnat.CnatTranslationDel:
				b.Add(ctx, fmt.Sprintf("no longer translating %s", c.key), req, &cnat.CnatTranslationDelReply{}, api.NO_SUCH_ENTRY)
			default:
				b.Add(ctx, fmt.Sprintf("translating %s", c.key), req, &cnat.CnatTranslationUpdateReply{})
			}
		}
	}
	return b.Wait(ctx)
}

// List: if an interface is without the features, nothing is as expected.
func (v *DNAT66) List(ctx context.Context, expected []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error) {
	all, err := v.read(ctx)
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	byLabel := map[string]map[natKey6]*translation{}
	for key, t := range all {
		if !t.ours {
			continue
		}
		if byLabel[t.label] == nil {
			byLabel[t.label] = map[natKey6]*translation{}
		}
		byLabel[t.label][key] = t
	}
	covered := true
	if len(byLabel) > 0 {
		if covered, err = v.allCovered(ctx, byLabel); err != nil {
			return nil, err
		}
		v.setOn(covered) // if not, the next Set looks after it
	}
	var found []*contiv_nat.DNat66
	for _, value := range expected {
		label := value.GetLabel()
		wanted, err := translationsOf(value)
		if err != nil {
			continue
		}
		same := len(wanted) == len(byLabel[label])
		for key, t := range wanted {
			now := byLabel[label][key]
			same = same && now != nil && now.equal(t)
		}
		if same && (covered || len(wanted) == 0) {
			found = append(found, proto.CloneOf(value))
		}
		if same {
			delete(byLabel, label)
		}
	}
	for label, list := range byLabel {
		found = append(found, northbound66(label, list))
	}
	return found, nil
}

// read reads the translations of IPv6 of everybody.
func (v *DNAT66) read(ctx context.Context) (map[natKey6]*translation, error) {
	details, err := session.Dump[cnat.CnatTranslationDetails](ctx, v.vpp, module, &cnat.CnatTranslationDump{})
	if err != nil {
		return nil, fmt.Errorf("listing translations: %w", err)
	}
	all := map[natKey6]*translation{}
	for _, d := range details {
		if key, t, ok := readTranslation(&d.Translation); ok {
			all[key] = t
		}
	}
	return all, nil
}

// northbound66 describes translations as found.
func northbound66(label string, list map[natKey6]*translation) *contiv_nat.DNat66 {
	value := &contiv_nat.DNat66{Label: label}
	for key, t := range list {
		m := &contiv_nat.DNat66_StaticMapping{
			ExternalIp: key.addr.Addr().String(), ExternalPort: uint32(key.addr.Port()), Protocol: protocols66[key.proto], SessionAffinity: t.affinity, TwiceNat: t.mode,
		}
		if t.source.IsValid() {
			m.TwiceNatIp = t.source.String()
		}
		count := map[netip.AddrPort]uint32{}
		for _, b := range t.backends {
			if count[b]++; count[b] == 1 {
				m.LocalIps = append(m.LocalIps, &contiv_nat.DNat66_StaticMapping_LocalIP{LocalIp: b.Addr().String(), LocalPort: uint32(b.Port())})
			}
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
