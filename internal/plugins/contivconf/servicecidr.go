package contivconf

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/servicecidr"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
)

// cluster is the part of the Kubernetes state that determines the ranges of cluster IPs. It is
// immutable.
type cluster struct {
	// cidrs are the texts of the ServiceCIDRs, by key.
	cidrs map[string][]string
	// nodes are the InternalIPs of all nodes, by name.
	nodes map[string][]netip.Addr
}

func clusterOf(state controller.KubeState) cluster {
	known := cluster{cidrs: map[string][]string{}, nodes: map[string][]netip.Addr{}}
	for key, value := range state[kubestate.ServiceCIDR] {
		if v, ok := value.(*servicecidr.ServiceCIDR); ok {
			known.cidrs[key] = v.GetCidrs()
		}
	}
	for _, value := range state[kubestate.Node] {
		if n, ok := value.(*node.Node); ok {
			known.nodes[n.GetName()] = internalIPs(n)
		}
	}
	return known
}

// after returns the state after a change. changed is false if the result is the same.
func (k cluster) after(change *controller.KubeStateChange) (next cluster, changed bool) {
	switch change.Resource {
	case kubestate.ServiceCIDR:
		value, _ := change.NewValue.(*servicecidr.ServiceCIDR)
		if value != nil && slices.Equal(value.GetCidrs(), k.cidrs[change.Key]) {
			return k, false
		}
		k.cidrs = maps.Clone(k.cidrs)
		if delete(k.cidrs, change.Key); value != nil {
			k.cidrs[change.Key] = value.GetCidrs()
		}
		return k, true
	case kubestate.Node:
		before, _ := change.PrevValue.(*node.Node)
		value, _ := change.NewValue.(*node.Node)
		name := cmp.Or(value.GetName(), before.GetName())
		addresses := internalIPs(value)
		if slices.Equal(addresses, k.nodes[name]) {
			return k, false
		}
		k.nodes = maps.Clone(k.nodes)
		if delete(k.nodes, name); value != nil {
			k.nodes[name] = addresses
		}
		return k, true
	}
	return k, false
}

// updateServices applies another state of the cluster, and requests a resync if that changes the
// ranges of cluster IPs.
func (c *ContivConf) updateServices(ctx context.Context, before *view, known cluster, changed bool) (string, error) {
	if !changed {
		return "", nil
	}
	links, err := c.hostLinks()
	if err != nil {
		return "", err
	}
	next := *before
	next.cluster = known
	next.subnets, next.unused = c.services(&next.resolved, links, known)
	if err := checkMainLink(&next.resolved, links, &next.subnets); err != nil {
		return "", err
	}
	for _, text := range next.unused {
		if !slices.Contains(before.unused, text) {
			controller.Logger(ctx, c.log).Warn(text)
		}
	}
	c.mu.Lock()
	c.now.cluster, c.now.subnets, c.now.unused = next.cluster, next.subnets, next.unused
	c.overlaps = next.overlaps(links)
	c.mu.Unlock()
	if next.sameServices(before) {
		return "", nil
	}
	change := serviceRangesChange(before, &next)
	if err := c.loop.PushEvent(ctx, change); err != nil {
		return "", fmt.Errorf("announce the new ranges of cluster IPs: %w", err)
	}
	return fmt.Sprintf("cluster IPs are in %v", change.Next), nil
}

// services returns the address plan with the ranges of the ServiceCIDRs, and the reasons why some
// are not used. A range must not contain addresses of pods or nodes, because nodes refuse
// connections to unused cluster IPs.
func (c *ContivConf) services(resolved *Resolved, links []HostLink, known cluster) (plan Subnets, unused []string) {
	var usable []netip.Prefix
	for _, key := range slices.Sorted(maps.Keys(known.cidrs)) {
		name := strings.TrimPrefix(key, kubestate.ServiceCIDRKey(""))
		for _, text := range known.cidrs[key] {
			network, err := kubeaddr.ParseNetwork(text)
			why := ""
			if err != nil {
				why = err.Error()
			} else {
				why = c.occupied(network, resolved, links, known)
			}
			if why != "" {
				unused = append(unused, fmt.Sprintf("a range of ServiceCIDR %s is ignored: %s", name, why))
				continue
			}
			usable = append(usable, network)
		}
	}
	slices.SortFunc(usable, netip.Prefix.Compare)
	return c.subnets.withServices(slices.Compact(usable)), unused
}

// occupied returns the reason why a network cannot be a range of cluster IPs, or "".
func (c *ContivConf) occupied(network netip.Prefix, resolved *Resolved, links []HostLink, known cluster) string {
	if why := unfit(network); why != "" {
		return fmt.Sprintf("%v %s", network, why)
	}
	for _, n := range c.subnets.named() {
		if !n.ofServices() && n.prefix.Overlaps(network) {
			return fmt.Sprintf("%v overlaps with %v", network, n)
		}
	}
	for _, p := range c.allowedSources {
		if p.Overlaps(network) {
			return fmt.Sprintf("%v overlaps with podAllowedSources %v", network, p)
		}
	}
	own := append(resolved.addresses(), resolved.LinkAddress, resolved.SecondLinkAddress)
	for link, address := range addressesOf(links) {
		if link.Name == resolved.Main.Name {
			own = append(own, address)
		}
	}
	for _, p := range own {
		if p.IsValid() && p.Masked().Overlaps(network) {
			return fmt.Sprintf("%v overlaps with the network %v of this node", network, p.Masked())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known.nodes)) {
		for _, addr := range known.nodes[name] {
			if network.Contains(addr) {
				return fmt.Sprintf("%v contains %v, the address of node %s", network, addr, name)
			}
		}
	}
	return ""
}

// withServices returns the plan with the cluster's ranges for each IP version that has some.
func (s Subnets) withServices(ranges []netip.Prefix) Subnets {
	if s.Second != nil {
		second := s.Second.ofVersion(ranges)
		s.Second = &second
		return s.ofVersion(ranges)
	}
	if plan := s.ofVersion(ranges); plan.ofCluster || len(ranges) == 0 {
		return plan
	}
	s.Services, s.ofCluster = ranges, true // the services of the cluster have another IP version than its pods
	return s
}

func (s Subnets) ofVersion(ranges []netip.Prefix) Subnets {
	own := slices.DeleteFunc(slices.Clone(ranges), func(p netip.Prefix) bool { return p.Addr().Is6() != s.UseIPv6() })
	if len(own) > 0 {
		s.Services, s.ofCluster = own, true
	}
	return s
}

// IsClusterIP reports whether an address is in a range of cluster IPs of the IP version.
func (s *Subnets) IsClusterIP(addr netip.Addr) bool {
	return slices.ContainsFunc(s.Services, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// AllServices returns the ranges of cluster IPs of all IP versions.
func (s *Subnets) AllServices() (ranges []netip.Prefix) {
	for _, f := range s.Families() {
		ranges = append(ranges, f.Services...)
	}
	return ranges
}

// ServiceRangesChange reports a change of the ranges of cluster IPs. All plugins recompute; the
// southbound is not read.
type ServiceRangesChange struct {
	controller.NonBlocking
	Prev, Next []netip.Prefix
}

func serviceRangesChange(prev, next *view) *ServiceRangesChange {
	return &ServiceRangesChange{Prev: prev.subnets.AllServices(), Next: next.subnets.AllServices()}
}

func (*ServiceRangesChange) Name() string                   { return "Service Ranges Change" }
func (*ServiceRangesChange) Method() controller.EventMethod { return controller.UpstreamResync }
func (e *ServiceRangesChange) String() string {
	return fmt.Sprintf("Service Ranges Change: %v instead of %v", e.Next, e.Prev)
}
