// Package conditions tells Kubernetes how nodes are: the condition ContivReady of each Node, and
// Events about what changes. It knows that from what agents publish in etcd, so that they need not
// talk to the API server.
//
//	<node>/check/agent   the agent lives ──┐
//	<node>/check/health  its verdict ──────┴──> Keeper ──> nodes/status, events
//
//	agent                      condition
//	healthy                    True     Healthy
//	degraded                   True     Degraded  pods work, but something is wrong
//	broken                     False    Broken
//	gone, or never seen        Unknown  NoAgent
//
// A change for the worse counts when it has lasted for a while: agents that are restarted are no
// news. A problem is told once.
package conditions
