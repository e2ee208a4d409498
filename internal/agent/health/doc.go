// Package health determines the verdict on a node: all problems that checks find, their start, and
// their remedies.
//
//	values, drift, disk, peers, vswitch, etcd, … ──Check──> Monitor ──> /readiness?verbose, metrics
//	                                                                └──> contivctl status
//
// A check returns problems as sentences, or none. Checks change nothing. Components of the agent
// bring their checks (component.checks in cmd/contiv-agent), and checkOrder there has the order in which
// they are shown.
package health
