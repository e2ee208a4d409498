package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/models"
)

// nodeConfigTimeout bounds the wait for the NodeConfig from etcd, because VPP waits for it.
const nodeConfigTimeout = 3 * time.Second

// nodeConfig returns the NodeConfig of the node, nil if none is known. The agent does not run yet,
// so it reads, in this order:
//
//  1. etcd;
//  2. without etcd, the agent's mirror of etcd;
//  3. if the mirror has no readable one, the NodeConfig last in force.
func (s agentSettings) nodeConfig(ctx context.Context, log *slog.Logger) *nodeconfig.NodeConfig {
	key := models.KSRPrefix + kubestate.NodeConfigKey(s.node)
	msg, err := s.fromEtcd(ctx, key)
	if err == nil {
		return msg
	}
	log.Warn("Reading NodeConfig from etcd failed, using the agent's copy", "error", err)
	msg, err = s.fromBolt(ctx, key, contivconf.StoreKey)
	if err != nil {
		log.Warn("NodeConfig unknown, using contiv.conf for STN; the agent retries", "error", err)
	}
	return msg
}

func (s agentSettings) fromEtcd(ctx context.Context, key string) (*nodeconfig.NodeConfig, error) {
	ctx, cancel := context.WithTimeout(ctx, nodeConfigTimeout)
	defer cancel()
	config, err := etcd.LoadConfig(s.etcdConfig, etcd.Config{Endpoints: s.etcdEndpoints, CAFile: s.etcdCA, CertFile: s.etcdCert, KeyFile: s.etcdKey}, etcd.LocalEndpoint)
	if err != nil {
		return nil, err
	}
	db, err := etcd.New(config)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return readNodeConfig(ctx, db, key)
}

// fromBolt returns the first value that exists.
func (s agentSettings) fromBolt(ctx context.Context, keys ...string) (*nodeconfig.NodeConfig, error) {
	if _, err := os.Stat(s.bolt); errors.Is(err, fs.ErrNotExist) {
		return nil, nil // the agent has never run
	}
	db, err := bolt.Open(s.bolt, nodeConfigTimeout)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var errs []error
	for _, key := range keys {
		msg, err := readNodeConfig(ctx, db, key)
		if msg != nil {
			return msg, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// readNodeConfig returns nil if the key does not exist.
func readNodeConfig(ctx context.Context, db store.Broker, key string) (*nodeconfig.NodeConfig, error) {
	kv, found, err := db.Get(ctx, key)
	if err != nil || !found {
		return nil, err
	}
	resource, _ := kubestate.ForKey(kubestate.NodeConfigKey("any"))
	value, err := resource.Unmarshal(kv.Value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return value.(*nodeconfig.NodeConfig), nil
}
