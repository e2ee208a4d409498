package path

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// stoppedBy are actions of policy rules (`ip rule`) that forward no packet.
var stoppedBy = map[uint8]string{nl.FR_ACT_BLACKHOLE: "blackhole", nl.FR_ACT_UNREACHABLE: "unreachable", nl.FR_ACT_PROHIBIT: "prohibit"}

// policyRules returns the policy rules of others that may take packets elsewhere, of both IP versions, in their order.
func (e *Explainer) policyRules() (list []rtnl.Rule, err error) {
	ns, err := namespace.Open("/proc/thread-self/ns/net")
	if err != nil {
		return nil, err
	}
	defer ns.Close()
	conn, err := rtnl.New(ns.Handle)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, familyErr := conn.Rules(family)
		if familyErr != nil && !errors.Is(familyErr, unix.EAFNOSUPPORT) {
			err = familyErr
		}
		for _, rule := range rules {
			elsewhere := rule.Action == nl.FR_ACT_TO_TBL && !rule.L3mdev &&
				rule.Table != unix.RT_TABLE_LOCAL && rule.Table != unix.RT_TABLE_MAIN && rule.Table != unix.RT_TABLE_DEFAULT
			if !e.o.OurRoute(int(rule.Proto)) && (elsewhere || stoppedBy[rule.Action] != "") {
				list = append(list, rule)
			}
		}
	}
	return list, err
}

// divert says which policy rule takes packets away from the routes of this node; "" if none is known to. in is the device that
// they come from; "" if the node sends them itself. If any table may route them (anyTable), only a rule that stops them
// counts.
func divert(rules []rtnl.Rule, from, to netip.Addr, in string, anyTable bool) string {
	if len(rules) == 0 {
		return ""
	}
	route, err := lookup(from, to, in)
	for _, rule := range rules {
		if rule.Odd || rule.Mark != 0 || rule.Oif != "" || (rule.Family == unix.AF_INET6) != to.Is6() ||
			rule.Src.IsValid() && !rule.Src.Contains(from) || rule.Dst.IsValid() && !rule.Dst.Contains(to) ||
			rule.Iif != "" && rule.Iif != in && (rule.Iif != "lo" || in != "") {
			continue
		}
		what, stops := stoppedBy[rule.Action]
		if !stops {
			what = fmt.Sprintf("lookup %d", rule.Table)
		}
		// That no route is found can have other reasons than a table that lacks it.
		if stops && err != nil || !stops && err == nil && !anyTable && route.Table == int(rule.Table) {
			return fmt.Sprintf("are taken away by policy rule %q: remove it with `ip rule del pref %d`", ruleText(rule)+" "+what, rule.Pref)
		}
	}
	return ""
}

func ruleText(rule rtnl.Rule) string {
	from := "all"
	if rule.Src.IsValid() {
		from = rule.Src.String()
	}
	words := []string{"from", from}
	if rule.Dst.IsValid() {
		words = append(words, "to "+rule.Dst.String())
	}
	if rule.Iif != "" {
		words = append(words, "iif "+rule.Iif)
	}
	return fmt.Sprintf("%d: %s", rule.Pref, strings.Join(words, " "))
}

// lookup returns the route that packets take.
func lookup(from, to netip.Addr, in string) (route netlink.Route, err error) {
	routes, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{SrcAddr: from.AsSlice(), Iif: in, FIBMatch: true})
	if err != nil || len(routes) == 0 {
		return route, errors.Join(err, unix.ENETUNREACH)
	}
	return routes[0], nil
}

// routeTo returns how the node itself reaches an address: the device, and the address that it sends from, if it is known.
func routeTo(to netip.Addr) (device string, src netip.Addr, err error) {
	routes, err := netlink.RouteGet(to.AsSlice())
	if err != nil || len(routes) == 0 {
		return "", src, errors.Join(err, unix.ENETUNREACH)
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", src, err
	}
	src, _ = netip.AddrFromSlice(routes[0].Src)
	return link.Attrs().Name, src.Unmap(), nil
}

// localAddresses returns the devices of this node, by index, that addresses are on.
func localAddresses() (map[netip.Addr]int, error) {
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	found := map[netip.Addr]int{}
	for _, a := range addrs {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			found[addr.Unmap()] = a.LinkIndex
		}
	}
	return found, err
}

// squatted says that a pod's address is on a device of this node.
func squatted(addr netip.Addr, index int) string {
	device := fmt.Sprint(index)
	if link, err := netlink.LinkByIndex(index); err == nil {
		device = link.Attrs().Name
	}
	return fmt.Sprintf("%v, of a pod, is an address of this node's device %s, so that its packets end here: remove it with `ip addr del %v dev %s`",
		addr, device, netip.PrefixFrom(addr, addr.BitLen()), device)
}
