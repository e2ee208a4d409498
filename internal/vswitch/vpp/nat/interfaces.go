package nat

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/nat44_ed"
	"go.fd.io/govpp/binapi/nat_types"
)

// natSides holds the NAT features of an interface. With output, VPP reports inside and outside.
type natSides struct{ inside, outside, output bool }

func (v *NAT) AddInterface(ctx context.Context, i *vpp_nat.Nat44Interface) error {
	wanted := natSides{inside: i.GetNatInside() && !i.GetOutputFeature(), outside: i.GetNatOutside() && !i.GetOutputFeature(), output: i.GetOutputFeature()}
	if err := v.setSides(ctx, i.GetName(), func(natSides) natSides { return wanted }); err != nil {
		return fmt.Errorf("making NAT work on interface %q: %w", i.GetName(), err)
	}
	return nil
}

func (v *NAT) RemoveInterface(ctx context.Context, i *vpp_nat.Nat44Interface) error {
	return v.removeSides(ctx, i.GetName(), func(natSides) natSides { return natSides{} })
}

func (v *NAT) removeSides(ctx context.Context, iface string, edit func(natSides) natSides) error {
	err := v.setSides(ctx, iface, edit)
	var gone *ownership.NoInterfaceError
	if errors.As(err, &gone) {
		return nil
	}
	return session.Wrap(fmt.Sprintf("ending NAT on interface %q", iface), err)
}

func (v *NAT) AddGlobalInterface(ctx context.Context, i *vpp_nat.Nat44Global_Interface) error {
	v.notes.mu.Lock()
	v.notes.globalIfaces[models.NAT44GlobalInterfaceKey(i.GetName(), i.GetIsInside())] = i
	v.notes.mu.Unlock()
	err := v.setSides(ctx, i.GetName(), func(now natSides) natSides { return now.with(i, true) })
	return session.Wrap(fmt.Sprintf("making NAT work on interface %q", i.GetName()), err)
}

func (v *NAT) RemoveGlobalInterface(ctx context.Context, i *vpp_nat.Nat44Global_Interface) error {
	v.notes.mu.Lock()
	delete(v.notes.globalIfaces, models.NAT44GlobalInterfaceKey(i.GetName(), i.GetIsInside()))
	v.notes.mu.Unlock()
	return v.removeSides(ctx, i.GetName(), func(now natSides) natSides { return now.with(i, false) })
}

func (s natSides) with(i *vpp_nat.Nat44Global_Interface, on bool) natSides {
	switch {
	case i.GetOutputFeature() && on:
		return natSides{output: true}
	case i.GetOutputFeature():
		s.output = false
	case i.GetIsInside():
		s.inside = on
	default:
		s.outside = on
	}
	if on {
		s.output = false
	}
	return s
}

// setSides changes the NAT features of an interface. While the output feature is switched, NAT is
// briefly off there.
func (v *NAT) setSides(ctx context.Context, name string, edit func(natSides) natSides) error {
	iface, err := v.ifs.Index(ctx, name)
	if err != nil {
		return err
	}
	all, err := v.natInterfaces(ctx)
	if err != nil {
		return err
	}
	now := all[name]
	wanted := edit(now)
	output := func(add bool) error {
		return v.vpp.Call(ctx, module, &nat44_ed.Nat44EdAddDelOutputInterface{IsAdd: add, SwIfIndex: iface}, &nat44_ed.Nat44EdAddDelOutputInterfaceReply{})
	}
	side := func(flag nat_types.NatConfigFlags, add bool) error {
		return v.vpp.Call(ctx, module, &nat44_ed.Nat44InterfaceAddDelFeature{IsAdd: add, Flags: flag, SwIfIndex: iface}, &nat44_ed.Nat44InterfaceAddDelFeatureReply{})
	}
	steps := []struct {
		needed bool
		do     func() error
	}{
		{now.output && !wanted.output, func() error { return output(false) }},
		{!wanted.output && wanted.inside && !now.inside, func() error { return side(nat_types.NAT_IS_INSIDE, true) }},
		{!wanted.output && wanted.outside && !now.outside, func() error { return side(nat_types.NAT_IS_OUTSIDE, true) }},
		{now.inside && !wanted.inside, func() error { return side(nat_types.NAT_IS_INSIDE, false) }},
		{now.outside && !wanted.outside, func() error { return side(nat_types.NAT_IS_OUTSIDE, false) }},
		{wanted.output && !now.output, func() error { return output(true) }},
	}
	for _, s := range steps {
		if !s.needed {
			continue
		}
		switch err := s.do(); {
		case vppapi.Refused(err, api.UNSUPPORTED):
			return errors.New("NAT is off")
		case err != nil && !vppapi.Refused(err, api.NO_SUCH_ENTRY):
			return err
		}
	}
	return nil
}

// natInterfaces returns the NAT features of our interfaces by name.
func (v *NAT) natInterfaces(ctx context.Context) (map[string]natSides, error) {
	sides := session.StartDump[nat44_ed.Nat44InterfaceDetails](ctx, v.vpp, module, &nat44_ed.Nat44InterfaceDump{})
	l, err := v.vpp.Use(module)
	if err != nil {
		return nil, err
	}
	var reply nat44_ed.Nat44EdOutputInterfaceGetReply
	outputs, err := vppapi.GetAll[nat44_ed.Nat44EdOutputInterfaceDetails](ctx, l.Conn, &nat44_ed.Nat44EdOutputInterfaceGet{}, &reply,
		func() api.Message { return &nat44_ed.Nat44EdOutputInterfaceGet{Cursor: reply.Cursor} })
	found, err2 := sides.Wait(ctx)
	if err = errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("listing interfaces of NAT: %w", err)
	}
	all := map[string]natSides{}
	note := func(iface ownership.Index, s natSides) error {
		name, err := v.ifs.Name(ctx, iface)
		if err == nil && name != "" {
			all[name] = s
		}
		return err
	}
	for _, d := range found {
		err = errors.Join(err, note(d.SwIfIndex, natSides{inside: d.Flags&nat_types.NAT_IS_INSIDE != 0, outside: d.Flags&nat_types.NAT_IS_OUTSIDE != 0}))
	}
	for _, d := range outputs {
		err = errors.Join(err, note(d.SwIfIndex, natSides{output: true}))
	}
	return all, err
}

func (v *NAT) ListInterfaces(ctx context.Context, expected []*vpp_nat.Nat44Interface) ([]*vpp_nat.Nat44Interface, error) {
	all, err := v.natInterfaces(ctx)
	if err != nil {
		return nil, err
	}
	wanted := map[string]*vpp_nat.Nat44Interface{}
	for _, i := range expected {
		wanted[i.GetName()] = i
	}
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	for _, i := range v.notes.globalIfaces {
		if wanted[i.GetName()] == nil {
			all[i.GetName()] = all[i.GetName()].with(i, false)
		}
	}
	var found []*vpp_nat.Nat44Interface
	for name, s := range all {
		switch w := wanted[name]; {
		case s == natSides{}:
		case !s.output:
			found = append(found, &vpp_nat.Nat44Interface{Name: name, NatInside: s.inside, NatOutside: s.outside})
		case w.GetOutputFeature(): // VPP does not report the side
			found = append(found, &vpp_nat.Nat44Interface{Name: name, NatInside: w.GetNatInside(), NatOutside: w.GetNatOutside(), OutputFeature: true})
		default:
			found = append(found, &vpp_nat.Nat44Interface{Name: name, NatOutside: true, OutputFeature: true})
		}
	}
	return found, nil
}
