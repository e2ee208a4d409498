// Package cnibench compares the cost of CNI calls of contiv-cni and its agent with the reference
// plugins bridge and host-local, which have no agent, in the same run on the same machine.
//
//	libcni ──exec──> contiv-cni ──cniwire──> agent ──netlink──> kernel
//	libcni ──exec──> bridge ──exec──> host-local
//
// Each round adds pods to both sides in turn until each has 100, and then checks and removes them.
// It reports the times that a runtime waits. Run it with
//
//	go test -run '^$' -bench . ./test/cnibench
//
// To compare with another build, name the directory of its binaries:
//
//	CNIBENCH_OTHER=/tmp/before go test -run '^$' -bench ParallelADD ./test/cnibench
package cnibench
