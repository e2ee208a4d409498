package own

import (
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch"
	"golang.org/x/sys/unix"
)

// VRFInRange returns an error for VRF numbers outside the kernel's range.
func VRFInRange(vrf uint32) error {
	if vrf <= MaxVRF {
		return nil
	}
	return vswitch.Unsupported("VRF %d: use a number up to %d", vrf, MaxVRF)
}

// OnlyMain returns an error for VRFs other than 0.
func OnlyMain(vrf uint32, what string) error {
	if vrf == 0 {
		return nil
	}
	return vswitch.Unsupported("%s in VRF %d: on the Linux kernel it works in VRF 0, the main table, only", what, vrf)
}

// VRFTables plus the VRF is the number of its table.
const VRFTables = 121_000_000

// MaxVRF is the largest VRF that fits into marks.
const MaxVRF = 1<<14 - 1

// TableOf returns the kernel's number of the routing table of a VRF.
func TableOf(vrf uint32) uint32 {
	if vrf == 0 {
		return unix.RT_TABLE_MAIN
	}
	return VRFTables + vrf
}

// VRFOfTable is the inverse of TableOf; false for foreign tables.
func VRFOfTable(table uint32) (vrf uint32, ok bool) {
	if table == unix.RT_TABLE_MAIN {
		return 0, true
	}
	vrf = table - VRFTables
	return vrf, vrf > 0 && vrf <= MaxVRF
}

// Protocol numbers of our addresses (IFA_PROTO), routes and neighbours.
const (
	ProtoOurs     = 121
	ProtoBorrowed = 122
	ProtoLeased   = 123
)

// ProtoVRF marks the routes of addresses in the table of their VRF. The kernel creates the ones in
// VRF 0.
const ProtoVRF = 125

// ProtoSegments marks SRv6 routes and nexthop objects.
const ProtoSegments = 124

// SegmentsDevice is the device of SRv6 routes.
const SegmentsDevice = "contiv-sr0"

func HostPrefix(addr netip.Addr) netip.Prefix { return netip.PrefixFrom(addr, addr.BitLen()) }

func FamiliesOf(versions vswitch.IPVersions) (families []int) {
	if versions.V4 {
		families = append(families, unix.AF_INET)
	}
	if versions.V6 {
		families = append(families, unix.AF_INET6)
	}
	return families
}

// WithoutRoute returns the address flag that keeps the kernel from adding a route to the main table.
func WithoutRoute(vrf uint32) uint32 {
	if vrf == 0 {
		return 0
	}
	return unix.IFA_F_NOPREFIXROUTE
}
