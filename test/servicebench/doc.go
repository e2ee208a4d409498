// Package servicebench compares how the vswitch translates Kubernetes services with
// kube-proxy in its nftables mode, side by side in one run:
//
//	contiv:      etcd ──> contiv-agent ─┐
//	                                    ├──> node with two pods, in network namespaces of its own
//	kube-proxy:  API (ours) ──> kube-proxy ─┘        client ──> cluster IP ──> server
//
// Run it with
//
//	CONTIV_BENCH_SERVICES=10000 go test -run '^$' -bench . -v -timeout 1h ./test/servicebench
//
// as root; make bench does so with 1 000 services. It needs the program kube-proxy that make e2e builds.
package servicebench
