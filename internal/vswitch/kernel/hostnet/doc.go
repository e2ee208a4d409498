// Package hostnet watches host settings that pods depend on and that no northbound value
// represents: IP forwarding, globally and per device, and the host's default routes, which the
// kernel silently removes when their device goes down.
//
//	rtnetlink ──Notice──> Check ──> log, once
//	                      Warnings ──> contivctl status, as long as it lasts
//
// It never changes the host: disabling forwarding may be intentional, and foreign routes are not
// ours to add.
package hostnet
