package contivconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/ipam/cidr"
)

func (c *Config) forNode(name string) (NodeConfig, error) {
	var found *NodeConfig
	for i := range c.NodeConfig {
		section := &c.NodeConfig[i]
		switch {
		case section.NodeName == "":
			return NodeConfig{}, fmt.Errorf("nodeConfig[%d] has no nodeName: set the name of its node", i)
		case section.NodeName != name:
		case found != nil:
			return NodeConfig{}, fmt.Errorf("nodeConfig[%d] is a second section for the node %s: merge the two", i, name)
		default:
			found = section
		}
	}
	if found == nil {
		return NodeConfig{NodeName: name}, nil
	}
	return *found, nil
}

func resolveStatic(c *Config, n *NodeConfig) (Resolved, error) {
	var r Resolved
	r.stealing = c.stealing(n)
	var err error
	if r.Main, err = parseInterface("mainVPPInterface", n.MainVPPInterface); err != nil {
		return r, err
	}
	if c.IPAMConfig.NodeInterconnectDHCP && len(r.Main.Addresses) == 0 {
		r.Main.UseDHCP = true
	}
	for i, other := range n.OtherVPPInterfaces {
		option := fmt.Sprintf("otherVPPInterfaces[%d]", i)
		if other.InterfaceName == "" {
			return r, fmt.Errorf("nodeConfig.%s has no interfaceName: set the name of the interface", option)
		}
		iface, err := parseInterface(option, other)
		if err != nil {
			return r, err
		}
		switch {
		case iface.Name == r.Main.Name:
			return r, fmt.Errorf("nodeConfig.%s is %s, which is also the main interface: remove it from one of them", option, iface.Name)
		case slices.ContainsFunc(r.Other, func(o Interface) bool { return o.Name == iface.Name }):
			return r, fmt.Errorf("nodeConfig.%s is %s, which is already in the list: merge the two", option, iface.Name)
		}
		r.Other = append(r.Other, iface)
	}
	option, gateway := "ipamConfig.defaultGateway", c.IPAMConfig.DefaultGateway
	if n.Gateway != "" {
		option, gateway = "nodeConfig.gateway", n.Gateway
	}
	if !r.Main.UseDHCP {
		r.Gateways, err = parseGateways(option, gateway)
	}
	return r, err
}

// gateways returns the gateways of all nodes, sorted. Invalid addresses are reported on their
// nodes.
func (c *Config) gateways() []netip.Addr {
	options := []string{c.IPAMConfig.DefaultGateway}
	for _, section := range c.NodeConfig {
		options = append(options, section.Gateway)
	}
	var list []netip.Addr
	for _, value := range options {
		some, _ := parseGateways("", value)
		list = append(list, some...)
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return slices.Compact(list)
}

func parseGateways(option, value string) ([]netip.Addr, error) {
	var list []netip.Addr
	for _, text := range split(value) {
		addr, err := netip.ParseAddr(text)
		if err != nil || len(list) > 0 && list[0].Is6() == addr.Is6() {
			return nil, fmt.Errorf("option %s is %q: use an IP address, or one of each IP version, separated by a comma", option, value)
		}
		if addr.Zone() != "" || !isHostAddress(netip.PrefixFrom(addr, addr.BitLen())) {
			return nil, fmt.Errorf("option %s is %v, which cannot be a router: use the address of the router", option, addr)
		}
		list = append(list, addr)
	}
	return list, nil
}

func parseInterface(option string, c InterfaceWithIP) (Interface, error) {
	iface := Interface{Name: c.InterfaceName, UseDHCP: c.UseDHCP}
	for _, text := range split(c.IP) {
		p, err := netip.ParsePrefix(text)
		if err != nil || len(iface.Addresses) > 0 && iface.Addresses[0].Addr().Is6() == p.Addr().Is6() {
			return iface, fmt.Errorf("option nodeConfig.%s.ip is %q: use an address with its prefix length, such as 192.168.16.1/24, or one of each IP version, separated by a comma",
				option, c.IP)
		}
		if !isHostAddress(p) {
			return iface, fmt.Errorf("option nodeConfig.%s.ip is %v, which no interface can have: use an address of the network %v", option, p, p.Masked())
		}
		iface.Addresses, iface.UseDHCP = append(iface.Addresses, p), false
	}
	return iface, nil
}

func isHostAddress(p netip.Prefix) bool {
	addr := p.Addr()
	switch {
	case addr.IsUnspecified() || addr.IsMulticast() || addr.IsLoopback() || addr.Is4In6() || p.Bits() <= 0:
		return false
	case addr.Is4() && p.Bits() < 31: // RFC 3021
		return addr != p.Masked().Addr() && addr != cidr.Last(p)
	}
	return true
}

func checkAddresses(r *Resolved, subnets *Subnets) error {
	all := r.addresses()
	for i, p := range all {
		if subnet, clashes := subnets.clash(p.Masked()); clashes {
			return fmt.Errorf("address %v of an interface in nodeConfig overlaps with %v: change one of them", p, subnet)
		}
		if slices.ContainsFunc(all[:i], func(other netip.Prefix) bool { return other.Addr() == p.Addr() }) {
			return fmt.Errorf("address %v belongs to two interfaces in nodeConfig: change one of them", p.Addr())
		}
	}
	return nil
}

func (r *Resolved) addresses() []netip.Prefix {
	all := slices.Clone(r.Main.Addresses)
	for _, other := range r.Other {
		all = append(all, other.Addresses...)
	}
	return all
}

type former struct {
	main      string
	addresses []netip.Addr
}

// before returns the node's state before a configuration is resolved.
func (c *ContivConf) before(static *Resolved) former {
	now, started := c.current()
	switch {
	case !started:
		return former{addresses: c.published}
	case static.Main.Name == "" && now.static.Main.Name != "":
		return former{}
	}
	f := former{main: now.resolved.Main.Name}
	c.mu.RLock()
	lost := c.lost
	c.mu.RUnlock()
	for _, p := range []netip.Prefix{now.resolved.LinkAddress, now.resolved.SecondLinkAddress, lost} {
		if p.IsValid() {
			f.addresses = append(f.addresses, p.Addr())
		}
	}
	return f
}

// remember records the addresses that the node published in an earlier run.
func (c *ContivConf) remember(state controller.KubeState) {
	for _, value := range state[kubestate.VppNode] {
		v, ok := value.(*vppnode.VppNode)
		if !ok || v.GetName() != c.nodeName {
			continue
		}
		c.published = nil
		for _, text := range v.GetIpAddresses() {
			if p, err := netip.ParsePrefix(text); err == nil {
				c.published = append(c.published, p.Addr())
			}
		}
	}
}

func resolveLinks(r Resolved, links []HostLink, internalIPs []netip.Addr, before former, subnets *Subnets) (Resolved, error) {
	main := mainLink(r, links, internalIPs, before)
	switch {
	case main != nil:
	case r.Main.Name != "":
		return r, fmt.Errorf("main interface %q does not exist: correct nodeConfig.mainVPPInterface.interfaceName (links: %s)", r.Main.Name, names(links))
	case before.main != "":
		return r, fmt.Errorf("main interface %q does not exist any more, and no other link has an address of this node (%s) or a default route: restore it, or assign one of these to another link (links: %s)",
			before.main, joined(append(slices.Clone(internalIPs), before.addresses...)), names(links))
	default:
		return r, fmt.Errorf("no link of the host can be the main interface: set one up, or set its name in nodeConfig.mainVPPInterface.interfaceName (links: %s)", names(links))
	}
	for _, other := range r.Other {
		if !slices.ContainsFunc(links, func(l HostLink) bool { return l.Name == other.Name }) {
			return r, fmt.Errorf("interface %q of nodeConfig.otherVPPInterfaces does not exist (links: %s)", other.Name, names(links))
		}
	}
	r.Main.Name = main.Name
	r.RouteGateways = slices.DeleteFunc(slices.Clone(r.Gateways), func(gateway netip.Addr) bool {
		return hostGateway(links, gateway.Is6()).IsValid()
	})
	r.LinkMTU = main.MTU
	usable := *main
	usable.Addresses = withoutAssigned(main, &r, subnets)
	v4, v6 := nodeAddress(&usable, false, internalIPs, before), nodeAddress(&usable, true, internalIPs, before)
	first, second := v4, v6
	if subnets.UseIPv6() {
		first, second = v6, v4
	}
	known := func(p netip.Prefix) bool { return slices.Contains(internalIPs, p.Addr()) }
	if !first.IsValid() || second.IsValid() && known(second) && !known(first) {
		first, second = second, first
	}
	if r.LinkAddress = first; subnets.DualStack() {
		r.SecondLinkAddress = second
	}
	return r, nil
}

// mainLink returns the configured link. By default it prefers, in this order, a link with the
// node's address in Kubernetes, the previous link, a link with a previous address, one with a
// default route, and one that is up. A link that is merely up does not replace a missing previous
// link.
func mainLink(r Resolved, links []HostLink, internalIPs []netip.Addr, before former) *HostLink {
	if r.Main.Name != "" {
		return linkNamed(links, r.Main.Name)
	}
	has := func(l *HostLink, addresses []netip.Addr) bool {
		return slices.ContainsFunc(l.Addresses, func(p netip.Prefix) bool { return slices.Contains(addresses, p.Addr()) })
	}
	missing := before.main != "" && linkNamed(links, before.main) == nil
	var best *HostLink
	bestRank := 0
	for i := range links {
		l := &links[i]
		was := l.Name == before.main
		if isInternal(l) || slices.ContainsFunc(r.Other, func(o Interface) bool { return o.Name == l.Name }) || !l.Up && !was && !missing {
			continue
		}
		rank := 0
		switch {
		case has(l, internalIPs) && (was || before.main == "" && has(l, before.addresses)):
			rank = 6
		case has(l, internalIPs):
			rank = 5
		case was:
			rank = 4
		case has(l, before.addresses):
			rank = 3
		case l.Up && len(l.DefaultGateways) > 0:
			rank = 2
		case l.Up && before.main == "":
			rank = 1
		}
		if rank > bestRank {
			best, bestRank = l, rank
		}
	}
	return best
}

func linkNamed(links []HostLink, name string) *HostLink {
	if i := slices.IndexFunc(links, func(l HostLink) bool { return l.Name == name }); i >= 0 {
		return &links[i]
	}
	return nil
}

// isInternal reports whether the link does not leave the host.
func isInternal(l *HostLink) bool {
	for _, prefix := range []string{"docker", "vir"} {
		if strings.HasPrefix(l.Name, prefix) {
			return true
		}
	}
	return l.Name == "lo"
}

func hostGateway(links []HostLink, ipv6 bool) netip.Addr {
	for _, l := range links {
		for _, gateway := range l.DefaultGateways {
			if gateway.Is6() == ipv6 {
				return gateway
			}
		}
	}
	return netip.Addr{}
}

// withoutAssigned returns the link's addresses except Contiv's own, which may be removed.
func withoutAssigned(main *HostLink, r *Resolved, subnets *Subnets) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(main.Addresses), func(p netip.Prefix) bool {
		if slices.Contains(r.Main.Addresses, p) || slices.Contains(main.Assigned, p) || !r.Main.UseDHCP && slices.Contains(main.Leased, p) {
			return true
		}
		return !r.Main.UseDHCP && slices.ContainsFunc(subnets.Families(), func(s Subnets) bool {
			return s.NodeInterconnect.IsValid() && s.NodeInterconnect.Contains(p.Addr())
		})
	})
}

// nodeAddress selects an address of the main link. It prefers, in this order, an address in
// Kubernetes, a leased one, the previous one, a permanent one, and one in a network with other
// hosts. It returns the zero Prefix if the link has none of the IP version.
func nodeAddress(main *HostLink, ipv6 bool, internalIPs []netip.Addr, before former) netip.Prefix {
	best, bestRank := netip.Prefix{}, -1
	for _, p := range main.Addresses {
		addr := p.Addr()
		if addr.Is6() != ipv6 || addr.IsLinkLocalUnicast() || addr.IsLoopback() {
			continue
		}
		rank := 0
		for i, better := range []bool{!p.IsSingleIP(), !slices.Contains(main.Fleeting, p), slices.Contains(before.addresses, addr), slices.Contains(main.Leased, p), slices.Contains(internalIPs, addr)} {
			if better {
				rank += 1 << i
			}
		}
		if rank > bestRank {
			best, bestRank = p, rank
		}
	}
	return best
}

func joined(addresses []netip.Addr) string {
	var texts []string
	for _, addr := range addresses {
		if text := addr.String(); !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, ", ")
}

func names(links []HostLink) string {
	var list []string
	for _, l := range links {
		list = append(list, l.Name)
	}
	return strings.Join(list, ", ")
}

func (i Interface) equal(other Interface) bool {
	return i.Name == other.Name && i.UseDHCP == other.UseDHCP && slices.Equal(i.Addresses, other.Addresses)
}

func (r Resolved) equal(other Resolved) bool {
	return r.Main.equal(other.Main) && slices.EqualFunc(r.Other, other.Other, Interface.equal) &&
		r.LinkAddress == other.LinkAddress && r.SecondLinkAddress == other.SecondLinkAddress &&
		r.LinkMTU == other.LinkMTU && slices.Equal(r.Gateways, other.Gateways) && slices.Equal(r.RouteGateways, other.RouteGateways) &&
		r.Stolen.Equal(other.Stolen)
}

// Gateway returns the configured default gateway of an IP version, or the zero Addr.
func (r *Resolved) Gateway(ipv6 bool) netip.Addr {
	for _, gateway := range r.Gateways {
		if gateway.Is6() == ipv6 {
			return gateway
		}
	}
	return netip.Addr{}
}
