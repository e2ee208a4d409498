// Package peers makes the nodes of a cluster continuously probe each other over the overlay, with real
// packets through the vswitch.
//
//	Nodes ──Choose──> probed ──every Interval──> ping ──> Reports ──> Problems, metrics, REST
//
// A probe is an echo request from the node to the pod gateway of the other node: it leaves as packets of pods
// do, through the tunnel where there is one, and the vswitch there answers, whether or not an agent runs. Once
// a minute it is as large as packets of pods may be; if such a packet does not pass, the prober searches for
// the largest size that does. Nodes that ignore echo requests are probed by Knock.
//
// What it costs: 64 bytes each way every 15 s and 1450 bytes each way every minute, 57 B/s per
// peer, and at most 16 peers, or log2 of the nodes in larger clusters: see Choose.
package peers
