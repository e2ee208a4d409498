package fibpath

import (
	"math"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"

	"github.com/contiv/contiv/internal/vswitch"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip_types"
)

// Path is a path to a next hop, used by routes and cross-connects.
type Path struct {
	Gateway netip.Addr      // invalid: none
	Out     ownership.Index // noIndex: resolved by looking up gw, or the destination, in table
	Table   uint32
	Drop    bool
	Weight  uint8
	// Preference: the paths with the lowest are used.
	Preference uint8
}

// Same reports whether two paths are equal to VPP, which stores each only once.
func (p Path) Same(o Path) bool {
	p.Weight, p.Preference = o.Weight, o.Preference
	return p == o
}

// New returns an error for paths that VPP does not support.
func New(gw string, out ownership.Index, weight, preference uint32) (Path, error) {
	p := Path{Out: out, Weight: uint8(max(weight, 1)), Preference: uint8(preference)}
	if weight > math.MaxUint8 {
		return p, vswitch.Unsupported("weight %d: use at most %d", weight, math.MaxUint8)
	}
	if preference > math.MaxUint8 {
		return p, vswitch.Unsupported("preference %d: use at most %d", preference, math.MaxUint8)
	}
	var err error
	if gw != "" {
		p.Gateway, err = convert.ParseAddr(gw)
	}
	return p, err
}

// Encode: a path without address has the destination's IP version.
func (p Path) Encode(ipv6 bool) fib_types.FibPath {
	f := fib_types.FibPath{SwIfIndex: uint32(p.Out), TableID: p.Table, Weight: p.Weight, Preference: p.Preference}
	if ipv6 {
		f.Proto = fib_types.FIB_API_PATH_NH_PROTO_IP6
	}
	if p.Drop {
		f.Type, f.SwIfIndex = fib_types.FIB_API_PATH_TYPE_DROP, uint32(ownership.NoIndex)
	}
	if p.Gateway.IsValid() {
		f.Nh.Address = convert.Address(p.Gateway).Un
	}
	return f
}

// Decode returns false for paths of other kinds.
func Decode(f fib_types.FibPath) (Path, bool) {
	p := Path{Out: ownership.Index(f.SwIfIndex), Table: f.TableID, Weight: f.Weight, Preference: f.Preference}
	switch f.Type {
	case fib_types.FIB_API_PATH_TYPE_DROP:
		return Path{Out: ownership.NoIndex, Drop: true, Weight: f.Weight, Preference: f.Preference}, true
	case fib_types.FIB_API_PATH_TYPE_NORMAL:
	default:
		return p, false
	}
	switch f.Proto {
	case fib_types.FIB_API_PATH_NH_PROTO_IP4:
		p.Gateway = convert.Addr(ip_types.Address{Af: ip_types.ADDRESS_IP4, Un: f.Nh.Address})
	case fib_types.FIB_API_PATH_NH_PROTO_IP6:
		p.Gateway = convert.Addr(ip_types.Address{Af: ip_types.ADDRESS_IP6, Un: f.Nh.Address})
	default:
		return p, false
	}
	if p.Gateway.IsUnspecified() {
		p.Gateway = netip.Addr{}
	}
	if p.Out != ownership.NoIndex {
		p.Table = 0
	}
	return p, true
}

// DecodeAll returns the decodable paths of a list.
func DecodeAll(list []fib_types.FibPath) []Path {
	paths := make([]Path, 0, len(list))
	for _, f := range list {
		if p, ok := Decode(f); ok {
			paths = append(paths, p)
		}
	}
	return paths
}

// Refuser is an unassigned address. VPP is configured to answer packets to it with an ICMP error;
// other packets to be refused are routed to it.
func Refuser(ipv6 bool) netip.Addr {
	if ipv6 {
		return netip.AddrFrom16([16]byte{0: 1, 15: 1}) // 100::1: of the prefix that discards
	}
	return netip.AddrFrom4([4]byte{192, 0, 0, 170}) // from NAT64 discovery, never a destination
}
