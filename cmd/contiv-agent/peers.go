package main

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/health/peers"
	"github.com/contiv/contiv/internal/lib/ping"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/prometheus/client_golang/prometheus"
)

// defaultProbeInterval is the interval between probes of a peer.
const defaultProbeInterval = 15 * time.Second

// peerProbes probes other nodes over the overlay, at the gateways of their pods. It does nothing if interval
// is 0.
func peerProbes(node string, interval time.Duration, nodes *nodes, addresses *addresses, podNetwork *podNetwork, log *slog.Logger) component {
	c := component{name: "probes of peers"}
	if interval == 0 {
		return c
	}
	probes := peers.New(peers.Options{
		Interval: interval,
		Open:     func() (peers.Pinger, error) { return ping.Open(nil, netip.Addr{}) },
		Peers: func() []peers.Peer {
			return chosenPeers(node, nodes.GetAllNodes(), addresses.IPAM, int(podNetwork.GetPodMTU()))
		},
		Log: componentLog(log, "peers"),
	})
	c.rest = map[string]http.Handler{peers.URL: probes.Handler()}
	c.metrics = []prometheus.Collector{probes}
	c.checks = []health.Check{{Name: "peers", Look: probes.Problems}}
	c.tasks = []task{untilEnd(probes.Run)}
	return c
}

// chosenPeers returns the chosen peers, one entry per address.
func chosenPeers(self string, nodes nodesync.Nodes, addresses *ipam.IPAM, mtu int) (list []peers.Peer) {
	this, known := nodes[self]
	if !known || mtu == 0 {
		return nil
	}
	var others []*nodesync.Node
	for _, n := range nodes {
		if n != this && len(n.VPPIPs) > 0 {
			others = append(others, n)
		}
	}
	for _, n := range peers.Choose(this.ID, others, func(n *nodesync.Node) uint32 { return n.ID }) {
		for _, subnet := range addresses.PodSubnets(n) {
			list = append(list, peers.Peer{Node: n.Name, Address: ipam.Gateway(subnet).Addr(), Size: mtu})
		}
	}
	slices.SortFunc(list, func(a, b peers.Peer) int { return cmp.Or(cmp.Compare(a.Node, b.Node), a.Address.Compare(b.Address)) })
	return list
}
