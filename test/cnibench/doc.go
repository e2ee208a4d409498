// Package cnibench measures what CNI calls cost: contiv-cni with its agent, and
// in the same run the reference plugins bridge and host-local, which have no
// agent, on the same machine.
//
//	libcni ──exec──> contiv-cni ──cniwire──> agent ──netlink──> kernel
//	libcni ──exec──> bridge ──exec──> host-local
//
// Each round adds pods one after the other, ours and theirs in turn, until there
// are 100 of each; then it checks and removes them. Times are those that a
// runtime waits. Run it with
//
//	go test -run '^$' -bench . ./test/cnibench
//
// To compare with another build by turns, name the folder of its binaries:
//
//	CNIBENCH_OTHER=/tmp/before go test -run '^$' -bench ParallelADD ./test/cnibench
package cnibench
