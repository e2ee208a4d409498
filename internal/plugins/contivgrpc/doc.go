// Package contivgrpc is a source of external configuration: requests of clients over gRPC.
//
//		client ──rpc──> Service ──ExternalConfigChange──> event loop ──> KVScheduler
//		   ▲                                                  │ accepted, in order
//		   │                                                  ▼
//		   └────────────── answer <──── saved <──── Source: memory ──> writer ──> bbolt
//		                                                  ▲                        │
//		                                          DBResync│ GetClientSnapshots     │ at start
//		                                                  └────────────────────────┘
//
//	  - A request is accepted when the event loop has processed it. A request with
//	    Revert is either applied completely or not accepted. For other requests, failed
//	    values stay requested and are retried.
//	  - Accepted requests are saved in processing order; all waiting ones share a
//	    disk write. A call returns after that. So acknowledged requests survive the
//	    agent, and a request interrupted by the agent's end is in the file completely
//	    or not at all.
//	  - A call that ends before its turn has no effect. If it ends later, the request
//	    is completed.
//	  - Clients with different names do not see each other's values: a resync of one
//	    leaves the others' alone. Values of several clients for one key are merged in
//	    the order of the client names.
package contivgrpc
