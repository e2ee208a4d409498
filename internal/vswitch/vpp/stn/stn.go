package stn

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/stn"
)

var addressModule = session.NewModule("", "addresses of interfaces", &ip.IPAddressDump{}, &ip.IPAddressDetails{})

var module = session.NewModule("stn_plugin.so", "STN rules",
	&stn.StnAddDelRule{}, &stn.StnAddDelRuleReply{}, &stn.StnRulesDump{}, &stn.StnRulesDetails{},
)

// Rules are VPP's STN rules, one per address. A rule is ours if its interface is.
type Rules struct {
	subsystem.Base
	vpp     *session.Session
	ifs     *ownership.Registry
	sources Sources
}

// Sources are VPP's source addresses towards the host.
type Sources interface {
	// AcceptOwn makes VPP receive packets from its own IPv4 address at another of its addresses, or
	// stops that. Otherwise it hands none of them to the host.
	AcceptOwn(ctx context.Context, addr netip.Addr, on bool) error
	AcceptsOwn(ctx context.Context, addr netip.Addr) (bool, error)
}

func New(vpp *session.Session, ifs *ownership.Registry, sources Sources) *Rules {
	return &Rules{Base: subsystem.Base{Uses: []*session.Module{module, addressModule}}, vpp: vpp, ifs: ifs, sources: sources}
}

// sourcesAt returns the interface's IPv4 addresses if the handed address is IPv4.
func (v *Rules) sourcesAt(ctx context.Context, handed netip.Addr, i ownership.Index) (list []netip.Addr, err error) {
	if handed.Is6() {
		return nil, nil
	}
	found, err := session.Dump[ip.IPAddressDetails](ctx, v.vpp, addressModule, &ip.IPAddressDump{SwIfIndex: i})
	if err != nil {
		return nil, fmt.Errorf("reading the addresses of the interface: %w", err)
	}
	for _, d := range found {
		list = append(list, convert.Addr(d.Prefix.Address))
	}
	return list, nil
}

// acceptOwn makes VPP receive its own ICMP messages to a handed address, or stops that.
func (v *Rules) acceptOwn(ctx context.Context, handed netip.Addr, i ownership.Index, on bool) error {
	list, err := v.sourcesAt(ctx, handed, i)
	for _, addr := range list {
		err = errors.Join(err, v.sources.AcceptOwn(ctx, addr, on))
	}
	return err
}

// AddressAdded makes VPP receive its own ICMP messages from a new address of an interface.
func (v *Rules) AddressAdded(ctx context.Context, i ownership.Index, addr netip.Addr) error {
	if addr.Is6() {
		return nil
	}
	all, err := session.Dump[stn.StnRulesDetails](ctx, v.vpp, module, &stn.StnRulesDump{})
	if err != nil {
		return session.IgnoreUnsupported("listing STN rules", err)
	}
	if !slices.ContainsFunc(all, func(d *stn.StnRulesDetails) bool { return handsIPv4To(d, i) }) {
		return nil
	}
	return v.sources.AcceptOwn(ctx, addr, true)
}

func handsIPv4To(d *stn.StnRulesDetails, i ownership.Index) bool {
	return d.SwIfIndex == i && convert.Addr(d.IPAddress).Is4()
}

// vouches reports whether they do.
func (v *Rules) vouches(ctx context.Context, handed netip.Addr, i ownership.Index) (bool, error) {
	list, err := v.sourcesAt(ctx, handed, i)
	for _, addr := range list {
		if ok, err := v.sources.AcceptsOwn(ctx, addr); err != nil || !ok {
			return false, err
		}
	}
	return err == nil, err
}

// find returns the interface to which an address is handed.
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
		return v.acceptOwn(ctx, addr, i, true)
	case there:
		name, err := v.ifs.AnyName(ctx, now)
		if err != nil {
			return err
		}
		return fmt.Errorf("interface %q gets them already: remove that rule first", name)
	}
	if err := v.vpp.Call(ctx, module, &stn.StnAddDelRule{IPAddress: convert.Address(addr), SwIfIndex: i, IsAdd: true}, &stn.StnAddDelRuleReply{}); err != nil {
		return err
	}
	return v.acceptOwn(ctx, addr, i, true)
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
	if err != nil && !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return err
	}
	all, err := session.Dump[stn.StnRulesDetails](ctx, v.vpp, module, &stn.StnRulesDump{})
	if err != nil || slices.ContainsFunc(all, func(d *stn.StnRulesDetails) bool { return handsIPv4To(d, now) }) {
		return err
	}
	return v.acceptOwn(ctx, addr, now, false)
}

// List returns the rules. A rule whose ICMP messages VPP drops counts as missing.
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
		if name == "" {
			continue
		}
		addr := convert.Addr(d.IPAddress)
		ok, err := v.vouches(ctx, addr, d.SwIfIndex)
		if err != nil {
			return nil, fmt.Errorf("listing STN rules: %w", err)
		}
		if ok {
			list = append(list, &vpp_stn.Rule{IpAddress: text(addr), Interface: name})
		}
	}
	return list, nil
}
