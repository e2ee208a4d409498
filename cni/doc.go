// Package cni is the logic of the CNI plugin contiv-cni: it carries the calls of
// the container runtime to the agent of the node, which does the work.
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
// Most calls do not get that far in the process: package shortcut hands them to the agent, where Answer runs the same
// logic.
//
// Every call has a deadline. ADD asks to be tried again later when the agent is
// not reachable. DEL succeeds then: an agent that starts drops the pods whose
// network namespaces are gone. A result that a plugin before this one in the
// chain returned is completed, not replaced.
package cni
