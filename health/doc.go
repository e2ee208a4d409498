// Package health determines the verdict on a node: all problems that checks find, their start, and
// their remedies.
//
//	values, drift, disk, peers, vswitch, etcd, … ──Check──> Monitor ──> /readiness?verbose, metrics
//	                                                                └──> contivctl status
//
// A check returns problems as sentences, or none. Checks change nothing.
package health
