package main

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/hostinfo"
	"github.com/contiv/contiv/internal/agent/nodepath"
	"github.com/contiv/contiv/internal/agent/readiness"
	"github.com/contiv/contiv/internal/agent/stnreport"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service/config"
)

// openClusterAgent opens the components of an agent that connects a node to its cluster.
//
//	etcd ──> dbwatcher ──┐ (and back: feedback)
//	CNI ───> podmanager ─┼─> event loop ──> event handlers ──> KVScheduler ─┬─> vswitch
//	gRPC ──> contivgrpc ─┤                                                  └─> linux
//	files ─> configdir ──┤
//	                     └─────────── bolt (mirror, pods, addresses; gRPC)
//
// The components start, and handle events, in the order of a.add. They stop and close in the opposite
// order. The arguments of a constructor are what its component needs.
func openClusterAgent(ctx context.Context, o options, log *slog.Logger) (_ *agent, err error) {
	a := newAgent(log)
	defer a.closeAfter(&err)
	networkSettings, loopSettings, err := loadConfig(o)
	if err != nil {
		return nil, err
	}
	serviceSettings, err := config.LoadFile(o.serviceConfig)
	if err != nil {
		return nil, err
	}

	// Data of the node and of the cluster, and the vswitch.
	local, err := openLocalStore(ctx, o, log)
	if err != nil {
		return nil, err
	}
	a.add(local.component)
	etcd, err := openEtcd(o, log)
	if err != nil {
		return nil, err
	}
	a.add(etcd.component)
	a.add(etcd.limits())
	history := openHistory(o, log)
	a.add(history.component)
	lentCards := &stnreport.LentCards{}
	target := o.southbound(log)
	target.Lent, target.Tracking, target.TracePackets = lentCards.Has, trackingSettings(serviceSettings.Conntrack), networkSettings.EnablePacketTrace
	southbound, err := openSouthbound(target, history.transaction, a.registry)
	if err != nil {
		return nil, err
	}
	a.add(southbound.component)
	clients, err := openClientConfig(ctx, o, a.registry, log)
	if err != nil {
		return nil, err
	}
	a.add(clients.component)

	// The event loop and its handlers.
	events := newEventLoop(eventLoopOptions{
		node: o.nodeName, config: loopSettings, scheduler: southbound.Scheduler, etcd: etcd, mirror: local.store, sources: clients.sources(),
		recorder: history.event, reserved: policy.Published(), loopLog: componentLog(log, "controller"), log: log,
	})
	a.add(events.component)
	a.add(ksr(etcd, events.connected))
	supported, links := capabilitiesOf(southbound.VSwitch()), hostinfo.Links{}
	stn, err := openSTN(networkSettings.STNSocketFile, supported.network.HostStackShared, lentCards, log)
	if err != nil {
		return nil, err
	}
	a.add(stn.component)
	network, err := openNetworkConfig(ctx, networkConfigOptions{
		node: o.nodeName, settings: networkSettings, capabilities: supported.network, links: links,
		southbound: southbound, stn: stn, events: events, local: local, log: log,
	})
	if err != nil {
		return nil, err
	}
	a.add(network.component)
	nodes, err := newNodes(o.nodeName, !supported.network.HostStackShared, network.Subnets, etcd, events, links, log)
	if err != nil {
		return nil, err
	}
	a.add(nodes.component)
	pods := newPods(o.nodeName, o.runDir, local, events, log)
	a.add(pods.component)
	a.add(microservices(pods, southbound, log))
	addresses := newAddresses(network, nodes, pods, events, log)
	a.add(addresses.component)
	a.add(podRecords(pods))
	podNetwork := newPodNetwork(supported.network, network, nodes, pods, addresses, southbound, links, log)
	a.add(podNetwork.component)
	apiServer, err := newAPIServer(o.apiServers, log)
	if err != nil {
		return nil, err
	}
	a.add(apiServer.component)
	services, err := openServices(servicesOptions{
		node: o.nodeName, settings: serviceSettings, capabilities: supported.services, needs: serviceNeeds(o, etcd, apiServer, links),
		southbound: southbound, events: events, network: network, nodes: nodes, pods: pods, addresses: addresses, podNetwork: podNetwork, log: log,
	})
	if err != nil {
		return nil, err
	}
	a.add(services.component)
	policies := newPolicies(o.nodeName, supported.policies, southbound, events, nodes, pods, addresses, podNetwork, log)
	a.add(policies.component)
	events.loop.Register(a.eventHandlers()...)

	// Servers.
	states := newInterfaceStates(o.nodeName, southbound, events, etcd, loopSettings, log)
	a.add(states.component)
	a.add(northboundServer(clients, events, southbound, states, log))
	ready := func() error { return cmp.Or(nodes.claim.Err(), southbound.Err(), events.loop.Ready()) }
	cni, err := openCNI(o, ready, history, southbound, events, nodes, pods, podNetwork, log)
	if err != nil {
		return nil, err
	}
	a.add(cni)
	rest, err := openREST(o, a.rest, log)
	if err != nil {
		return nil, err
	}
	a.add(rest)
	a.add(metricsServer(&o.metrics, a.registry, log))

	// Observers of the node.
	a.add(statistics(ctx, o.nodeName, o.interfaceStats, southbound, podNetwork, log))
	a.add(pathExplainer(nodepath.Node{
		Name: o.nodeName, HostStack: supported.network.HostStackShared, Southbound: southbound.Southbound, Config: network.ContivConf, Nodes: nodes.NodeSync,
		Addresses: addresses.IPAM, Network: podNetwork.IPNet, Services: services.Service, Links: links, Connected: events.connected,
	}, policies.denials))
	a.add(peerProbes(o.nodeName, o.probeInterval, nodes, addresses, podNetwork, log))
	a.add(podChecks(o.nodeName, pods, addresses, podNetwork, events))
	names := podNames(pods, podNetwork)
	node := newHealth(healthOptions{
		sources: readiness.Sources{
			Alive: events.loop.Alive, Ready: ready, Connected: events.connected, NodeConfig: network.NodeConfigError, Unlimited: etcd.unlimited,
			Warnings: warnings(southbound, network, stn, nodes, services), Notes: services.Notes,
		},
		scheduler: southbound.Scheduler, owners: names.Owners, directories: directories(o), checks: a.checks(),
	})
	a.add(node.component)
	a.add(node.published(o.nodeName, etcd, nodes.claim.Err, log))
	a.add(node.ligatoStatus(o.nodeName, etcd, loopSettings, log))
	a.add(watchDrift(southbound, names.InText))
	a.add(watchLinks(southbound, network, podNetwork, events))
	a.add(stnReports(stn, southbound, events, network, podNetwork))

	a.add(startOfEvents(events, southbound, func(ctx context.Context) error {
		return nodes.claim.Admitted(ctx, loopSettings.DelayLocalResync.Std()) // if two agents have one name, the second does nothing
	}))
	a.started = func() {
		log.Info("Agent started", "version", version.Version, "etcd", etcd.Endpoints(), "sockets", o.runDir)
	}
	return a, nil
}

// openStandaloneAgent opens the components of an agent without Kubernetes, whose configuration comes from
// clients and, if flags name one, from etcd. It has no event handlers.
//
//	gRPC ──> contivgrpc ─┐
//	files ─> configdir ──┼─> event loop ──> KVScheduler ─┬─> vswitch
//	etcd ──> dbwatcher ──┤                               └─> linux
//	                     └──── bolt (mirror, gRPC)
func openStandaloneAgent(ctx context.Context, o options, log *slog.Logger) (_ *agent, err error) {
	a := newAgent(log)
	defer a.closeAfter(&err)
	_, loopSettings, err := loadConfig(o)
	if err != nil {
		return nil, err
	}
	history := openHistory(o, log)
	a.add(history.component)
	southbound, err := openSouthbound(o.southbound(log), history.transaction, a.registry)
	if err != nil {
		return nil, err
	}
	a.add(southbound.component)
	clients, err := openClientConfig(ctx, o, a.registry, log)
	if err != nil {
		return nil, err
	}
	a.add(clients.component)
	var etcd *etcdClient
	var broker store.Broker // of etcd; nil without etcd
	var mirror *localStore
	var endpoints []string
	if o.etcdConfig != "" || len(o.etcdEndpoints) > 0 {
		if etcd, err = openEtcd(o, log); err != nil {
			return nil, err
		}
		a.add(etcd.component)
		if mirror, err = openMirror(o, log); err != nil {
			return nil, err
		}
		a.add(mirror.component)
		broker, endpoints = etcd, etcd.Endpoints()
	}
	events := newEventLoop(eventLoopOptions{
		node: o.nodeName, config: loopSettings, scheduler: southbound.Scheduler, etcd: etcd, mirror: mirror.broker(), standalone: true,
		sources: clients.sources(), recorder: history.event, loopLog: log, log: log,
	})
	a.add(events.component)

	states := newInterfaceStates(o.nodeName, southbound, events, broker, loopSettings, log)
	a.add(states.component)
	a.add(northboundServer(clients, events, southbound, states, log))
	rest, err := openREST(o, a.rest, log)
	if err != nil {
		return nil, err
	}
	a.add(rest)
	a.add(metricsServer(&o.metrics, a.registry, log))
	a.add(statistics(ctx, o.nodeName, o.interfaceStats, southbound, noPods{}, log))
	node := newHealth(healthOptions{
		sources: readiness.Sources{
			Alive: events.loop.Alive, Ready: func() error { return cmp.Or(southbound.Err(), events.loop.Ready()) }, Connected: events.connected,
			Warnings: southbound.Warnings,
		},
		scheduler: southbound.Scheduler, owners: health.NoOwners, directories: directories(o), checks: a.checks(),
	})
	a.add(node.component)
	a.add(node.ligatoStatus(o.nodeName, broker, loopSettings, log))
	a.add(watchDrift(southbound, func(reason string) string { return reason }))
	a.add(startOfEvents(events, southbound, func(context.Context) error { return nil }))
	a.started = func() {
		log.Info("Agent started without Kubernetes", "version", version.Version, "etcd", endpoints, "grpc", o.grpc, "sockets", o.runDir)
	}
	return a, nil
}
