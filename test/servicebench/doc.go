// Package servicebench compares the service implementation of the vswitch with kube-proxy in
// nftables mode, side by side in one run:
//
//	contiv:      etcd ──> contiv-agent ─┐
//	                                    ├──> node with two pods, in separate network namespaces
//	kube-proxy:  API (ours) ──> kube-proxy ─┘        client ──> cluster IP ──> server
//
// Run it as root with
//
//	CONTIV_BENCH_SERVICES=10000 go test -run '^$' -bench . -v -timeout 1h ./test/servicebench
//
// make bench uses 1 000 services. It needs the kube-proxy binary that make e2e builds.
package servicebench
