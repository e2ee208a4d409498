package contivconf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/internal/controller"
)

// Stolen is the STN daemon's report of the NIC that it holds for the vswitch.
type Stolen struct {
	// Name of the NIC on the host.
	Name string
	// PCI is the bus address if VPP drives the NIC, or "" if it shares the host's driver.
	PCI string
	// Addresses and Routes of the host on the NIC, current or former.
	Addresses []netip.Prefix
	Routes    []StolenRoute
	MTU       int
}

// StolenRoute is a route of the host.
type StolenRoute struct {
	Destination netip.Prefix
	// NextHop is the zero Addr for on-link destinations.
	NextHop netip.Addr
	Metric  uint32
}

// Equal reports whether the reports are equal.
func (s *Stolen) Equal(other *Stolen) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Name == other.Name && s.PCI == other.PCI && s.MTU == other.MTU && slices.Equal(s.Addresses, other.Addresses) && slices.Equal(s.Routes, other.Routes)
}

// STNHolderChange reports that the stolen NIC moved to the host or to the vswitch.
type STNHolderChange struct {
	controller.NonBlocking
	Interface string
	// Host means that the host has it, for the given Reason.
	Host   bool
	Reason string
}

func (*STNHolderChange) Name() string                   { return "STN Holder Change" }
func (*STNHolderChange) Method() controller.EventMethod { return controller.Update }
func (*STNHolderChange) TransactionType() controller.TransactionType {
	return controller.BestEffort
}
func (*STNHolderChange) Direction() controller.Direction { return controller.Forward }
func (e *STNHolderChange) String() string                { return "STN Holder Change: " + e.Describe() }

// Describe returns the change as a sentence.
func (e *STNHolderChange) Describe() string {
	if e.Host {
		return fmt.Sprintf("network card %s is the host's: %s", e.Interface, e.Reason)
	}
	return fmt.Sprintf("network card %s is the vswitch's", e.Interface)
}

type stealing struct {
	wanted bool
	// name of the NIC, or "" for the first.
	name string
}

// stealing returns the node's configuration. The node's own option has precedence.
func (c *Config) stealing(n *NodeConfig) stealing {
	for _, name := range []string{n.StealInterface, c.StealInterface} {
		if name != "" {
			return stealing{true, name}
		}
	}
	return stealing{wanted: c.StealFirstNIC}
}

// StealsOn returns whether to steal a node's NIC and its name ("": the first). It is for a program
// that runs before the agent. crd is the node's NodeConfig or nil. It replaces the file's section
// unless it is disabled.
func (c *Config) StealsOn(node string, crd *nodeconfig.NodeConfig) (name string, steals bool, err error) {
	section, err := c.forNode(node)
	if err != nil {
		return "", false, err
	}
	if crd != nil && !c.CRDNodeConfigurationDisabled {
		section = NodeConfig{StealInterface: crd.GetStealInterface()}
	}
	s := c.stealing(&section)
	return s.name, s.wanted, nil
}

// errNoSTN is for an agent without access to contiv-stn.
var errNoSTN = errors.New("stealInterface and stealFirstNIC require contiv-stn, which this program does not support")

// readStolen claims the NIC and configures the main interface from it.
func (c *ContivConf) readStolen(r Resolved, internalIPs []netip.Addr) (Resolved, error) {
	if c.stn == nil {
		return r, errNoSTN
	}
	s, err := c.stn(r.stealing.name, r.Main.UseDHCP)
	if err != nil {
		return r, fmt.Errorf("steal the network card: %w", err)
	}
	r.Stolen, r.LinkMTU = s, s.MTU
	if s.PCI == "" {
		if r.Main.Name != "" && r.Main.Name != s.Name {
			return r, fmt.Errorf("nodeConfig.mainVPPInterface.interfaceName is %s, but the stolen network card is %s: remove it", r.Main.Name, s.Name)
		}
		// The host continues to renew its leases.
		r.Main.Name, r.Main.UseDHCP = s.Name, false
	}
	if !r.Main.UseDHCP {
		r.Main.Addresses = c.stolenAddresses(s, internalIPs)
	}
	r.Gateways, r.RouteGateways = s.gateways(), nil
	return r, nil
}

// stolenAddresses returns the NIC's addresses of the cluster's IP versions, first Kubernetes' ones.
func (c *ContivConf) stolenAddresses(s *Stolen, internalIPs []netip.Addr) (list []netip.Prefix) {
	for _, known := range []bool{true, false} {
		for _, family := range c.subnets.Families() {
			for _, p := range s.Addresses {
				if p.Addr().Is6() == family.UseIPv6() && slices.Contains(internalIPs, p.Addr()) == known {
					list = append(list, p)
				}
			}
		}
	}
	return list
}

// gateways returns the next hops of the default routes with the lowest metric, per IP version.
func (s *Stolen) gateways() (list []netip.Addr) {
	for _, ipv6 := range []bool{false, true} {
		for _, r := range s.Best() {
			if r.Destination.Bits() == 0 && r.Destination.Addr().Is6() == ipv6 && r.NextHop.IsValid() {
				list = append(list, r.NextHop)
			}
		}
	}
	return list
}

// Best returns the route with the lowest metric for each destination.
func (s *Stolen) Best() (list []StolenRoute) {
	for _, r := range s.Routes {
		at := slices.IndexFunc(list, func(o StolenRoute) bool { return o.Destination == r.Destination })
		switch {
		case at < 0:
			list = append(list, r)
		case r.Metric < list[at].Metric:
			list[at] = r
		}
	}
	return list
}
