package acl

import (
	"context"
	"fmt"
	"strings"

	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// aclInterfaceDescriptor handles vpp/acl/{acl}/interface/{ingress|egress}/{if},
// derived from access lists.
func aclInterfaceDescriptor(port vswitch.ACLs) kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta]{
		Name: vswitch.ACLInterfaceDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.ACLInterfacePrefix},
		Create: func(ctx context.Context, key string, _ *emptypb.Empty) (descriptor.NoMeta, error) {
			b, err := parseACLInterfaceKey(key)
			if err != nil {
				return descriptor.NoMeta{}, err
			}
			return descriptor.NoMeta{}, port.Bind(ctx, b)
		},
		Delete: func(ctx context.Context, key string, _ *emptypb.Empty, _ descriptor.NoMeta) error {
			b, err := parseACLInterfaceKey(key)
			if err != nil {
				return err
			}
			return port.Unbind(ctx, b)
		},
		Dependencies: func(key string, _ *emptypb.Empty) []kvscheduler.Dependency {
			b, _ := parseACLInterfaceKey(key)
			return []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(b.Interface)}}
		},
	}
}

// parseACLInterfaceKey splits the key at the first direction, because interface names may contain
// slashes.
func parseACLInterfaceKey(key string) (vswitch.ACLBinding, error) {
	const ingress, egress = "/interface/ingress/", "/interface/egress/"
	rest, ok := strings.CutPrefix(key, models.ACLInterfacePrefix)
	in, out := strings.Index(rest, ingress), strings.Index(rest, egress)
	switch {
	case ok && in >= 0 && (out < 0 || in < out):
		return vswitch.ACLBinding{ACL: rest[:in], Interface: rest[in+len(ingress):]}, nil
	case ok && out >= 0:
		return vswitch.ACLBinding{ACL: rest[:out], Interface: rest[out+len(egress):], Egress: true}, nil
	}
	return vswitch.ACLBinding{}, fmt.Errorf("%q is no key of an access list on an interface", key)
}
