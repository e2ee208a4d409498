package own

import (
	"net/netip"

	"github.com/contiv/contiv/vswitch"
	"golang.org/x/sys/unix"
)

// VRFInRange is nil for numbers that the kernel's numbers have room for.
func VRFInRange(vrf uint32) error {
	if vrf <= MaxVRF {
		return nil
	}
	return vswitch.Unsupported("VRF %d: use a number up to %d", vrf, MaxVRF)
}

// OnlyMain is nil for VRF 0.
func OnlyMain(vrf uint32, what string) error {
	if vrf == 0 {
		return nil
	}
	return vswitch.Unsupported("%s in VRF %d: on the Linux kernel it works in VRF 0, the main table, only", what, vrf)
}

// VRFTables is where the numbers of our tables begin; that of the VRF is added.
const VRFTables = 121_000_000

// MaxVRF is what the mark has room for.
const MaxVRF = 1<<14 - 1

// TableOf returns the kernel's number of the routing table of a VRF.
func TableOf(vrf uint32) uint32 {
	if vrf == 0 {
		return unix.RT_TABLE_MAIN
	}
	return VRFTables + vrf
}

// VRFOfTable is the reverse; false if the table is none of ours.
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
	ProtoLeased   = 123 // by DHCP: addresses and routes
)

// ProtoVRF marks the routes that addresses have in the table of their VRF. For those
// in VRF 0 the kernel makes them.
const ProtoVRF = 125

// ProtoSegments marks routes and nexthop objects of segment routing.
const ProtoSegments = 124

// SegmentsDevice is the device that routes into and out of segments name.
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

// WithoutRoute keeps the kernel from making a route in the main table.
func WithoutRoute(vrf uint32) uint32 {
	if vrf == 0 {
		return 0
	}
	return unix.IFA_F_NOPREFIXROUTE
}
