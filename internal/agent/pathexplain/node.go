package pathexplain

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nft/foreign"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Network checks the node's own network, for all packets: its devices, default routes, MTUs and
// foreign filters.
type Network struct {
	*Explainer
	mu       sync.Mutex
	defaults map[int]string // by IP version: the device of the last seen default route
	rules    *foreign.Ruleset
	again    time.Time // when to read the rules again

	routeCache  []netlink.Route // foreign routes within the pod subnets
	routesAgain time.Time       // when to read them again
}

// Foreign rulesets can be large, so the pause between reads is a multiple of the reading time, at
// most maxPause.
const (
	pauseFactor = 100
	maxPause    = 30 * time.Second
)

// Network returns the check of the node's network.
func (e *Explainer) Network() *Network { return &Network{Explainer: e, defaults: map[int]string{}} }

// Problems returns the problems, one sentence each.
func (n *Network) Problems(ctx context.Context) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	pods, err := n.o.Pods()
	if err != nil {
		return []string{err.Error()}
	}
	return slices.Concat(n.devices(ctx, pods), n.routes(ctx), n.divertingRoutes(pods), n.addresses(pods), n.tracking(), n.filters(pods))
}

// foreignRules returns the foreign rules, cached.
func (n *Network) foreignRules() (*foreign.Ruleset, error) {
	begin := time.Now()
	if n.rules != nil && begin.Before(n.again) {
		return n.rules, nil
	}
	rules, err := n.foreign()
	if err != nil {
		return nil, err
	}
	n.rules, n.again = rules, time.Now().Add(min(pauseFactor*time.Since(begin), maxPause))
	return rules, nil
}

// devices checks the devices with the node's addresses.
func (n *Network) devices(ctx context.Context, pods []Pod) (problems []string) {
	size, largest := 0, ""
	for _, pod := range pods {
		if pod.MTU > size {
			size, largest = pod.MTU, pod.Name
		}
	}
	own, err := n.ownDevices(ctx)
	if err != nil {
		return nil // another check reports an unresponsive vswitch
	}
	for _, d := range own {
		if text := d.trouble(); text != "" {
			problems = append(problems, text)
		}
		if text := d.tooSmall(size, n.o.Overhead(d.Address), ", such as "+largest); text != "" {
			problems = append(problems, text)
		}
	}
	return slices.Compact(problems)
}

// routes checks whether a default route of the node has disappeared.
func (n *Network) routes(ctx context.Context) (problems []string) {
	for version, family := range map[int]int{4: unix.AF_INET, 6: unix.AF_INET6} {
		list, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE)
		if err != nil {
			continue // interrupted dump; the next check reads it
		}
		i := slices.IndexFunc(list, func(r netlink.Route) bool { return network(r) == "" && r.Type == unix.RTN_UNICAST })
		if i < 0 {
			if device, had := n.defaults[version]; had && !n.warnedByVSwitch(ctx, device) {
				problems = append(problems, fmt.Sprintf("the node lost its IPv%d default route by %s: it reaches only networks with their own routes", version, device))
			}
			continue
		}
		n.defaults[version] = "several devices"
		if link, err := netlink.LinkByIndex(list[i].LinkIndex); err == nil {
			n.defaults[version] = link.Attrs().Name
		}
	}
	slices.Sort(problems)
	return problems
}

// divertingRoutes checks for foreign routes that divert packets from a local pod, or from a part of
// another node's pod subnet.
func (n *Network) divertingRoutes(pods []Pod) (problems []string) {
	if !n.o.HostStack {
		return nil // the vswitch routes, not the kernel
	}
	nodes := n.o.Nodes()
	for _, route := range n.foreignRoutes(nodes) {
		to, ok := divertedAddress(route, n.o.Node, nodes, pods)
		if !ok {
			continue
		}
		taken, err := netlink.RouteGetWithOptions(to.AsSlice(), &netlink.RouteGetOptions{FIBMatch: true})
		if err != nil || len(taken) == 0 || network(taken[0]) != network(route) || taken[0].Protocol != route.Protocol || taken[0].Table != route.Table {
			if err == nil || leadsNowhere[route.Type] == "" {
				continue // another route wins
			}
		}
		problems = append(problems, foreignRoute(route, routeText(route), to))
	}
	return problems
}

// foreignRoutes returns the foreign routes to parts of pod subnets, cached.
func (n *Network) foreignRoutes(nodes []Node) []netlink.Route {
	begin := time.Now()
	if begin.Before(n.routesAgain) {
		return n.routeCache
	}
	n.routeCache = nil
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		list, _ := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_MAIN}, netlink.RT_FILTER_TABLE) // entries missed in a changing list are found later
		for _, route := range list {
			if route.Protocol == unix.RTPROT_KERNEL { // belongs to an address; another check covers it
				continue
			}
			if prefix, ok := prefixOf(route); ok && !n.o.OurRoute(int(route.Protocol)) && slices.ContainsFunc(nodes, func(node Node) bool { return node.contains(prefix) }) {
				n.routeCache = append(n.routeCache, route)
			}
		}
	}
	n.routesAgain = time.Now().Add(min(pauseFactor*time.Since(begin), maxPause))
	return n.routeCache
}

// contains reports whether a network is within a pod subnet of the node.
func (n Node) contains(prefix netip.Prefix) bool {
	return slices.ContainsFunc(n.Pods, func(p netip.Prefix) bool { return p.Bits() <= prefix.Bits() && p.Contains(prefix.Addr()) })
}

// divertedAddress returns a pod address whose packets the route would divert.
func divertedAddress(route netlink.Route, this string, nodes []Node, pods []Pod) (addr netip.Addr, ok bool) {
	prefix, _ := prefixOf(route)
	for _, node := range nodes {
		if !node.contains(prefix) {
			continue
		}
		if node.Name != this {
			return prefix.Addr(), true
		}
		for _, pod := range pods {
			i := slices.IndexFunc(pod.Addresses, prefix.Contains)
			if link, err := netlink.LinkByIndex(route.LinkIndex); i >= 0 && (err != nil || link.Attrs().Name != pod.Device) {
				return pod.Addresses[i], true
			}
		}
	}
	return addr, false
}

func prefixOf(route netlink.Route) (prefix netip.Prefix, ok bool) {
	if route.Dst == nil {
		return prefix, false
	}
	addr, ok := netip.AddrFromSlice(route.Dst.IP)
	bits, _ := route.Dst.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits), ok
}

// tracking checks whether conntrack has room for more connections.
func (n *Network) tracking() (problems []string) {
	const settings = "netfilter/nf_conntrack_"
	if !n.o.HostStack {
		return nil
	}
	if text := conntrackFull(number(settings+"count"), number(settings+"max")); text != "" {
		problems = append(problems, text)
	}
	return problems
}

// conntrackFull returns a problem if conntrack is full or nearly full, or "". Unknown values are 0.
func conntrackFull(count, most int) string {
	const nearly = 95 // per cent
	if most == 0 || count*100 < most*nearly {
		return ""
	}
	return fmt.Sprintf("connection tracking has %d of at most %d connections (net.netfilter.nf_conntrack_max); when it is full, packets of new connections are dropped: raise it, or find the source of the connections (`conntrack -L`)", count, most)
}

// number reads a sysctl; 0 if that fails.
func number(sysctl string) int {
	n, _ := strconv.Atoi(namespace.ReadSysctl(sysctl))
	return n
}

// warnedByVSwitch reports whether a warning of the vswitch already names the missing default route
// of a device and its remedy.
func (n *Network) warnedByVSwitch(ctx context.Context, device string) bool {
	return slices.ContainsFunc(n.o.Warnings(ctx), func(warning string) bool {
		return strings.HasPrefix(warning, "device "+device+" ") && strings.Contains(warning, "default route")
	})
}

// addresses checks for pod addresses on devices of this node, where the pods' packets would end.
func (n *Network) addresses(pods []Pod) (problems []string) {
	if !n.o.HostStack {
		return nil // the vswitch routes, not the kernel
	}
	local, err := localAddresses()
	if err != nil {
		return nil // interrupted dump; the next check reads it
	}
	for _, pod := range pods {
		for _, addr := range pod.Addresses {
			if local[addr].device != 0 {
				problems = append(problems, local[addr].conflict())
			}
		}
	}
	for _, peer := range n.o.Nodes() {
		if peer.Name == n.o.Node {
			continue
		}
		for addr, at := range local {
			if slices.ContainsFunc(peer.Pods, func(p netip.Prefix) bool { return p.Contains(addr) }) {
				problems = append(problems, at.conflict())
			}
		}
	}
	slices.Sort(problems)
	return problems
}

// filters checks for foreign rules that drop packets between pods of different nodes, translate
// their source, or drop tunnel packets.
func (n *Network) filters(pods []Pod) (problems []string) {
	rules, err := n.foreignRules()
	if err != nil {
		return []string{fmt.Sprintf("reading filters of other programs failed: %v", err)}
	}
	if !n.o.HostStack {
		return n.betweenHostAndPods(rules, pods)
	}
	diversions, err := n.policyRules()
	if err != nil {
		problems = append(problems, fmt.Sprintf("reading policy rules of other programs failed: %v", err))
	}
	if rules.Empty() && len(diversions) == 0 {
		return problems
	}
	through, stopped := bridges(), map[string][]string{} // affected nodes by the cause
	answers := true                                      // one node's replies stand for all
	for _, peer := range n.o.Nodes() {
		if peer.Name == n.o.Node {
			continue
		}
		found := func(text string) {
			if !slices.Contains(stopped[text], peer.Name) {
				stopped[text] = append(stopped[text], peer.Name)
			}
		}
		flows := n.tunnelFlows(peer)
		between := n.podFlows(pods, peer)
		flows = append(flows, between...)
		if answers && len(between) > 0 {
			answers = false
			for _, f := range between {
				reply := f.answers()
				reply.what = "answers to " + f.what
				flows = append(flows, reply)
			}
		}
		for _, f := range flows {
			if text := divert(diversions, f.Packet, f.anyTable); text != "" {
				found(f.what + " " + text)
			}
			for _, text := range f.effects(rules, through) {
				found(text)
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(stopped)) {
		nodes := stopped[text]
		slices.Sort(nodes)
		names := "node " + nodes[0]
		if more := len(nodes) - 1; more > 0 {
			names = fmt.Sprintf("%s and %d more", names, more)
		}
		problems = append(problems, strings.Replace(text, peerName, names, 1))
	}
	return problems
}

// peerName stands for node names in descriptions of flows.
const peerName = "node %s"

// podFlows returns the flows between a local pod and one of the other node, in both directions.
func (n *Network) podFlows(pods []Pod, peer Node) (flows []flow) {
	for _, subnet := range peer.Pods {
		there := subnet.Masked().Addr().Next().Next() // the first address is the gateway
		out, _, err := routeTo(there)
		if err != nil {
			continue
		}
		for _, pod := range pods {
			addr, ok := sameVersion(pod.Addresses, there)
			if !ok || pod.Device == "" {
				continue
			}
			flows = append(flows,
				flow{what: "packets from local pods to pods of " + peerName, Packet: foreign.Packet{In: pod.Device, Out: out, Src: addr, Dst: there, Untranslated: true, KeepsSource: true}},
				flow{what: "packets to local pods from pods of " + peerName, Packet: foreign.Packet{In: out, Out: pod.Device, Src: there, Dst: addr, Untranslated: true, KeepsSource: true}})
			break // one pod stands for all
		}
	}
	return flows
}

// gateways returns this node's addresses that are gateways of pods.
func (e *Explainer) gateways() []netip.Addr {
	for _, n := range e.o.Nodes() {
		if n.Name == e.o.Node {
			return n.Gateways
		}
	}
	return nil
}

// ownAddresses returns the addresses of this node.
func (e *Explainer) ownAddresses() []netip.Addr {
	for _, n := range e.o.Nodes() {
		if n.Name == e.o.Node {
			return n.Addresses
		}
	}
	return nil
}
