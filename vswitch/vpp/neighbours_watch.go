package vpp

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"sync"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/ip_neighbor"
)

var _ = newModule("", "events of neighbours",
	&ip_neighbor.WantIPNeighborEventsV2{}, &ip_neighbor.WantIPNeighborEventsV2Reply{}, &ip_neighbor.IPNeighborEventV2{})

// neighbourNotes are the neighbours that there should be: events of others, and of what
// we do ourselves, are not drift.
type neighbourNotes struct {
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

func (n *neighbourNotes) put(e *vpp_l3.ARPEntry) {
	ip, err := parseAddr(e.GetIpAddress())
	mac, macErr := parseMAC(e.GetPhysAddress())
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

func (n *neighbourNotes) drop(e *vpp_l3.ARPEntry) {
	ip, err := parseAddr(e.GetIpAddress())
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.wanted, neighbourID{e.GetInterface(), ip})
}

func (n *neighbourNotes) get(id neighbourID) (wantedNeighbour, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w, ok := n.wanted[id]
	return w, ok
}

// subscribeNeighbours asks a new connection for the events of all neighbours.
func (v *VSwitch) subscribeNeighbours(ctx context.Context, l *link) error {
	if _, err := vppapi.Subscribe(l.Conn, v.neighbourChanged); err != nil {
		return err
	}
	req := &ip_neighbor.WantIPNeighborEventsV2{Enable: true, PID: uint32(os.Getpid()), SwIfIndex: noIndex}
	if err := l.Call(ctx, req, &ip_neighbor.WantIPNeighborEventsV2Reply{}); err != nil {
		return fmt.Errorf("asking VPP for events of neighbours: %w", err)
	}
	return nil
}

// neighbourChanged reports neighbours that are not as they should be any more. It is
// called by the reader of the connection, so that it asks VPP for nothing.
func (v *VSwitch) neighbourChanged(event *ip_neighbor.IPNeighborEventV2) {
	name := v.ifs.seen(event.Neighbor.SwIfIndex)
	ip := addrOf(event.Neighbor.IPAddress)
	if event.Flags&ip_neighbor.IP_NEIGHBOR_API_EVENT_FLAG_REMOVED != 0 {
		v.nextHops.lost(nextHop{event.Neighbor.SwIfIndex, ip})
	}
	w, ok := v.neighbours.get(neighbourID{name, ip})
	switch {
	case name == "" || !ok:
	case event.Flags&ip_neighbor.IP_NEIGHBOR_API_EVENT_FLAG_REMOVED != 0:
		v.drifted(fmt.Sprintf("neighbour %s of interface %s was removed", ip, name), w.key)
	case event.Neighbor.MacAddress != w.mac:
		v.drifted(fmt.Sprintf("neighbour %s of interface %s was changed", ip, name), w.key)
	}
}

// seen returns the name of an interface if it is known; "": it is not, or not ours.
func (x *ifIndex) seen(i index) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.names[i]
}
