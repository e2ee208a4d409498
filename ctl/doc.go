// Package ctl is the command line for operators: it asks agents over their REST
// API and shows the answers, as tables for people or as JSON and YAML for
// programs.
//
//	--config, --agent, etcd ──> targets ──> ask (all agents at once) ──> answers ──> table | json | yaml
//	                                          │ unix socket or http
//	                                          └──> an agent that does not answer is reported,
//	                                               and the others are shown nevertheless
//
// Only resync and config change anything: resync towards what is wanted already, config
// what is wanted, as a client of the northbound API over gRPC or etcd (config*.go). plan
// asks what a change would do. Whom to ask is [target], how answers look [text]. Keys can be shortened (matching), and times be
// written as people do (parseTime).
package ctl
