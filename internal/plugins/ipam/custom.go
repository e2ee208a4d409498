package ipam

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/ipam/cidr"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// A pod may have custom interfaces in addition to its main one. A custom network has its own
// subnet, which is divided by node ID like the subnet of the pods. An interface in the default
// network gets another address of the node's pod subnet.

// DefaultNetwork is the network of the pods' main interfaces. For a custom interface, "" means the
// same network.
const DefaultNetwork = podmanager.DefaultNetwork

// ErrNoNetwork is wrapped while a custom network is unknown.
var ErrNoNetwork = errors.New("unknown custom network")

// CustomNetwork is a network of custom interfaces with IP addresses.
type CustomNetwork struct {
	Name string
	// Subnet of the whole cluster, and the prefix length of each node's part.
	Subnet     netip.Prefix
	OneNodeLen int
}

// PodSubnet returns a node's part. Its gateway is at the same position as in the default network.
func (n *CustomNetwork) PodSubnet(nodeID uint32) (netip.Prefix, error) {
	return nodePart("subnetCIDR of custom network "+n.Name, n.Subnet, n.OneNodeLen, nodeID)
}

func (n *CustomNetwork) validate() error {
	const room = 3 // bits: gateway, NAT loopback and a few pods
	switch {
	case n.Name == "" || n.Name == DefaultNetwork:
		return fmt.Errorf("custom network %q has the name of the pods' default network: use another name", n.Name)
	case !n.Subnet.IsValid() || n.Subnet != n.Subnet.Masked():
		return fmt.Errorf("subnetCIDR %v of custom network %s is not a network: use a form like 10.4.0.0/16", n.Subnet, n.Name)
	case n.OneNodeLen <= n.Subnet.Bits() || n.OneNodeLen > n.Subnet.Addr().BitLen()-room:
		return fmt.Errorf("subnetOneNodePrefix %d of custom network %s must be from %d to %d, because subnetCIDR is %v",
			n.OneNodeLen, n.Name, n.Subnet.Bits()+1, n.Subnet.Addr().BitLen()-room, n.Subnet)
	}
	return nil
}

// customIP is an address of a custom interface. In a dual-stack network, an interface has two.
type customIP struct {
	Interface string     `json:"interface"`
	Network   string     `json:"network"`
	IP        netip.Addr `json:"ip"`
}

type custom struct {
	networks map[string]*customPool
	// ips by pod, sorted by interface. It includes addresses whose network is still unknown.
	ips map[podmanager.PodID][]customIP
	// waiting holds pods with an interface that got no address because the subnet was full.
	waiting map[podmanager.PodID]struct{}
}

type customPool struct {
	CustomNetwork
	*pool
}

func newCustom() custom {
	return custom{networks: map[string]*customPool{}, ips: map[podmanager.PodID][]customIP{}, waiting: map[podmanager.PodID]struct{}{}}
}

func (c *custom) forget() {
	clear(c.ips)
	for _, n := range c.networks {
		n.pool = newPool(n.pool.subnet, n.pool.option)
	}
}

func (c *custom) of(o owner) (list []customIP) {
	for _, ip := range c.ips[o.pod] {
		if ip.Interface == o.iface {
			list = append(list, ip)
		}
	}
	return list
}

func (c *custom) add(id podmanager.PodID, ips ...customIP) {
	c.ips[id] = append(slices.Clone(c.ips[id]), ips...)
	slices.SortStableFunc(c.ips[id], func(a, b customIP) int { return cmp.Compare(a.Interface, b.Interface) })
}

func (c *custom) remove(o owner) {
	c.ips[o.pod] = slices.DeleteFunc(slices.Clone(c.ips[o.pod]), func(ip customIP) bool { return ip.Interface == o.iface })
	if len(c.ips[o.pod]) == 0 {
		delete(c.ips, o.pod)
	}
}

// SetCustomNetwork adds or changes a custom network. Interfaces keep the addresses that are in the
// node's part of the network and lose all others. The node must have its ID.
func (i *IPAM) SetCustomNetwork(ctx context.Context, n CustomNetwork) error {
	if err := n.validate(); err != nil {
		return err
	}
	nodeID := i.nodes.GetNodeID()
	if nodeID == 0 {
		return fmt.Errorf("custom network %s: this node has no ID yet", n.Name)
	}
	subnet, err := n.PodSubnet(nodeID)
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.custom.networks[n.Name]
	if before != nil && before.CustomNetwork == n {
		return nil
	}
	p := newPool(subnet, "subnetOneNodePrefix of custom network "+n.Name)
	if before != nil && before.subnet == subnet {
		p.last = before.last
	}
	i.custom.networks[n.Name] = &customPool{n, p}
	for _, id := range i.custom.podsIn(n.Name) {
		i.learnCustom(ctx, id, n.Name, p)
	}
	return nil
}

func (i *IPAM) learnCustom(ctx context.Context, id podmanager.PodID, network string, p *pool) {
	changed := false
	for _, ip := range i.custom.ips[id] {
		o := owner{id, ip.Interface}
		if ip.Network != network {
			continue
		}
		if err := p.learn(o, ip.IP); err != nil {
			i.log.Warn("Address of a custom interface released: the network has changed", "pod", id, "interface", ip.Interface, "network", network, "error", err)
			i.custom.remove(o)
			changed = true
		} else if number, _ := cidr.Index(p.subnet, ip.IP); number > p.last {
			p.last = number
		}
	}
	if changed {
		if err := i.save(ctx, id); err != nil {
			i.log.Error("Storing the release of addresses of custom interfaces failed", "pod", id, "error", err)
		}
	}
}

// RemoveCustomNetwork releases all addresses of a custom network.
func (i *IPAM) RemoveCustomNetwork(ctx context.Context, name string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.custom.networks, name)
	var errs []error
	for _, id := range i.custom.podsIn(name) {
		for _, ip := range i.custom.ips[id] {
			if ip.Network == name {
				i.custom.remove(owner{id, ip.Interface})
			}
		}
		errs = append(errs, i.save(ctx, id))
	}
	return errors.Join(errs...)
}

func (c *custom) podsIn(network string) []podmanager.PodID {
	var ids []podmanager.PodID
	for id, ips := range c.ips {
		if slices.ContainsFunc(ips, func(ip customIP) bool { return ip.Network == network }) {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b podmanager.PodID) int { return cmp.Compare(a.String(), b.String()) })
	return ids
}

// CustomPodSubnet returns this node's part of a custom network, or false if the network is unknown.
func (i *IPAM) CustomPodSubnet(network string) (netip.Prefix, bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if n := i.custom.networks[network]; n != nil {
		return n.subnet, true
	}
	return netip.Prefix{}, false
}

// poolsOf returns the pools of a network for custom interfaces. The caller holds the
// lock.
func (i *IPAM) poolsOf(network string) (pools, error) {
	if network != DefaultNetwork {
		if n := i.custom.networks[network]; n != nil {
			return pools{n.pool}, nil
		}
		return nil, fmt.Errorf("%w: %s", ErrNoNetwork, network)
	}
	switch {
	case i.config.ExternalIPAM():
		return nil, fmt.Errorf("with ipamConfig.useExternalIPAM, custom interfaces get no addresses in the default network: use the network %s", podmanager.StubNetwork)
	case len(i.pools) == 0:
		return nil, fmt.Errorf("addresses are unknown before the first resync")
	}
	return i.pools, nil
}

// AllocatePodCustomIfIP returns the persisted addresses of a custom interface, and allocates them
// on the first call. They are released with the pod's other addresses. If the subnet is full, it
// returns an error, and the pod gets a PodCustomIfUpdate once an address is free.
func (i *IPAM) AllocatePodCustomIfIP(ctx context.Context, id podmanager.PodID, iface, network string) ([]netip.Addr, error) {
	if iface == "" {
		return nil, fmt.Errorf("custom interface of pod %v has no name", id)
	}
	network = cmp.Or(network, DefaultNetwork)
	i.mu.Lock()
	defer i.mu.Unlock()
	o := owner{id, iface}
	from, err := i.poolsOf(network)
	if err != nil {
		return nil, fmt.Errorf("address of %v: %w", o, err)
	}
	had := i.custom.of(o)
	has := from.addressesOf(o)
	if len(has) == len(from) && len(had) == len(has) && had[0].Network == network {
		return has, nil
	}
	addrs, undo, err := from.allocate(o)
	if err != nil {
		if errors.Is(err, ErrExhausted) {
			i.custom.waiting[id] = struct{}{}
		}
		return nil, fmt.Errorf("address of %v in network %s: %w", o, network, err)
	}
	i.custom.remove(o)
	for _, addr := range addrs {
		i.custom.add(id, customIP{Interface: iface, Network: network, IP: addr})
	}
	if err := i.save(ctx, id); err != nil {
		undo()
		i.custom.remove(o)
		i.custom.add(id, had...)
		return nil, err
	}
	if len(had) > 0 && had[0].Network != network { // moved from another network
		if before, err := i.poolsOf(had[0].Network); err == nil {
			before.release(o)
		}
	}
	return addrs, nil
}

// GetPodCustomIfIPs returns the addresses of a custom interface in a network.
func (i *IPAM) GetPodCustomIfIPs(id podmanager.PodID, iface, network string) (addrs []netip.Addr) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, ip := range i.custom.of(owner{id, iface}) {
		if ip.Network == cmp.Or(network, DefaultNetwork) {
			addrs = append(addrs, ip.IP)
		}
	}
	return addrs
}

// ReleaseOtherPodCustomIfIPs releases the addresses of all custom interfaces of a pod for which
// keep returns false.
func (i *IPAM) ReleaseOtherPodCustomIfIPs(ctx context.Context, id podmanager.PodID, keep func(iface, network string) bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	before := i.custom.ips[id]
	gone := slices.DeleteFunc(slices.Clone(before), func(ip customIP) bool { return keep(ip.Interface, ip.Network) })
	if len(gone) == 0 {
		return nil
	}
	for _, ip := range gone {
		i.custom.remove(owner{id, ip.Interface})
	}
	if err := i.save(ctx, id); err != nil {
		i.custom.ips[id] = before
		return err
	}
	for _, ip := range gone {
		if from, err := i.poolsOf(ip.Network); err == nil {
			from.release(owner{id, ip.Interface})
		}
	}
	i.wake(ctx)
	return nil
}

// The caller holds the lock and removes the record.
func (i *IPAM) releaseCustom(id podmanager.PodID) {
	for _, ip := range i.custom.ips[id] {
		if from, err := i.poolsOf(ip.Network); err == nil {
			from.release(owner{id, ip.Interface})
		}
	}
	delete(i.custom.ips, id)
}

// wake requests a retry of the waiting pods because an address is free. The caller holds the lock.
func (i *IPAM) wake(ctx context.Context) {
	for id := range i.custom.waiting {
		if err := i.loop.PushEvent(ctx, &podmanager.PodCustomIfUpdate{Pod: id}); err != nil {
			controller.Logger(ctx, i.log).Warn("Addresses of custom interfaces wait for the next resync", "pod", id, "error", err)
		}
	}
	clear(i.custom.waiting)
}

func (i *IPAM) restoreCustom(log *slog.Logger, r record) {
	for _, ip := range r.Custom {
		from, err := i.poolsOf(ip.Network)
		if err == nil {
			err = from.learn(owner{r.id, ip.Interface}, ip.IP)
		}
		if err != nil && !errors.Is(err, ErrNoNetwork) {
			log.Warn("Stored address of a custom interface is no longer valid", "pod", r.id, "interface", ip.Interface, "network", ip.Network, "error", err)
			continue
		}
		i.custom.add(r.id, ip)
	}
}

// allPods returns all pods with an address. The caller holds the lock.
func (i *IPAM) allPods() map[podmanager.PodID]bool {
	ids := i.pools.pods()
	for id := range maps.Keys(i.custom.ips) {
		ids[id] = true
	}
	return ids
}
