package cnat

import (
	"context"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
)

// DNAT66 is the translations of IPv6.
type DNAT66 struct{ *Translations }

var _ vswitch.DNAT66 = DNAT66{}

// Set implements vswitch.DNAT66.
func (d DNAT66) Set(ctx context.Context, values ...*contiv_nat.DNat66) error {
	return d.set(ctx, v6, values)
}

// Remove implements vswitch.DNAT66.
func (d DNAT66) Remove(ctx context.Context, values ...*contiv_nat.DNat66) error {
	return d.remove(ctx, v6, values)
}

// List implements vswitch.DNAT66.
func (d DNAT66) List(ctx context.Context, expected []*contiv_nat.DNat66) ([]*contiv_nat.DNat66, error) {
	return d.list(ctx, v6, expected)
}

// Services44 implements the DNat44 values that are services (IsService) with translations of IPv4.
type Services44 struct{ *Translations }

// IsService reports whether a value has features of services that nat44-ed lacks. Services44
// handles such values.
func IsService(value *vpp_nat.DNat44) bool {
	return vswitch.OnlyPlainMappings(value.GetStMappings()) != nil
}

// Set creates or changes the translations of values.
func (d Services44) Set(ctx context.Context, values ...*vpp_nat.DNat44) error {
	var list []*value
	for _, v := range values {
		if err := onlyOfServices(v); err != nil {
			return err
		}
		list = append(list, vswitch.DNAT66FromDNAT44(v))
	}
	return d.set(ctx, v4, list)
}

// Remove removes the translations of values by label.
func (d Services44) Remove(ctx context.Context, values ...*vpp_nat.DNat44) error {
	var list []*value
	for _, v := range values {
		list = append(list, &value{Label: v.GetLabel()})
	}
	return d.remove(ctx, v4, list)
}

// List returns all values. Missing or damaged objects appear as differences from the expected
// values.
func (d Services44) List(ctx context.Context, expected []*vpp_nat.DNat44) ([]*vpp_nat.DNat44, error) {
	var list []*value
	asked := make(map[*value]*vpp_nat.DNat44, len(expected))
	for _, v := range expected {
		if onlyOfServices(v) == nil {
			in66 := vswitch.DNAT66FromDNAT44(v)
			list = append(list, in66)
			asked[in66] = v
		}
	}
	found, err := d.list(ctx, v4, list)
	var all []*vpp_nat.DNat44
	for _, f := range found {
		if v := asked[f]; v != nil {
			all = append(all, v)
		} else {
			all = append(all, vswitch.DNAT66AsDNAT44(f))
		}
	}
	return all, err
}

// onlyOfServices returns an error for parts of a DNat44 value that cnat does not support.
func onlyOfServices(v *vpp_nat.DNat44) error {
	if len(v.GetIdMappings()) > 0 {
		return vswitch.Unsupported("id_mappings together with mappings of a service: put them into a separate DNat44 value")
	}
	for _, m := range v.GetStMappings() {
		switch {
		case m.GetExternalInterface() != "":
			return vswitch.Unsupported("external_interface in a mapping of a service: use external_ip")
		case m.GetExternalPort() == 0 || m.GetProtocol() == vpp_nat.DNat44_ICMP:
			return vswitch.Unsupported("whole addresses in a mapping of a service (%s): give ports", m.GetExternalIp())
		}
		for _, l := range m.GetLocalIps() {
			if l.GetVrfId() != 0 {
				return vswitch.Unsupported("vrf_id %d of a local address of a service: it is looked up in the VRF that the packet enters", l.GetVrfId())
			}
		}
	}
	return nil
}
