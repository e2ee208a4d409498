package contivconf

import (
	"errors"
	"fmt"
)

// Machine is what a check of the configuration of a node can know without its agent.
type Machine struct {
	NodeName string
	// Here says that the node has the name of this machine, so that it is the node if the configuration knows one of that name.
	Here bool
	// OwnStack says that the vswitch has a network stack of its own, in which links of the host say nothing.
	OwnStack bool
	Links    HostLinks
}

// CheckMachine returns what an agent of the node on this machine would refuse at its start beside what Check finds, and remarks: about what
// works worse than it might, and about all of that if the machine may be another one.
func (c *Config) CheckMachine(m Machine) (remarks []string, err error) {
	subnets, err := parseSubnets(&c.IPAMConfig, c.NodeToNodeTransport)
	if err != nil {
		return nil, nil // Check says so
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
		sure = m.Here && named // else Kubernetes may know the node by the address of another interface
	}
	switch {
	case err != nil && sure:
		return nil, fmt.Errorf("node %s: %w", m.NodeName, err)
	case err != nil:
		return []string{fmt.Sprintf("on this machine, node %s would have no network: %v", m.NodeName, err)}, nil
	}
	if text := c.tooLarge(&resolved); text != "" {
		remarks = append(remarks, fmt.Sprintf("node %s, if it is this machine: %s", m.NodeName, text))
	}
	return remarks, nil
}

// tooLarge says that packets of pods do not fit the main interface; "" if they do.
func (c *Config) tooLarge(r *Resolved) string {
	room := r.LinkMTU - c.transportOverhead(r.LinkAddress.Addr())
	if c.MTUSize == 0 || r.LinkMTU == 0 || int(c.MTUSize) <= room {
		return ""
	}
	return fmt.Sprintf("option mtuSize is %d, but packets of pods to other nodes have room for %d bytes: the MTU of %s is %d, and the transport between nodes takes %d: use %d or less, leave it out, or raise the MTU of %s",
		c.MTUSize, room, r.Main.Name, r.LinkMTU, r.LinkMTU-room, room, r.Main.Name)
}

// checkVSwitch returns what one kind of vswitch refuses.
func (c *Config) checkVSwitch(ownStack bool, subnets *Subnets) error {
	if ownStack {
		return subnets.checkVPPHost(c.IPAMConfig.VPPHostSubnetCIDR)
	}
	if taps := c.UseTAPInterfaces; taps != nil && !*taps {
		return errors.New("option useTAPInterfaces is false, which is for vswitches with a network stack of their own (VPP): remove it")
	}
	return nil
}
