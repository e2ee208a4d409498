package srv6

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/kvscheduler"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Driver configures the segment routing of one network namespace.
type Driver struct {
	*own.Host
	srMu      sync.Mutex
	supported func() bool
}

// New returns a Driver, which needs no closing.
func New(host *own.Host) *Driver {
	v := &Driver{Host: host}
	v.supported = sync.OnceValue(v.probe)
	return v
}

// Supported reports whether the kernel supports segment routing.
func (v *Driver) Supported() bool { return v.supported() }

func (v *Driver) probe() bool {
	err := rtnl.Try(func(c *rtnl.Conn) error {
		if err := c.SetLink(rtnl.Loopback, rtnl.LinkChange{Up: true}); err != nil {
			return err
		}
		return setNexthop(c, srNexthop{id: 1, index: rtnl.Loopback, kind: nl.LWTUNNEL_ENCAP_SEG6, encap: srTunnel([]netip.Addr{netip.IPv6Loopback()}, false)})
	})
	return !errors.Is(srError(err), kvscheduler.ErrUnsupported)
}

// srv6 uses nexthop objects (`ip nexthop`) for the actions on packets, and routes to them, all of
// protocol 124:
//
//	local SID  route <sid>/128 ──> nexthop: the function of the segment
//	             END.X, DX4, DX6: nexthop ──> helper address ──> route via the neighbour
//	policy     route <bsid>/128 ──> group for the binding SID: weighted segment lists
//	                                group for steered traffic: the same
//	steering   route <network> ────────^
//
// So a policy exists without traffic, changes atomically under traffic, and is read back from its
// two groups.
type srv6 struct{ *Driver }

func (v *Driver) SegmentPort() vswitch.SRv6 { return srv6{v} }

func (v srv6) LocalSIDs() vswitch.Values[*vpp_srv6.LocalSID] { return localSIDs(v) }
func (v srv6) Policies() vswitch.Values[*vpp_srv6.Policy]    { return srPolicies(v) }
func (v srv6) Steerings() vswitch.Values[*vpp_srv6.Steering] { return srSteerings(v) }
func (v srv6) Globals() vswitch.Values[*vpp_srv6.SRv6Global] { return srGlobals(v) }

// IDs of nexthop objects: a tag and a slot of 24 bits for a SID, or a slot of 16 bits and a
// position for a policy.
const (
	sidTag, policyTag  = 0x7a000000, 0x79000000
	tagMask            = 0xff000000
	sidSlots           = 1 << 24
	policySlots        = 1 << 16
	steered, bound     = 0, 128 // positions of the groups; members follow
	maxWays, slotShift = 127, 8
)

type srState struct {
	routes   []srRoute
	nexthops map[uint32]srNexthop
}

func (v *Driver) readSR() (*srState, error) {
	s := &srState{}
	var err error
	for _, fam := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, e := srRoutes(v.Net, fam)
		s.routes, err = append(s.routes, routes...), errors.Join(err, e)
	}
	objects, e := nexthops(v.Net)
	s.nexthops = objects
	if err = errors.Join(err, e); err != nil {
		return nil, fmt.Errorf("reading segment routing: %w", err)
	}
	return s, nil
}

func (s *srState) route(dst netip.Prefix) (srRoute, bool) {
	for _, r := range s.routes {
		if r.dst == dst && r.table == unix.RT_TABLE_MAIN && r.metric != metricFallback && !r.isNeighbour() {
			return r, true
		}
	}
	return srRoute{}, false
}

// slot probes the slots from the hash of an address until one is free.
func slot(addr netip.Addr, slots uint32, taken func(uint32) bool) uint32 {
	h := fnv.New32a()
	_, _ = h.Write(addr.AsSlice())
	n := h.Sum32() % slots
	for range slots {
		if !taken(n) {
			break
		}
		n = (n + 1) % slots
	}
	return n
}

// setSRRoute adds the route, or changes ours. A foreign route to the same destination is an error.
func (v *Driver) setSRRoute(s *srState, r srRoute) error {
	if have, ok := s.route(r.dst); ok {
		switch {
		case have.nhid == r.nhid:
			return nil
		case kindOf(have.nhid) != kindOf(r.nhid):
			return fmt.Errorf("%s is another kind of destination already (local SID, binding SID or steered network)", r.dst)
		}
		return replaceSRRoute(v.Net, r)
	}
	err := addSRRoute(v.Net, r)
	if rtnl.Exists(err) {
		return fmt.Errorf("another route to %s has the same preference (`ip route show %s`): remove it first", r.dst, r.dst)
	}
	return err
}

func (v *Driver) deleteRoute(dst netip.Prefix, kind uint32) error {
	v.srMu.Lock()
	defer v.srMu.Unlock()
	s, err := v.readSR()
	if err != nil {
		return ignoreNoSegments(err)
	}
	have, ok := s.route(dst)
	if !ok || kindOf(have.nhid) != kind {
		return nil
	}
	goes := func(r srRoute) bool {
		return r == have || kind == policyTag|bound && r.nhid == have.nhid&^bound
	}
	for _, r := range s.routes {
		if goes(r) {
			if err := rtnl.IgnoreGone(delSRRoute(v.Net, r)); err != nil {
				return err
			}
		}
	}
	s.routes = slices.DeleteFunc(s.routes, goes)
	return v.sweep(s)
}

func kindOf(id uint32) uint32 {
	if id&tagMask == policyTag {
		return id & (tagMask | bound)
	}
	return id & tagMask
}

func srError(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return vswitch.Unsupported("segment routing: this Linux kernel refuses it (%v): "+
			"it needs IPv6, nexthop objects (Linux 5.3) and the option CONFIG_IPV6_SEG6_LWTUNNEL", err)
	}
	return err
}

func metricOf(dst netip.Prefix) uint32 {
	if dst.Addr().Is6() {
		return own.DefaultMetric6
	}
	return 0
}

// acceptSegments permits the node's addresses as last segments, with the inserted header.
func (v *Driver) acceptSegments() error {
	return v.NS.Run(func() error {
		devices, err := filepath.Glob(namespace.ProcNet + "ipv6/conf/*/seg6_enabled")
		for _, path := range devices {
			err = errors.Join(err, namespace.EnsureSysctl(strings.TrimPrefix(path, namespace.ProcNet), "1"))
		}
		return err
	})
}

// srKeys returns the keys of the values with a route to the destination.
func (v *Driver) srKeys(dst netip.Prefix) (keys []string) {
	_, helper := ofHelper(dst)
	for _, s := range own.All[*vpp_srv6.LocalSID](v.Reg) {
		if addr, err := netip.ParseAddr(s.GetSid()); err == nil && (dst == own.HostPrefix(addr) || helper && crossConnected(s)) {
			keys = append(keys, keyOf(s))
		}
	}
	for _, p := range own.All[*vpp_srv6.Policy](v.Reg) {
		if addr, err := netip.ParseAddr(p.GetBsid()); err == nil && dst == own.HostPrefix(addr) {
			keys = append(keys, keyOf(p))
		}
	}
	for _, s := range own.All[*vpp_srv6.Steering](v.Reg) {
		if net, err := netip.ParsePrefix(s.GetL3Traffic().GetPrefixAddress()); err == nil && dst == net {
			keys = append(keys, keyOf(s))
		}
	}
	for _, g := range own.All[*vpp_srv6.SRv6Global](v.Reg) {
		if dst == own.HostPrefix(vswitch.EncapSource(g)) {
			keys = append(keys, keyOf(g))
		}
	}
	return keys
}

// Sweep removes nexthop objects that no route uses, as interrupted calls leave them, and the device
// once it is unused.
func (v *Driver) Sweep() error {
	v.srMu.Lock()
	defer v.srMu.Unlock()
	s, err := v.readSR()
	if err != nil {
		return ignoreNoSegments(err)
	}
	return v.sweep(s)
}

func (v *Driver) sweep(s *srState) error {
	used := map[uint32]bool{}
	for _, r := range s.routes {
		used[objectOf(r.nhid)] = true
	}
	for id := range s.nexthops {
		if used[objectOf(id)] {
			continue
		}
		if err := rtnl.IgnoreGone(delNexthop(v.Net, id)); err != nil {
			return err
		}
		delete(s.nexthops, id)
	}
	if len(s.nexthops) == 0 {
		if err := v.dropSRDevice(); err != nil {
			return err
		}
	}
	neighbours := map[netip.Addr]bool{}
	for _, r := range s.routes {
		id, ok := ofHelper(r.dst)
		switch {
		case ok && s.nexthops[id].id == 0:
			if err := rtnl.IgnoreGone(delSRRoute(v.Net, r)); err != nil {
				return err
			}
		case ok && r.gw.IsValid():
			neighbours[r.gw] = true
		}
	}
	for _, r := range s.routes {
		if r.isNeighbour() && !neighbours[r.dst.Addr()] {
			if err := rtnl.IgnoreGone(delSRRoute(v.Net, r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// objectOf returns the same ID for all IDs of a policy.
func objectOf(id uint32) uint32 {
	if id&tagMask == policyTag {
		return id &^ (1<<slotShift - 1)
	}
	return id
}

// ignoreNoSegments ignores the error of a kernel without segment routing, which has no objects of
// ours.
func ignoreNoSegments(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	return err
}
