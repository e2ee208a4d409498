// Package central lets one instance calculate the routes of all hosts, so that not every host reads
// Calico's data.
//
//	Calico's data ──> Centre (elected) ──> /vpp-calico/hosts/<host>/routes/… ──> Reader of the host
//	                                                                               │ no centre
//	Calico's data ──────────────────────────────> Direct <─────────────────────────┘
//
// A centre writes while it leads the election at /vpp-calico/centre; later writes are refused. The
// routes stay when it ends, and the next centre continues. A host without a centre, or without
// routes from it, calculates its own routes after a while, until the centre is back.
package central
