package vswitch

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// ABFs forward packets that an access list permits along paths of their own, by index.
// Packets of an interface meet those attached to it in the order of their priorities.
type ABFs interface {
	// Create sets the access list, which exists, and the paths, by interfaces that
	// exist; interfaces that packets enter by are attached by calls of their own. Of one
	// that exists only the paths change, at once.
	Values[*vpp_abf.ABF]
	// Attach makes an existing one count for packets that enter by an existing interface.
	Attach(ctx context.Context, abf uint32, at *vpp_abf.ABF_AttachedInterface) error
	Detach(ctx context.Context, abf uint32, at *vpp_abf.ABF_AttachedInterface) error
}

// abfDescriptor handles config/vpp/abfs/v2/abf/{index}. Each interface that packets
// enter by is a derived value.
func abfDescriptor(port ABFs) kvscheduler.Descriptor[*vpp_abf.ABF, noMeta] {
	return kvscheduler.Descriptor[*vpp_abf.ABF, noMeta]{
		Name:       ABFDescriptor,
		Keys:       kvscheduler.KeySpace{Prefix: models.ABF.KeyPrefix()},
		NB:         true,
		Validate:   func(_ string, a *vpp_abf.ABF) error { return validateABF(a) },
		Equivalent: func(_ string, a, b *vpp_abf.ABF) bool { return equivalentABFs(a, b) },
		Create: func(ctx context.Context, _ string, a *vpp_abf.ABF) (noMeta, error) {
			return noMeta{}, port.Create(ctx, a)
		},
		Update: func(ctx context.Context, _ string, _, a *vpp_abf.ABF, _ noMeta) (noMeta, error) {
			return noMeta{}, port.Create(ctx, a)
		},
		Delete: func(ctx context.Context, _ string, a *vpp_abf.ABF, _ noMeta) error { return port.Delete(ctx, a) },
		UpdateWithRecreate: func(_ string, a, b *vpp_abf.ABF, _ noMeta) bool {
			return a.GetAclName() != b.GetAclName()
		},
		Retrieve: func(ctx context.Context, expected []item[*vpp_abf.ABF]) ([]item[*vpp_abf.ABF], error) {
			return retrieve(port.List)(ctx, expected)
		},
		RetrieveAfter: []string{InterfaceDescriptor, ACLDescriptor},
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
func abfInterfaceDescriptor(port ABFs) kvscheduler.Descriptor[*vpp_abf.ABF_AttachedInterface, noMeta] {
	return kvscheduler.Descriptor[*vpp_abf.ABF_AttachedInterface, noMeta]{
		Name: ABFInterfaceDescriptor,
		Keys: kvscheduler.KeySpace{Prefix: models.ABFInterfacePrefix},
		Create: func(ctx context.Context, key string, at *vpp_abf.ABF_AttachedInterface) (noMeta, error) {
			abf, err := abfOfInterfaceKey(key)
			if err != nil {
				return noMeta{}, err
			}
			return noMeta{}, port.Attach(ctx, abf, at)
		},
		Delete: func(ctx context.Context, key string, at *vpp_abf.ABF_AttachedInterface, _ noMeta) error {
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

// equivalentABFs: the order of paths and of interfaces says nothing.
func equivalentABFs(a, b *vpp_abf.ABF) bool {
	return a.GetIndex() == b.GetIndex() && a.GetAclName() == b.GetAclName() &&
		sameParts(a.GetForwardingPaths(), b.GetForwardingPaths(), ABFPathOf) &&
		sameParts(a.GetAttachedInterfaces(), b.GetAttachedInterfaces(), func(at *vpp_abf.ABF_AttachedInterface) abfAttachment {
			return abfAttachment{at.GetInputInterface(), at.GetPriority(), at.GetIsIpv6()}
		})
}

type abfAttachment struct {
	iface    string
	priority uint32
	ipv6     bool
}

// ABFPath is a path of an ABF in the one way to write it.
type ABFPath struct {
	NextHop            netip.Addr
	Interface          string
	Weight, Preference uint32
	DVR                bool
}

// ABFPathOf returns the path; weights 0 and 1 are the same.
func ABFPathOf(p *vpp_abf.ABF_ForwardingPath) ABFPath {
	addr, _ := netip.ParseAddr(p.GetNextHopIp())
	return ABFPath{addr, p.GetInterfaceName(), max(p.GetWeight(), 1), p.GetPreference(), p.GetDvr()}
}

func validateABF(a *vpp_abf.ABF) error {
	if err := required("acl_name", a.GetAclName(), "name the access list whose packets are forwarded"); err != nil {
		return err
	}
	var names []string
	for _, i := range a.GetAttachedInterfaces() {
		name := i.GetInputInterface()
		if err := required("attached_interfaces.input_interface", name, "name the interface that packets enter by"); err != nil {
			return err
		}
		if slices.Contains(names, name) {
			return invalid("attached_interfaces", "interface %q is listed twice: forward its IPv6 packets with another ABF", name)
		}
		names = append(names, name)
	}
	for _, p := range a.GetForwardingPaths() {
		if err := validAddr("forwarding_paths.next_hop_ip", p.GetNextHopIp()); err != nil {
			return err
		}
	}
	return nil
}
