// Command contiv-ksr reflects Kubernetes objects into etcd.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	storage "github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/kubernetes/election"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"github.com/contiv/contiv/internal/kubernetes/ksr/conditions"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/logline"
	"github.com/contiv/contiv/internal/lib/metrics/endpoint"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/klog/v2"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "contiv-ksr:", err)
		os.Exit(1)
	}
}

type options struct {
	source, manifests        string
	api                      apiServer
	etcdConfig               string
	etcdEndpoints            []string
	elect                    bool
	electionTTL, resignAfter time.Duration
	http                     []string
	nodeName                 string
	logLevel                 slog.Level
	credentialsDir           string
	users                    bool
	metrics                  endpoint.Endpoint
	nodeConditions           bool
	namespace                string
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "contiv-ksr",
		Short: "Copy Kubernetes objects to etcd",
		Long: "Keep a copy of the Kubernetes objects that agents need in etcd. When the first copy is complete,\n" +
			"contiv-ksr prints one line on standard output.",
		Args:          cobra.NoArgs,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(c *cobra.Command, _ []string) error {
			if !c.Flags().Changed("leader-election") {
				o.elect = o.source == sourceKubernetes
			}
			return run(c.Context(), o)
		},
	}
	hostname, _ := os.Hostname()
	f := c.Flags()
	f.StringVar(&o.source, "source", sourceDir, `source of the objects: "dir", manifests in a directory, or "kubernetes", an API server`)
	f.StringVar(&o.manifests, "manifests", "", "with --source dir: directory of manifests (*.yaml, *.yml, *.json)")
	o.api.register(f)
	f.StringVar(&o.etcdConfig, "etcd-config", os.Getenv("ETCD_CONFIG"), "etcd client configuration, YAML (environment: ETCD_CONFIG)")
	f.StringSliceVar(&o.etcdEndpoints, "etcd-endpoints", nil, "URLs of etcd, instead of the URLs in --etcd-config (default http://127.0.0.1:12379)")
	f.BoolVar(&o.elect, "leader-election", false, "elect one of several instances to write to etcd (default: only with --source kubernetes)")
	f.DurationVar(&o.electionTTL, "election-ttl", 10*time.Second, "time after which a failed leader loses its leadership")
	f.DurationVar(&o.resignAfter, "resign-after", 15*time.Second, "time without connection to the API server after which the leader resigns in favour of a connected instance")
	f.StringArrayVar(&o.http, "http", []string{"127.0.0.1:9191"}, "address to serve /stats, /liveness and /readiness on, IP:PORT or unix:///PATH; repeatable")
	o.metrics.Flags(f)
	f.StringVar(&o.nodeName, "node-name", hostname, "name of this instance in the election and in the label \"node\" of all metrics (default: the host name)")
	f.Lookup("node-name").DefValue = ""
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "log level: DEBUG, INFO, WARN or ERROR")
	f.StringVar(&o.credentialsDir, "credentials-dir", "", "with --source kubernetes: directory of the nodes' certificates; if the cert-file of --etcd-config is in it, this instance issues certificates and manages etcd's users")
	f.BoolVar(&o.users, "users", false, "manage etcd's users, so that each node may write only its own keys; requires the certificate of etcd's root in --etcd-config (always on with --credentials-dir)")
	f.BoolVar(&o.nodeConditions, "node-conditions", true, "with --source kubernetes: set the condition ContivReady of Nodes and report changes as Events")
	f.StringVar(&o.namespace, "namespace", namespace(), "namespace of Contiv's pods and Secrets (environment: POD_NAMESPACE)")
	c.AddCommand(credentialsCommand(), revokeCommand(), forgetUsersCommand())
	return c
}

func run(ctx context.Context, o options) error {
	log := logline.New(os.Stderr, o.logLevel)
	klog.SetSlogLogger(log) // log messages of client-go
	if o.resignAfter <= 0 {
		return fmt.Errorf("--resign-after %s: use a duration above 0", o.resignAfter)
	}
	if err := o.metrics.Check(); err != nil {
		return err
	}
	source, err := o.newSource(log)
	if err != nil {
		return err
	}
	etcdConfig, err := o.loadEtcdConfig()
	if err != nil {
		return err
	}
	var certificates *issuer
	if etcdConfig.CertFile != "" && filepath.Dir(etcdConfig.CertFile) == o.credentialsDir {
		if certificates, err = o.newIssuer(&etcdConfig, log); err != nil {
			return err
		}
	} else if err := etcdConfig.CheckFiles(); err != nil {
		return err
	}
	store, err := etcd.New(etcdConfig)
	if err != nil {
		return err
	}
	defer store.Close()
	server, err := rest.Listen(listener.Options{AllowUnauthenticated: true}, nil, o.http...) // read-only
	if err != nil {
		return err
	}

	reflectorOptions := ksr.Options{
		Source: source.Source, Problems: source.problems, Store: election.Alone(store), ResignAfter: o.resignAfter,
		Instance: o.nodeName, Version: version.Version, Logger: log,
	}
	if o.elect {
		elector, err := election.New(election.Options{Store: store, Name: o.nodeName, TTL: o.electionTTL, Logger: log})
		if err != nil {
			return fmt.Errorf("--election-ttl: %w", err)
		}
		reflectorOptions.Elector = elector
	}
	g, ctx := errgroup.WithContext(ctx)
	var beside []alongside
	if certificates != nil || o.users {
		beside = append(beside, access.New(store, log).Run)
	}
	if o.nodeConditions && o.source == sourceKubernetes {
		client, err := o.api.client("contiv-ksr-conditions")
		if err != nil {
			return err
		}
		keeper := conditions.New(conditions.Options{Client: client, Logger: log})
		beside = append(beside, keeper.Run)
		reflectorOptions.Problems = func() []string { return append(source.problems(), keeper.Problems()...) }
	}
	reflectorOptions.Alongside = all(beside)
	if certificates != nil {
		certificates.etcd.Store(store)
		g.Go(func() error { return certificates.signer.Run(ctx) })
	}
	reflector := ksr.New(reflectorOptions)
	g.Go(func() error { return reflector.Run(ctx) })
	g.Go(func() error {
		return server.Serve(ctx, reflector.Handler())
	})
	g.Go(func() error { return o.metrics.Run(ctx, reflector.Metrics(), log, endpoint.Retry) })
	g.Go(func() error {
		select {
		case <-reflector.Synced():
			fmt.Printf("contiv-ksr is ready: %s http=%v\n", source.name, server.Addrs())
		case <-ctx.Done():
		}
		return nil
	})
	return g.Wait()
}

// alongside runs in the active instance, concurrently with the reflection.
type alongside = func(context.Context, storage.Broker) error

// all runs the functions of the list concurrently.
func all(list []alongside) alongside {
	if len(list) == 0 {
		return nil
	}
	return func(ctx context.Context, s storage.Broker) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, do := range list {
			g.Go(func() error { return do(ctx, s) })
		}
		return g.Wait()
	}
}

func (o options) loadEtcdConfig() (etcd.Config, error) {
	var c etcd.Config
	if o.etcdConfig != "" {
		if err := config.LoadFile(o.etcdConfig, &c); err != nil {
			return c, fmt.Errorf("--etcd-config: %w", err)
		}
	}
	if len(o.etcdEndpoints) > 0 {
		c.Endpoints = o.etcdEndpoints
	}
	if len(c.Endpoints) == 0 {
		c.Endpoints = []string{"http://127.0.0.1:12379"}
	}
	return c, nil
}
