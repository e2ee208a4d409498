package pathexplain

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nft/foreign"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// stoppedBy maps actions of policy rules (`ip rule`) that drop packets to their names.
var stoppedBy = map[uint8]string{nl.FR_ACT_BLACKHOLE: "blackhole", nl.FR_ACT_UNREACHABLE: "unreachable", nl.FR_ACT_PROHIBIT: "prohibit"}

type policyRule struct {
	rtnl.Rule
	// foreign: the rule is not ours and may divert packets.
	foreign bool
}

// policyRules returns the policy rules of both IP versions in order; none if all are ours or the
// kernel's.
func (e *Explainer) policyRules() (list []policyRule, err error) {
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
	anyForeign := false
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, familyErr := conn.Rules(family)
		if familyErr != nil && !errors.Is(familyErr, unix.EAFNOSUPPORT) {
			err = familyErr
		}
		for _, rule := range rules {
			elsewhere := rule.Action == nl.FR_ACT_TO_TBL && !rule.L3mdev &&
				rule.Table != unix.RT_TABLE_LOCAL && rule.Table != unix.RT_TABLE_MAIN && rule.Table != unix.RT_TABLE_DEFAULT
			foreign := !e.o.OurRoute(int(rule.Proto)) && (elsewhere || stoppedBy[rule.Action] != "")
			list = append(list, policyRule{rule, foreign})
			anyForeign = anyForeign || foreign
		}
	}
	if !anyForeign {
		return nil, err
	}
	return list, err
}

// divert describes the policy rule that diverts a packet from this node's routes; "" if none is
// known to. With anyTable, any table may route it and only a rule that drops it counts.
func divert(rules []policyRule, p foreign.Packet, anyTable bool) string {
	if len(rules) == 0 {
		return ""
	}
	to := p.Dst
	route, err := lookup(p)
	after := uint32(0) // target of a goto
	for _, rule := range rules {
		if rule.Pref < after || rule.Mark != 0 || rule.Oif != "" || !rule.Odd && !rule.selects(p) {
			continue
		}
		what, stops := stoppedBy[rule.Action]
		switch {
		case rule.Odd: // it is unknown whether it matches, unless its table has the route
			if err == nil && rule.foreign && !anyTable && rule.Action == nl.FR_ACT_TO_TBL && route.Table == int(rule.Table) {
				return fmt.Sprintf("are diverted by policy rule %q, and its further conditions: %s", rule.text(fmt.Sprintf("lookup %d", rule.Table)), rule.removal())
			}
		case stops && err != nil && rule.foreign:
			return fmt.Sprintf("are diverted by policy rule %q: %s", rule.text(what), rule.removal())
		case stops && err != nil:
			return ""
		case rule.Action == nl.FR_ACT_GOTO:
			after = rule.Target
		case rule.Action != nl.FR_ACT_TO_TBL || rule.L3mdev:
		case err != nil:
			// A failed lookup can have other reasons than a table without route. The first table
			// that has one decides.
			end, decides := deadEnd(rule.Rule, to)
			if decides && rule.foreign && end != "" {
				return fmt.Sprintf("end at a blackhole route of table %d (%s), selected by policy rule %q: %s",
					rule.Table, end, rule.text(fmt.Sprintf("lookup %d", rule.Table)), rule.removal())
			}
			if decides {
				return ""
			}
		case rule.foreign && !anyTable && route.Table == int(rule.Table):
			return fmt.Sprintf("are diverted by policy rule %q: %s", rule.text(fmt.Sprintf("lookup %d", rule.Table)), rule.removal())
		}
	}
	return ""
}

// selects reports whether addresses and device of a packet match the rule.
func (rule policyRule) selects(p foreign.Packet) bool {
	return (rule.Family == unix.AF_INET6) == p.Dst.Is6() &&
		(!rule.Src.IsValid() || rule.Src.Contains(p.Src)) && (!rule.Dst.IsValid() || rule.Dst.Contains(p.Dst)) &&
		(rule.Iif == "" || rule.Iif == p.In || rule.Iif == "lo" && p.In == "")
}

// divertIfMarked describes the foreign policy rules for marked packets that may divert a packet
// that another program may have marked.
func divertIfMarked(rules []policyRule, p foreign.Packet) (texts []string) {
	for _, rule := range rules {
		if rule.Mark == 0 || !rule.foreign || !rule.selects(p) {
			continue
		}
		does := fmt.Sprintf("lookup %d", rule.Table)
		if what, stops := stoppedBy[rule.Action]; stops {
			does = what
		}
		texts = append(texts, fmt.Sprintf("may be taken away by policy rule %q, if a rule of a packet filter gives them the mark: see `ip rule` and `nft list ruleset`", rule.text(does)))
	}
	return texts
}

// deadEnd returns the route of a rule's table that drops or rejects packets to an address, or "".
// It decides unless the table has no route, or one that passes to later rules.
func deadEnd(rule rtnl.Rule, to netip.Addr) (text string, decides bool) {
	route, found := bestRoute(rule.Family, int(rule.Table), to)
	if !found {
		return "", false
	}
	if name := leadsNowhere[route.Type]; name != "" {
		text = name + " " + cmp.Or(network(route), "default")
	}
	return text, route.Type != unix.RTN_THROW
}

// bestRoute returns the table's longest matching route.
func bestRoute(family, table int, to netip.Addr) (best netlink.Route, found bool) {
	routes, _ := netlink.RouteListFiltered(family, &netlink.Route{Table: table}, netlink.RT_FILTER_TABLE) // entries missed in a changing list are not checked
	most := -1
	for _, route := range routes {
		bits := 0
		if route.Dst != nil {
			if bits, _ = route.Dst.Mask.Size(); !route.Dst.Contains(to.AsSlice()) {
				continue
			}
		}
		if bits > most {
			most, best, found = bits, route, true
		}
	}
	return best, found
}

// leadsNowhere maps route types that drop or reject packets to their names.
var leadsNowhere = map[int]string{unix.RTN_BLACKHOLE: "blackhole", unix.RTN_UNREACHABLE: "unreachable", unix.RTN_PROHIBIT: "prohibit"}

// text formats the rule like `ip rule`. does is its action.
func (rule policyRule) text(does string) string {
	from := "all"
	if rule.Src.IsValid() {
		from = rule.Src.String()
	}
	words := []string{"from", from}
	if rule.Dst.IsValid() {
		words = append(words, "to "+rule.Dst.String())
	}
	if rule.Mark != 0 {
		words = append(words, fmt.Sprintf("fwmark %#x/%#x", rule.Mark, rule.Mask))
	}
	if rule.Iif != "" {
		words = append(words, "iif "+rule.Iif)
	}
	return fmt.Sprintf("%d: %s %s", rule.Pref, strings.Join(words, " "), does)
}

// removal returns the command that removes the rule. Without -6, `ip rule` handles IPv4.
func (rule policyRule) removal() string {
	family := ""
	if rule.Family == unix.AF_INET6 {
		family = "-6 "
	}
	return fmt.Sprintf("remove it with `ip %srule del pref %d`", family, rule.Pref)
}

// localAddress is an address of a device of this node.
type localAddress struct {
	device int // index
	prefix netip.Prefix
}

// localAddresses returns the addresses of this node's devices.
func localAddresses() (map[netip.Addr]localAddress, error) {
	addrs, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	found := map[netip.Addr]localAddress{}
	for _, a := range addrs {
		if addr, ok := netip.AddrFromSlice(a.IP); ok {
			bits, _ := a.Mask.Size()
			found[addr.Unmap()] = localAddress{a.LinkIndex, netip.PrefixFrom(addr.Unmap(), bits)}
		}
	}
	return found, err
}

// conflict describes a device address that a pod has too.
func (a localAddress) conflict() string {
	device := fmt.Sprint(a.device)
	if link, err := netlink.LinkByIndex(a.device); err == nil {
		device = link.Attrs().Name
	}
	return fmt.Sprintf("pod address %v is assigned to device %s of this node, so its packets end here: remove it with `ip addr del %v dev %s`",
		a.prefix.Addr(), device, a.prefix, device)
}
