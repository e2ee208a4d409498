package stn

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/vswitch/vpp/convert"
	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/subsystem"

	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/stn"
)

var module = session.NewModule("stn_plugin.so", "STN rules",
	&stn.StnAddDelRule{}, &stn.StnAddDelRuleReply{}, &stn.StnRulesDump{}, &stn.StnRulesDetails{},
)

// Rules are VPP's STN rules, one for an address. A rule is ours if its interface is.
type Rules struct {
	subsystem.Base
	vpp *session.Session
	ifs *ownership.Registry
}

func New(vpp *session.Session, ifs *ownership.Registry) *Rules {
	return &Rules{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs}
}

// find returns the interface that an address is handed to.
func (v *Rules) find(ctx context.Context, addr netip.Addr) (i ownership.Index, ok bool, err error) {
	all, err := session.Dump[stn.StnRulesDetails](ctx, v.vpp, module, &stn.StnRulesDump{})
	if err != nil {
		return 0, false, err
	}
	for _, d := range all {
		if convert.Addr(d.IPAddress) == addr {
			return d.SwIfIndex, true, nil
		}
	}
	return 0, false, nil
}

func (v *Rules) Create(ctx context.Context, r *vpp_stn.Rule) error {
	if err := v.set(ctx, r); err != nil {
		return fmt.Errorf("handing packets for %s to the host by interface %q: %w", r.GetIpAddress(), r.GetInterface(), err)
	}
	return nil
}

func (v *Rules) set(ctx context.Context, r *vpp_stn.Rule) error {
	addr, err := convert.ParseAddr(r.GetIpAddress())
	if err != nil {
		return err
	}
	i, err := v.ifs.Index(ctx, r.GetInterface())
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
		name, err := v.ifs.AnyName(ctx, now)
		if err != nil {
			return err
		}
		return fmt.Errorf("interface %q gets them already: remove that rule first", name)
	}
	return v.vpp.Call(ctx, module, &stn.StnAddDelRule{IPAddress: convert.Address(addr), SwIfIndex: i, IsAdd: true}, &stn.StnAddDelRuleReply{})
}

func (v *Rules) Delete(ctx context.Context, r *vpp_stn.Rule) error {
	if err := v.unset(ctx, r); err != nil {
		return fmt.Errorf("no longer handing packets for %s to the host: %w", r.GetIpAddress(), err)
	}
	return nil
}

func (v *Rules) unset(ctx context.Context, r *vpp_stn.Rule) error {
	addr, err := convert.ParseAddr(r.GetIpAddress())
	if err != nil {
		return err
	}
	now, there, err := v.find(ctx, addr)
	if err != nil || !there {
		return err
	}
	if name, err := v.ifs.AnyName(ctx, now); err != nil || name != r.GetInterface() {
		return err
	}
	err = v.vpp.Call(ctx, module, &stn.StnAddDelRule{IPAddress: convert.Address(addr), SwIfIndex: now}, &stn.StnAddDelRuleReply{})
	if vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return nil
	}
	return err
}

func (v *Rules) List(ctx context.Context, expected []*vpp_stn.Rule) ([]*vpp_stn.Rule, error) {
	all, err := session.Dump[stn.StnRulesDetails](ctx, v.vpp, module, &stn.StnRulesDump{})
	if err != nil {
		return nil, session.IgnoreUnsupported("listing STN rules", err)
	}
	text := convert.Texts(expected, (*vpp_stn.Rule).GetIpAddress)
	var list []*vpp_stn.Rule
	for _, d := range all {
		name, err := v.ifs.Name(ctx, d.SwIfIndex)
		if err != nil {
			return nil, fmt.Errorf("listing STN rules: %w", err)
		}
		if name != "" {
			list = append(list, &vpp_stn.Rule{IpAddress: text(convert.Addr(d.IPAddress)), Interface: name})
		}
	}
	return list, nil
}
