package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"

	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/netlink/nft"
)

// etcdClient is the connection to the etcd of the cluster.
type etcdClient struct {
	component
	*etcd.Store
}

// openEtcd connects to etcd. It waits for missing credentials and returns an error for unusable
// ones.
func openEtcd(o options, log *slog.Logger) (*etcdClient, error) {
	c, err := loadEtcdConfig(o)
	if err != nil {
		return nil, err
	}
	switch err := c.CheckFiles(); {
	case errors.Is(err, fs.ErrNotExist):
		log.Warn("Waiting for etcd credentials", "reason", err)
	case err != nil:
		return nil, err
	}
	c.Mark = nft.MarkUntranslated
	s, err := etcd.New(c)
	if err != nil {
		return nil, err
	}
	return &etcdClient{component{
		name:   "etcd",
		checks: []health.Check{etcdSpace(s.Full)},
		close:  func() { s.Close() },
	}, s}, nil
}

// loadEtcdConfig reads the etcd client configuration. Flags override the file.
func loadEtcdConfig(o options) (etcd.Config, error) {
	return etcd.LoadConfig(o.etcdConfig, o.etcdFlags(), etcd.LocalEndpoint)
}

func (o options) etcdFlags() etcd.Config {
	return etcd.Config{Endpoints: o.etcdEndpoints, CAFile: o.etcdCA, CertFile: o.etcdCert, KeyFile: o.etcdKey}
}

// etcdSpace checks whether etcd refuses writes because it is full. full is etcd.Store.Full.
func etcdSpace(full func(context.Context) error) health.Check {
	return health.Check{Name: "etcd-space", Look: func(ctx context.Context) []string {
		return problemOf("", func() error { return full(ctx) })(ctx)
	}}
}

// limits returns the check for users that etcd refuses because of a limit.
func (e *etcdClient) limits() component {
	return component{name: "etcd limits", checks: []health.Check{{Name: "etcd-limits", Cluster: true, Look: func(ctx context.Context) []string {
		_, refused := e.Limits(ctx)
		if refused == "" {
			return nil
		}
		return []string{refused}
	}}}}
}

// ksr checks whether KSR reflects Kubernetes in etcd.
func ksr(etcd *etcdClient, connected func() error) component {
	return component{name: "KSR", checks: []health.Check{health.KSR(etcd, connected)}}
}

// unlimited reports whether etcd does not limit its users.
func (e *etcdClient) unlimited(ctx context.Context) bool {
	unlimited, _ := e.Limits(ctx)
	return unlimited
}
