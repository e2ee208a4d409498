package routes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An L3 cross-connect is a policy rule of the interface with a separate table, which has a default
// route per preference:
//
//	121: from all iif c-tap1 lookup 126877702 proto 121
//	table 126877702:  default via 10.0.0.2 dev c-tap2 metric 1    the paths
//	                  blackhole default metric 4294967295         if no path exists
//
// The node's own addresses are not affected: the rule of the table "local" comes first.
type l3xconnects struct{ *Driver }

func (v *Driver) L3XConnectPort() vswitch.Values[*vpp_l3.L3XConnect] { return l3xconnects{v} }

const (
	l3xRulePriority = 121
	l3xTables       = 121 << 20
	lastMetric      = math.MaxUint32
)

func familyOf(p vpp_l3.L3XConnect_Protocol) int {
	if p == vpp_l3.L3XConnect_IPV6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

type hops map[int][]path

func (h hops) equal(o hops) bool {
	return maps.EqualFunc(h, o, func(a, b []path) bool { return slices.Equal(a, b) })
}

func sortPaths(paths []path) {
	if len(paths) == 1 {
		paths[0].weight = 1 // a single path has none
	}
	slices.SortFunc(paths, func(a, b path) int {
		return cmp.Or(cmp.Compare(a.index, b.index), a.gw.Compare(b.gw), cmp.Compare(a.weight, b.weight))
	})
}

func (v l3xconnects) hopsOf(x *vpp_l3.L3XConnect) (hops, error) {
	h := hops{}
	for _, p := range x.GetPaths() {
		link, err := v.Link(p.GetOutgoingInterface())
		if err != nil {
			return nil, err
		}
		gw, _ := netip.ParseAddr(p.GetNextHopAddr())
		metric := int(p.GetPreference()) + 1 // 0 is another metric for IPv6
		h[metric] = append(h[metric], path{gw, link.Attrs().Index, max(p.GetWeight(), 1)})
	}
	for _, paths := range h {
		sortPaths(paths)
	}
	return h, nil
}

func (v l3xconnects) Create(_ context.Context, x *vpp_l3.L3XConnect) error {
	for _, p := range x.GetPaths() {
		if p.GetWeight() > own.MaxWeight {
			return vswitch.Unsupported("weight %d: use at most %d", p.GetWeight(), own.MaxWeight)
		}
		if p.GetPreference() > math.MaxInt32 {
			return vswitch.Unsupported("preference %d: use at most %d", p.GetPreference(), math.MaxInt32)
		}
	}
	vrfs, err := v.vrf.VRFsOf(x.GetInterface())
	if err != nil {
		return err
	}
	if vrf := v.Reg.Iface(x.GetInterface()).GetVrf(); vrf != 0 || vrfs[familyOf(x.GetProtocol())] != 0 {
		return own.CrossConnectInVRF()
	}
	link, err := v.Link(x.GetInterface())
	if err == nil {
		err = v.apply(x, link)
	}
	if err != nil {
		return fmt.Errorf("cross-connecting the packets of interface %q: %w", x.GetInterface(), err)
	}
	v.Reg.Put(x)
	return nil
}

// apply fills the table before it adds the rule.
func (v l3xconnects) apply(x *vpp_l3.L3XConnect, link netlink.Link) error {
	want, err := v.hopsOf(x)
	if err != nil {
		return err
	}
	fam, table := familyOf(x.GetProtocol()), l3xTables+link.Attrs().Index
	have, err := v.routesOfTable(fam, table)
	if err != nil {
		return err
	}
	for metric, paths := range want {
		if err := v.Net.RouteReplace(defaultRoute(fam, table, metric, paths)); err != nil {
			return fmt.Errorf("adding the default route of table %d: %w", table, err)
		}
	}
	if err := v.Net.RouteReplace(defaultRoute(fam, table, lastMetric, nil)); err != nil {
		return fmt.Errorf("adding the last route of table %d: %w", table, err)
	}
	for _, r := range have {
		if r.Priority != lastMetric && want[r.Priority] == nil {
			if err := rtnl.IgnoreGone(v.Net.RouteDel(&r)); err != nil {
				return fmt.Errorf("deleting a route of table %d: %w", table, err)
			}
		}
	}
	rules, err := v.l3xRules(fam)
	if err != nil {
		return err
	}
	there := false
	for _, rule := range rules {
		switch {
		case rule.IifName != link.Attrs().Name:
		case rule.Table == table && !there:
			there = true
		default:
			if err := v.removeRule(rule); err != nil {
				return err
			}
		}
	}
	if there {
		return nil
	}
	rule := netlink.NewRule()
	rule.Family, rule.Priority, rule.IifName, rule.Table, rule.Protocol = fam, l3xRulePriority, link.Attrs().Name, table, own.ProtoOurs
	if err := v.Net.RuleAdd(rule); err != nil && !rtnl.Exists(err) {
		return fmt.Errorf("adding a policy rule for device %s: %w", rule.IifName, err)
	}
	return nil
}

// defaultRoute drops packets if it has no paths.
func defaultRoute(fam, table, metric int, paths []path) *netlink.Route {
	dst := &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
	if fam == unix.AF_INET6 {
		dst = &net.IPNet{IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}
	}
	r := &netlink.Route{Family: fam, Table: table, Protocol: own.ProtoOurs, Dst: dst, Priority: metric, Type: unix.RTN_UNICAST}
	if len(paths) == 0 {
		r.Type = unix.RTN_BLACKHOLE
		return r
	}
	setPaths(r, paths)
	if len(paths) == 1 {
		r.Flags = unix.RTNH_F_ONLINK
		if !paths[0].gw.IsValid() {
			r.Flags, r.Scope = 0, netlink.SCOPE_LINK
		}
	}
	return r
}

func (v l3xconnects) routesOfTable(fam, table int) ([]netlink.Route, error) {
	routes, err := rtnl.Dump(func() ([]netlink.Route, error) {
		return v.Net.RouteListFiltered(fam, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("reading table %d: %w", table, err)
	}
	return routes, nil
}

func (v l3xconnects) l3xRules(fam int) ([]netlink.Rule, error) {
	rules, err := rtnl.Dump(func() ([]netlink.Rule, error) { return v.Net.RuleList(fam) })
	if err != nil {
		return nil, fmt.Errorf("reading policy rules: %w", err)
	}
	rules = slices.DeleteFunc(rules, func(r netlink.Rule) bool {
		return r.Priority != l3xRulePriority || r.Protocol != own.ProtoOurs || r.IifName == ""
	})
	for i := range rules {
		rules[i].Family = fam
	}
	return rules, nil
}

func (v l3xconnects) removeRule(rule netlink.Rule) error {
	if err := rtnl.IgnoreGone(v.Net.RuleDel(&rule)); err != nil {
		return fmt.Errorf("deleting the policy rule of device %s: %w", rule.IifName, err)
	}
	routes, err := v.routesOfTable(rule.Family, rule.Table)
	for _, r := range routes {
		err = errors.Join(err, rtnl.IgnoreGone(v.Net.RouteDel(&r)))
	}
	return err
}

// Delete works without the device, because the rule outlives it.
func (v l3xconnects) Delete(_ context.Context, x *vpp_l3.L3XConnect) error {
	rules, err := v.l3xRules(familyOf(x.GetProtocol()))
	if err == nil {
		err = v.Reg.During(x, func() error {
			var errs []error
			for _, rule := range rules {
				if v.ruleOwner(rule, nil) == x.GetInterface() || rule.IifName == own.DeviceName(own.DevInterface, x.GetInterface()) {
					errs = append(errs, v.removeRule(rule))
				}
			}
			return errors.Join(errs...)
		})
	}
	if err != nil {
		return fmt.Errorf("ending the cross-connect of interface %q: %w", x.GetInterface(), err)
	}
	return nil
}

func (v l3xconnects) ruleOwner(rule netlink.Rule, devs *own.Devices) string {
	if link, err := v.LinkNamed(rule.IifName); err == nil {
		if name, ok := v.HostSides(v.orAllDevices(devs))[link.Attrs().Index]; ok {
			return name
		}
		return v.LogicalOf(link)
	}
	return own.UnknownPrefix + rule.IifName
}

func (v l3xconnects) orAllDevices(devs *own.Devices) *own.Devices {
	if devs == nil {
		devs, _ = v.Devices()
	}
	if devs == nil {
		devs = &own.Devices{}
	}
	return devs
}

func (v l3xconnects) List(_ context.Context, expected []*vpp_l3.L3XConnect) ([]*vpp_l3.L3XConnect, error) {
	var list []*vpp_l3.L3XConnect
	for _, protocol := range []vpp_l3.L3XConnect_Protocol{vpp_l3.L3XConnect_IPV4, vpp_l3.L3XConnect_IPV6} {
		rules, err := v.l3xRules(familyOf(protocol))
		if err != nil {
			return nil, err
		}
		if len(rules) == 0 {
			continue
		}
		devs, err := v.Devices()
		if err != nil {
			return nil, err
		}
		for _, rule := range rules {
			x := &vpp_l3.L3XConnect{Interface: v.ruleOwner(rule, devs), Protocol: protocol}
			have, err := v.describeTable(rule, x, devs)
			if err != nil {
				return nil, err
			}
			for _, e := range expected {
				if want, err := v.hopsOf(e); models.Key(e) == models.Key(x) && err == nil && want.equal(have) {
					x = e
				}
			}
			list = append(list, x)
		}
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

// describeTable reads the paths of a cross-connect. If its last route is missing, it returns none,
// so that the cross-connect is created again.
func (v l3xconnects) describeTable(rule netlink.Rule, x *vpp_l3.L3XConnect, devs *own.Devices) (hops, error) {
	routes, err := v.routesOfTable(rule.Family, rule.Table)
	have, complete := hops{}, false
	for _, r := range routes {
		if r.Type == unix.RTN_BLACKHOLE {
			complete = complete || r.Priority == lastMetric
			continue
		}
		have[r.Priority] = append(have[r.Priority], pathsOf(&r)...)
	}
	if err != nil || !complete {
		return nil, err
	}
	for metric, paths := range have {
		sortPaths(paths)
		for _, p := range paths {
			hop := &vpp_l3.L3XConnect_Path{OutgoingInterface: own.DeviceOrUnknown(devs, p.index), Weight: p.weight, Preference: uint32(metric - 1)}
			if p.gw.IsValid() {
				hop.NextHopAddr = p.gw.String()
			}
			x.Paths = append(x.Paths, hop)
		}
	}
	return have, nil
}

// RestoreL3XConnects restores the routes that were lost while the device was down.
func (v *Driver) RestoreL3XConnects(iface string) error {
	var errs []error
	for _, key := range v.Reg.KeysOf(iface) {
		value, _ := v.Reg.Get(key)
		if x, ok := value.(*vpp_l3.L3XConnect); ok {
			errs = append(errs, l3xconnects{v}.Create(context.Background(), x))
		}
	}
	return errors.Join(errs...)
}
