// Package ctl is the command line for operators: it asks agents over their REST API and prints the
// answers as tables, JSON or YAML.
//
//	--config, --agent, etcd ──> targets ──> ask (all agents at once) ──> answers ──> table | json | yaml
//	                                          │ unix socket or http
//	                                          └──> an agent that does not answer is reported,
//	                                               and the others are shown nevertheless
//
// Only resync and config make changes: resync repairs the vswitch; config changes the requested
// values as a northbound client over gRPC or etcd (config*.go). plan shows the effect of a change.
// Package [target] selects the agents, and [text] formats answers. Keys can be shortened
// (matching); times have several forms (parseTime).
package ctl
