// Package peers makes the nodes of a cluster continuously probe each other over the overlay, with
// real packets through the vswitch.
//
//	Nodes ──Choose──> probed ──every Interval──> ping ──> Reports ──> Problems, metrics, REST
//
// A probe is an echo request from the node to the pod gateway of the other node. It takes the path
// of pods' packets, including a tunnel, and the remote vswitch answers it with or without an agent.
// Once a minute the probe has the size of pods' largest packets; if it is lost, the prober searches
// for the largest size that passes. Nodes that ignore echo requests are probed by Knock.
//
// Cost: 64 bytes each way every 15 s and 1450 bytes each way every minute, 57 B/s per peer. A node
// has at most 16 peers, or log2 of the nodes in larger clusters: see Choose.
package peers
