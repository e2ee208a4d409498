package kernel

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A pod is made with as few requests as possible, each of which takes the kernel's lock of all network
// settings. Looking at the name of a device before each change (LinkName) takes none.
func TestRequestsOfAPod(t *testing.T) {
	n := newNode(t)
	v := openKernel(t, n)
	addGateway(t, v)
	addPod(t, v, 0)
	calls := map[string]int{}
	v.Net.InjectFaults(func(call string) error { calls[call]++; return nil })
	addPod(t, v, 1)
	v.Net.InjectFaults(nil)
	want := map[string]int{
		"Do":        4, // the veth pair is added, and enabled; its address and neighbour are
		"LinkIndex": 1,
		"Execute":   2, // addresses of the lender, and of the borrower
		"RouteAdd":  1,
		"LinkName":  4, // of the lender, and before the address, the neighbour and the route are added
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
}
