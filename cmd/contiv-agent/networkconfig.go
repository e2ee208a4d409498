package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/agent/hostinfo"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/models"
)

// networkConfig is the configuration of the node's network: contiv.conf, NodeConfig, leases and links.
type networkConfig struct {
	component
	*contivconf.ContivConf
}

type networkConfigOptions struct {
	node         string
	settings     contivconf.Config
	capabilities ipnet.Capabilities
	links        hostinfo.Links
	southbound   *southboundComponent
	stn          *stnReporter
	events       *eventLoop
	local        *localStore
	log          *slog.Logger
}

// openNetworkConfig follows the leases of the vswitch's DHCP clients until ctx ends.
func openNetworkConfig(ctx context.Context, o networkConfigOptions) (*networkConfig, error) {
	c, err := contivconf.New(o.node, o.settings, contivconf.Sources{
		Links:   mainLinks(o.capabilities, o.links),
		NICs:    o.southbound.NICs,
		STN:     o.stn.Claim(),
		Misread: func() error { return o.events.watcher.Trouble(models.KSRPrefix + kubestate.NodeConfigKey(o.node)) },
	}, o.events.loop, o.local.store, o.log)
	if err != nil {
		return nil, err
	}
	o.southbound.VSwitch().WatchLeases(func(iface string, lease *vpp_interfaces.DHCPLease) {
		address, _ := netip.ParsePrefix(lease.GetHostIpAddress()) // the zero Prefix without lease
		c.LeaseChanged(ctx, iface, address)
	})
	o.southbound.GuardNeighbours(networksOfNeighbours(c))
	return &networkConfig{component{
		name:   "network configuration",
		events: []controller.EventHandler{c},
		rest:   map[string]http.Handler{contivconf.URL: c.Handler()},
	}, c}, nil
}

// mainLinks returns the host's links for selecting the main interface; nil if the vswitch has its
// own interfaces.
func mainLinks(c ipnet.Capabilities, links hostinfo.Links) contivconf.HostLinks {
	if !c.HostStackShared {
		return nil
	}
	return links
}

// networksOfNeighbours returns the pod networks whose packets come from the neighbours, without tunnels.
func networksOfNeighbours(conf *contivconf.ContivConf) (networks []netip.Prefix) {
	if conf.Routing().NodeToNodeTransport != contivconf.NoOverlayTransport {
		return nil
	}
	subnets := conf.Subnets()
	for _, family := range subnets.Families() {
		networks = append(networks, family.Pods)
	}
	return networks
}

// watchLinks reports changes of the host's links.
func watchLinks(southbound *southboundComponent, network *networkConfig, podNetwork *podNetwork, events *eventLoop) component {
	return component{name: "links of the host", tasks: []task{func(ctx context.Context) error {
		return notCanceled(southbound.WatchLinks(ctx, func() {
			network.LinksChanged(ctx)
			podNetwork.LinksChanged(ctx, events.loop)
			events.loop.Changed()
		}))
	}}}
}
