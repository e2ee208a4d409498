package iptables

import (
	"log/slog"
	"sync"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
)

// Options of Chains. All are needed.
type Options struct {
	Namespaces *namespaces.Set
	// Inhabited returns references to the namespaces of our interfaces and of microservices, which
	// may hold our chains.
	Inhabited func() map[namespaces.ID]*linux_namespace.NetNamespace
	// RemoveUnneeded removes a named namespace after its last value was deleted.
	RemoveUnneeded func(*linux_namespace.NetNamespace) error
	// ListenTo starts the watching of chains and includes a namespace.
	ListenTo func(*namespaces.Namespace)
	// RetrieveAfter lists the descriptors that must retrieve before chains are read.
	RetrieveAfter []string
	Log           *slog.Logger
}

// Chains manages the rule chains of a node.
type Chains struct {
	Options
	known known
	// mu is held while rule chains are changed or checked by a Watcher.
	mu sync.Mutex
}

func New(o Options) *Chains { return &Chains{Options: o, known: known{chains: map[string]placed{}}} }

// In returns the rule chains of a namespace by key.
func (c *Chains) In(ns namespaces.ID) map[string]*ruleChain { return c.known.in(ns) }

// known caches the configured chains. Each retrieve replaces it.
type known struct {
	mu     sync.Mutex
	chains map[string]placed // by key
}

type placed struct {
	value *ruleChain
	ns    namespaces.ID
}

func (k *known) put(key string, v *ruleChain, ns namespaces.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.chains[key] = placed{v, ns}
}

func (k *known) remove(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.chains, key)
}

func (k *known) clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	clear(k.chains)
}

func (k *known) in(ns namespaces.ID) map[string]*ruleChain {
	k.mu.Lock()
	defer k.mu.Unlock()
	chains := map[string]*ruleChain{}
	for key, c := range k.chains {
		if c.ns == ns {
			chains[key] = c.value
		}
	}
	return chains
}

func (k *known) namespaces() map[namespaces.ID]*linux_namespace.NetNamespace {
	k.mu.Lock()
	defer k.mu.Unlock()
	refs := map[namespaces.ID]*linux_namespace.NetNamespace{}
	for _, c := range k.chains {
		refs[c.ns] = c.value.GetNamespace()
	}
	return refs
}
