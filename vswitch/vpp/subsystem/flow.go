package subsystem

import (
	"cmp"
	"net/netip"
)

// Flow is what one socket sends to another.
type Flow struct{ From, To netip.AddrPort }

// Compare orders flows.
func (f Flow) Compare(o Flow) int { return cmp.Or(f.From.Compare(o.From), f.To.Compare(o.To)) }
