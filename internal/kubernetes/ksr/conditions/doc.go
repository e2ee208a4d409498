// Package conditions reports the state of nodes to Kubernetes: a condition ContivReady of each
// Node, and Events about changes. It reads the states that agents publish in etcd, so that agents
// need no access to the API server.
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
// A deterioration is reported only after a delay, because agents may restart. A problem is reported
// once.
package conditions
