package vpp

import (
	"context"
	"fmt"
	"net/netip"

	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/stn"
)

var stnModule = newModule("stn_plugin.so", "STN rules",
	&stn.StnAddDelRule{}, &stn.StnAddDelRuleReply{}, &stn.StnRulesDump{}, &stn.StnRulesDetails{},
)

// stnRules are VPP's STN rules, one for an address. A rule is ours if its interface is.
type stnRules struct{ *VSwitch }

func (v *VSwitch) STNRules() vswitch.Values[*vpp_stn.Rule] { return stnRules{v} }

// find returns the interface that an address is handed to.
func (v stnRules) find(ctx context.Context, addr netip.Addr) (i index, ok bool, err error) {
	all, err := dump[stn.StnRulesDetails](ctx, v.VSwitch, stnModule, &stn.StnRulesDump{})
	if err != nil {
		return 0, false, err
	}
	for _, d := range all {
		if addrOf(d.IPAddress) == addr {
			return d.SwIfIndex, true, nil
		}
	}
	return 0, false, nil
}

func (v stnRules) Create(ctx context.Context, r *vpp_stn.Rule) error {
	if err := v.set(ctx, r); err != nil {
		return fmt.Errorf("handing packets for %s to the host by interface %q: %w", r.GetIpAddress(), r.GetInterface(), err)
	}
	return nil
}

func (v stnRules) set(ctx context.Context, r *vpp_stn.Rule) error {
	addr, err := parseAddr(r.GetIpAddress())
	if err != nil {
		return err
	}
	i, err := v.ifs.index(ctx, r.GetInterface())
	if err != nil {
		return err
	}
	now, there, err := v.find(ctx, addr)
	switch {
	case err != nil:
		return err
	case there && now == i:
		return nil
	case there:
		name, err := v.ifaceName(ctx, now)
		if err != nil {
			return err
		}
		return fmt.Errorf("interface %q gets them already: remove that rule first", name)
	}
	return v.call(ctx, stnModule, &stn.StnAddDelRule{IPAddress: addressOf(addr), SwIfIndex: i, IsAdd: true}, &stn.StnAddDelRuleReply{})
}

func (v stnRules) Delete(ctx context.Context, r *vpp_stn.Rule) error {
	if err := v.unset(ctx, r); err != nil {
		return fmt.Errorf("no longer handing packets for %s to the host: %w", r.GetIpAddress(), err)
	}
	return nil
}

func (v stnRules) unset(ctx context.Context, r *vpp_stn.Rule) error {
	addr, err := parseAddr(r.GetIpAddress())
	if err != nil {
		return err
	}
	now, there, err := v.find(ctx, addr)
	if err != nil || !there {
		return err
	}
	if name, err := v.ifaceName(ctx, now); err != nil || name != r.GetInterface() {
		return err
	}
	err = v.call(ctx, stnModule, &stn.StnAddDelRule{IPAddress: addressOf(addr), SwIfIndex: now}, &stn.StnAddDelRuleReply{})
	if vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return nil
	}
	return err
}

func (v stnRules) List(ctx context.Context, expected []*vpp_stn.Rule) ([]*vpp_stn.Rule, error) {
	all, err := dump[stn.StnRulesDetails](ctx, v.VSwitch, stnModule, &stn.StnRulesDump{})
	if err != nil {
		return nil, ignoreUnsupported("listing STN rules", err)
	}
	text := textsOf(expected, (*vpp_stn.Rule).GetIpAddress)
	var list []*vpp_stn.Rule
	for _, d := range all {
		name, err := v.ifs.name(ctx, d.SwIfIndex)
		if err != nil {
			return nil, fmt.Errorf("listing STN rules: %w", err)
		}
		if name != "" {
			list = append(list, &vpp_stn.Rule{IpAddress: text(addrOf(d.IPAddress)), Interface: name})
		}
	}
	return list, nil
}
