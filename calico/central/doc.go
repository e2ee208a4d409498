// Package central lets one instance calculate the routes of all hosts, so that not every host needs to
// read Calico's data.
//
//	Calico's data ──> Centre (elected) ──> /vpp-calico/hosts/<host>/routes/… ──> Reader of the host
//	                                                                               │ no centre
//	Calico's data ──────────────────────────────> Direct <─────────────────────────┘
//
// A centre writes while it leads the election at /vpp-calico/centre; once it does not, its writes are
// refused. The routes stay when it ends, and the next centre continues from there. A host whose centre
// is away for a while, or has not written for it yet, calculates by itself until the centre is back.
package central
