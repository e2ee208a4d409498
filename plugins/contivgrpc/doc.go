// Package contivgrpc is a source of external configuration: the requests of clients over gRPC,
// beside those of our own plugins.
//
//	client ──rpc──> Service ──ExternalConfigChange──> event loop ──> KVScheduler
//	   ▲                                                  │ accepted, in order
//	   │                                                  ▼
//	   └────────────── answer <──── saved <──── Source: memory ──> writer ──> bbolt
//	                                                  ▲                        │
//	                                          DBResync│ GetClientSnapshots     │ at start
//	                                                  └────────────────────────┘
//
// The behaviour is that of seed 000, "gRPC API". What was left open there:
//
//   - A request is accepted when the event loop has processed it. One that reverts
//     when it fails is then either done or not accepted. Of others, what failed is
//     wanted all the same, and tried again.
//   - Accepted requests are saved in the order in which they were processed; as many
//     as wait share a write to the disk. A call returns after that. So what a client
//     was told survives the agent, and a request that the agent died over is
//     either in the file as a whole or not at all.
//   - A call that ends before its request got its turn has no effect. Later, the
//     request is completed although nobody waits.
//   - Clients with different names do not see each other's values: a resync of one
//     leaves those of others alone. Where they want different things for the same key,
//     values are merged in the order of the names.
package contivgrpc
