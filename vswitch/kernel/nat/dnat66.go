package nat

import (
	"context"

	"github.com/contiv/contiv/vswitch/kernel/own"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/vswitch"
)

type dnat66 struct{ *Driver }

// DestinationNAT66 returns the port for DNAT of IPv6. The chains stay after the last value until
// Uninstall, because the kernel translates existing connections only while NAT chains exist.
func (v *Driver) DestinationNAT66() vswitch.DNAT66 { return dnat66{v} }

func (v dnat66) Set(_ context.Context, values ...*contiv_nat.DNat66) error {
	if err := v.EnableForwarding6(); err != nil {
		return err
	}
	return v.dnat6().set(asDNAT44(values))
}

func (v dnat66) Remove(_ context.Context, values ...*contiv_nat.DNat66) error {
	return v.dnat6().remove(asDNAT44(values))
}

func (v dnat66) List(_ context.Context, expected []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error) {
	converted := asDNAT44(expected)
	list, err := v.dnat6().list(converted)
	if err != nil {
		return nil, err
	}
	wanted := map[*vpp_nat.DNat44]*contiv_nat.DNat66{}
	for i, value := range converted {
		wanted[value] = expected[i]
	}
	found := make([]*contiv_nat.DNat66, len(list))
	for i, value := range list {
		if found[i] = wanted[value]; found[i] == nil { // differs from the expected value
			found[i] = vswitch.DNAT66FromDNAT44(value)
		}
	}
	own.Settle(v.Reg, expected, found)
	return found, nil
}

func asDNAT44(values []*contiv_nat.DNat66) []*vpp_nat.DNat44 {
	list := make([]*vpp_nat.DNat44, len(values))
	for i, value := range values {
		list[i] = vswitch.DNAT66AsDNAT44(value)
	}
	return list
}

func (v dnat) base(changes []natChange) error {
	if v.family == nat4 || v.state.based || !setsAny(changes) {
		return nil
	}
	s, err := v.nat.readNAT(v.family)
	if err != nil {
		return err
	}
	if !s.enabled || !s.intact {
		b := v.family.batch()
		s.enabled = true
		s.write(b)
		if err := v.nat.Commit(b); err != nil {
			return err
		}
	}
	v.state.based = true
	return nil
}

func setsAny(changes []natChange) bool {
	for _, change := range changes {
		if change.value != nil {
			return true
		}
	}
	return false
}
