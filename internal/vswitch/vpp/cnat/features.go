package cnat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/feature"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/vlib"
)

var featureModule = session.NewModule("", "features of interfaces",
	&feature.FeatureEnableDisable{}, &feature.FeatureEnableDisableReply{},
)

// The plugin cnat can translate in two ways. The FIB of VRF 0 translates both directions, but
// misses replies between pods in another VRF. These interface features translate entering packets
// (the first) and leaving replies (the second). All our interfaces have the features, except those
// of external clients (ServiceNetwork): their packets are translated by the FIB, which can hide
// client addresses. This also separates their connections from others, and NAT44 on such an
// interface sees its replies first. Access lists run between the two features, so they see backend
// addresses.
var cnatFeatures = [...][]struct{ arc, name string }{
	v4: {{"ip4-unicast", "cnat-input-ip4"}, {"ip4-output", "cnat-output-ip4"}},
	v6: {{"ip6-unicast", "cnat-input-ip6"}, {"ip6-output", "cnat-output-ip6"}},
}

func (v *Translations) setOn(f family, on bool) {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	v.notes.on[f] = on
}

func (v *Translations) isOn(f family) bool {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	return v.notes.on[f]
}

// families returns the enabled IP versions.
func (v *Translations) families() (list []family) {
	for _, f := range []family{v4, v6} {
		if v.isOn(f) {
			list = append(list, f)
		}
	}
	return list
}

// InterfaceCreated enables the features on a new interface if translations exist.
func (v *Translations) InterfaceCreated(ctx context.Context, i ownership.Index) error {
	families := v.families()
	if len(families) == 0 {
		return nil
	}
	d, err := v.ifs.Details(ctx, i)
	if err != nil || d == nil {
		return err
	}
	return session.Wrap("translating on it", v.cover(ctx, families, []*interfaces_api.SwInterfaceDetails{d}))
}

// prepare prepares interfaces and the source for translations.
func (v *Translations) prepare(ctx context.Context, f family, wanted map[natKey]*translation) error {
	if len(wanted) > 0 && !v.isOn(f) {
		if err := v.coverAll(ctx, f); err != nil {
			return err
		}
	}
	source := selfSource(wanted)
	if !source.IsValid() {
		return nil
	}
	return session.Wrap("setting the source of clients that are their own local address", v.setSource(ctx, f, source))
}

// coverAll sets the features of all interfaces. With all interfaces declared as pod interfaces,
// VPP's policy "k8s" changes the source only of clients that reach themselves.
func (v *Translations) coverAll(ctx context.Context, families ...family) error {
	if err := v.vpp.Call(ctx, module, &cnat.CnatSetSnatPolicy{Policy: cnat.CNAT_POLICY_K8S}, &cnat.CnatSetSnatPolicyReply{}); err != nil {
		return fmt.Errorf("selecting the clients for source translation: %w", err)
	}
	all, err := v.ownInterfaces(ctx)
	if err != nil {
		return err
	}
	for _, f := range families {
		v.setOn(f, true) // before: interfaces may be created meanwhile
	}
	if err := v.cover(ctx, families, all); err != nil {
		for _, f := range families {
			v.setOn(f, false)
		}
		return fmt.Errorf("translating on interfaces: %w", err)
	}
	return nil
}

// sources returns VPP's source addresses for clients, one per IP version.
func (v *Translations) sources(ctx context.Context) ([2]netip.Addr, error) {
	now := &cnat.CnatGetSnatAddressesReply{}
	err := v.vpp.Call(ctx, module, &cnat.CnatGetSnatAddresses{}, now)
	return [...]netip.Addr{v4: netip.AddrFrom4(now.SnatIP4), v6: netip.AddrFrom16(now.SnatIP6)}, err
}

// setSource sets the source of an IP version and keeps the other's.
func (v *Translations) setSource(ctx context.Context, f family, source netip.Addr) error {
	now, err := v.sources(ctx)
	if err != nil || now[f] == source {
		return err
	}
	if was := now[f]; !was.IsUnspecified() && !source.IsUnspecified() {
		v.log.Warn("Source address for clients changed for all values", "was", was, "becomes", source)
	}
	now[f] = source
	return v.vpp.Call(ctx, module, &cnat.CnatSetSnatAddresses{SnatIP4: now[v4].As4(), SnatIP6: now[v6].As16(), SwIfIndex: ownership.NoIndex}, &cnat.CnatSetSnatAddressesReply{})
}

// selfSource returns the source requested by translations; the last one wins.
func selfSource(wanted map[natKey]*translation) (source netip.Addr) {
	var last natKey
	for key, t := range wanted {
		if t.mode == contiv_nat.DNat66_StaticMapping_SELF && t.source.IsValid() && (!source.IsValid() || key.compare(last) > 0) {
			source, last = t.source, key
		}
	}
	return source
}

// ownInterfaces returns all interfaces of ours.
func (v *Translations) ownInterfaces(ctx context.Context) ([]*interfaces_api.SwInterfaceDetails, error) {
	all, err := v.ifs.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	return slices.DeleteFunc(all, func(d *interfaces_api.SwInterfaceDetails) bool { return ownership.LogicalName(d) == "" }), nil
}

// cover sets the features of interfaces. VPP would enable a feature twice, so it reads them first.
func (v *Translations) cover(ctx context.Context, families []family, ifaces []*interfaces_api.SwInterfaceDetails) error {
	wrong, err := v.wrongFeatures(ctx, families, ifaces)
	if err != nil {
		return err
	}
	l, err := v.vpp.Use(featureModule)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	for _, d := range ifaces {
		b.Add(ctx, "taking interface "+ownership.LogicalName(d)+" as a pod interface", &cnat.CnatSnatPolicyAddDelIf{SwIfIndex: d.SwIfIndex, IsAdd: 1, Table: cnat.CNAT_POLICY_POD}, &cnat.CnatSnatPolicyAddDelIfReply{}, api.INVALID_SW_IF_INDEX)
	}
	for _, f := range wrong {
		b.Add(ctx, "changing the feature "+f.FeatureName+" of an interface", f, &feature.FeatureEnableDisableReply{}, api.INVALID_SW_IF_INDEX)
	}
	return b.Wait(ctx)
}

// wrongFeatures returns the requests that correct interfaces' features. It parses CLI output,
// because the replies of VPP's message (feature_is_enabled) do not identify their requests.
func (v *Translations) wrongFeatures(ctx context.Context, families []family, ifaces []*interfaces_api.SwInterfaceDetails) (wrong []*feature.FeatureEnableDisable, err error) {
	questions := make([]api.Message, len(ifaces))
	for n, d := range ifaces {
		questions[n] = &vlib.CliInband{Cmd: "show interface features " + d.InterfaceName}
	}
	replies, errs := session.CallAll[vlib.CliInbandReply](ctx, v.vpp, session.CliModule, questions)
	for n, d := range ifaces {
		if errs[n] != nil {
			if _, refused := errors.AsType[*vppapi.ReplyError](errs[n]); refused { // it is gone
				continue
			}
			return nil, fmt.Errorf("asking for the features of interface %q: %w", ownership.LogicalName(d), errs[n])
		}
		words := strings.Fields(replies[n].Reply)
		wanted := !v.isOutside(ownership.LogicalName(d))
		for _, version := range families {
			for _, f := range cnatFeatures[version] {
				if slices.Contains(words, f.name) != wanted {
					wrong = append(wrong, &feature.FeatureEnableDisable{SwIfIndex: d.SwIfIndex, Enable: wanted, ArcName: f.arc, FeatureName: f.name})
				}
			}
		}
	}
	return wrong, nil
}

func (v *Translations) isOutside(iface string) bool {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	return v.notes.outside[iface]
}

// haveFeatures reports whether the interfaces have the right features.
func (v *Translations) haveFeatures(ctx context.Context, families ...family) (bool, error) {
	ifaces, err := v.ownInterfaces(ctx)
	if err != nil {
		return false, err
	}
	wrong, err := v.wrongFeatures(ctx, families, ifaces)
	return len(wrong) == 0, err
}

// allCovered reports whether all interfaces have the features, and whether the requested source is
// set.
func (v *Translations) allCovered(ctx context.Context, f family, values map[string]map[natKey]*translation) (bool, error) {
	if covered, err := v.haveFeatures(ctx, f); err != nil || !covered {
		return false, err
	}
	asked := map[netip.Addr]bool{}
	for _, list := range values {
		if s := selfSource(list); s.IsValid() {
			asked[s] = true
		}
	}
	if len(asked) == 0 {
		return true, nil
	}
	now, err := v.sources(ctx)
	if err != nil {
		return false, fmt.Errorf("asking for the source of clients: %w", err)
	}
	return asked[now[f]], nil
}
