package interfaces

import (
	"context"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

var ip6NDPrefix = models.IP6NDKey("")

// isIP6NDKey: vpp/interface/ip6nd/{if}
func isIP6NDKey(key string) bool { return isKeyOf(key, ip6NDPrefix) }

// ip6NDDescriptor handles vpp/interface/ip6nd/{if}, derived from interfaces with ip6_nd.
func ip6NDDescriptor(port vswitch.Interfaces) kvscheduler.Descriptor[*vpp_interfaces.Interface_IP6ND, descriptor.NoMeta] {
	ifaceOf := func(key string) string { return strings.TrimPrefix(key, ip6NDPrefix) }
	set := func(ctx context.Context, key string, nd *vpp_interfaces.Interface_IP6ND) (descriptor.NoMeta, error) {
		return descriptor.NoMeta{}, port.SetIP6ND(ctx, ifaceOf(key), nd)
	}
	return kvscheduler.Descriptor[*vpp_interfaces.Interface_IP6ND, descriptor.NoMeta]{
		Name: vswitch.IP6NDDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isIP6NDKey,
			Example: models.IP6NDKey("if"),
		},
		Create: set,
		Update: func(ctx context.Context, key string, _, nd *vpp_interfaces.Interface_IP6ND, _ descriptor.NoMeta) (descriptor.NoMeta, error) {
			return set(ctx, key, nd)
		},
		Delete: func(ctx context.Context, key string, _ *vpp_interfaces.Interface_IP6ND, _ descriptor.NoMeta) error {
			return port.UnsetIP6ND(ctx, ifaceOf(key))
		},
	}
}
