package neighbours

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/ip_neighbor"
)

var eventsModule = session.NewModule("", "events of neighbours",
	&ip_neighbor.WantIPNeighborEventsV2{}, &ip_neighbor.WantIPNeighborEventsV2Reply{}, &ip_neighbor.IPNeighborEventV2{})

// notes holds the expected neighbours, so that foreign neighbours and our own changes are not
// drift.
type notes struct {
	mu     sync.Mutex
	wanted map[neighbourID]wantedNeighbour
}

type neighbourID struct {
	iface string
	ip    netip.Addr
}

type wantedNeighbour struct {
	key string
	mac ethernet_types.MacAddress
}

func (n *notes) put(e *vpp_l3.ARPEntry) {
	ip, err := convert.ParseAddr(e.GetIpAddress())
	mac, macErr := convert.ParseMAC(e.GetPhysAddress())
	if err != nil || macErr != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.wanted == nil {
		n.wanted = map[neighbourID]wantedNeighbour{}
	}
	n.wanted[neighbourID{e.GetInterface(), ip}] = wantedNeighbour{models.Key(e), mac}
}

func (n *notes) drop(e *vpp_l3.ARPEntry) {
	ip, err := convert.ParseAddr(e.GetIpAddress())
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.wanted, neighbourID{e.GetInterface(), ip})
}

func (n *notes) get(id neighbourID) (wantedNeighbour, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w, ok := n.wanted[id]
	return w, ok
}

// Opened subscribes to the events of all neighbours.
func (v *Neighbours) Opened(ctx context.Context, l *session.Link) error {
	if _, err := vppapi.Subscribe(l.Conn, v.neighbourChanged); err != nil {
		return err
	}
	req := &ip_neighbor.WantIPNeighborEventsV2{Enable: true, PID: uint32(os.Getpid()), SwIfIndex: ownership.NoIndex}
	if err := l.Call(ctx, req, &ip_neighbor.WantIPNeighborEventsV2Reply{}); err != nil {
		return fmt.Errorf("asking VPP for events of neighbours: %w", err)
	}
	return nil
}

// neighbourChanged publishes VPP's events. It runs on the connection's reader, so it must not call
// VPP.
func (v *Neighbours) neighbourChanged(event *ip_neighbor.IPNeighborEventV2) {
	name := v.ifs.Seen(event.Neighbor.SwIfIndex)
	ip := convert.Addr(event.Neighbor.IPAddress)
	e := subsystem.Event{Kind: subsystem.NeighbourChanged, Interface: name, Index: event.Neighbor.SwIfIndex, IP: ip, MAC: event.Neighbor.MacAddress}
	if event.Flags&ip_neighbor.IP_NEIGHBOR_API_EVENT_FLAG_REMOVED != 0 {
		e.Kind = subsystem.NeighbourRemoved
	}
	v.hub.Publish(e)
}

// Concerns returns our entry that an event is about, if it differs from the expected one.
func (v *Neighbours) Concerns(e subsystem.Event) []string {
	if e.Kind != subsystem.NeighbourRemoved && e.Kind != subsystem.NeighbourChanged {
		return nil
	}
	w, ok := v.notes.get(neighbourID{e.Interface, e.IP})
	if !ok || e.Kind == subsystem.NeighbourChanged && e.MAC == w.mac {
		return nil
	}
	return []string{w.key}
}
