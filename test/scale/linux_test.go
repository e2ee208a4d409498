package scale

import (
	"context"
	"errors"
	"net/netip"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_l3 "github.com/contiv/contiv/api/ligato/linux/l3"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// linuxHost holds the values of the linux.* models in memory: pods' interfaces, neighbours and
// routes. It survives the agent.
type linuxHost struct{ values map[string]proto.Message }

func newLinuxHost() *linuxHost { return &linuxHost{values: map[string]proto.Message{}} }

type none = kvscheduler.NoMetadata

// register registers descriptors with the same dependencies as those in package linux.
func (h *linuxHost) register(s *kvscheduler.Scheduler) error {
	ifaces := inMemory[*linux_interfaces.Interface](h, "linux-interface", models.LinuxInterface)
	ifaces.DerivedValues = func(_ string, v *linux_interfaces.Interface) []kvscheduler.KeyValue {
		derived := []kvscheduler.KeyValue{{Key: models.LinuxInterfaceStateKey(v.GetName(), v.GetEnabled()), Value: &emptypb.Empty{}}}
		for _, a := range v.GetIpAddresses() {
			derived = append(derived, kvscheduler.KeyValue{
				Key:   models.LinuxInterfaceAddressKey(v.GetName(), models.AddrStatic, netip.MustParsePrefix(a).String()),
				Value: &emptypb.Empty{},
			})
		}
		return derived
	}
	ifaces.Dependencies = func(_ string, v *linux_interfaces.Interface) []kvscheduler.Dependency {
		if tap := v.GetTap().GetVppTapIfName(); tap != "" {
			return []kvscheduler.Dependency{{Label: "vpp-tap-exists", Key: models.VPPInterfaceKey(tap)}}
		}
		return nil
	}
	arps := inMemory[*linux_l3.ARPEntry](h, "linux-arp", models.LinuxARP)
	arps.Dependencies = func(_ string, v *linux_l3.ARPEntry) []kvscheduler.Dependency { return upWithAddress(v.GetInterface()) }
	routes := inMemory[*linux_l3.Route](h, "linux-route", models.LinuxRoute)
	routes.Dependencies = func(_ string, v *linux_l3.Route) []kvscheduler.Dependency {
		return upWithAddress(v.GetOutgoingInterface())
	}
	return errors.Join(kvscheduler.Register(s, ifaces), kvscheduler.Register(s, arps), kvscheduler.Register(s, routes))
}

func upWithAddress(iface string) []kvscheduler.Dependency {
	return []kvscheduler.Dependency{
		{Label: "interface-is-up", Key: models.LinuxInterfaceStateKey(iface, true)},
		{Label: "interface-has-address", AnyOf: kvscheduler.AnyOf{KeyPrefixes: []string{models.LinuxInterfaceAddressPrefix(iface)}}},
	}
}

func inMemory[V proto.Message](h *linuxHost, name string, model *models.Model) kvscheduler.Descriptor[V, none] {
	return kvscheduler.Descriptor[V, none]{
		Name: name,
		Keys: kvscheduler.KeySpace{Prefix: model.KeyPrefix()},
		NB:   true,
		Create: func(_ context.Context, key string, v V) (none, error) {
			h.values[key] = proto.Clone(v)
			return none{}, nil
		},
		Update: func(_ context.Context, key string, _, v V, _ none) (none, error) {
			h.values[key] = proto.Clone(v)
			return none{}, nil
		},
		Delete: func(_ context.Context, key string, _ V, _ none) error {
			delete(h.values, key)
			return nil
		},
		Retrieve: func(context.Context, []kvscheduler.Item[V, none]) (items []kvscheduler.Item[V, none], err error) {
			for key, value := range h.values {
				if v, ok := value.(V); ok {
					items = append(items, kvscheduler.Item[V, none]{Key: key, Value: v, Origin: kvscheduler.FromNB})
				}
			}
			return items, nil
		},
	}
}
