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
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/controller/dbwatcher"
	"github.com/contiv/contiv/controller/feedback"
	"github.com/contiv/contiv/dbresources"
	"github.com/contiv/contiv/linux"
	"github.com/contiv/contiv/listener"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/contiv/contiv/rest"
	"github.com/contiv/contiv/store/etcd"
	"github.com/contiv/contiv/version"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// closeTimeout bounds how long the agent takes to end.
const closeTimeout = 10 * time.Second

// run is the wiring of the agent. It returns when ctx ends, or with the error
// after which the agent must be restarted.
//
//	etcd ──> dbwatcher ──┐ (and back: feedback)
//	CNI ───> podmanager ─┼─> controller ──> plugins ──> KVScheduler ─┬─> vswitch/kernel
//	gRPC ──> contivgrpc ─┤                                           └─> linux
//	files ─> configdir ──┤
//	                     └─────────── bolt (mirror, pods, addresses; gRPC)
func run(ctx context.Context, o options, log *slog.Logger) (err error) {
	contivConfig, controllerConfig, err := loadConfig(o)
	if err != nil {
		return err
	}

	// What outlives the process, and what all nodes share.
	local, err := openLocal(ctx, o, log)
	if err != nil {
		return err
	}
	defer local.Close()
	etcdConfig, err := loadEtcdConfig(o)
	if err != nil {
		return err
	}
	remote, err := etcd.New(etcdConfig)
	if err != nil {
		return err
	}
	defer remote.Close()

	// The southbound.
	registry := prometheus.NewRegistry()
	sb, err := openSouthbound("", registry, log)
	if err != nil {
		return err
	}
	defer sb.Close()
	vs, scheduler := sb.vs, sb.scheduler
	clients, err := openExternal(ctx, o, registry, log)
	if err != nil {
		return err
	}
	defer clients.Close()

	// The event loop and its handlers, in the order in which events visit them.
	loop := controller.New(controller.Options{
		Config:    controllerConfig,
		Scheduler: controller.NewScheduler(scheduler),
		Sources:   clients.sources(),
		Log:       log,
	})
	capabilities := ipnet.Capabilities{
		HostStackShared: vs.Capabilities().HostStackShared,
		MultipleVRFs:    vs.Capabilities().MultipleVRFs,
	}
	links := hostLinks{}
	contivConf, err := contivconf.New(o.nodeName, contivConfig, links, loop, local, log)
	if err != nil {
		return err
	}
	vs.WatchLeases(func(iface string, lease *vpp_interfaces.DHCPLease) {
		address, _ := netip.ParsePrefix(lease.GetHostIpAddress()) // the zero Prefix without lease
		contivConf.LeaseChanged(ctx, iface, address)
	})
	nodeSync := nodesync.New(o.nodeName, remote, loop, log)
	claim, err := nodesync.NewClaim(o.nodeName, log, func(key string, value []byte, mine func([]byte) bool, ttl time.Duration) nodesync.ClaimedKey {
		return remote.NewClaim(key, value, mine, ttl)
	})
	if err != nil {
		return err
	}
	nodeSync.ClaimedBy(claim)
	ready := func() error { return cmp.Or(claim.Err(), loop.Ready()) }
	podManager := podmanager.New(local, podmanager.KernelNamespaces, log)
	podManager.MissedDels(filepath.Join(o.runDir, cni.MissedDelsDir))
	addresses := ipam.New(contivConf, nodeSync, podManager, loop, podManager.Store(), log)
	ipNet := ipnet.New(capabilities, contivConf, nodeSync, podManager, addresses, scheduler, links, log)
	services := service.New(service.Capabilities{HostStackShared: capabilities.HostStackShared, IPv6NAT: vs.Capabilities().IPv6NAT}, contivConf, ipNet, log)
	loop.Register(contivConf, nodeSync, podManager, addresses, podManager.Recorder(), ipNet, services)
	if o.interfaceStats {
		registry.MustRegister(statscollector.New(o.nodeName, interfaceStats(vs.States()), ipNet, log))
	}

	// What the agent serves.
	cniListener, err := listener.Unix(filepath.Join(o.runDir, "cni.sock"))
	if err != nil {
		return fmt.Errorf("cannot serve CNI requests: %w", err)
	}
	cniServer := podmanager.NewServer(podManager, loop, log)
	cniServer.View(podmanager.NodeView{
		Ready:    ready,
		PodCIDRs: func() []string { return podCIDRs(nodeSync.GetAllNodes()[o.nodeName]) },
		Device: func(pod podmanager.PodID) (name, mac string, ok bool) {
			logical, _, _, _ := ipNet.GetPodIfNames(pod)
			return vs.Device(logical)
		},
	})
	restServer, err := rest.Listen(o.listener, append([]string{"unix://" + filepath.Join(o.runDir, "agent.sock")}, o.http...)...)
	if err != nil {
		cniListener.Close()
		return err
	}

	publisher := feedback.Start(feedback.Options{
		Node:      o.nodeName,
		Store:     remote,
		Scheduler: scheduler,
		Config:    controllerConfig,
		Log:       log,
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
	contivConf.ReadBy(func() error { return watcher.Trouble(models.KSRPrefix + dbresources.NodeConfigKey(o.nodeName)) })
	mux := http.NewServeMux()
	mux.Handle("/scheduler/", scheduler.Handler())
	mux.Handle("/controller/", loop.Handler(watcher.RequestResync))
	mux.Handle(feedback.URL, publisher.Handler())
	mux.Handle(contivconf.URL, contivConf.Handler())
	mux.Handle(ipam.URL, addresses.Handler())
	mux.Handle(ipnet.IPAMURL, ipNet.IPAMHandler())
	mux.Handle(ipnet.PodsURL, ipNet.PodsHandler())
	mux.Handle(nodesync.NodesURL, nodeSync.Handler())
	clients.handle(mux)
	handleHealth(mux, loop.Alive, ready, watcher.Connected, contivConf.NodeConfigError, registry)

	serve, cancel := context.WithCancel(ctx)
	defer cancel()
	group, serve := errgroup.WithContext(serve)
	group.Go(func() error { claim.Run(serve); return nil })
	group.Go(func() error { // of two agents with the same name, the second one does nothing
		if err := claim.Admitted(serve, controllerConfig.DelayLocalResync.Std()); err != nil {
			return notCanceled(err)
		}
		loop.Start()
		watcher.Start()
		return nil
	})
	sb.watch(serve, group)
	group.Go(func() error { return notCanceled(sb.lin.WatchLinks(serve, func() { contivConf.LinksChanged(serve) })) })
	group.Go(func() error { return restServer.Serve(serve, mux) })
	group.Go(func() error { return cniServer.Serve(cniListener) })
	clients.serve(serve, group, loop, sb, log)
	group.Go(func() error { return fatal(serve, loop) })
	log.Info("Agent started", "version", version.Version, "etcd", etcdConfig.Endpoints, "sockets", o.runDir)
	<-serve.Done()

	closing, done := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer done()
	cniServer.Stop(closing)
	clients.server.Stop(closing)
	watcher.Close()
	publisher.Close()
	closeErr := loop.Close(closing)
	err = group.Wait()
	log.Info("Agent ended", "error", err)
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

// podCIDRs are the subnets that Kubernetes assigned to a node.
func podCIDRs(n *nodesync.Node) []string {
	if n == nil {
		return nil
	}
	return n.PodCIDRs
}

// fatal returns the error after which the event loop cannot go on, nil when ctx ends.
func fatal(ctx context.Context, loop *controller.Controller) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-loop.Fatal():
		return err
	}
}

// notCanceled leaves out the error of a context that ended on purpose.
func notCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// hostLinks gives contivconf the links that package linux reads.
type hostLinks struct{}

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
