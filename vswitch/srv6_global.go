package vswitch

import (
	"context"
	"net/netip"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// srv6GlobalDescriptor handles config/vpp/srv6/v2/srv6-global.
func srv6GlobalDescriptor(port Values[*vpp_srv6.SRv6Global]) kvscheduler.Descriptor[*vpp_srv6.SRv6Global, noMeta] {
	return kvscheduler.Descriptor[*vpp_srv6.SRv6Global, noMeta]{
		Name: SRv6GlobalDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.SRv6Global.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, g *vpp_srv6.SRv6Global) error {
			if g.GetEncapSourceAddress() == "" {
				return nil
			}
			return validIPv6("encap_source_address", g.GetEncapSourceAddress())
		},
		Equivalent: func(_ string, old, new *vpp_srv6.SRv6Global) bool { return EncapSource(old) == EncapSource(new) },
		Create:     create(port.Create),
		Update:     update(func(ctx context.Context, _, new *vpp_srv6.SRv6Global) error { return port.Create(ctx, new) }),
		Delete:     remove(port.Delete),
		Retrieve:   retrieve(port.List),
	}
}

// EncapSource returns the source of encapsulated packets; the address :: leaves it
// to the vswitch.
func EncapSource(g *vpp_srv6.SRv6Global) netip.Addr {
	addr, err := netip.ParseAddr(g.GetEncapSourceAddress())
	if err != nil {
		return netip.IPv6Unspecified()
	}
	return addr
}
