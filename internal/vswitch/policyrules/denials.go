package policyrules

import (
	"net/netip"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

// Denials are packets denied by a vswitch.
type Denials struct {
	Subjects []DeniedSubject
	// Flows are a sample of the last half minute.
	Flows []DeniedFlow
	// NoFlows is the reason why Flows is missing, or "".
	NoFlows string
}

// DeniedSubject counts the packets denied in one direction because of a subject. A counter restarts
// after a long time without denials, or when the vswitch has lost it.
type DeniedSubject struct {
	Address   netip.Addr
	Direction contiv_filter.AccessList_Direction
	// ByRule: a rule denied the packets; otherwise a stage denied them because no rule allowed
	// them.
	ByRule  bool
	Packets uint64
}

// DeniedFlow counts packets that tried to open a connection. If there are many, only a sample is
// counted.
type DeniedFlow struct {
	// Src is the client, Dst the destination after service translation.
	Src, Dst netip.Addr
	Protocol uint8
	// Port of the destination; 0 for protocols without ports.
	Port    uint16
	Packets uint64
}
