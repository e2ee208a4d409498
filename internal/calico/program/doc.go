// Package program programs the routes of a table into a vswitch.
//
//	routes.Table ──Values──> northbound values ──differences──> Target ─┬─> KVScheduler of this process
//	                                                                    └─> agent, over gRPC
//
// The first time, and after a failure with an unknown outcome, all values are sent as a resync,
// which removes all other values of ours. After that, only differences are sent.
package program
