package proxyarp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/lib/delta"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/arp"
)

var module = session.NewModule("", "proxy ARP",
	&arp.ProxyArpAddDel{}, &arp.ProxyArpAddDelReply{}, &arp.ProxyArpDump{}, &arp.ProxyArpDetails{},
	&arp.ProxyArpIntfcEnableDisable{}, &arp.ProxyArpIntfcEnableDisableReply{}, &arp.ProxyArpIntfcDump{}, &arp.ProxyArpIntfcDetails{},
)

// ProxyARP: all ranges are ours. They have no effect without an interface.
type ProxyARP struct {
	subsystem.Base
	vpp *session.Session
	ifs *ownership.Registry
}

func New(vpp *session.Session, ifs *ownership.Registry) *ProxyARP {
	return &ProxyARP{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs}
}

func (v *ProxyARP) Create(ctx context.Context, p *vpp_l3.ProxyARP) error {
	if err := v.setRanges(ctx, p); err != nil {
		return fmt.Errorf("setting the ranges of proxy ARP: %w", err)
	}
	return nil
}

// Delete removes all ranges.
func (v *ProxyARP) Delete(ctx context.Context, _ *vpp_l3.ProxyARP) error {
	if err := v.setRanges(ctx, &vpp_l3.ProxyARP{}); err != nil {
		return fmt.Errorf("removing the ranges of proxy ARP: %w", err)
	}
	return nil
}

// setRanges applies the value's ranges. Unchanged ranges are not touched.
func (v *ProxyARP) setRanges(ctx context.Context, p *vpp_l3.ProxyARP) error {
	have, err := v.ranges(ctx)
	if err != nil {
		return err
	}
	want := map[arp.ProxyArp]bool{}
	for _, r := range p.GetRanges() {
		first, err := netip.ParseAddr(r.GetFirstIpAddr())
		if err != nil {
			return err
		}
		last, err := netip.ParseAddr(r.GetLastIpAddr())
		if err != nil {
			return err
		}
		if !first.Is4() || !last.Is4() {
			return fmt.Errorf("%s-%s: proxy ARP is for IPv4", first, last)
		}
		want[arp.ProxyArp{TableID: r.GetVrfId(), Low: first.As4(), Hi: last.As4()}] = true
	}
	var reqs []api.Message
	for _, step := range delta.BetweenSets(have, want) {
		reqs = append(reqs, &arp.ProxyArpAddDel{IsAdd: step.Kind == delta.Add, Proxy: step.Key})
	}
	_, errs := session.CallAll[arp.ProxyArpAddDelReply](ctx, v.vpp, module, reqs)
	for i, err := range errs {
		if !reqs[i].(*arp.ProxyArpAddDel).IsAdd && vppapi.Refused(err, api.NO_SUCH_ENTRY) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

func (v *ProxyARP) ranges(ctx context.Context) (map[arp.ProxyArp]bool, error) {
	all, err := session.Dump[arp.ProxyArpDetails](ctx, v.vpp, module, &arp.ProxyArpDump{})
	ranges := map[arp.ProxyArp]bool{}
	for _, d := range all {
		ranges[d.Proxy] = true
	}
	return ranges, err
}

func (v *ProxyARP) AddInterface(ctx context.Context, iface string) error {
	i, err := v.ifs.Index(ctx, iface)
	if err == nil {
		err = v.vpp.Call(ctx, module, &arp.ProxyArpIntfcEnableDisable{SwIfIndex: i, Enable: true}, &arp.ProxyArpIntfcEnableDisableReply{})
	}
	if err != nil {
		return fmt.Errorf("enabling proxy ARP on interface %q: %w", iface, err)
	}
	return nil
}

func (v *ProxyARP) RemoveInterface(ctx context.Context, iface string) error {
	i, err := v.ifs.Resolve(ctx, iface)
	if err == nil {
		err = v.vpp.Call(ctx, module, &arp.ProxyArpIntfcEnableDisable{SwIfIndex: i}, &arp.ProxyArpIntfcEnableDisableReply{})
	}
	var none *ownership.NoInterfaceError
	if err != nil && !errors.As(err, &none) && !vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
		return fmt.Errorf("disabling proxy ARP on interface %q: %w", iface, err)
	}
	return nil
}

func (v *ProxyARP) List(ctx context.Context, expected []*vpp_l3.ProxyARP) ([]*vpp_l3.ProxyARP, error) {
	pending := v.ifs.Start(ctx)
	enabled, err := session.Dump[arp.ProxyArpIntfcDetails](ctx, v.vpp, module, &arp.ProxyArpIntfcDump{})
	ranges, rangesErr := v.ranges(ctx)
	names, namesErr := ownership.WaitNames(ctx, pending)
	if err := errors.Join(err, rangesErr, namesErr); err != nil {
		return nil, fmt.Errorf("reading proxy ARP: %w", err)
	}
	p := &vpp_l3.ProxyARP{}
	for _, r := range slices.SortedFunc(maps.Keys(ranges), func(a, b arp.ProxyArp) int {
		return netip.AddrFrom4(a.Low).Compare(netip.AddrFrom4(b.Low))
	}) {
		p.Ranges = append(p.Ranges, &vpp_l3.ProxyARP_Range{
			FirstIpAddr: netip.AddrFrom4(r.Low).String(), LastIpAddr: netip.AddrFrom4(r.Hi).String(), VrfId: r.TableID,
		})
	}
	for _, d := range enabled {
		// VPP keeps the settings of deleted interfaces.
		if name := names[ownership.Index(d.SwIfIndex)]; name != "" {
			p.Interfaces = append(p.Interfaces, &vpp_l3.ProxyARP_Interface{Name: name})
		}
	}
	if len(p.Ranges) == 0 && len(p.Interfaces) == 0 {
		return nil, nil
	}
	return []*vpp_l3.ProxyARP{p}, nil
}

// InterfaceLeaving disables proxy ARP on an interface before it is deleted, because VPP would keep
// it for the next interface with the index.
func (v *ProxyARP) InterfaceLeaving(ctx context.Context, i ownership.Index) error {
	return v.vpp.Call(ctx, module, &arp.ProxyArpIntfcEnableDisable{SwIfIndex: i}, &arp.ProxyArpIntfcEnableDisableReply{})
}
