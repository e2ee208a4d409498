// Package pathexplain explains, on one node, the path of packets between two addresses: the configuration
// for them, the kernel's routing, interfering foreign rules, and how far probes get.
//
//	GET /contiv/v1/path?from=…&to=…[&protocol=tcp&port=80] ──> Report{Findings, Probes, …}
//
// contivctl why asks the nodes at both ends and compares their answers. The functions in
// Options.Verdicts add the effects of policies and services.
package pathexplain
