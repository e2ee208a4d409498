package program

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/calico/routes"
	"github.com/contiv/contiv/internal/lib/delta"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// dropPreference lets another program's route to the same destination, such as Calico's own
// blackhole, coexist and win.
const dropPreference = 250

// Uplink is the interface that leads to other hosts.
type Uplink struct {
	// Interface is its logical name.
	Interface string
	// Type of the interface: DPDK or AF_PACKET.
	Type vpp_interfaces.Interface_Type
	// Addresses with prefix lengths.
	Addresses []netip.Prefix
	// Configure: the agent configures the interface and its addresses; otherwise it does not touch
	// the interface.
	Configure bool
}

func (u Uplink) value() *vpp_interfaces.Interface {
	iface := &vpp_interfaces.Interface{Name: u.Interface, Type: u.Type, Enabled: true}
	if u.Type == vpp_interfaces.Interface_AF_PACKET {
		iface.Link = &vpp_interfaces.Interface_Afpacket{Afpacket: &vpp_interfaces.AfpacketLink{HostIfName: u.Interface}}
	}
	for _, a := range u.Addresses {
		iface.IpAddresses = append(iface.IpAddresses, a.String())
	}
	return iface
}

func (u Uplink) route(dst netip.Prefix, r routes.Route) *vpp_l3.Route {
	if r.Drop() {
		return &vpp_l3.Route{Type: vpp_l3.Route_DROP, DstNetwork: dst.String(), Preference: dropPreference}
	}
	value := &vpp_l3.Route{DstNetwork: dst.String(), NextHopAddr: r.Via.String()}
	onLink := func(a netip.Prefix) bool { return a.Contains(r.Via) }
	if r.Via.IsLinkLocalUnicast() || slices.ContainsFunc(u.Addresses, onLink) {
		value.OutgoingInterface = u.Interface
	}
	return value
}

// Target makes changes. It retries failed values itself and does not return their errors.
type Target interface {
	// Resync sets the values and removes all other values of ours.
	Resync(ctx context.Context, values []proto.Message) error
	// Change sets and removes values.
	Change(ctx context.Context, put []proto.Message, remove []string) error
}

// Programmer updates a target to match routing tables. It is not safe for concurrent use.
type Programmer struct {
	target Target
	uplink Uplink
	log    *slog.Logger
	// known: the target has the routes in have
	known bool
	have  routes.Table
}

// New returns a Programmer.
func New(target Target, uplink Uplink, log *slog.Logger) *Programmer {
	return &Programmer{target: target, uplink: uplink, log: log}
}

// Apply updates the target to the routes of the table. After an error, call it again with any
// table.
func (p *Programmer) Apply(ctx context.Context, table routes.Table) error {
	if !p.known {
		var values []proto.Message
		if p.uplink.Configure {
			values = append(values, p.uplink.value())
		}
		for _, dst := range slices.SortedFunc(maps.Keys(table), netip.Prefix.Compare) {
			values = append(values, p.uplink.route(dst, table[dst]))
		}
		if err := p.target.Resync(ctx, values); err != nil {
			return fmt.Errorf("programming all %d routes: %w", len(table), err)
		}
		p.log.Info("Routes programmed", "routes", len(table))
		p.done(table)
		return nil
	}
	plan := delta.Between(p.have, table, func(a, b routes.Route) bool { return a.Via == b.Via })
	if len(plan) == 0 {
		p.done(table)
		return nil
	}
	plan.Sort(delta.Order[netip.Prefix]{Keys: netip.Prefix.Compare})
	var put []proto.Message
	var remove []string
	for _, step := range plan {
		if step.Kind != delta.Remove {
			put = append(put, p.uplink.route(step.Key, step.New))
		}
		if step.Kind != delta.Add {
			remove = append(remove, models.Key(p.uplink.route(step.Key, step.Old)))
		}
	}
	if err := p.target.Change(ctx, put, remove); err != nil {
		p.known = false
		return fmt.Errorf("programming %d changes of routes: %w", len(plan), err)
	}
	p.log.Info("Routes changed", "added", len(plan.Of(delta.Add)), "changed", len(plan.Of(delta.Change)), "removed", len(plan.Of(delta.Remove)))
	p.done(table)
	return nil
}

func (p *Programmer) done(table routes.Table) { p.known, p.have = true, maps.Clone(table) }
