// Package program programs the routes of a table into a vswitch.
//
//	routes.Table ──Values──> northbound values ──differences──> Target ─┬─> KVScheduler of this process
//	                                                                    └─> agent, over gRPC
//
// The first time, and after a failure with an unknown outcome, all values are sent as a resync: other
// values of ours in the target are removed, regardless of which run wrote them. After that, only
// differences are sent.
package program
