package neighbours

import (
	"context"
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
)

func (v neighbours) Find(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	var list []*vpp_l3.ARPEntry
	for _, want := range expected {
		entry := v.entryOf(want)
		if entry == nil {
			return own.FindIn(ctx, v.List, expected)
		}
		list = append(list, entry)
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func (v neighbours) entryOf(want *vpp_l3.ARPEntry) *vpp_l3.ARPEntry {
	ip, err := netip.ParseAddr(want.GetIpAddress())
	if err != nil {
		return nil
	}
	link, err := v.Link(want.GetInterface())
	if err != nil {
		return nil
	}
	n, err := v.Net.Neighbour(link.Attrs().Index, ip.Unmap())
	if err != nil || !isOurNeighbour(n) {
		return nil
	}
	return describeNeighbour(n, want.GetInterface(), want)
}
