package contivconf

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/controller"
)

// Stolen is what the STN daemon says of the network card that it keeps for the vswitch.
type Stolen struct {
	// Name is the host's name of the card.
	Name string
	// PCI is its address on the bus if VPP drives it by itself; "" if VPP shares it with the
	// host's driver.
	PCI string
	// Addresses and Routes are those that the host has, or had, on the card.
	Addresses []netip.Prefix
	Routes    []StolenRoute
	MTU       int
}

// StolenRoute is a route of the host.
type StolenRoute struct {
	Destination netip.Prefix
	// NextHop is the zero Addr if the destinations are neighbours.
	NextHop netip.Addr
	Metric  uint32
}

// Equal reports whether two say the same.
func (s *Stolen) Equal(other *Stolen) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Name == other.Name && s.PCI == other.PCI && s.MTU == other.MTU && slices.Equal(s.Addresses, other.Addresses) && slices.Equal(s.Routes, other.Routes)
}

// STNHolderChange says that the host or the vswitch has the stolen network card from now on.
type STNHolderChange struct {
	controller.NonBlocking
	Interface string
	// Host: it is the host's; Reason says why.
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

// Describe says it in a sentence.
func (e *STNHolderChange) Describe() string {
	if e.Host {
		return fmt.Sprintf("network card %s is the host's: %s", e.Interface, e.Reason)
	}
	return fmt.Sprintf("network card %s is the vswitch's", e.Interface)
}

// stealing is what is configured about the theft of a card.
type stealing struct {
	wanted bool
	// name of the card; "": the first one.
	name string
}

// stealing returns what is configured for this node: its own option comes first.
func (c *Config) stealing(n *NodeConfig) stealing {
	for _, name := range []string{n.StealInterface, c.StealInterface} {
		if name != "" {
			return stealing{true, name}
		}
	}
	return stealing{wanted: c.StealFirstNIC}
}

// StealsOn returns whether a node is to have its network card stolen, and the name of that; "" for
// the first one. It is for a program that runs before the agent. crd is the node's NodeConfig, which
// replaces its section of the file unless it is disabled; nil: there is none.
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

// errNoSTN is for an agent that cannot ask.
var errNoSTN = errors.New("stealInterface and stealFirstNIC need contiv-stn, which this program does not know how to ask")

// readStolen takes the card from the host, and from it what the main interface is to have.
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
			return r, fmt.Errorf("nodeConfig.mainVPPInterface.interfaceName is %s, but the network card that is stolen is %s: leave it out", r.Main.Name, s.Name)
		}
		// The host goes on to renew its leases.
		r.Main.Name, r.Main.UseDHCP = s.Name, false
	}
	if !r.Main.UseDHCP {
		r.Main.Addresses = c.stolenAddresses(s, internalIPs)
	}
	r.Gateways, r.RouteGateways = s.gateways(), nil
	return r, nil
}

// stolenAddresses are those of the IP versions of the cluster; first those that Kubernetes knows.
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

// gateways are the next hops of the default routes, of each IP version that with the lowest
// metric.
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

// Best returns, for each destination, the route with the lowest metric.
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
