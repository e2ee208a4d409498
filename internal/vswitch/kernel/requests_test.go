package kernel

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A pod needs as few requests as possible, because each takes the kernel's RTNL lock. Looking up a
// device's name before each change (LinkName) does not.
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
		"Do":        4, // adds and enables the veth pair, adds its address and neighbour
		"LinkIndex": 1,
		"Execute":   2, // addresses of the lender and the borrower
		"RouteAdd":  1,
		"LinkName":  4, // before the lender's address, and before the address, the neighbour and the route are added
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Error(diff)
	}
}
