package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	linux_iptables "github.com/contiv/contiv/api/ligato/linux/iptables"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

// retrieve reads our chains in the agent's namespace, in those of expected chains, of our
// interfaces and of microservices.
func (c *Chains) retrieve(ctx context.Context, expected []ruleChainItem) ([]ruleChainItem, error) {
	refs := c.Inhabited()
	maps.Copy(refs, c.known.namespaces())
	refs[c.Namespaces.Own.ID] = nil
	c.known.clear()
	items, err := c.read(ctx, expected, refs)
	if err != nil {
		return nil, err
	}
	for _, item := range items {
		if ns, err := c.Namespaces.Identify(item.Value.GetNamespace()); err == nil {
			c.known.put(item.Key, item.Value, ns)
		}
	}
	return items, nil
}

func (c *Chains) retrieveKeys(ctx context.Context, expected []ruleChainItem) ([]ruleChainItem, error) {
	items, err := c.read(ctx, expected, map[namespaces.ID]*linux_namespace.NetNamespace{})
	wanted := make(map[string]bool, len(expected))
	for _, item := range expected {
		wanted[item.Key] = true
	}
	return slices.DeleteFunc(items, func(item ruleChainItem) bool { return !wanted[item.Key] }), err
}

// read reads the given namespaces and those of the expected chains.
func (c *Chains) read(ctx context.Context, expected []ruleChainItem, refs map[namespaces.ID]*linux_namespace.NetNamespace) ([]ruleChainItem, error) {
	wanted := map[namespaces.ID]map[string]*ruleChain{} // by logical name
	for _, item := range expected {
		id, err := c.Namespaces.Identify(item.Value.GetNamespace())
		if errors.Is(err, namespaces.ErrGone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("retrieve rule chain %q: %w", item.Value.GetName(), err)
		}
		refs[id] = item.Value.GetNamespace()
		if wanted[id] == nil {
			wanted[id] = map[string]*ruleChain{}
		}
		wanted[id][item.Value.GetName()] = item.Value
	}
	found := map[string]ruleChainItem{}
	for id, ref := range refs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := c.readFirewalls(ctx, ref, func(v *ruleChain, t ipTable) {
			want := wanted[id][v.GetName()]
			v.Namespace = ref
			if v = describeRuleChain(v, t, want); v == nil {
				return
			}
			key := models.Key(v)
			// If several chains have one name, the one in the expected place wins.
			if _, twice := found[key]; !twice || want != nil && samePlace(v, want) {
				found[key] = ruleChainItem{Key: key, Value: v, Origin: kvscheduler.FromNB}
			}
		})
		if err != nil && !errors.Is(err, namespaces.ErrGone) {
			return nil, fmt.Errorf("retrieve rule chains: %w", err)
		}
	}
	items := make([]ruleChainItem, 0, len(found))
	for _, item := range found {
		items = append(items, item)
	}
	slices.SortFunc(items, func(a, b ruleChainItem) int { return strings.Compare(a.Key, b.Key) })
	return items, nil
}

// readFirewalls calls read with each chain of ours in a namespace, and its table.
func (c *Chains) readFirewalls(ctx context.Context, ref *linux_namespace.NetNamespace, read func(*ruleChain, ipTable)) error {
	ns, err := c.Namespaces.Acquire(ref)
	if err != nil {
		return err
	}
	defer c.Namespaces.Release(ns)
	for protocol := range linux_iptables.RuleChain_Protocol_name {
		f := &firewall{ns: ns, protocol: linux_iptables.RuleChain_Protocol(protocol)}
		tables, err := f.tables(ctx)
		if err != nil {
			return fmt.Errorf("in %s: %w", ns.Name, err)
		}
		for name, t := range tables {
			table, known := linux_iptables.RuleChain_Table_value[strings.ToUpper(name)]
			if !known {
				continue
			}
			for chain, content := range t {
				mark, ours := content.mark()
				if !ours {
					continue
				}
				v := &ruleChain{
					Name: mark.name, Protocol: f.protocol, Table: linux_iptables.RuleChain_Table(table),
					ChainType: mark.chainType, DefaultPolicy: mark.policy, Rules: content.contents(),
				}
				if mark.chainType == linux_iptables.RuleChain_CUSTOM {
					v.ChainName = chain
				}
				if ChainName(v) == chain {
					c.ListenTo(ns)
					read(v, t)
				}
			}
		}
	}
	return nil
}

// describeRuleChain returns the chain as found. If it matches the wanted chain, it has the wanted
// rule texts. It is nil if no jump leads to a wanted chain.
func describeRuleChain(v *ruleChain, t ipTable, want *ruleChain) *ruleChain {
	if want == nil || !samePlace(v, want) {
		return v
	}
	c := t[ChainName(v)]
	v.Namespace, v.Interfaces, v.ChainName = want.GetNamespace(), want.GetInterfaces(), want.GetChainName()
	if mark, _ := c.mark(); mark.seal == sealOf(want.GetRules(), c.contents()) {
		v.Rules = want.GetRules()
	}
	builtin := builtinChain(v)
	if builtin == "" {
		return v
	}
	if !slices.Contains(t.jumps(builtin), ChainName(v)) {
		return nil
	}
	if v.GetDefaultPolicy() != linux_iptables.RuleChain_NONE {
		v.DefaultPolicy = linux_iptables.RuleChain_Policy(linux_iptables.RuleChain_Policy_value[t[builtin].policy])
	}
	return v
}
