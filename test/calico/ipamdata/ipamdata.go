// Package ipamdata writes the etcd data of Calico's IPAM: address blocks, their hosts, and the
// addresses in use. It replaces Calico in tests and labs.
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

// Use is the allocation of an address.
type Use struct {
	// Handle identifies the allocation; Calico's CNI plugin writes "k8s-pod-network.<container
	// ID>".
	Handle               string
	Node, Namespace, Pod string
}

// Block is a block of addresses.
type Block struct {
	CIDR netip.Prefix
	// Host is the host that owns the block.
	Host string
	// Used maps ordinals in the block to the addresses' allocations.
	Used map[int]Use
}

type attribute struct {
	Handle    string            `json:"handle_id"`
	Secondary map[string]string `json:"secondary"`
}

// Size returns the number of addresses in a block.
func Size(cidr netip.Prefix) int { return 1 << (cidr.Addr().BitLen() - cidr.Bits()) }

// Ordinal returns the index of an address in its block.
func Ordinal(cidr netip.Prefix, a netip.Addr) int {
	first, addr := cidr.Addr().AsSlice(), a.AsSlice()
	n := 0
	for i := range addr {
		n = n<<8 + int(addr[i]) - int(first[i])
	}
	return n
}

// JSON returns the value of the block in etcd, which is also the spec of an IPAMBlock in
// Kubernetes.
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
		panic(err) // strings and numbers always encode
	}
	return data
}

// BlockKey returns the key of a block.
func BlockKey(cidr netip.Prefix) string {
	return "/calico/ipam/v2/assignment/" + keyOf(cidr)
}

// AffinityKey returns the key of a host's claim to a block.
func AffinityKey(host string, cidr netip.Prefix) string {
	return "/calico/ipam/v2/host/" + host + "/" + keyOf(cidr)
}

// States of an affinity.
const (
	Confirmed       = "confirmed"
	PendingDeletion = "pendingDeletion"
)

// Affinity returns the value of a claim.
func Affinity(state string) []byte { return fmt.Appendf(nil, `{"state":%q,"deleted":false}`, state) }

func keyOf(cidr netip.Prefix) string {
	family := "ipv4"
	if cidr.Addr().Is6() {
		family = "ipv6"
	}
	return fmt.Sprintf("%s/block/%s-%d", family, cidr.Addr(), cidr.Bits())
}

// Free returns the first unused address of the block; ok is false if there is none. It skips the
// first and last address of an IPv4 block, which look like a network and a broadcast address.
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
