package main

import (
	"log/slog"
	"net/netip"
	"strings"

	"github.com/contiv/contiv/internal/calico/agent"
	"github.com/contiv/contiv/internal/calico/central"
	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/calico/follow"
	"github.com/contiv/contiv/internal/calico/kubernetes"
	"github.com/contiv/contiv/internal/calico/publish"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
)

type data struct {
	// name is the location, for messages.
	name string
	// newSource returns a source of Calico's data. Each source can run once.
	newSource func() agent.Source
	// publisher publishes this node's addresses to other nodes.
	publisher *publish.Publisher
	etcd      *etcd.Store // nil without etcd
	close     func()
}

func (o *options) openDatastore(counters *follow.Counters, log *slog.Logger) (*data, error) {
	var addresses []netip.Addr
	for _, p := range o.addresses {
		addresses = append(addresses, p.Addr())
	}
	if o.datastore == kubernetesDatastore {
		c, err := kubeapi.NewDynamicClient(o.kubeconfig, o.apiServer, "contiv-calico-routes")
		if err != nil {
			return nil, err
		}
		return &data{
			name: "Kubernetes", close: func() {},
			newSource: func() agent.Source { return &kubernetes.Source{Client: c, Families: o.tree.Families(), Log: log} },
			publisher: &publish.Publisher{Place: kubernetes.Annotations{Client: c, Node: o.hostname, Addresses: addresses}, Period: o.ttl, Log: log},
		}, nil
	}
	config, err := o.loadEtcdConfig()
	if err != nil {
		return nil, err
	}
	db, err := etcd.New(config)
	if err != nil {
		return nil, err
	}
	return &data{
		name: strings.Join(db.Endpoints(), ","), etcd: db, close: func() { db.Close() },
		newSource: func() agent.Source { return o.follow(db, counters, log) },
		publisher: &publish.Publisher{Place: publish.NewEtcd(db, o.hostname, addresses, o.ttl), Period: o.ttl / 4, Log: log},
	}, nil
}

// follow returns a source of Calico's data in etcd.
func (o *options) follow(db *etcd.Store, counters *follow.Counters, log *slog.Logger) *follow.Follower {
	return follow.New(follow.Options{
		Store: db, Prefixes: o.tree.Prefixes(), Plausible: hasBlocks, Hold: 2 * o.ttl, Counters: counters, Log: log,
		Apply: func(s *datastore.State, key string, value []byte) bool { return s.Apply(o.tree, key, value) },
	})
}

// hasBlocks reports whether the state contains Calico data.
func hasBlocks(s *datastore.State) bool { return len(s.Blocks)+len(s.Affinities) > 0 }

// followCentre returns a source of the routes that the centre writes for this node.
func (o *options) followCentre(db *etcd.Store, counters *follow.Counters, log *slog.Logger) *follow.Follower {
	return follow.New(follow.Options{
		Store: db, Prefixes: central.Prefixes(o.hostname), Hold: 2 * o.ttl, Counters: counters, Log: log,
		Apply: func(s *datastore.State, key string, value []byte) bool {
			return s.ApplyGiven(o.tree, o.hostname, key, value)
		},
	})
}
