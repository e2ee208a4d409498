// Package scale measures one agent in a large cluster: its event loop with all plugins, the real
// scheduler and the descriptors of the vpp.* models, on an in-memory vswitch.
//
//	cluster ──fills──> store in memory ──> dbwatcher ──> controller ──> plugins
//	 n nodes, m pods       (as etcd)         │                             │
//	                                       bolt                       kvscheduler
//	                                     (mirror)                      │       │
//	                                                          internal/vswitch/fake   linux models
//	                                                                         in memory
//
// The tests check the result with a small cluster. The benchmarks use 1 000 nodes and 30 000 pods:
// make bench, or
//
//	go test ./test/scale -run '^$' -bench . -cpuprofile cpu.out
package scale
