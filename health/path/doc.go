// Package path explains, on one node, what happens to packets between two addresses: what is wired for
// them, what the kernel would do with them, which rules of others are in the way, and how far probes
// get.
//
//	GET /contiv/v1/path?from=…&to=…[&protocol=tcp&port=80] ──> Report{Findings, Probes, …}
//
// contivctl why asks the nodes at both ends and compares their answers. The functions in
// Options.Verdicts add the effects of policies and services.
package path
