package vpp

import (
	"context"
	"errors"
	"fmt"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch"
	"go.fd.io/govpp/binapi/span"
)

var spanModule = newModule("", "mirrored interfaces",
	&span.SwInterfaceSpanEnableDisable{}, &span.SwInterfaceSpanEnableDisableReply{}, &span.SwInterfaceSpanDump{}, &span.SwInterfaceSpanDetails{},
)

// spans are ours if they mirror an interface of ours.
type spans struct{ *VSwitch }

func (v *VSwitch) Spans() vswitch.Values[*vpp_interfaces.Span] { return spans{v} }

var spanStates = map[vpp_interfaces.Span_Direction]span.SpanState{
	vpp_interfaces.Span_RX: span.SPAN_STATE_API_RX, vpp_interfaces.Span_TX: span.SPAN_STATE_API_TX, vpp_interfaces.Span_BOTH: span.SPAN_STATE_API_RX_TX,
}

func (v spans) Create(ctx context.Context, s *vpp_interfaces.Span) error {
	if err := v.set(ctx, s, spanStates[s.GetDirection()]); err != nil {
		return fmt.Errorf("mirroring interface %q to %q: %w", s.GetInterfaceFrom(), s.GetInterfaceTo(), err)
	}
	return nil
}

func (v spans) Delete(ctx context.Context, s *vpp_interfaces.Span) error {
	err := v.set(ctx, s, span.SPAN_STATE_API_DISABLED)
	var none *noInterfaceError
	if err != nil && !errors.As(err, &none) {
		return fmt.Errorf("ending to mirror interface %q to %q: %w", s.GetInterfaceFrom(), s.GetInterfaceTo(), err)
	}
	return nil
}

func (v spans) set(ctx context.Context, s *vpp_interfaces.Span, state span.SpanState) error {
	from, err := v.indexOf(ctx, s.GetInterfaceFrom())
	if err != nil {
		return err
	}
	to, err := v.indexOf(ctx, s.GetInterfaceTo())
	if err != nil {
		return err
	}
	return v.call(ctx, spanModule, &span.SwInterfaceSpanEnableDisable{SwIfIndexFrom: from, SwIfIndexTo: to, State: state, IsL2: s.GetIsL2()},
		&span.SwInterfaceSpanEnableDisableReply{})
}

func (v spans) List(ctx context.Context, _ []*vpp_interfaces.Span) ([]*vpp_interfaces.Span, error) {
	pending := v.startInterfaces(ctx)
	var all []*span.SwInterfaceSpanDetails
	var errs []error
	for _, isL2 := range []bool{false, true} {
		found, err := dump[span.SwInterfaceSpanDetails](ctx, v.VSwitch, spanModule, &span.SwInterfaceSpanDump{IsL2: isL2})
		all, errs = append(all, found...), append(errs, err)
	}
	names, err := waitNames(ctx, pending)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, fmt.Errorf("reading mirrored interfaces: %w", err)
	}
	var list []*vpp_interfaces.Span
	for _, d := range all {
		from, ours := names.of(d.SwIfIndexFrom)
		if !ours {
			continue
		}
		to, ours := names.of(d.SwIfIndexTo)
		if !ours {
			to = goneName(d.SwIfIndexTo)
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
