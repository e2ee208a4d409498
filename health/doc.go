// Package health is the verdict on a node: what is wrong with it, of all that can be looked at,
// since when, and what to do about it.
//
//	values, drift, disk, peers, vswitch, etcd, … ──Check──> Monitor ──> /readiness?verbose, metrics
//	                                                                └──> contivctl status
//
// A check says what is wrong in sentences; no sentence, nothing wrong. Nothing in here changes
// anything.
package health
