// Command contiv-ksr reflects Kubernetes objects into etcd.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/contiv/contiv/config"
	"github.com/contiv/contiv/ksr"
	"github.com/contiv/contiv/ksr/manifests"
	"github.com/contiv/contiv/rest"
	"github.com/contiv/contiv/store/etcd"
	"github.com/contiv/contiv/version"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
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
	source, manifests string
	etcdConfig        string
	etcdEndpoints     []string
	http              []string
	nodeName          string
	logLevel          slog.Level
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:           "contiv-ksr",
		Short:         "Reflect Kubernetes objects into etcd",
		Long:          "Keeps a copy of the Kubernetes objects that the agents need in etcd. When etcd holds all\nof them for the first time, it prints one line on standard output.",
		Args:          cobra.NoArgs,
		Version:       version.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return run(c.Context(), o) },
	}
	hostname, _ := os.Hostname()
	f := c.Flags()
	f.StringVar(&o.source, "source", "dir", `where the objects come from; "dir": manifests in a directory`)
	f.StringVar(&o.manifests, "manifests", "", "directory of manifests (*.yaml, *.yml, *.json)")
	f.StringVar(&o.etcdConfig, "etcd-config", os.Getenv("ETCD_CONFIG"), "file that says how to reach etcd (environment: ETCD_CONFIG)")
	f.StringSliceVar(&o.etcdEndpoints, "etcd-endpoints", nil, "URLs of etcd; they replace those of the file (default http://127.0.0.1:12379)")
	f.StringArrayVar(&o.http, "http", []string{"127.0.0.1:9191"}, "IP:PORT or unix:///PATH to serve /stats, /liveness and /readiness on; repeatable")
	f.StringVar(&o.nodeName, "node-name", hostname, "value of the label \"node\" of all metrics")
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "DEBUG, INFO, WARN or ERROR")
	return c
}

func run(ctx context.Context, o options) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: o.logLevel}))
	if o.source != "dir" {
		return fmt.Errorf("--source %q is not known: use dir", o.source)
	}
	source, err := manifests.New(manifests.Options{Dir: o.manifests, Logger: log})
	if err != nil {
		return fmt.Errorf("--manifests: %w", err)
	}
	etcdConfig, err := o.loadEtcdConfig()
	if err != nil {
		return err
	}
	store, err := etcd.New(etcdConfig)
	if err != nil {
		return err
	}
	defer store.Close()
	server, err := rest.Listen(o.http...)
	if err != nil {
		return err
	}

	reflector := ksr.New(ksr.Options{Source: source, Store: store, Logger: log})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return reflector.Run(ctx) })
	g.Go(func() error {
		return server.Serve(ctx, reflector.Handler(o.nodeName, version.Version, problems(source)))
	})
	g.Go(func() error {
		select {
		case <-reflector.Synced():
			fmt.Printf("contiv-ksr is ready: manifests=%s http=%v\n", o.manifests, server.Addrs())
		case <-ctx.Done():
		}
		return nil
	})
	return g.Wait()
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

func problems(source *manifests.Directory) func() []string {
	return func() (out []string) {
		for _, p := range source.Problems() {
			out = append(out, p.String())
		}
		return out
	}
}
