package punt

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	"github.com/contiv/contiv/internal/vswitch"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/punt"
)

var redirectModule = session.NewModule("", "redirection of punted packets",
	&ip.AddDelIPPuntRedirectV2{}, &ip.AddDelIPPuntRedirectV2Reply{}, &ip.IPPuntRedirectV2Dump{}, &ip.IPPuntRedirectV2Details{},
	&punt.SetPunt{}, &punt.SetPuntReply{},
)

// ipRedirects: VPP has one redirection per interface and one for all others, by IP version. It is
// ours if packets leave by our interface.
type ipRedirects struct{ *Punts }

func (v *Punts) IPRedirects() vswitch.Values[*vpp_punt.IPRedirect] { return ipRedirects{v} }

// redirection is a redirection in VPP.
type redirection struct {
	ipv6    bool
	rx, tx  ownership.Index // rx 0: all interfaces without their own
	nextHop netip.Addr
}

// familiesOf returns the IP versions; true is IPv6.
func familiesOf(p vpp_punt.L3Protocol) []bool {
	switch p {
	case vpp_punt.L3Protocol_IPV4:
		return []bool{false}
	case vpp_punt.L3Protocol_IPV6:
		return []bool{true}
	}
	return []bool{false, true}
}

func (v ipRedirects) read(ctx context.Context) (list []redirection, err error) {
	for _, ipv6 := range []bool{false, true} {
		all, err := session.Dump[ip.IPPuntRedirectV2Details](ctx, v.vpp, redirectModule,
			&ip.IPPuntRedirectV2Dump{SwIfIndex: ^ownership.Index(0), Af: convert.Family(ipv6)})
		if err != nil {
			return nil, err
		}
		for _, d := range all {
			r := redirection{ipv6: ipv6, rx: d.Punt.RxSwIfIndex}
			if r.rx == ^ownership.Index(0) {
				r.rx = 0
			}
			if len(d.Punt.Paths) == 1 {
				r.tx, r.nextHop = ownership.Index(d.Punt.Paths[0].SwIfIndex), convert.NextHop(d.Punt.Paths[0])
			}
			list = append(list, r)
		}
	}
	return list, nil
}

func (r redirection) request(add bool) api.Message {
	req := &ip.AddDelIPPuntRedirectV2{IsAdd: add, Punt: ip.PuntRedirectV2{RxSwIfIndex: r.rx, Af: convert.Family(r.ipv6)}}
	if add {
		req.Punt.Paths = []fib_types.FibPath{convert.PathVia(r.nextHop, uint32(r.tx))}
	}
	return req
}

func (v ipRedirects) wanted(ctx context.Context, p *vpp_punt.IPRedirect) (want []redirection, err error) {
	r := redirection{}
	if r.tx, err = v.ifs.Index(ctx, p.GetTxInterface()); err != nil {
		return nil, err
	}
	if name := p.GetRxInterface(); name != "" {
		if r.rx, err = v.ifs.Index(ctx, name); err != nil {
			return nil, err
		}
	}
	if r.nextHop, err = convert.ParseAddr(p.GetNextHop()); err != nil {
		return nil, err
	}
	for _, r.ipv6 = range familiesOf(p.GetL3Protocol()) {
		want = append(want, r)
	}
	return want, nil
}

// wantedAndNow returns the redirections of a value, and all of VPP.
func (v ipRedirects) wantedAndNow(ctx context.Context, p *vpp_punt.IPRedirect) (want, now []redirection, err error) {
	if want, err = v.wanted(ctx, p); err == nil {
		now, err = v.read(ctx)
	}
	return want, now, err
}

func (v ipRedirects) Create(ctx context.Context, p *vpp_punt.IPRedirect) error {
	if err := v.set(ctx, p); err != nil {
		return fmt.Errorf("redirecting %v packets to interface %q: %w", p.GetL3Protocol(), p.GetTxInterface(), err)
	}
	return nil
}

// set replaces redirections to the same interface, and also punts packets that VPP would refuse
// with an ICMP error.
func (v ipRedirects) set(ctx context.Context, p *vpp_punt.IPRedirect) error {
	want, now, err := v.wantedAndNow(ctx, p)
	if err != nil {
		return err
	}
	var reqs []api.Message
	for _, w := range want {
		add := true
		for _, n := range now {
			switch {
			case n.ipv6 != w.ipv6:
			case n == w:
				add = false
			case n.rx == w.rx && n.tx != w.tx:
				name, err := v.ifs.AnyName(ctx, n.tx)
				if err != nil {
					return err
				}
				return fmt.Errorf("they are redirected to interface %q already: remove that first", name)
			case n.tx == w.tx:
				reqs = append(reqs, n.request(false))
			}
		}
		if add {
			reqs = append(reqs, w.request(true))
		}
	}
	return errors.Join(v.send(ctx, reqs), v.puntUnknown(ctx, want, true))
}

func (v ipRedirects) send(ctx context.Context, reqs []api.Message) error {
	_, errs := session.CallAll[ip.AddDelIPPuntRedirectV2Reply](ctx, v.vpp, redirectModule, reqs)
	return session.FirstError(errs)
}

// puntUnknown enables or disables punting of packets to unused ports.
func (v ipRedirects) puntUnknown(ctx context.Context, list []redirection, punted bool) error {
	const anyPort = ^uint16(0)
	var reqs []api.Message
	for _, r := range list {
		for _, protocol := range []ip_types.IPProto{ip_types.IP_API_PROTO_UDP, ip_types.IP_API_PROTO_TCP} {
			reqs = append(reqs, &punt.SetPunt{IsAdd: punted, Punt: puntL4(r.ipv6, protocol, anyPort)})
		}
	}
	_, errs := session.CallAll[punt.SetPuntReply](ctx, v.vpp, redirectModule, reqs)
	return session.FirstError(errs)
}

func (v ipRedirects) Delete(ctx context.Context, p *vpp_punt.IPRedirect) error {
	err := v.unset(ctx, p)
	if err != nil && !ownership.IsNoInterface(err) {
		return fmt.Errorf("no longer redirecting %v packets to interface %q: %w", p.GetL3Protocol(), p.GetTxInterface(), err)
	}
	return nil
}

// unset keeps punting enabled while other redirections or STN rules exist.
func (v ipRedirects) unset(ctx context.Context, p *vpp_punt.IPRedirect) error {
	want, now, err := v.wantedAndNow(ctx, p)
	if err != nil {
		return err
	}
	var reqs []api.Message
	var last []redirection
	for _, w := range want {
		rest := 0
		for _, n := range now {
			switch {
			case n.ipv6 != w.ipv6:
			case n.tx == w.tx:
				reqs = append(reqs, n.request(false))
			default:
				rest++
			}
		}
		if rest == 0 {
			last = append(last, w)
		}
	}
	if err := v.send(ctx, reqs); err != nil || len(reqs) == 0 {
		return err
	}
	rules, err := v.rules.List(ctx, nil)
	if err != nil || len(rules) > 0 {
		return err
	}
	return v.puntUnknown(ctx, last, false)
}

// List: a value for both IP versions has a next hop of only one.
func (v ipRedirects) List(ctx context.Context, _ []*vpp_punt.IPRedirect) ([]*vpp_punt.IPRedirect, error) {
	now, err := v.read(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing redirections: %w", err)
	}
	both := map[redirection]int{}
	for _, r := range now {
		r.ipv6 = false
		both[r]++
	}
	var list []*vpp_punt.IPRedirect
	for _, r := range now {
		tx, err := v.ifs.Name(ctx, r.tx)
		if err != nil {
			return nil, fmt.Errorf("listing redirections: %w", err)
		}
		protocol := vpp_punt.L3Protocol_IPV4
		if r.ipv6 {
			protocol = vpp_punt.L3Protocol_IPV6
		}
		same := r
		same.ipv6 = false
		if both[same] == 2 {
			protocol = vpp_punt.L3Protocol_ALL
		}
		if tx == "" || protocol == vpp_punt.L3Protocol_ALL && r.ipv6 {
			continue
		}
		value := &vpp_punt.IPRedirect{L3Protocol: protocol, TxInterface: tx, NextHop: r.nextHop.String()}
		if r.rx != 0 {
			if value.RxInterface, err = v.ifs.AnyName(ctx, r.rx); err != nil {
				return nil, fmt.Errorf("listing redirections: %w", err)
			}
		}
		list = append(list, value)
	}
	return list, nil
}
