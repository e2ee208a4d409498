package main

import (
	"log/slog"
	"net/http"

	"github.com/contiv/contiv/internal/agent/activity"
	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/hostinfo"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/prometheus/client_golang/prometheus"
)

// podNetwork connects pods to the vswitch, and the vswitch to the other nodes.
type podNetwork struct {
	component
	*ipnet.IPNet
}

func newPodNetwork(capabilities ipnet.Capabilities, network *networkConfig, nodes *nodes, pods *podList, addresses *addresses, southbound *southboundComponent, links hostinfo.Links, log *slog.Logger) *podNetwork {
	n := ipnet.New(capabilities, network.ContivConf, nodes.NodeSync, pods.PodManager, addresses.IPAM, southbound.Scheduler, links, log)
	return &podNetwork{component{
		name:   "pod network",
		events: []controller.EventHandler{n},
		rest:   map[string]http.Handler{ipnet.IPAMURL: n.IPAMHandler(), ipnet.PodsURL: n.PodsHandler()},
		metrics: []prometheus.Collector{activity.PodAddresses(func() (used, all uint64, known bool) {
			report, err := n.IPAMReport()
			return report.PodIPsUsed, report.PodIPsTotal, err == nil
		})},
		checks: []health.Check{{Name: "address-plan", Look: n.Outside, Cluster: true}},
	}, n}
}
