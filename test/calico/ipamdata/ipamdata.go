// Package ipamdata writes what Calico's IPAM keeps in etcd: blocks of addresses, who claims them,
// and which addresses of them are in use. It is a stand-in for Calico where there is none.
//
//	/calico/ipam/v2/assignment/ipv4/block/10.66.0.0-26   Block
//	/calico/ipam/v2/host/<host>/ipv4/block/10.66.0.0-26  Affinity
package ipamdata

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
)

// Use is what has an address.
type Use struct {
	// Handle names the use; Calico's CNI plugin writes "k8s-pod-network.<container ID>".
	Handle               string
	Node, Namespace, Pod string
}

// Block is a block of addresses.
type Block struct {
	CIDR netip.Prefix
	// Host has the block.
	Host string
	// Used are the addresses in use, by their ordinals in the block.
	Used map[int]Use
}

// attribute is one of Calico's AllocationAttribute.
type attribute struct {
	Handle    string            `json:"handle_id"`
	Secondary map[string]string `json:"secondary"`
}

// Size is how many addresses the block has.
func Size(cidr netip.Prefix) int { return 1 << (cidr.Addr().BitLen() - cidr.Bits()) }

// Ordinal is the number of an address in the block that has it.
func Ordinal(cidr netip.Prefix, a netip.Addr) int {
	first, addr := cidr.Addr().AsSlice(), a.AsSlice()
	n := 0
	for i := range addr {
		n = n<<8 + int(addr[i]) - int(first[i])
	}
	return n
}

// JSON is the value of the block in etcd, and the spec of an IPAMBlock in Kubernetes.
func (b Block) JSON() []byte {
	v := struct {
		CIDR        string      `json:"cidr"`
		Affinity    string      `json:"affinity"`
		Allocations []*int      `json:"allocations"`
		Unallocated []int       `json:"unallocated"`
		Attributes  []attribute `json:"attributes"`
		Deleted     bool        `json:"deleted"`
	}{
		CIDR: b.CIDR.String(), Affinity: "host:" + b.Host, Allocations: make([]*int, Size(b.CIDR)),
		Unallocated: []int{}, Attributes: []attribute{},
	}
	for ordinal := range v.Allocations {
		use, used := b.Used[ordinal]
		if !used {
			v.Unallocated = append(v.Unallocated, ordinal)
			continue
		}
		index := len(v.Attributes)
		v.Allocations[ordinal] = &index
		v.Attributes = append(v.Attributes, attribute{use.Handle, map[string]string{"node": use.Node, "pod": use.Pod, "namespace": use.Namespace}})
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // strings and numbers can be encoded
	}
	return data
}

// BlockKey is the key of a block.
func BlockKey(cidr netip.Prefix) string {
	return "/calico/ipam/v2/assignment/" + keyOf(cidr)
}

// AffinityKey is the key under which a host claims a block.
func AffinityKey(host string, cidr netip.Prefix) string {
	return "/calico/ipam/v2/host/" + host + "/" + keyOf(cidr)
}

// States of an affinity.
const (
	Confirmed       = "confirmed"
	PendingDeletion = "pendingDeletion"
)

// Affinity is the value of a claim.
func Affinity(state string) []byte { return fmt.Appendf(nil, `{"state":%q,"deleted":false}`, state) }

// keyOf is the end of the keys about a block.
func keyOf(cidr netip.Prefix) string {
	family := "ipv4"
	if cidr.Addr().Is6() {
		family = "ipv6"
	}
	return fmt.Sprintf("%s/block/%s-%d", family, cidr.Addr(), cidr.Bits())
}

// Free returns the first address of the block that is not among those in use; ok=false: there is
// none. The first and the last one of an IPv4 block are left out, for people who take them for
// those of a subnet.
func Free(cidr netip.Prefix, used []netip.Addr) (a netip.Addr, ok bool) {
	a = cidr.Addr().Next()
	for range Size(cidr) - 2 {
		if !slices.Contains(used, a) {
			return a, true
		}
		a = a.Next()
	}
	return netip.Addr{}, false
}
