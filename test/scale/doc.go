// Package scale measures one agent in a large cluster: its event loop with all
// plugins, the real scheduler and the descriptors of the vpp.* models, on a vswitch
// in memory.
//
//	cluster ──fills──> store in memory ──> dbwatcher ──> controller ──> plugins
//	 n nodes, m pods       (as etcd)         │                             │
//	                                       bolt                       kvscheduler
//	                                     (mirror)                      │       │
//	                                                          vswitch/fake   linux models
//	                                                                         in memory
//
// The tests do it with a small cluster and check the outcome; the benchmarks with
// 1 000 nodes and 30 000 pods: make bench, or
//
//	go test ./test/scale -run '^$' -bench . -cpuprofile cpu.out
package scale
