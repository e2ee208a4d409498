package srv6

import (
	"context"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// srv6GlobalDescriptor handles config/vpp/srv6/v2/srv6-global.
func srv6GlobalDescriptor(port vswitch.Values[*vpp_srv6.SRv6Global]) kvscheduler.Descriptor[*vpp_srv6.SRv6Global, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_srv6.SRv6Global, descriptor.NoMeta]{
		Name: vswitch.SRv6GlobalDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.SRv6Global.KeyPrefix()},
		NB:   true,
		Validate: func(_ string, g *vpp_srv6.SRv6Global) error {
			if g.GetEncapSourceAddress() == "" {
				return nil
			}
			return validIPv6("encap_source_address", g.GetEncapSourceAddress())
		},
		Equivalent: func(_ string, old, new *vpp_srv6.SRv6Global) bool {
			return vswitch.EncapSource(old) == vswitch.EncapSource(new)
		},
		Create:   descriptor.Create(port.Create),
		Update:   descriptor.Update(func(ctx context.Context, _, new *vpp_srv6.SRv6Global) error { return port.Create(ctx, new) }),
		Delete:   descriptor.Delete(port.Delete),
		Retrieve: descriptor.Retrieve(port.List),
	}
}
