package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/contiv/contiv/calico/agent"
	"github.com/contiv/contiv/calico/datastore"
	"github.com/contiv/contiv/calico/follow"
	"github.com/contiv/contiv/calico/program"
	"github.com/contiv/contiv/calico/publish"
	"github.com/contiv/contiv/calico/routes"
	"github.com/contiv/contiv/logline/loglevel"
	"github.com/contiv/contiv/rest"
	"github.com/contiv/contiv/store/etcd"
	"github.com/contiv/contiv/version"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

// run is the wiring.
//
//	etcd ──> Follower ──> calculation ──> Programmer ──> scheduler and vswitch, or an agent
//	  ▲
//	  └── Publisher <── the address of this node
func (o *options) run(ctx context.Context, out io.Writer) error {
	log := loglevel.New(os.Stderr, o.logLevel).With("node", o.hostname)
	slog.SetDefault(log)
	etcdConfig, err := o.loadEtcdConfig()
	if err != nil {
		return err
	}
	db, err := etcd.New(etcdConfig)
	if err != nil {
		return err
	}
	defer db.Close()
	follower := follow.New(follow.Options{
		Store: db, Prefixes: o.tree.Prefixes(), Plausible: hasBlocks, Hold: 2 * o.ttl, Log: log,
		Apply: func(s *datastore.State, key string, value []byte) bool { return s.Apply(o.tree, key, value) },
	})
	host := routes.Host{Name: o.hostname, Uplinks: o.addresses}
	if o.once {
		state, err := follower.Read(ctx)
		if err != nil {
			return err
		}
		print(out, host.Calculate(state))
		return nil
	}

	registry := prometheus.NewRegistry()
	t, err := o.openTarget(out, registry, log)
	if err != nil {
		return err
	}
	defer t.close()
	uplink, err := o.uplinkName()
	if err != nil {
		return err
	}
	worker := &agent.Agent{
		Tables: agent.Direct{Source: follower, Host: host},
		Programmer: program.New(t.Target, program.Uplink{
			Interface: uplink, Type: o.interfaceType(), Addresses: o.addresses, Configure: o.configure && !o.dryRun,
		}, log),
		Log: log,
	}
	publisher := &publish.Publisher{Store: db, Host: o.hostname, TTL: o.ttl, Log: log}
	for _, p := range o.addresses {
		publisher.Addresses = append(publisher.Addresses, p.Addr())
	}

	mux := http.NewServeMux()
	t.handle(mux)
	ready := func() error { return cmp.Or(t.err(), worker.Status().Err, publisher.Err()) }
	handle(mux, worker, ready)
	registerMetrics(registry, worker, &follower.Counters)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/log/", loglevel.Handler(log))

	group, ctx := errgroup.WithContext(ctx)
	if !o.dryRun {
		server, err := rest.Listen(o.listener, append([]string{"unix://" + filepath.Join(o.runDir, "agent.sock")}, o.http...)...)
		if err != nil {
			return err
		}
		group.Go(func() error { return server.Serve(ctx, mux) })
		group.Go(func() error { publisher.Run(ctx); return nil })
	}
	t.run(ctx, group)
	group.Go(func() error { worker.Run(ctx); return nil })
	log.Info("Routes of Calico's blocks are programmed", "version", version.Version, "etcd", db.Endpoints(), "tree", o.treeText, "uplink", uplink, "addresses", o.addresses)
	return group.Wait()
}

// hasBlocks reports whether there is anything of Calico.
func hasBlocks(s *datastore.State) bool { return len(s.Blocks)+len(s.Affinities) > 0 }

// print prints routes for people.
func print(out io.Writer, c routes.Calculation) {
	for _, dst := range slices.SortedFunc(maps.Keys(c.Table), netip.Prefix.Compare) {
		fmt.Fprintln(out, dst, c.Table[dst])
	}
	for _, host := range slices.Sorted(maps.Keys(c.Waiting)) {
		fmt.Fprintf(out, "# no address of host %s is known: no routes to %v\n", host, c.Waiting[host])
	}
	for _, problem := range c.Problems {
		fmt.Fprintln(out, "#", problem)
	}
}

// URL of the routes in the REST API.
const routesURL = "/calico/v1/routes"

// RouteList is the answer to GET /calico/v1/routes.
type RouteList struct {
	Routes   []RouteEntry              `json:"routes"`
	Waiting  map[string][]netip.Prefix `json:"waiting,omitempty"`
	Problems []string                  `json:"problems,omitempty"`
	Error    string                    `json:"error,omitempty"`
}

// RouteEntry is a route; Via is empty for those that drop packets.
type RouteEntry struct {
	Destination netip.Prefix `json:"destination"`
	Via         string       `json:"via,omitempty"`
	Host        string       `json:"host"`
}

// Health is the answer to /liveness and /readiness, as contiv-agent gives it.
type Health struct {
	Version  string
	Error    string   `json:",omitempty"`
	Warnings []string `json:",omitempty"`
}

func handle(mux *http.ServeMux, worker *agent.Agent, ready func() error) {
	mux.HandleFunc("GET "+routesURL, func(w http.ResponseWriter, _ *http.Request) {
		s := worker.Status()
		list := RouteList{Routes: []RouteEntry{}, Waiting: s.Waiting, Problems: s.Problems}
		for _, dst := range slices.SortedFunc(maps.Keys(s.Table), netip.Prefix.Compare) {
			entry := RouteEntry{Destination: dst, Host: s.Table[dst].Host}
			if via := s.Table[dst].Via; via.IsValid() {
				entry.Via = via.String()
			}
			list.Routes = append(list.Routes, entry)
		}
		if s.Err != nil {
			list.Error = s.Err.Error()
		}
		rest.JSON(w, list)
	})
	mux.HandleFunc("GET /liveness", func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, Health{Version: version.Version}) })
	mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, _ *http.Request) {
		h, status := Health{Version: version.Version, Warnings: worker.Status().Problems}, http.StatusOK
		if err := ready(); err != nil {
			h.Error, status = err.Error(), http.StatusServiceUnavailable
		}
		rest.Answer(w, status, h)
	})
}

// registerMetrics tells Prometheus what is asked of etcd, and what comes of it.
func registerMetrics(r prometheus.Registerer, worker *agent.Agent, c *follow.Counters) {
	counter := func(name, help string, value func() int64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "contiv_calico_" + name, Help: help}, func() float64 { return float64(value()) }))
	}
	counter("etcd_lists_total", "Prefixes read from etcd as a whole.", c.Lists.Load)
	counter("etcd_keys_total", "Keys read from etcd that way.", c.Keys.Load)
	counter("etcd_watches_total", "Watches opened in etcd.", c.Watches.Load)
	counter("etcd_events_total", "Changes that etcd told of.", c.Events.Load)
	counter("updates_total", "Calculations of all routes.", c.Updates.Load)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "contiv_calico_routes", Help: "Routes that this node should have."},
		func() float64 { return float64(len(worker.Status().Table)) }))
}
