// Package health is the verdict on a node: everything that checks find wrong with it, since when, and
// with a remedy.
//
//	values, drift, disk, peers, vswitch, etcd, … ──Check──> Monitor ──> /readiness?verbose, metrics
//	                                                                └──> contivctl status
//
// A check returns problems as sentences, none if all is well. Checks change nothing.
package health
