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

	"github.com/contiv/contiv/internal/calico/agent"
	"github.com/contiv/contiv/internal/calico/central"
	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/calico/follow"
	"github.com/contiv/contiv/internal/calico/program"
	"github.com/contiv/contiv/internal/calico/routes"
	"github.com/contiv/contiv/internal/kubernetes/election"
	"github.com/contiv/contiv/internal/lib/logline/loglevel"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
)

// run connects the parts.
//
//	etcd, or ──> Source ──> calculation ──> Programmer ──> scheduler and vswitch, or an agent
//	API server     (or the centre's routes)
//	  ▲
//	  └── Publisher <── the address of this node
func (o *options) run(ctx context.Context, out io.Writer) error {
	log := loglevel.New(os.Stderr, o.logLevel).With("node", o.hostname)
	slog.SetDefault(log)
	klog.SetSlogLogger(log) // log messages of client-go
	counters, registry := &follow.Counters{}, prometheus.NewRegistry()
	d, err := o.openDatastore(counters, log)
	if err != nil {
		return err
	}
	defer d.close()
	host := routes.Host{Name: o.hostname, Uplinks: o.addresses}
	direct := func() agent.Tables { return agent.Direct{Source: d.newSource(), Host: host} }
	tables := direct()
	switch {
	case o.once:
		return o.printOnce(ctx, out, d.newSource(), host)
	case o.centre:
		return o.runCentre(ctx, d, registry, log)
	case o.central:
		tables = &central.Reader{Host: host, Given: o.followCentre(d.etcd, counters, log), NewDirect: direct, Log: log}
	}
	t, err := o.openTarget(out, registry, log)
	if err != nil {
		return err
	}
	defer t.close()
	uplink, err := o.uplinkName(ctx, log)
	if err != nil {
		return err
	}
	worker := &agent.Agent{
		Tables: tables,
		Programmer: program.New(t.Target, program.Uplink{
			Interface: uplink, Type: o.interfaceType(), Addresses: o.addresses, Configure: o.configure && !o.dryRun,
		}, log),
		Log: log,
	}
	mux := http.NewServeMux()
	t.handle(mux)
	ready := func() error { return cmp.Or(t.err(), worker.Status().Err, d.publisher.Err()) }
	handle(mux, worker, ready, t.warnings)
	registerMetrics(registry, worker, counters)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/log/", loglevel.Handler(log))

	group, ctx := errgroup.WithContext(ctx)
	if !o.dryRun {
		server, err := rest.Listen(o.listener, log, append([]string{"unix://" + filepath.Join(o.runDir, "agent.sock")}, o.http...)...)
		if err != nil {
			return err
		}
		group.Go(func() error { return server.Serve(ctx, mux) })
		group.Go(func() error { d.publisher.Run(ctx); return nil })
	}
	t.run(ctx, group)
	group.Go(func() error { worker.Run(ctx); return nil })
	log.Info("Programming routes to Calico's blocks", "version", version.Version, "datastore", d.name, "tree", o.treeText, "uplink", uplink, "addresses", o.addresses)
	return group.Wait()
}

// runCentre calculates the routes of all nodes while this instance is elected.
func (o *options) runCentre(ctx context.Context, d *data, registry *prometheus.Registry, log *slog.Logger) error {
	elector, err := election.New(election.Options{Store: d.etcd, Name: o.hostname, Prefix: datastore.CentrePrefix, TTL: o.ttl, Logger: log})
	if err != nil {
		return err
	}
	centre := &central.Centre{Elector: elector, NewSource: d.newSource, Log: log}
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "contiv_calico_centre_writes_total", Help: "Keys changed by this instance as the centre."},
		func() float64 { return float64(centre.Writes.Load()) }))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /liveness", func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, Health{Version: version.Version}) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server, err := rest.Listen(o.listener, nil, o.http...)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return server.Serve(ctx, mux) })
	group.Go(func() error { centre.Run(ctx); return nil })
	return group.Wait()
}

// printOnce prints the routes of the first state.
func (o *options) printOnce(ctx context.Context, out io.Writer, source agent.Source, host routes.Host) error {
	ctx, cancel := context.WithTimeout(ctx, o.onceTimeout)
	defer cancel()
	printed := false
	source.Run(ctx, func(s *datastore.State) {
		if !printed {
			print(out, host.Calculate(s))
		}
		printed = true
		cancel()
	})
	if !printed {
		return source.Err()
	}
	return nil
}

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

// RouteList is the response to GET /calico/v1/routes.
type RouteList struct {
	Routes   []RouteEntry              `json:"routes"`
	Waiting  map[string][]netip.Prefix `json:"waiting,omitempty"`
	Problems []string                  `json:"problems,omitempty"`
	Error    string                    `json:"error,omitempty"`
}

// RouteEntry is a route. Via is empty for routes that drop packets.
type RouteEntry struct {
	Destination netip.Prefix `json:"destination"`
	Via         string       `json:"via,omitempty"`
	Host        string       `json:"host"`
}

// Health is the response to /liveness and /readiness, with the fields of contiv-agent's.
type Health struct {
	Version  string
	Error    string   `json:",omitempty"`
	Warnings []string `json:",omitempty"`
}

func handle(mux *http.ServeMux, worker *agent.Agent, ready func() error, warnings func(context.Context) []string) {
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
	mux.HandleFunc("GET /readiness", func(w http.ResponseWriter, r *http.Request) {
		h, status := Health{Version: version.Version, Warnings: append(slices.Clone(worker.Status().Problems), warnings(r.Context())...)}, http.StatusOK
		if err := ready(); err != nil {
			h.Error, status = err.Error(), http.StatusServiceUnavailable
		}
		rest.Answer(w, status, h)
	})
}

// registerMetrics registers the metrics of etcd requests and of route updates.
func registerMetrics(r prometheus.Registerer, worker *agent.Agent, c *follow.Counters) {
	counter := func(name, help string, value func() int64) {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "contiv_calico_" + name, Help: help}, func() float64 { return float64(value()) }))
	}
	counter("etcd_lists_total", "Prefixes read from etcd as a whole.", c.Lists.Load)
	counter("etcd_keys_total", "Keys read from etcd that way.", c.Keys.Load)
	counter("etcd_watches_total", "Watches opened in etcd.", c.Watches.Load)
	counter("etcd_events_total", "Changes received from etcd watches.", c.Events.Load)
	counter("etcd_bytes_total", "Bytes of keys and values received from etcd.", c.Bytes.Load)
	counter("updates_total", "Calculations of all routes.", c.Updates.Load)
	r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "contiv_calico_routes", Help: "Routes that this node should have."},
		func() float64 { return float64(len(worker.Status().Table)) }))
}
