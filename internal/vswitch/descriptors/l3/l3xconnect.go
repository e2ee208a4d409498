package l3

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// l3xconnectDescriptor handles config/vpp/v2/l3xconnect/{if}/protocol/{v}.
func l3xconnectDescriptor(port vswitch.Values[*vpp_l3.L3XConnect]) kvscheduler.Descriptor[*vpp_l3.L3XConnect, descriptor.NoMeta] {
	return kvscheduler.Descriptor[*vpp_l3.L3XConnect, descriptor.NoMeta]{
		Name:     vswitch.L3XConnectDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.L3XConnect.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, x *vpp_l3.L3XConnect) error { return validateL3XConnect(x) },
		Equivalent: func(_ string, old, new *vpp_l3.L3XConnect) bool {
			return old.GetInterface() == new.GetInterface() && old.GetProtocol() == new.GetProtocol() &&
				slices.Equal(pathsOfL3XConnect(old), pathsOfL3XConnect(new))
		},
		Create:             descriptor.Create(port.Create),
		Update:             descriptor.Update(func(ctx context.Context, _, new *vpp_l3.L3XConnect) error { return port.Create(ctx, new) }),
		Delete:             descriptor.Delete(port.Delete),
		UpdateWithRecreate: func(string, *vpp_l3.L3XConnect, *vpp_l3.L3XConnect, descriptor.NoMeta) bool { return false },
		Retrieve:           descriptor.Retrieve(port.List),
		RetrieveAfter:      []string{vswitch.InterfaceDescriptor},
		Dependencies: func(_ string, x *vpp_l3.L3XConnect) []kvscheduler.Dependency {
			deps := []kvscheduler.Dependency{{Label: "target-interface-exists", Key: models.VPPInterfaceKey(x.GetInterface())}}
			for i, p := range x.GetPaths() {
				deps = append(deps, kvscheduler.Dependency{
					Label: fmt.Sprintf("outgoing-interface-exists-%d", i+1), Key: models.VPPInterfaceKey(p.GetOutgoingInterface()),
				})
			}
			return deps
		},
	}
}

type l3xPath struct {
	out                string
	gw                 netip.Addr
	weight, preference uint32
}

// pathsOfL3XConnect returns the paths in order.
func pathsOfL3XConnect(x *vpp_l3.L3XConnect) (paths []l3xPath) {
	for _, p := range x.GetPaths() {
		gw, _ := netip.ParseAddr(p.GetNextHopAddr())
		paths = append(paths, l3xPath{p.GetOutgoingInterface(), gw, max(p.GetWeight(), 1), p.GetPreference()})
	}
	slices.SortFunc(paths, func(a, b l3xPath) int {
		return cmp.Or(cmp.Compare(a.preference, b.preference), cmp.Compare(a.out, b.out), a.gw.Compare(b.gw), cmp.Compare(a.weight, b.weight))
	})
	return paths
}

func validateL3XConnect(x *vpp_l3.L3XConnect) error {
	if err := descriptor.Required("interface", x.GetInterface(), "name the interface that packets enter by"); err != nil {
		return err
	}
	if len(x.GetPaths()) == 0 {
		return descriptor.Invalid("paths", "an L3 cross-connect needs a path")
	}
	ipv6 := x.GetProtocol() == vpp_l3.L3XConnect_IPV6
	for _, p := range x.GetPaths() {
		if err := descriptor.Required("paths.outgoing_interface", p.GetOutgoingInterface(), "name the interface that packets leave by"); err != nil {
			return err
		}
		if gw := p.GetNextHopAddr(); gw != "" {
			if err := descriptor.ValidAddrOf("paths.next_hop_addr", gw, ipv6); err != nil {
				return err
			}
		}
	}
	return nil
}
