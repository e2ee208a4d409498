package contivconf

import (
	"errors"
	"fmt"
)

// Machine is the part of a node's state that is known without its agent.
type Machine struct {
	NodeName string
	// Here means that this machine has the node's name.
	Here bool
	// OwnStack means that the vswitch has its own network stack, so that host links are irrelevant.
	OwnStack bool
	Links    HostLinks
}

// CheckMachine returns the startup errors of the node's agent on this machine in addition to
// Check's, and remarks on suboptimal settings. If the machine may be another one, the errors become
// remarks.
func (c *Config) CheckMachine(m Machine) (remarks []string, err error) {
	subnets, err := parseSubnets(&c.IPAMConfig, c.NodeToNodeTransport)
	if err != nil {
		return nil, nil // reported by Check
	}
	section, err := c.forNode(m.NodeName)
	if err != nil {
		return nil, nil
	}
	static, err := resolveStatic(c, &section)
	if err != nil {
		return nil, nil
	}
	if err := c.checkVSwitch(m.OwnStack, &subnets); err != nil || m.OwnStack {
		return nil, err
	}
	links, err := m.Links.HostLinks()
	if err != nil {
		return nil, fmt.Errorf("list the links of the host: %w", err)
	}
	named := static.Main.Name != ""
	resolved, err := resolveLinks(static, links, nil, former{}, &subnets)
	sure := m.Here && (named || len(static.Other) > 0)
	if err == nil {
		err = checkMainLink(&resolved, links, &subnets)
		sure = m.Here && named // otherwise Kubernetes may use the address of another interface
	}
	switch {
	case err != nil && sure:
		return nil, fmt.Errorf("node %s: %w", m.NodeName, err)
	case err != nil:
		return []string{fmt.Sprintf("on this machine, node %s would have no network: %v", m.NodeName, err)}, nil
	}
	if text := c.tooLarge(&resolved); text != "" {
		remarks = append(remarks, fmt.Sprintf("node %s, if this is its machine: %s", m.NodeName, text))
	}
	return remarks, nil
}

func (c *Config) tooLarge(r *Resolved) string {
	room := r.LinkMTU - c.transportOverhead(r.LinkAddress.Addr())
	if c.MTUSize == 0 || r.LinkMTU == 0 || int(c.MTUSize) <= room {
		return ""
	}
	return fmt.Sprintf("option mtuSize is %d, but packets between nodes may have at most %d bytes: the MTU of %s is %d, and the overlay needs %d: use %d or less, remove it, or raise the MTU of %s",
		c.MTUSize, room, r.Main.Name, r.LinkMTU, r.LinkMTU-room, room, r.Main.Name)
}

func (c *Config) checkVSwitch(ownStack bool, subnets *Subnets) error {
	if ownStack {
		return subnets.checkVPPHost(c.IPAMConfig.VPPHostSubnetCIDR)
	}
	if taps := c.UseTAPInterfaces; taps != nil && !*taps {
		return errors.New("option useTAPInterfaces: false requires VPP: remove it")
	}
	return nil
}
