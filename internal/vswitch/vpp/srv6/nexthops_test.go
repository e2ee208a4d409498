package srv6

import (
	"net/netip"
	"testing"
)

// A silent neighbour is logged once each time.
func TestWhoIsToldOfSilentNeighbours(t *testing.T) {
	asked, hop := askedFor{}, nextHop{1, netip.MustParseAddr("fd52::1")}
	for round := range 2 {
		for i := 1; i <= 2*warnAfter; i++ {
			if silent := asked.note([]nextHop{hop}); (len(silent) == 1) != (i == warnAfter) {
				t.Errorf("round %d, asked %d times: reported %v", round, i, silent)
			}
		}
		asked.note(nil) // it has answered
	}
}

// Neighbours of deleted SIDs are no longer resolved.
func TestNeighboursOfDeletedLocalSIDsAreForgotten(t *testing.T) {
	var n nextHops
	hop := nextHop{1, netip.MustParseAddr("fd52::1")}
	for _, sid := range []string{"fc00::1", "fc00::2"} {
		n.put(address6(sid), function{target: 1, nextHop: hop.ip})
	}
	if list := n.take(); len(list) != 1 || list[0] != hop {
		t.Errorf("took %v", list)
	}
	n.lost(nextHop{1, netip.MustParseAddr("fd52::2")})
	if list := n.take(); list != nil {
		t.Errorf("after another neighbour was lost: took %v", list)
	}
	n.put(address6("fc00::1"), function{})
	n.lost(hop)
	if list := n.take(); len(list) != 1 {
		t.Errorf("of two SIDs one was deleted: took %v", list)
	}
	n.replace(nil)
	n.doubt()
	if list := n.take(); len(list) != 0 {
		t.Errorf("without SIDs: took %v", list)
	}
}
