package main

import (
	"context"
	"log/slog"
	"net/http"
	"runtime"

	"github.com/contiv/contiv/internal/agent/hostinfo"
	"github.com/contiv/contiv/internal/agent/kubeproxy"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
)

// services translates the addresses of services, unless kube-proxy does.
type services struct {
	component
	*service.Service
}

type servicesOptions struct {
	node         string
	settings     config.Config
	capabilities service.Capabilities
	needs        service.Needs
	southbound   *southboundComponent
	events       *eventLoop
	network      *networkConfig
	nodes        *nodes
	pods         *podList
	addresses    *addresses
	podNetwork   *podNetwork
	log          *slog.Logger
}

func openServices(o servicesOptions) (*services, error) {
	s, err := service.New(o.capabilities, o.network.ContivConf, o.podNetwork.IPNet, service.Roles{
		Proxy: &service.Proxy{
			Settings: o.settings, NodeName: o.node, Nodes: o.nodes.NodeSync, Addresses: o.addresses.IPAM, OtherProxy: kubeproxy.Found,
			Track:     trackingSettings(o.settings.Conntrack).Apply,
			Healthy:   func() bool { return o.events.loop.Ready() == nil },
			Connected: o.events.connected,
			Value:     func(key string, full bool) service.ValueReport { return valueReport(o.southbound.Scheduler, key, full) },
		},
		Segments:  segments(o.network, o.podNetwork, o.pods),
		HostPorts: &service.HostPorts{NodeName: o.node, Nodes: o.nodes.NodeSync, Addresses: o.addresses.IPAM, Pods: o.pods.PodManager, Verifier: o.southbound.Scheduler},
		Needs:     o.needs,
	}, o.log)
	if err != nil {
		return nil, err
	}
	c := component{
		name:   "services",
		events: []controller.EventHandler{s},
		rest:   map[string]http.Handler{service.URL: s.Handler()},
		tasks: []task{untilEnd(func(ctx context.Context) {
			s.WatchOtherProxies(ctx, service.OtherProxiesPeriod, o.events.requestResync)
		})},
		close: func() { s.Close() },
	}
	if s.Proxies() {
		c.metrics = []prometheus.Collector{s}
	}
	return &services{c, s}, nil
}

// trackingSettings are the settings of service.conf for this node.
func trackingSettings(c config.Conntrack) conntrack.Settings {
	return conntrack.Settings{
		Max: c.Max(runtime.NumCPU()), Established: c.TCPEstablishedTimeout.Std(), CloseWait: c.TCPCloseWaitTimeout.Std(),
		UDP: c.UDPTimeout.Std(), UDPStream: c.UDPStreamTimeout.Std(), Liberal: c.TCPBeLiberal,
	}
}

// serviceNeeds returns the addresses and ports that no service gets, because this node needs them.
func serviceNeeds(o options, etcd *etcdClient, apiServer *apiServer, links hostinfo.Links) service.Needs {
	n := service.Needs{Etcd: etcd.Addresses, APIServer: apiServer.All, Sockets: hostinfo.Receivers, Addresses: links.Addresses}
	for owner, addresses := range map[string][]string{"the agent (REST, health)": o.http, "the agent (gRPC)": o.grpc, "the agent (metrics)": o.metrics.Addresses} {
		for _, address := range addresses {
			n.Listeners = append(n.Listeners, service.Listener{Address: address, Owner: owner})
		}
	}
	return n
}

// valueReport returns the state of a value and, on request, its last transaction.
func valueReport(scheduler *kvscheduler.Scheduler, key string, txn bool) service.ValueReport {
	status := scheduler.ValueStatus(key).GetValue()
	r := service.ValueReport{Key: key, State: status.GetState().String(), Error: status.GetError()}
	if !txn {
		return r
	}
	if revisions := scheduler.Timeline(key); len(revisions) > 0 {
		r.Txn = &revisions[len(revisions)-1].Txn
	}
	return r
}

// segments enables segment routing for services if it is configured.
func segments(network *networkConfig, podNetwork *podNetwork, pods *podList) *service.Segments {
	if !network.Routing().UseSRv6ForServices {
		return nil
	}
	return &service.Segments{SIDs: network.EffectiveIPAMConfig().SRv6, Pods: pods.PodManager, Network: podNetwork.IPNet}
}
