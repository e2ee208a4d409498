package vpp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/feature"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/vlib"
)

var featureModule = newModule("", "features of interfaces",
	&feature.FeatureEnableDisable{}, &feature.FeatureEnableDisableReply{},
)

// The plugin cnat translates either what the FIB of VRF 0 finds for an address, both ways,
// which misses answers between pods in another VRF; or what interfaces have these features
// for: the first one translates packets that enter, the second one those that leave, which
// are answers. So all interfaces of ours have them.
var cnatFeatures = []struct{ arc, name string }{{"ip6-unicast", "cnat-input-ip6"}, {"ip6-output", "cnat-output-ip6"}}

func (v *VSwitch) setCNATOn(on bool) {
	v.cnat.mu.Lock()
	defer v.cnat.mu.Unlock()
	v.cnat.on = on
}

func (v *VSwitch) isCNATOn() bool {
	v.cnat.mu.Lock()
	defer v.cnat.mu.Unlock()
	return v.cnat.on
}

// coverNew gives a new interface the features, if there are translations.
func (v *VSwitch) coverNew(ctx context.Context, iface string) error {
	if !v.isCNATOn() {
		return nil
	}
	d, err := interfaces{v}.existing(ctx, iface)
	if err != nil || d == nil {
		return err
	}
	return natError("translating on it", v.cover(ctx, []*interfaces_api.SwInterfaceDetails{d}))
}

// prepare makes interfaces and the source ready for translations.
func (v dnat66) prepare(ctx context.Context, wanted map[natKey6]*translation) error {
	if len(wanted) > 0 && !v.isCNATOn() {
		if err := v.coverAll(ctx); err != nil {
			return err
		}
	}
	source := selfSource(wanted)
	if !source.IsValid() {
		return nil
	}
	return natError("setting the source of clients that are their own local address", v.setSource(ctx, source))
}

// coverAll gives all interfaces the features. VPP's policy "k8s" changes sources of
// clients that are their own local address, and of nothing else if all interfaces are said
// to be those of pods.
func (v dnat66) coverAll(ctx context.Context) error {
	if err := v.call(ctx, cnatModule, &cnat.CnatSetSnatPolicy{Policy: cnat.CNAT_POLICY_K8S}, &cnat.CnatSetSnatPolicyReply{}); err != nil {
		return fmt.Errorf("choosing whose source is changed: %w", err)
	}
	all, err := v.ownInterfaces(ctx)
	if err != nil {
		return err
	}
	v.setCNATOn(true) // before: interfaces may be created meanwhile
	if err := v.cover(ctx, all); err != nil {
		v.setCNATOn(false)
		return fmt.Errorf("translating on interfaces: %w", err)
	}
	return nil
}

// setSource: VPP has one source. That of IPv4 is not ours.
func (v dnat66) setSource(ctx context.Context, source netip.Addr) error {
	now := &cnat.CnatGetSnatAddressesReply{}
	if err := v.call(ctx, cnatModule, &cnat.CnatGetSnatAddresses{}, now); err != nil {
		return err
	}
	if netip.AddrFrom16(now.SnatIP6) == source {
		return nil
	}
	if was := netip.AddrFrom16(now.SnatIP6); !was.IsUnspecified() {
		v.log.Warn("VPP has one twice_nat_ip for all values", "was", was, "becomes", source)
	}
	return v.call(ctx, cnatModule, &cnat.CnatSetSnatAddresses{SnatIP4: now.SnatIP4, SnatIP6: source.As16(), SwIfIndex: noIndex}, &cnat.CnatSetSnatAddressesReply{})
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
func (v dnat66) ownInterfaces(ctx context.Context) ([]*interfaces_api.SwInterfaceDetails, error) {
	all, err := v.allInterfaces(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing interfaces: %w", err)
	}
	return slices.DeleteFunc(all, func(d *interfaces_api.SwInterfaceDetails) bool { return logicalName(d) == "" }), nil
}

// cover gives interfaces the features. VPP would give them twice.
func (v *VSwitch) cover(ctx context.Context, ifaces []*interfaces_api.SwInterfaceDetails) error {
	lacking, err := v.lackingFeatures(ctx, ifaces)
	if err != nil {
		return err
	}
	l, err := v.use(featureModule)
	if err != nil {
		return err
	}
	b := batch{l: l}
	for _, d := range ifaces {
		b.add(ctx, "taking interface "+logicalName(d)+" for that of a pod", &cnat.CnatSnatPolicyAddDelIf{SwIfIndex: d.SwIfIndex, IsAdd: 1, Table: cnat.CNAT_POLICY_POD}, &cnat.CnatSnatPolicyAddDelIfReply{}, api.INVALID_SW_IF_INDEX)
	}
	for _, f := range lacking {
		b.add(ctx, "giving an interface the feature "+f.FeatureName, f, &feature.FeatureEnableDisableReply{}, api.INVALID_SW_IF_INDEX)
	}
	return b.wait(ctx)
}

// lackingFeatures returns the requests for those that interfaces do not have. It reads
// what the command line tells: VPP's message for that (feature_is_enabled) gives an answer
// that does not say which request it is for.
func (v *VSwitch) lackingFeatures(ctx context.Context, ifaces []*interfaces_api.SwInterfaceDetails) (lacking []*feature.FeatureEnableDisable, err error) {
	questions := make([]api.Message, len(ifaces))
	for n, d := range ifaces {
		questions[n] = &vlib.CliInband{Cmd: "show interface features " + d.InterfaceName}
	}
	replies, errs := callAll[vlib.CliInbandReply](ctx, v, cliModule, questions)
	for n, d := range ifaces {
		if errs[n] != nil {
			if _, refused := errors.AsType[*vppapi.ReplyError](errs[n]); refused { // it is gone
				continue
			}
			return nil, fmt.Errorf("asking for the features of interface %q: %w", logicalName(d), errs[n])
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

// allCovered tells if all interfaces have the features, and if there is a source for
// clients if one is asked for.
func (v dnat66) allCovered(ctx context.Context, values map[string]map[natKey6]*translation) (bool, error) {
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
	if err := v.call(ctx, cnatModule, &cnat.CnatGetSnatAddresses{}, now); err != nil {
		return false, fmt.Errorf("asking for the source of clients: %w", err)
	}
	return sources[now.SnatIP6], nil
}
