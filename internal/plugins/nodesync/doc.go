// Package nodesync assigns each node an ID and tracks all nodes of the cluster with the addresses
// of their vswitches.
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
// A node keeps its ID while its Kubernetes object exists; then KSR removes the VppNode. After a
// restart, the agent finds the ID in the mirrored state and does not need etcd.
package nodesync
