// Package central has one instance calculate the routes of all hosts, which then need not read
// Calico's data each.
//
//	Calico's data ──> Centre (elected) ──> /vpp-calico/hosts/<host>/routes/… ──> Reader of the host
//	                                                                               │ no centre
//	Calico's data ──────────────────────────────> Direct <─────────────────────────┘
//
// A centre writes while it leads the election at /vpp-calico/centre; its writes are refused once it
// does not. What it wrote stays when it ends, and the next one goes on from there. A host whose
// centre is away for a while, or has not written for it yet, calculates by itself until the
// centre is back.
package central
