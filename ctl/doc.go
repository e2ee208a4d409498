// Package ctl is the command line for operators: it asks agents over their REST
// API and shows the answers, as tables for people or as JSON and YAML for
// programs.
//
//	--config, --agent, etcd ──> targets ──> ask (all agents at once) ──> answers ──> table | json | yaml
//	                                          │ unix socket or http
//	                                          └──> an agent that does not answer is reported,
//	                                               and the others are shown nevertheless
//
// Only resync and config change anything: resync repairs the vswitch, config changes the wanted values, as a client of the
// northbound API over gRPC or etcd (config*.go). plan asks what a change would do. Package [target] selects the agents to ask,
// and [text] formats answers. Keys can be shortened (matching), and times written as people do (parseTime).
package ctl
