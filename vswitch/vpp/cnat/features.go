package cnat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"github.com/contiv/contiv/vswitch/vpp/session"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/feature"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/vlib"
)

var featureModule = session.NewModule("", "features of interfaces",
	&feature.FeatureEnableDisable{}, &feature.FeatureEnableDisableReply{},
)

// The plugin cnat translates either what the FIB of VRF 0 finds for an address, both ways,
// which misses answers between pods in another VRF; or what interfaces have these features
// for: the first one translates packets that enter, the second one those that leave, which
// are answers. So all interfaces of ours have them.
var cnatFeatures = []struct{ arc, name string }{{"ip6-unicast", "cnat-input-ip6"}, {"ip6-output", "cnat-output-ip6"}}

func (v *DNAT66) setOn(on bool) {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	v.notes.on = on
}

func (v *DNAT66) isOn() bool {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	return v.notes.on
}

// InterfaceCreated gives a new interface the features, if there are translations.
func (v *DNAT66) InterfaceCreated(ctx context.Context, i ownership.Index) error {
	if !v.isOn() {
		return nil
	}
	d, err := v.ifs.Details(ctx, i)
	if err != nil || d == nil {
		return err
	}
	return session.Wrap("translating on it", v.cover(ctx, []*interfaces_api.SwInterfaceDetails{d}))
}

// prepare makes interfaces and the source ready for translations.
func (v *DNAT66) prepare(ctx context.Context, wanted map[natKey6]*translation) error {
	if len(wanted) > 0 && !v.isOn() {
		if err := v.coverAll(ctx); err != nil {
			return err
		}
	}
	source := selfSource(wanted)
	if !source.IsValid() {
		return nil
	}
	return session.Wrap("setting the source of clients that are their own local address", v.setSource(ctx, source))
}

// coverAll gives all interfaces the features. VPP's policy "k8s" changes sources of
// clients that are their own local address, and of nothing else if all interfaces are said
// to be those of pods.
func (v *DNAT66) coverAll(ctx context.Context) error {
	if err := v.vpp.Call(ctx, module, &cnat.CnatSetSnatPolicy{Policy: cnat.CNAT_POLICY_K8S}, &cnat.CnatSetSnatPolicyReply{}); err != nil {
		return fmt.Errorf("choosing whose source is changed: %w", err)
	}
	all, err := v.ownInterfaces(ctx)
	if err != nil {
		return err
	}
	v.setOn(true) // before: interfaces may be created meanwhile
	if err := v.cover(ctx, all); err != nil {
		v.setOn(false)
		return fmt.Errorf("translating on interfaces: %w", err)
	}
	return nil
}

// setSource: VPP has one source. That of IPv4 is not ours.
func (v *DNAT66) setSource(ctx context.Context, source netip.Addr) error {
	now := &cnat.CnatGetSnatAddressesReply{}
	if err := v.vpp.Call(ctx, module, &cnat.CnatGetSnatAddresses{}, now); err != nil {
		return err
	}
	if netip.AddrFrom16(now.SnatIP6) == source {
		return nil
	}
	if was := netip.AddrFrom16(now.SnatIP6); !was.IsUnspecified() {
		v.log.Warn("VPP has one twice_nat_ip for all values", "was", was, "becomes", source)
	}
	return v.vpp.Call(ctx, module, &cnat.CnatSetSnatAddresses{SnatIP4: now.SnatIP4, SnatIP6: source.As16(), SwIfIndex: ownership.NoIndex}, &cnat.CnatSetSnatAddressesReply{})
}

// selfSource returns the source that translations ask for; the last one counts.
func selfSource(wanted map[natKey6]*translation) (source netip.Addr) {
	var last natKey6
	for key, t := range wanted {
		if t.mode == contiv_nat.DNat66_StaticMapping_SELF && (!source.IsValid() || key.compare(last) > 0) {
			source, last = t.source, key
		}
	}
	return source
}

// ownInterfaces returns all interfaces of ours.
func (v *DNAT66) ownInterfaces(ctx context.Context) ([]*interfaces_api.SwInterfaceDetails, error) {
	all, err := v.ifs.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	return slices.DeleteFunc(all, func(d *interfaces_api.SwInterfaceDetails) bool { return ownership.LogicalName(d) == "" }), nil
}

// cover gives interfaces the features. VPP would give them twice.
func (v *DNAT66) cover(ctx context.Context, ifaces []*interfaces_api.SwInterfaceDetails) error {
	lacking, err := v.lackingFeatures(ctx, ifaces)
	if err != nil {
		return err
	}
	l, err := v.vpp.Use(featureModule)
	if err != nil {
		return err
	}
	b := session.NewBatch(l)
	for _, d := range ifaces {
		b.Add(ctx, "taking interface "+ownership.LogicalName(d)+" for that of a pod", &cnat.CnatSnatPolicyAddDelIf{SwIfIndex: d.SwIfIndex, IsAdd: 1, Table: cnat.CNAT_POLICY_POD}, &cnat.CnatSnatPolicyAddDelIfReply{}, api.INVALID_SW_IF_INDEX)
	}
	for _, f := range lacking {
		b.Add(ctx, "giving an interface the feature "+f.FeatureName, f, &feature.FeatureEnableDisableReply{}, api.INVALID_SW_IF_INDEX)
	}
	return b.Wait(ctx)
}

// lackingFeatures returns the requests for those that interfaces do not have. It reads
// what the command line tells: VPP's message for that (feature_is_enabled) gives an answer
// that does not say which request it is for.
func (v *DNAT66) lackingFeatures(ctx context.Context, ifaces []*interfaces_api.SwInterfaceDetails) (lacking []*feature.FeatureEnableDisable, err error) {
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
		for _, f := range cnatFeatures {
			if !slices.Contains(words, f.name) {
				lacking = append(lacking, &feature.FeatureEnableDisable{SwIfIndex: d.SwIfIndex, Enable: true, ArcName: f.arc, FeatureName: f.name})
			}
		}
	}
	return lacking, nil
}

// allCovered reports whether all interfaces have the features, and if there is a source for
// clients if one is asked for.
func (v *DNAT66) allCovered(ctx context.Context, values map[string]map[natKey6]*translation) (bool, error) {
	ifaces, err := v.ownInterfaces(ctx)
	if err != nil {
		return false, err
	}
	lacking, err := v.lackingFeatures(ctx, ifaces)
	if err != nil || len(lacking) > 0 {
		return false, err
	}
	sources := map[ip_types.IP6Address]bool{}
	for _, list := range values {
		if s := selfSource(list); s.IsValid() {
			sources[s.As16()] = true
		}
	}
	if len(sources) == 0 {
		return true, nil
	}
	now := &cnat.CnatGetSnatAddressesReply{}
	if err := v.vpp.Call(ctx, module, &cnat.CnatGetSnatAddresses{}, now); err != nil {
		return false, fmt.Errorf("asking for the source of clients: %w", err)
	}
	return sources[now.SnatIP6], nil
}
