package span

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"go.fd.io/govpp/binapi/span"
)

var module = session.NewModule("", "mirrored interfaces",
	&span.SwInterfaceSpanEnableDisable{}, &span.SwInterfaceSpanEnableDisableReply{}, &span.SwInterfaceSpanDump{}, &span.SwInterfaceSpanDetails{},
)

// Spans are ours if they mirror an interface of ours.
type Spans struct {
	subsystem.Base
	vpp *session.Session
	ifs *ownership.Registry
}

func New(vpp *session.Session, ifs *ownership.Registry) *Spans {
	return &Spans{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs}
}

var spanStates = map[vpp_interfaces.Span_Direction]span.SpanState{
	vpp_interfaces.Span_RX: span.SPAN_STATE_API_RX, vpp_interfaces.Span_TX: span.SPAN_STATE_API_TX, vpp_interfaces.Span_BOTH: span.SPAN_STATE_API_RX_TX,
}

func (v *Spans) Create(ctx context.Context, s *vpp_interfaces.Span) error {
	if err := v.set(ctx, s, spanStates[s.GetDirection()]); err != nil {
		return fmt.Errorf("mirroring interface %q to %q: %w", s.GetInterfaceFrom(), s.GetInterfaceTo(), err)
	}
	return nil
}

func (v *Spans) Delete(ctx context.Context, s *vpp_interfaces.Span) error {
	err := v.set(ctx, s, span.SPAN_STATE_API_DISABLED)
	var none *ownership.NoInterfaceError
	if err != nil && !errors.As(err, &none) {
		return fmt.Errorf("ending to mirror interface %q to %q: %w", s.GetInterfaceFrom(), s.GetInterfaceTo(), err)
	}
	return nil
}

func (v *Spans) set(ctx context.Context, s *vpp_interfaces.Span, state span.SpanState) error {
	from, err := v.ifs.Resolve(ctx, s.GetInterfaceFrom())
	if err != nil {
		return err
	}
	to, err := v.ifs.Resolve(ctx, s.GetInterfaceTo())
	if err != nil {
		return err
	}
	return v.vpp.Call(ctx, module, &span.SwInterfaceSpanEnableDisable{SwIfIndexFrom: from, SwIfIndexTo: to, State: state, IsL2: s.GetIsL2()},
		&span.SwInterfaceSpanEnableDisableReply{})
}

func (v *Spans) List(ctx context.Context, _ []*vpp_interfaces.Span) ([]*vpp_interfaces.Span, error) {
	pending := v.ifs.Start(ctx)
	var all []*span.SwInterfaceSpanDetails
	var errs []error
	for _, isL2 := range []bool{false, true} {
		found, err := session.Dump[span.SwInterfaceSpanDetails](ctx, v.vpp, module, &span.SwInterfaceSpanDump{IsL2: isL2})
		all, errs = append(all, found...), append(errs, err)
	}
	names, err := ownership.WaitNames(ctx, pending)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("reading mirrored interfaces: %w", err)
	}
	var list []*vpp_interfaces.Span
	for _, d := range all {
		from, ours := names.Of(d.SwIfIndexFrom)
		if !ours {
			continue
		}
		to, ours := names.Of(d.SwIfIndexTo)
		if !ours {
			to = ownership.GoneName(d.SwIfIndexTo)
		}
		s := &vpp_interfaces.Span{InterfaceFrom: from, InterfaceTo: to, IsL2: d.IsL2}
		for direction, state := range spanStates {
			if state == d.State {
				s.Direction = direction
			}
		}
		list = append(list, s)
	}
	return list, nil
}

// InterfaceLeaving ends mirroring from and to an interface before it is deleted, because VPP would
// keep it for the next interface with the index.
func (v *Spans) InterfaceLeaving(ctx context.Context, i ownership.Index) error {
	var errs []error
	for _, isL2 := range []bool{false, true} {
		all, err := session.Dump[span.SwInterfaceSpanDetails](ctx, v.vpp, module, &span.SwInterfaceSpanDump{IsL2: isL2})
		errs = append(errs, err)
		for _, d := range all {
			if d.SwIfIndexFrom == i || d.SwIfIndexTo == i {
				errs = append(errs, v.vpp.Call(ctx, module, &span.SwInterfaceSpanEnableDisable{
					SwIfIndexFrom: d.SwIfIndexFrom, SwIfIndexTo: d.SwIfIndexTo, IsL2: isL2,
				}, &span.SwInterfaceSpanEnableDisableReply{}))
			}
		}
	}
	return session.FirstError(errs)
}
