package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"google.golang.org/protobuf/proto"
)

func (v *VSwitch) States() vswitch.States { return states{v} }

type states struct{ v *VSwitch }

func (p states) Watch(report func(...*vpp_interfaces.InterfaceState)) {
	p.v.n.net.mu.Lock()
	defer p.v.n.net.mu.Unlock()
	p.v.states = append(p.v.states, report)
}

func (p states) List(ctx context.Context) (list []*vpp_interfaces.InterfaceState, err error) {
	err = p.v.do(ctx, func(n *Node) error {
		for _, name := range slices.Sorted(maps.Keys(n.ifaces)) {
			state := n.ifaces[name].state(name)
			state.Statistics = &vpp_interfaces.InterfaceState_Statistics{}
			list = append(list, state)
		}
		return nil
	})
	return list, err
}

// SetLink sets the link state of an interface. It returns an error if the interface does not exist.
func (n *Node) SetLink(name string, up bool) error {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	i := n.ifaces[name]
	if i == nil {
		return fmt.Errorf("node %s has no interface %s", n.name, name)
	}
	i.unplugged = !up
	n.reportState(name)
	return nil
}

func (i *iface) state(name string) *vpp_interfaces.InterfaceState {
	status := func(up bool) vpp_interfaces.InterfaceState_Status {
		if up {
			return vpp_interfaces.InterfaceState_UP
		}
		return vpp_interfaces.InterfaceState_DOWN
	}
	v := i.value
	return &vpp_interfaces.InterfaceState{
		Name: name, InternalName: name, Type: v.GetType(), PhysAddress: v.GetPhysAddress(), Mtu: v.GetMtu(),
		AdminStatus: status(v.GetEnabled()), OperStatus: status(v.GetEnabled() && !i.unplugged),
	}
}

// reportState notifies all observers of an interface, which may be gone. The caller holds the lock.
func (n *Node) reportState(name string) {
	state := &vpp_interfaces.InterfaceState{
		Name: name, AdminStatus: vpp_interfaces.InterfaceState_DELETED, OperStatus: vpp_interfaces.InterfaceState_DELETED,
	}
	if i := n.ifaces[name]; i != nil {
		state = i.state(name)
	}
	for _, v := range n.opened {
		for _, report := range v.states {
			report(proto.CloneOf(state))
		}
	}
}
