package cidr

import (
	"fmt"
	"net/netip"
)

// MinHostBits is the minimal number of host bits of a network for Dissect.
const MinHostBits = 18

// Plan divides one network into all subnets of a cluster.
type Plan struct {
	Pods, VPPHost, NodeInterconnect, VXLAN netip.Prefix
	// OneNodeLen is the prefix length of a node's part of Pods and of VPPHost.
	OneNodeLen int
}

// Dissect divides the network of the option contivCIDR:
//
//	block of 16 host bits #0    pods
//	block of 16 host bits #1    VPP-host interconnects
//	block of  9 host bits #256  node interconnect
//	block of  9 host bits #257  VXLAN
//
// and gives each node 7 host bits of the first two.
func Dissect(p netip.Prefix) (Plan, error) {
	if HostBits(p) < MinHostBits {
		return Plan{}, fmt.Errorf("contivCIDR %v is too small: use at least %d bits of address space, i.e. a prefix length of at most %d",
			p, MinHostBits, p.Addr().BitLen()-MinHostBits)
	}
	total := p.Addr().BitLen()
	plan := Plan{OneNodeLen: total - 7}
	for _, part := range []struct {
		network  *netip.Prefix
		hostBits int
		number   uint64
	}{
		{&plan.Pods, 16, 0}, {&plan.VPPHost, 16, 1}, {&plan.NodeInterconnect, 9, 256}, {&plan.VXLAN, 9, 257},
	} {
		subnet, err := Subnet(p, total-part.hostBits, part.number)
		if err != nil {
			return Plan{}, err
		}
		*part.network = subnet
	}
	return plan, nil
}
