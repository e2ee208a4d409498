// Package hostnet watches settings of the host that pods depend on and that no northbound
// value stands for: forwarding, of all devices and of each, and the host's own default
// routes, which the kernel removes without a word when their device goes down.
//
//	rtnetlink ──Notice──> Check ──> log, once
//	                      Warnings ──> contivctl status, as long as it lasts
//
// Nothing in here changes the host: whoever switched forwarding off may have had a reason,
// and a route that is not ours is not ours to add.
package hostnet
