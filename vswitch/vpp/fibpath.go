package vpp

import (
	"context"
	"math"
	"net/netip"

	"github.com/contiv/contiv/vswitch"
	"go.fd.io/govpp/binapi/fib_types"
	"go.fd.io/govpp/binapi/ip_types"
)

// path is a way to a next hop, as routes and cross-connects have it.
type path struct {
	gw     netip.Addr // invalid: none
	out    index      // noIndex: found by looking up gw, or the destination, in table
	table  uint32
	drop   bool
	weight uint8
	// preference: of several paths, those with the lowest are used.
	preference uint8
}

// same tells if two paths are the same to VPP, which has each only once.
func (p path) same(o path) bool {
	p.weight, p.preference = o.weight, o.preference
	return p == o
}

// newPath checks what northbound values may ask for and VPP cannot do.
func newPath(gw string, out index, weight, preference uint32) (path, error) {
	p := path{out: out, weight: uint8(max(weight, 1)), preference: uint8(preference)}
	if weight > math.MaxUint8 {
		return p, vswitch.Unsupported("weight %d: use at most %d", weight, math.MaxUint8)
	}
	if preference > math.MaxUint8 {
		return p, vswitch.Unsupported("preference %d: use at most %d", preference, math.MaxUint8)
	}
	var err error
	if gw != "" {
		p.gw, err = parseAddr(gw)
	}
	return p, err
}

// encode: what has no address of its own is of the version of the destination.
func (p path) encode(ipv6 bool) fib_types.FibPath {
	f := fib_types.FibPath{SwIfIndex: uint32(p.out), TableID: p.table, Weight: p.weight, Preference: p.preference}
	if ipv6 {
		f.Proto = fib_types.FIB_API_PATH_NH_PROTO_IP6
	}
	if p.drop {
		f.Type, f.SwIfIndex = fib_types.FIB_API_PATH_TYPE_DROP, uint32(noIndex)
	}
	if p.gw.IsValid() {
		f.Nh.Address = addressOf(p.gw).Un
	}
	return f
}

// decodePath returns false for paths that we do not make.
func decodePath(f fib_types.FibPath) (path, bool) {
	p := path{out: index(f.SwIfIndex), table: f.TableID, weight: f.Weight, preference: f.Preference}
	switch f.Type {
	case fib_types.FIB_API_PATH_TYPE_DROP:
		return path{out: noIndex, drop: true, weight: f.Weight, preference: f.Preference}, true
	case fib_types.FIB_API_PATH_TYPE_NORMAL:
	default:
		return p, false
	}
	switch f.Proto {
	case fib_types.FIB_API_PATH_NH_PROTO_IP4:
		p.gw = addrOf(ip_types.Address{Af: ip_types.ADDRESS_IP4, Un: f.Nh.Address})
	case fib_types.FIB_API_PATH_NH_PROTO_IP6:
		p.gw = addrOf(ip_types.Address{Af: ip_types.ADDRESS_IP6, Un: f.Nh.Address})
	default:
		return p, false
	}
	if p.gw.IsUnspecified() {
		p.gw = netip.Addr{}
	}
	if p.out != noIndex {
		p.table = 0
	}
	return p, true
}

// indexOf returns the index of an interface; noIndex for no name. Names of interfaces
// that are gone are those of List.
func (v *VSwitch) indexOf(ctx context.Context, name string) (index, error) {
	if name == "" {
		return noIndex, nil
	}
	if i, ok := goneIndex(name); ok {
		return i, nil
	}
	return v.ifs.index(ctx, name)
}
