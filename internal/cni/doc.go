// Package cni is the logic of the CNI plugin contiv-cni. It forwards the calls of the container
// runtime to the agent of the node.
//
//	runtime ──env, JSON on stdin──> contiv-cni ──cniwire, unix socket──> agent
//	        <──result or error JSON──   │      <──reply──────────────────
//	                                    └─exec─> delegated IPAM plugin, if any
//
//	ADD     IPAM ADD, agent Add; an Add that fails releases the address
//	DEL     agent Delete, IPAM DEL
//	CHECK   IPAM CHECK, agent Check
//	STATUS  agent Status, IPAM STATUS
//	GC      agent CollectGarbage, IPAM GC
//
// Every call has a deadline. If the agent is unreachable, ADD asks the runtime to try again later,
// and DEL succeeds, because a starting agent removes pods without a network namespace. In a chain,
// the result of the preceding plugin is extended, not replaced.
package cni
