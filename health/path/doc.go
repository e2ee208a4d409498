// Package path explains, on one node, what becomes of packets between two addresses: what is
// wired for them, what the kernel would do with them, what of others is in the way, and how far
// probes come.
//
//	GET /contiv/v1/path?from=…&to=…[&protocol=tcp&port=80] ──> Report{Findings, Probes, …}
//
// contivctl why asks the nodes at both ends and compares what they answer. The verdicts of
// policies and the translation of services belong here as well: each is a function in Options.Verdicts.
package path
