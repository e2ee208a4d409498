package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"time"

	"github.com/contiv/contiv/api/contiv/cniwire"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/controller/dbwatcher"
	"github.com/contiv/contiv/controller/feedback"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/filter"
	"github.com/contiv/contiv/health"
	"github.com/contiv/contiv/health/path"
	"github.com/contiv/contiv/health/peers"
	"github.com/contiv/contiv/history"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/linux"
	"github.com/contiv/contiv/listener"
	"github.com/contiv/contiv/logline/loglevel"
	"github.com/contiv/contiv/metrics"
	"github.com/contiv/contiv/metrics/activity"
	"github.com/contiv/contiv/metrics/endpoint"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netlink/kubeproxy"
	"github.com/contiv/contiv/northbound/ifstate"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/microservice"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/policy"
	"github.com/contiv/contiv/plugins/policy/denials"
	"github.com/contiv/contiv/plugins/policy/verdict"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/service/config"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/contiv/contiv/rest"
	"github.com/contiv/contiv/version"
	"github.com/contiv/contiv/vswitch"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// closeTimeout bounds the agent's shutdown.
const closeTimeout = 10 * time.Second

// run connects the parts of the agent. It returns when ctx ends, or with an error that requires a
// restart of the agent.
//
//	etcd ──> dbwatcher ──┐ (and back: feedback)
//	CNI ───> podmanager ─┼─> controller ──> plugins ──> KVScheduler ─┬─> vswitch/kernel or vswitch/vpp
//	gRPC ──> contivgrpc ─┤                                           └─> linux
//	files ─> configdir ──┤
//	                     └─────────── bolt (mirror, pods, addresses; gRPC)
func run(ctx context.Context, o options, log *slog.Logger) (err error) {
	contivConfig, controllerConfig, err := loadConfig(o)
	if err != nil {
		return err
	}
	serviceConfig, err := config.LoadFile(o.serviceConfig)
	if err != nil {
		return err
	}
	o.tracking = trackingSettings(serviceConfig.Conntrack)
	o.tracePackets = contivConfig.EnablePacketTrace

	// Local storage, and the etcd of the cluster.
	local, err := openLocal(ctx, o, log)
	if err != nil {
		return err
	}
	defer local.Close()
	remote, err := openEtcd(o, log)
	if err != nil {
		return err
	}
	defer remote.Close()

	// The southbound.
	registry := prometheus.NewRegistry()
	recorder := openHistory(o, log)
	defer recorder.Close()
	lent := &lentCards{}
	sb, err := openSouthbound(o, "", lent, recorder, registry, log)
	if err != nil {
		return err
	}
	defer sb.Close()
	sb.readAhead()
	scheduler := sb.scheduler
	clients, err := openExternal(ctx, o, registry, log)
	if err != nil {
		return err
	}
	defer clients.Close()

	// The event loop, between etcd and the scheduler.
	publisher := feedback.Start(feedback.Options{
		Node:      o.nodeName,
		Store:     remote,
		Scheduler: scheduler,
		Config:    controllerConfig,
		Reserved:  policy.Published(),
		Log:       log,
	})
	defer publisher.Close()
	loop := controller.New(controller.Options{
		Config:    controllerConfig,
		Scheduler: controller.NewScheduler(scheduler),
		Sources:   clients.sources(),
		Recorder:  sb.recordEvents(recorder),
		Observer:  publisher.GivenOutside,
		Log:       component(log, "controller"),
	})
	watcher := dbwatcher.New(dbwatcher.Options{
		Node:     o.nodeName,
		Remote:   remote,
		Local:    local,
		Loop:     loop,
		Feedback: publisher,
		Config:   controllerConfig,
		Log:      log,
	})

	// Event handlers.
	forNetwork, forServices, forPolicies := capabilities(sb.vs)
	links := hostLinks{}
	stnReports, err := newSTNReporter(contivConfig, forNetwork.HostStackShared, lent, component(log, "stn"))
	if err != nil {
		return err
	}
	defer stnReports.Close()
	contivConf, err := contivconf.New(o.nodeName, contivConfig, contivconf.Sources{
		Links:   mainLinks(forNetwork, links),
		NICs:    sb.NICs,
		STN:     stnReports.steal(),
		Misread: func() error { return watcher.Trouble(models.KSRPrefix + dbresources.NodeConfigKey(o.nodeName)) },
	}, loop, local, log)
	if err != nil {
		return err
	}
	sb.vs.WatchLeases(func(iface string, lease *vpp_interfaces.DHCPLease) {
		address, _ := netip.ParsePrefix(lease.GetHostIpAddress()) // the zero Prefix without lease
		contivConf.LeaseChanged(ctx, iface, address)
	})
	claim, err := nodesync.NewClaim(o.nodeName, log, func(key string, value []byte, mine func([]byte) bool, ttl time.Duration) nodesync.ClaimedKey {
		return remote.NewClaim(key, value, mine, ttl)
	})
	if err != nil {
		return err
	}
	servers, err := newAPIServers(o.apiServers)
	if err != nil {
		return err
	}
	ownStack, subnets := !forNetwork.HostStackShared, contivConf.Subnets()
	sb.guardNeighbours(networksOfNeighbours(contivConf))
	nodeSync := nodesync.New(o.nodeName, remote, nodesync.Self{
		OwnStack:      &ownStack,
		IPAMOptions:   subnets.ClusterOptions(),
		Claim:         claim.Err,
		HostAddresses: links.addresses,
		Host:          func() (nodesync.Host, error) { return thisHost(links) },
	}, loop, log)
	podManager := podmanager.New(o.nodeName, local, podmanager.KernelNamespaces, filepath.Join(o.runDir, cniwire.MissedDelsDir), loop, log)
	addresses := ipam.New(contivConf, nodeSync, podManager, loop, podManager.Store(), log)
	ipNet := ipnet.New(forNetwork, contivConf, nodeSync, podManager, addresses, scheduler, links, log)
	services, err := service.New(forServices, contivConf, ipNet, service.Roles{
		Proxy: &service.Proxy{
			Settings: serviceConfig, NodeName: o.nodeName, Nodes: nodeSync, Addresses: addresses, Others: kubeproxy.Found, Track: o.tracking.Apply,
			Healthy: func() bool { return loop.Ready() == nil }, Connected: watcher.Connected,
			Value: func(key string, full bool) service.ValueReport { return valueReport(scheduler, key, full) },
		},
		Segments:  segments(contivConf, ipNet, podManager),
		HostPorts: &service.HostPorts{NodeName: o.nodeName, Nodes: nodeSync, Addresses: addresses, Pods: podManager, Verifier: scheduler},
		Needs:     needs(o, remote, servers, links),
	}, log)
	if err != nil {
		return err
	}
	defer services.Close()
	if services.Proxies() {
		registry.MustRegister(services)
	}
	// In the order in which they handle events.
	policies := policy.New(forPolicies, o.nodeName, nodeSync, podManager, addresses, ipNet, loop, log)
	denialLog := denials.New(denials.Options{
		Node: o.nodeName, Read: sb.denials(), PodOf: policies.PodOf, Denying: policies.Denying,
		Why: func(c filter.Connection) []string { return verdict.Refused(scheduler.Snapshot(), c) },
	})
	registry.MustRegister(policies, denialLog)
	loop.Register(contivConf, nodeSync, podManager, microservice.New(podManager, sb.setMicroservices, log), addresses, podManager.Recorder(), ipNet, services, policies)
	if o.interfaceStats {
		registry.MustRegister(statscollector.New(o.nodeName, interfaceStats(ctx, sb.vs.States()), ipNet, log))
	}
	registry.MustRegister(activity.PodAddresses(func() (used, all uint64, known bool) {
		report, err := ipNet.IPAMReport()
		return report.PodIPsUsed, report.PodIPsTotal, err == nil
	}))
	drops := statscollector.NewDrops(o.nodeName, guardDrops(ctx, sb.vs), ipNet, log)
	registry.MustRegister(drops)
	registerSessions(ctx, o, sb.vs, registry, log)

	// Served APIs.
	ready := func() error { return cmp.Or(claim.Err(), sb.Err(), loop.Ready()) }
	cniListener, err := listener.Unix(filepath.Join(o.runDir, "cni.sock"))
	if err != nil {
		return fmt.Errorf("serve CNI requests: %w", err)
	}
	cniServer := podmanager.NewServer(podManager, loop, podmanager.NodeView{
		Connected: watcher.Connected,
		Ready:     ready,
		Called:    sb.counts.CNI,
		PodCIDRs:  func() []string { return podCIDRs(nodeSync.GetAllNodes()[o.nodeName]) },
		Device: func(pod podmanager.PodID) (name, mac string, ok bool) {
			logical, _, _, _ := ipNet.GetPodIfNames(pod)
			return sb.Device(logical)
		},
	}, log)
	restServer, err := rest.Listen(o.listener, log, append([]string{"unix://" + filepath.Join(o.runDir, "agent.sock")}, o.http...)...)
	if err != nil {
		cniListener.Close()
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("/scheduler/", inspect.Handler(scheduler))
	mux.Handle("/controller/", loop.Handler(watcher.RequestResync))
	mux.Handle(feedback.URL, publisher.Handler())
	mux.Handle(contivconf.URL, contivConf.Handler())
	mux.Handle(ipam.URL, addresses.Handler())
	mux.Handle(ipnet.IPAMURL, ipNet.IPAMHandler())
	mux.Handle(ipnet.PodsURL, ipNet.PodsHandler())
	mux.Handle(podmanager.URL, podManager.Handler())
	mux.Handle(nodesync.NodesURL, nodeSync.Handler())
	mux.Handle(service.URL, services.Handler())
	mux.Handle(policy.URL, policies.Handler())
	mux.Handle(denials.URL, denialLog.Handler())
	clients.handle(mux)
	states := interfaceStates(o.nodeName, sb.vs.States(), loop.Ready, remote, controllerConfig, log)
	mux.Handle(ifstate.URL, states.Handler())
	mux.Handle(statscollector.DropsURL, drops.Handler())
	sb.handle(mux)
	if recorder != nil {
		mux.Handle(history.URL, recorder.Handler())
	}
	mux.Handle("/log/", loglevel.Handler(log))
	paths := explainPaths(o, sb, forNetwork.HostStackShared, nodeSync, addresses, ipNet, services, ipNet.GetPodMTU, contivConf, watcher.Connected)
	mux.Handle(path.URL, denialLog.Probing(paths.Handler()))
	probes := probePeers(o, nodeSync, addresses, ipNet.GetPodMTU, log)
	if probes != nil {
		mux.Handle(peers.URL, probes.Handler())
	}
	names := newPodNames(podManager, ipNet)
	identity := identities{podManager.Pods, podManager.LocalPods, podManager.PodOf, addresses.GetPodIPs, podManager.RefusedSandboxes, watcher.Connected}
	asked := checks{alive: loop.Alive, ready: ready, connected: watcher.Connected, full: remote.Full, limits: remote.Limits, nodeConfig: contivConf.NodeConfigError, warnings: warnings(sb, contivConf, stnReports, nodeSync, services), notes: services.Notes}.
		monitored(o, sb, names.owners, probes, paths.Network(), recorder, registry, checkPods(o.nodeName, podManager.Pods, ipNet.PodsReport, watcher.Connected),
			health.Check{Name: "sandboxes", Look: identity.sandboxes}, health.Check{Name: "addresses", Look: identity.claims, Cluster: true},
			health.Check{Name: "pod-subnet", Look: func(context.Context) []string { return addresses.Full() }},
			health.KSR(remote, watcher.Connected), inEtcd(publisher), health.Check{Name: "policies", Look: policies.Problems, Cluster: true})
	metricsGatherer := metrics.Conventional(registry)
	asked.handle(mux, metricsGatherer)

	serve, cancel := context.WithCancel(ctx)
	defer cancel()
	group, serve := errgroup.WithContext(serve)
	group.Go(func() error { claim.Run(serve); return nil })
	group.Go(func() error { // if two agents have one name, the second does nothing
		if err := claim.Admitted(serve, controllerConfig.DelayLocalResync.Std()); err != nil {
			return notCanceled(err)
		}
		if err := sb.await(serve); err != nil {
			return notCanceled(err)
		}
		loop.Start()
		watcher.Start()
		return nil
	})
	group.Go(func() error { asked.health.Run(serve); return nil })
	group.Go(func() error {
		health.Publisher{Monitor: asked.health, Etcd: remote, Node: o.nodeName, Version: version.Version, Mine: claim.Err, Log: log}.Run(serve)
		return nil
	})
	if probes != nil {
		group.Go(func() error { probes.Run(serve); return nil })
	}
	sb.watch(serve, group, names.inText)
	group.Go(func() error { return stnReports.attend(serve, loop.Synced, ipNet, sb, contivConf, loop) })
	group.Go(func() error {
		return notCanceled(sb.lin.WatchLinks(serve, func() { contivConf.LinksChanged(serve); ipNet.LinksChanged(serve, loop); loop.Changed() }))
	})
	group.Go(func() error { nodeSync.Run(serve); return nil })
	group.Go(func() error { servers.run(serve, log); return nil })
	group.Go(func() error { nodeSync.WatchHost(serve, nodesync.HostPeriod); return nil })
	group.Go(func() error { services.WatchOthers(serve, service.OthersPeriod, watcher.RequestResync); return nil })
	group.Go(func() error {
		denialLog.Run(serve)
		return nil
	})
	group.Go(func() error {
		policies.RunStatus(serve, policy.Publish{Watch: scheduler.Watch, VSwitch: sb.Err, Replace: publisher.Replace})
		return nil
	})
	group.Go(func() error { return restServer.Serve(serve, mux) })
	group.Go(func() error { return o.metrics.Run(serve, metricsGatherer, log, endpoint.Retry) })
	if controllerConfig.LigatoStatus {
		group.Go(func() error {
			asked.publisher(o.nodeName, remote, log).run(serve)
			return nil
		})
	}
	group.Go(func() error { return cniServer.Serve(cniListener) })
	clients.serve(serve, group, loop, sb, states, log)
	group.Go(func() error { return fatal(serve, loop, watcher.Connected) })
	log.Info("Agent started", "version", version.Version, "etcd", remote.Endpoints(), "sockets", o.runDir)
	<-serve.Done()

	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	cniServer.Stop(closing)
	clients.server.Stop(closing)
	watcher.Close()
	publisher.Close()
	closeErr := loop.Close(closing)
	err = group.Wait()
	log.Info("Agent ended")
	return errors.Join(err, closeErr)
}

func loadConfig(o options) (contivConfig contivconf.Config, controllerConfig controller.Config, err error) {
	contivConfig, controllerConfig = contivconf.Default(), controller.DefaultConfig()
	if o.contivConfig != "" {
		if contivConfig, err = contivconf.LoadFile(o.contivConfig); err != nil {
			return contivConfig, controllerConfig, err
		}
	}
	if o.controllerConfig != "" {
		if controllerConfig, err = controller.LoadConfigFile(o.controllerConfig); err != nil {
			return contivConfig, controllerConfig, err
		}
	}
	if err = o.controller.Apply(&controllerConfig); err == nil {
		err = controllerConfig.Validate()
	}
	return contivConfig, controllerConfig, err
}

// warnings returns the warnings of a working node.
func warnings(sb *southbound, conf *contivconf.ContivConf, stnReports *stnReporter, nodes *nodesync.NodeSync, services *service.Service) func(context.Context) []string {
	return func(ctx context.Context) []string {
		list := slices.Concat(sb.Warnings(ctx), conf.Warnings(), stnReports.warnings(), services.Warnings())
		if err := nodes.Disagreement(); err != nil {
			list = append(list, err.Error())
		}
		return list
	}
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

// podCIDRs returns the subnets that Kubernetes assigned to a node.
func podCIDRs(n *nodesync.Node) []string {
	if n == nil {
		return nil
	}
	return n.PodCIDRs
}

// fatal returns the error that stops the event loop, nil when ctx ends. If an unreachable database
// is the cause, its reason comes first.
func fatal(ctx context.Context, loop *controller.Controller, connected func() error) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-loop.Fatal():
		return withCause(err, connected())
	}
}

// withCause prepends the reason why the database is unreachable to the error about the missing
// first resync.
func withCause(err, away error) error {
	if errors.Is(err, controller.ErrNoStartupResync) && away != nil {
		return fmt.Errorf("%w: %w", away, err)
	}
	return err
}

// notCanceled drops the error of a deliberately cancelled context.
func notCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// capabilities returns the vswitch's features for the plugins. docs/design/vpp.md describes the effect of
// each.
func capabilities(vs vswitch.VSwitch) (ipnet.Capabilities, service.Capabilities, policy.Capabilities) {
	c := vs.Capabilities()
	return ipnet.Capabilities{HostStackShared: c.HostStackShared, MultipleVRFs: c.MultipleVRFs, TAPs: c.TAPs,
			SourceGuards: c.SourceGuards, ConnectionLimits: c.ConnectionLimits},
		service.Capabilities{HostStackShared: c.HostStackShared, IPv6SourceNAT: c.IPv6SourceNAT, ClientScopes: c.ClientScopes, ResetsConnections: c.ResetsConnections, SegmentRouting: c.SegmentRouting},
		policy.Capabilities{Filter: c.Filter}
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

// segments enables segment routing for services if it is configured.
func segments(conf *contivconf.ContivConf, network *ipnet.IPNet, pods *podmanager.PodManager) *service.Segments {
	if !conf.Routing().UseSRv6ForServices {
		return nil
	}
	return &service.Segments{SIDs: conf.EffectiveIPAMConfig().SRv6, Pods: pods, Network: network}
}

// mainLinks returns the host's links for selecting the main interface; nil if the vswitch has its
// own interfaces.
func mainLinks(c ipnet.Capabilities, links hostLinks) contivconf.HostLinks {
	if !c.HostStackShared {
		return nil
	}
	return links
}

// hostLinks reads the host's links with package linux.
type hostLinks struct{}

// addresses returns the addresses of all links.
func (l hostLinks) addresses() (list []netip.Prefix) {
	links, _ := l.HostLinks()
	for _, link := range links {
		list = append(list, link.Addresses...)
	}
	return list
}

func (hostLinks) HostLinks() ([]contivconf.HostLink, error) {
	links, err := linux.Links("")
	if err != nil {
		return nil, err
	}
	result := make([]contivconf.HostLink, len(links))
	for i, l := range links {
		result[i] = contivconf.HostLink(l)
	}
	return result, nil
}
