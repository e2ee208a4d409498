// Package path explains, on one node, what becomes of packets between two addresses: what is
// wired for them, what the kernel would do with them, what of others is in the way, and how far
// probes come.
//
//	GET /contiv/v1/path?from=…&to=…[&protocol=tcp&port=80] ──> Report{Findings, Probes, …}
//
// contivctl why asks the nodes at both ends and compares what they answer. What
// policies and services say is given by the functions in Options.Verdicts.
package path
