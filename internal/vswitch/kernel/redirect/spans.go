package redirect

import (
	"context"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
)

type spans struct{ *Driver }

func (v *Driver) SpanPort() vswitch.Values[*vpp_interfaces.Span] { return spans{v} }

func copies(s *vpp_interfaces.Span) map[purpose]bool {
	d := s.GetDirection()
	return map[purpose]bool{
		copyReceived: d == vpp_interfaces.Span_RX || d == vpp_interfaces.Span_BOTH,
		copySent:     d == vpp_interfaces.Span_TX || d == vpp_interfaces.Span_BOTH,
	}
}

func (v spans) Create(_ context.Context, s *vpp_interfaces.Span) error {
	if s.GetIsL2() {
		return vswitch.Unsupported("is_l2: the Linux kernel copies the frames of a device, not of a bridge domain: leave it out")
	}
	if err := v.carriesFrames(s.GetInterfaceFrom(), s.GetInterfaceTo()); err != nil {
		return err
	}
	err := v.withDevices(s.GetInterfaceFrom(), s.GetInterfaceTo(), func(from, to int) error {
		for p, wanted := range copies(s) {
			want := filter{index: from, purpose: p, to: to}
			have, err := v.filtersOf(from, p)
			if err != nil {
				return err
			}
			there := false
			for _, f := range have {
				switch same := f.same(want); {
				case same && wanted && !there:
					there = true
				case same:
					err = v.delFilter(f)
				}
				if err != nil {
					return err
				}
			}
			if wanted && !there {
				if err := v.addFilter(want); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("copying the frames of interface %q to %q: %w", s.GetInterfaceFrom(), s.GetInterfaceTo(), err)
	}
	v.Reg.Put(s)
	return nil
}

// Delete accepts that the destination device, and with it the index, may be gone.
func (v spans) Delete(_ context.Context, s *vpp_interfaces.Span) error {
	found, name, err := v.namedFilters(copyReceived, copySent)
	if err == nil {
		err = v.Reg.During(s, func() error {
			for _, f := range found {
				if name(f.index) != s.GetInterfaceFrom() || name(f.to) != s.GetInterfaceTo() {
					continue
				}
				if err := v.delFilter(f); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("ending the copies of frames of interface %q to %q: %w", s.GetInterfaceFrom(), s.GetInterfaceTo(), err)
	}
	return nil
}

func (v spans) List(_ context.Context, expected []*vpp_interfaces.Span) ([]*vpp_interfaces.Span, error) {
	found, name, err := v.namedFilters(copyReceived, copySent)
	if err != nil {
		return nil, err
	}
	type pair struct{ from, to string }
	spans := map[pair]*vpp_interfaces.Span{}
	var list []*vpp_interfaces.Span
	for _, f := range found {
		p := pair{name(f.index), name(f.to)}
		direction := vpp_interfaces.Span_RX
		if f.purpose == copySent {
			direction = vpp_interfaces.Span_TX
		}
		switch s := spans[p]; {
		case s == nil:
			spans[p] = &vpp_interfaces.Span{InterfaceFrom: p.from, InterfaceTo: p.to, Direction: direction}
			list = append(list, spans[p])
		case s.Direction != direction:
			s.Direction = vpp_interfaces.Span_BOTH
		}
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}
