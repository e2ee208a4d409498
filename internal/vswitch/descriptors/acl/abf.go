package acl

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// abfDescriptor handles config/vpp/abfs/v2/abf/{index}. Each ingress interface is a derived value.
func abfDescriptor(port vswitch.ABFs) kvscheduler.Descriptor[*vpp_abf.ABF, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_abf.ABF, descriptor.NoMeta]{
		Name:       vswitch.ABFDescriptor,
		Keys:       kvscheduler.KeySpace{Prefix: models.ABF.KeyPrefix()},
		NB:         true,
		Validate:   func(_ string, a *vpp_abf.ABF) error { return validateABF(a) },
		Equivalent: func(_ string, a, b *vpp_abf.ABF) bool { return equivalentABFs(a, b) },
		Create: func(ctx context.Context, _ string, a *vpp_abf.ABF) (descriptor.NoMeta, error) {
			return descriptor.NoMeta{}, port.Create(ctx, a)
		},
		Update: func(ctx context.Context, _ string, _, a *vpp_abf.ABF, _ descriptor.NoMeta) (descriptor.NoMeta, error) {
			return descriptor.NoMeta{}, port.Create(ctx, a)
		},
		Delete: func(ctx context.Context, _ string, a *vpp_abf.ABF, _ descriptor.NoMeta) error {
			return port.Delete(ctx, a)
		},
		UpdateWithRecreate: func(_ string, a, b *vpp_abf.ABF, _ descriptor.NoMeta) bool {
			return a.GetAclName() != b.GetAclName()
		},
		Retrieve: func(ctx context.Context, expected []descriptor.Item[*vpp_abf.ABF]) ([]descriptor.Item[*vpp_abf.ABF], error) {
			return descriptor.Retrieve(port.List)(ctx, expected)
		},
		RetrieveAfter: []string{vswitch.InterfaceDescriptor, vswitch.ACLDescriptor},
		DerivedValues: func(_ string, a *vpp_abf.ABF) (derived []kvscheduler.KeyValue) {
			for _, at := range a.GetAttachedInterfaces() {
				derived = append(derived, kvscheduler.KeyValue{Key: models.ABFInterfaceKey(a.GetIndex(), at.GetInputInterface()), Value: at})
			}
			return derived
		},
		Dependencies: func(_ string, a *vpp_abf.ABF) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{{Label: "acl-exists", Key: models.ACL.KeyPrefix() + a.GetAclName()}}
			for i, p := range a.GetForwardingPaths() {
				if name := p.GetInterfaceName(); name != "" {
					deps = append(deps, kvscheduler.Dependency{Label: fmt.Sprintf("interface-exists-%d", i+1), Key: models.VPPInterfaceKey(name)})
				}
			}
			return deps
		},
	}
}

// abfInterfaceDescriptor handles vpp/abf/{index}/interface/{if}.
func abfInterfaceDescriptor(port vswitch.ABFs) kvscheduler.Descriptor[*vpp_abf.ABF_AttachedInterface, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_abf.ABF_AttachedInterface, descriptor.NoMeta]{
		Name: vswitch.ABFInterfaceDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.ABFInterfacePrefix},
		Create: func(ctx context.Context, key string, at *vpp_abf.ABF_AttachedInterface) (descriptor.NoMeta, error) {
			abf, err := abfOfInterfaceKey(key)
			if err != nil {
				return descriptor.NoMeta{}, err
			}
			return descriptor.NoMeta{}, port.Attach(ctx, abf, at)
		},
		Delete: func(ctx context.Context, key string, at *vpp_abf.ABF_AttachedInterface, _ descriptor.NoMeta) error {
			abf, err := abfOfInterfaceKey(key)
			if err != nil {
				return err
			}
			return port.Detach(ctx, abf, at)
		},
		Dependencies: func(_ string, at *vpp_abf.ABF_AttachedInterface) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{{Label: "interface-exists", Key: models.VPPInterfaceKey(at.GetInputInterface())}}
		},
	}
}

func abfOfInterfaceKey(key string) (uint32, error) {
	index, _, _ := strings.Cut(strings.TrimPrefix(key, models.ABFInterfacePrefix), "/")
	abf, err := strconv.ParseUint(index, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no key of an interface of an ABF", key)
	}
	return uint32(abf), nil
}

// equivalentABFs ignores the order of paths and interfaces.
func equivalentABFs(a, b *vpp_abf.ABF) bool {
	return a.GetIndex() == b.GetIndex() && a.GetAclName() == b.GetAclName() &&
		descriptor.SameParts(a.GetForwardingPaths(), b.GetForwardingPaths(), vswitch.ABFPathOf) &&
		descriptor.SameParts(a.GetAttachedInterfaces(), b.GetAttachedInterfaces(), func(at *vpp_abf.ABF_AttachedInterface) abfAttachment {
			return abfAttachment{at.GetInputInterface(), at.GetPriority(), at.GetIsIpv6()}
		})
}

type abfAttachment struct {
	iface    string
	priority uint32
	ipv6     bool
}

func validateABF(a *vpp_abf.ABF) error {
	if err := descriptor.Required("acl_name", a.GetAclName(), "name the access list of the forwarded packets"); err != nil {
		return err
	}
	var names []string
	for _, i := range a.GetAttachedInterfaces() {
		name := i.GetInputInterface()
		if err := descriptor.Required("attached_interfaces.input_interface", name, "name the interface that packets enter by"); err != nil {
			return err
		}
		if slices.Contains(names, name) {
			return descriptor.Invalid("attached_interfaces", "interface %q is listed twice: forward its IPv6 packets with another ABF", name)
		}
		names = append(names, name)
	}
	for _, p := range a.GetForwardingPaths() {
		if err := descriptor.ValidAddr("forwarding_paths.next_hop_ip", p.GetNextHopIp()); err != nil {
			return err
		}
	}
	return nil
}
