// Package program makes a vswitch have the routes of a table.
//
//	routes.Table ──Values──> northbound values ──differences──> Target ─┬─> KVScheduler of this process
//	                                                                    └─> agent, over gRPC
//
// The first time, and after a failure that leaves open what was done, all values are given as a
// resync: what the target has of ours, and is not among them, is removed, whoever
// wrote it before. Later, only differences are.
package program
