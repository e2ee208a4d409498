// Package nodesync gives each node of the cluster a number, and keeps track of
// all nodes: who they are, and at which addresses their vswitches are reached.
//
//	etcd allocatedIDs/<id> ──KubeState──> VppNode ─┐
//	                                               ├──> Node{ID, Name, …} ──> GetAllNodes
//	Kubernetes Node ───────────KubeState──> Node ──┘          └─ changes ──> NodeUpdate
//
//	own ID:         first free number, claimed by an atomic put
//	own addresses:  PublishNodeIPs ──compare-and-swap──> etcd
//
// The name of a node belongs to the agent that holds its Claim:
//
//	etcd /vnf-agent/<node>/check/agent ──lease──> the living agent
//
// A node keeps its ID as long as its Kubernetes object exists: KSR removes the
// VppNode afterwards. The ID is found again in the mirrored state, so that a
// restart needs no etcd.
package nodesync
