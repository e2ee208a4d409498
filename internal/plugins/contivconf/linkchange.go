package contivconf

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/controller"
)

// LinksChanged reports a possible change of the host's links, addresses or MTUs. If this affects
// the node's part in the cluster, all plugins recompute. While the main interface has no address,
// as during the renewal of a lease, the network stays unchanged. It may be called from any
// goroutine.
func (c *ContivConf) LinksChanged(ctx context.Context) {
	now, started := c.current()
	if !started {
		return // the startup resync reads the links
	}
	if now.refused != nil && c.retry(ctx, now) {
		return
	}
	current := now.static
	if c.links == nil {
		current.Main.Name = now.resolved.Main.Name // the vswitch owns the NIC
	}
	next, links, err := c.read(current, now.internalIPs)
	after := view{resolved: next}
	if err == nil {
		after.subnets, after.unused = c.services(&next, links, now.cluster)
		err = checkMainLink(&next, links, &after.subnets)
	}
	if err != nil {
		c.log.Warn("Processing changed links of the host failed; the network stays unchanged", "error", err)
		c.mu.Lock()
		c.mismatch = fmt.Sprintf("links of the host changed, and the network stays as it was: %v", err)
		c.mu.Unlock()
		return
	}
	overlaps := after.overlaps(links)
	c.mu.Lock()
	prev, announced := c.now.resolved, c.announced
	for _, text := range overlaps {
		if !slices.Contains(c.overlaps, text) {
			c.log.Warn(text)
		}
	}
	c.mismatch, c.overlaps = "", overlaps
	c.noteAddress(prev.LinkAddress, &next)
	lost := c.lost
	if !lost.IsValid() {
		c.announced = next
	}
	c.mu.Unlock()
	switch {
	case next.equal(announced) && after.sameServices(&now):
	case next.equal(announced):
		if err := c.loop.PushEvent(ctx, serviceRangesChange(&now, &after)); err != nil {
			c.log.Warn("Processing a change of the ranges of cluster IPs failed", "error", err)
		}
	case lost.IsValid():
		c.log.Warn("Main interface lost its address; the network stays unchanged", "interface", next.Main.Name, "address", lost)
	default:
		if err := c.loop.PushEvent(ctx, &NodeIPv4Change{Prev: prev, Next: next}); err != nil {
			c.log.Warn("Processing a change of the main interface failed", "error", err)
		}
	}
}

// noteAddress records whether the main interface has lost its address prev, or still lacks one that
// it lost before.
func (c *ContivConf) noteAddress(prev netip.Prefix, next *Resolved) {
	switch {
	case next.LinkAddress.IsValid():
		c.lost = netip.Prefix{}
	case prev.IsValid():
		c.lost = prev
	}
	if c.lost.IsValid() {
		c.mismatch = lostAddress(&next.Main, c.lost)
	}
}

// noteLost is noteAddress for a new configuration. Another one has other addresses.
func (c *ContivConf) noteLost(before, next *view) {
	c.mismatch = ""
	if !before.static.equal(next.static) || before.resolved.Main.Name != next.resolved.Main.Name {
		c.lost = netip.Prefix{}
		return
	}
	c.noteAddress(before.resolved.LinkAddress, &next.resolved)
}

func lostAddress(main *Interface, address netip.Prefix) string {
	mend := fmt.Sprintf("Contiv does not restore it: run `ip addr add %v dev %s`, or fix the host's network configuration", address, main.Name)
	if main.UseDHCP {
		mend = "Check the DHCP server"
	}
	return fmt.Sprintf("the main interface %s lost the node's address %v: other nodes cannot reach this node or its pods. %s", main.Name, address, mend)
}

// Warnings describes mismatches between host links and the network in force, and overlaps of host
// networks with the cluster's.
func (c *ContivConf) Warnings() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	list := slices.Clone(c.overlaps)
	if c.mismatch != "" {
		list = append([]string{c.mismatch}, list...)
	}
	return list
}

// retry checks whether the rejected NodeConfig now fits the links, and if so requests a resync.
func (c *ContivConf) retry(ctx context.Context, now view) bool {
	next, _, err := c.settle(ctx, now.wanted, now.internalIPs, now.cluster)
	if err != nil || next.refused != nil {
		return false
	}
	c.mu.Lock()
	first := c.now.refused != nil && c.now.wanted == now.wanted
	if first { // announced once; the resync decides again
		c.now.refused = nil
	}
	c.mu.Unlock()
	if !first {
		return true
	}
	if err := c.loop.PushEvent(ctx, &NodeConfigChange{Source: next.source, Resolved: next.resolved}); err != nil {
		c.log.Warn("Processing the NodeConfig after a change of links failed", "error", err)
	}
	return true
}

// NodeIPv4Change reports a change of the main interface, or of its address (of either IP version)
// or MTU. All plugins recompute; the southbound is not read.
type NodeIPv4Change struct {
	controller.NonBlocking
	Prev, Next Resolved
}

func (*NodeIPv4Change) Name() string                   { return "Node IPv4 Change" }
func (*NodeIPv4Change) Method() controller.EventMethod { return controller.UpstreamResync }
func (e *NodeIPv4Change) String() string {
	name := e.Next.Main.Name
	if e.Prev.Main.Name != name {
		name = fmt.Sprintf("%s instead of %s", name, e.Prev.Main.Name)
	}
	return fmt.Sprintf("Node IPv4 Change: interface %s\n* before: %v\n* now: %v", name, e.Prev.onLink(), e.Next.onLink())
}

func (r *Resolved) onLink() string {
	text := fmt.Sprintf("address %v", r.LinkAddress)
	if r.SecondLinkAddress.IsValid() {
		text += fmt.Sprintf(" and %v", r.SecondLinkAddress)
	}
	return fmt.Sprintf("%s, MTU %d", text, r.LinkMTU)
}
