package iptables

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	linux_iptables "github.com/contiv/contiv/api/ligato/linux/iptables"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/linux/microservices"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Descriptor is the name of the descriptor of iptables chains.
const Descriptor = "linux-ipt-rulechain-descriptor"

const (
	// ownChainPrefix starts the names of the chains to which built-in chains jump.
	ownChainPrefix = "CONTIV-"
	// maxChainName is XT_EXTENSION_MAXNAMELEN, less the terminating zero.
	maxChainName = 28
)

type (
	noMetadata    = kvscheduler.NoMetadata
	ruleChainItem = kvscheduler.Item[*ruleChain, noMetadata]
)

// Descriptor describes rule chains for iptables. Each is a separate chain in the kernel. A CUSTOM
// chain has its own name; any other has a name with ownChainPrefix, and the built-in chain jumps to
// it. Foreign rules in the built-in chains stay.
func (c *Chains) Descriptor() kvscheduler.Descriptor[*ruleChain, noMetadata] {
	return kvscheduler.Descriptor[*ruleChain, noMetadata]{
		Name:               Descriptor,
		Keys:               kvscheduler.KeySpace{Prefix: models.IPTablesChain.KeyPrefix()},
		NB:                 true,
		Equivalent:         func(_ string, old, new *ruleChain) bool { return equivalentRuleChains(old, new) },
		Validate:           func(_ string, v *ruleChain) error { return validateRuleChain(v) },
		Create:             c.create,
		Delete:             c.delete,
		Update:             c.update,
		UpdateWithRecreate: func(_ string, old, new *ruleChain, _ noMetadata) bool { return !samePlace(old, new) },
		Retrieve:           c.retrieve,
		RetrieveKeys:       c.retrieveKeys,
		RetrieveAfter:      c.RetrieveAfter,
		Retriable: func(err error) bool {
			return !errors.Is(err, namespaces.ErrGone) && !errors.Is(err, kvscheduler.ErrUnsupported)
		},
		DerivedValues: deriveFromRuleChain,
		Dependencies:  func(_ string, v *ruleChain) []kvscheduler.Dependency { return ruleChainDependencies(v) },
	}
}

func tableName(v *ruleChain) string { return strings.ToLower(v.GetTable().String()) }

// builtinChain returns the chain that jumps to ours, "" for a custom chain.
func builtinChain(v *ruleChain) string {
	if v.GetChainType() == linux_iptables.RuleChain_CUSTOM {
		return ""
	}
	return v.GetChainType().String()
}

// ChainName returns the name of the chain in the kernel.
func ChainName(v *ruleChain) string {
	if v.GetChainType() == linux_iptables.RuleChain_CUSTOM {
		return v.GetChainName()
	}
	sum := sha256.Sum256([]byte(v.GetName()))
	return ownChainPrefix + hex.EncodeToString(sum[:8])
}

// samePlace reports whether old and new differ in rules and policy only.
func samePlace(old, new *ruleChain) bool {
	return namespaces.Same(old.GetNamespace(), new.GetNamespace()) && old.GetProtocol() == new.GetProtocol() &&
		old.GetTable() == new.GetTable() && old.GetChainType() == new.GetChainType() && ChainName(old) == ChainName(new)
}

func equivalentRuleChains(old, new *ruleChain) bool {
	return samePlace(old, new) && old.GetDefaultPolicy() == new.GetDefaultPolicy() &&
		slices.Equal(normalRules(old.GetRules()), normalRules(new.GetRules()))
}

// customChainKey is derived from CUSTOM chains; rules that jump to them depend on it.
func customChainKey(v *ruleChain, chain string) string {
	ns := v.GetNamespace()
	where := "own"
	if ns.GetType() != linux_namespace.NetNamespace_UNDEFINED {
		where = fmt.Sprintf("%v/%s", ns.GetType(), strings.Trim(ns.GetReference(), "/"))
	}
	return fmt.Sprintf("linux/iptables/%v/%s/chain/%s/namespace/%s", v.GetProtocol(), tableName(v), chain, where)
}

func deriveFromRuleChain(_ string, v *ruleChain) []kvscheduler.KeyValue {
	if v.GetChainType() != linux_iptables.RuleChain_CUSTOM {
		return nil
	}
	return []kvscheduler.KeyValue{{Key: customChainKey(v, v.GetChainName()), Value: &emptypb.Empty{}}}
}

func ruleChainDependencies(v *ruleChain) (deps []kvscheduler.Dependency) {
	deps = microservices.Dependencies(v.GetNamespace())
	add := func(label, key string) {
		if !slices.ContainsFunc(deps, func(d kvscheduler.Dependency) bool { return d.Label == label }) {
			deps = append(deps, kvscheduler.Dependency{Label: label, Key: key})
		}
	}
	for _, name := range v.GetInterfaces() {
		add("interface-exists-"+name, models.LinuxInterfaceKey(name))
	}
	for _, rule := range v.GetRules() {
		if target := jumpTarget(rule); target != "" && !extensionTargets[target] {
			add("chain-exists-"+target, customChainKey(v, target))
		}
	}
	return deps
}

// extensionTargets lists the targets of iptables-extensions(8) and the verdicts. Every other target
// is a chain.
var extensionTargets = setOf("ACCEPT", "DROP", "RETURN", "QUEUE", "AUDIT", "CHECKSUM", "CLASSIFY", "CLUSTERIP", "CONNMARK",
	"CONNSECMARK", "CT", "DNAT", "DNPT", "DSCP", "ECN", "HL", "HMARK", "IDLETIMER", "LED", "LOG", "MARK", "MASQUERADE",
	"NETMAP", "NFLOG", "NFQUEUE", "NOTRACK", "RATEEST", "REDIRECT", "REJECT", "SECMARK", "SET", "SNAT", "SNPT", "SYNPROXY",
	"TCPMSS", "TCPOPTSTRIP", "TEE", "TOS", "TPROXY", "TRACE", "TTL", "ULOG")

func setOf(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, word := range words {
		set[word] = true
	}
	return set
}

// builtinChains lists the built-in chains of each table. All tables allow custom chains.
var builtinChains = map[linux_iptables.RuleChain_Table][]linux_iptables.RuleChain_ChainType{
	linux_iptables.RuleChain_FILTER: {linux_iptables.RuleChain_INPUT, linux_iptables.RuleChain_FORWARD, linux_iptables.RuleChain_OUTPUT},
	linux_iptables.RuleChain_NAT: {linux_iptables.RuleChain_PREROUTING, linux_iptables.RuleChain_INPUT, linux_iptables.RuleChain_OUTPUT,
		linux_iptables.RuleChain_POSTROUTING},
	linux_iptables.RuleChain_MANGLE: {linux_iptables.RuleChain_PREROUTING, linux_iptables.RuleChain_INPUT, linux_iptables.RuleChain_FORWARD,
		linux_iptables.RuleChain_OUTPUT, linux_iptables.RuleChain_POSTROUTING},
	linux_iptables.RuleChain_RAW:      {linux_iptables.RuleChain_PREROUTING, linux_iptables.RuleChain_OUTPUT},
	linux_iptables.RuleChain_SECURITY: {linux_iptables.RuleChain_INPUT, linux_iptables.RuleChain_FORWARD, linux_iptables.RuleChain_OUTPUT},
}

func validateRuleChain(v *ruleChain) error {
	invalid := func(field, format string, args ...any) error {
		return kvscheduler.NewInvalidValueError(fmt.Errorf(format, args...), field)
	}
	custom := v.GetChainType() == linux_iptables.RuleChain_CUSTOM
	chains, known := builtinChains[v.GetTable()]
	switch {
	case v.GetName() == "":
		return invalid("name", "rule chain has no name")
	case len(v.GetName()) > maxRuleChainName:
		return invalid("name", "name of %d bytes is longer than %d", len(v.GetName()), maxRuleChainName)
	case strings.ContainsFunc(v.GetName(), unicode.IsControl):
		return invalid("name", "name %q has control characters", v.GetName())
	case linux_iptables.RuleChain_Protocol_name[int32(v.GetProtocol())] == "":
		return invalid("protocol", "protocol %d is neither IPV4 nor IPV6", v.GetProtocol())
	case !known:
		return invalid("table", "table %d does not exist", v.GetTable())
	case custom:
		if err := validateChainName(v.GetChainName()); err != nil {
			return invalid("chain_name", "%w", err)
		}
	case !slices.Contains(chains, v.GetChainType()):
		return invalid("chain_type", "table %v has no chain %v, but CUSTOM chains and %v", v.GetTable(), v.GetChainType(), chains)
	}
	switch policy := v.GetDefaultPolicy(); {
	case policy == linux_iptables.RuleChain_NONE:
	case v.GetTable() != linux_iptables.RuleChain_FILTER:
		return invalid("default_policy", "only built-in chains of table FILTER have a default policy, not chains of table %v", v.GetTable())
	case custom:
		return invalid("default_policy", "only built-in chains have a default policy: end the rules with \"-j %v\" instead", policy)
	case policy != linux_iptables.RuleChain_ACCEPT && policy != linux_iptables.RuleChain_DROP:
		return invalid("default_policy", "%v is no policy of iptables: use ACCEPT or DROP, or a last rule with \"-j %v\"", policy, policy)
	}
	if err := models.ValidateNetNS(v.GetNamespace()); err != nil {
		return invalid("namespace", "%w", err)
	}
	for _, rule := range v.GetRules() {
		if err := validateRule(rule); err != nil {
			return invalid("rules", "%w", err)
		}
	}
	return nil
}

func validateChainName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("chain of type CUSTOM has no name: set chain_name")
	case len(name) > maxChainName:
		return fmt.Errorf("name %q of a chain is longer than %d bytes", name, maxChainName)
	case strings.ContainsAny(name, " \t\"'\\") || strings.ContainsFunc(name, unicode.IsControl) || strings.ContainsAny(name[:1], "-!:#*"):
		return fmt.Errorf("%q is no name for a chain: it has space, quotes or control characters, or begins with one of - ! : # *", name)
	case strings.HasPrefix(name, ownChainPrefix):
		return fmt.Errorf("names of chains that begin with %s are reserved, as %q", ownChainPrefix, name)
	case extensionTargets[name] || linux_iptables.RuleChain_ChainType_value[name] > 0:
		return fmt.Errorf("%s is a target or a built-in chain of iptables: give the chain another name", name)
	}
	return nil
}

func validateRule(rule string) error {
	if strings.ContainsFunc(rule, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		return fmt.Errorf("rule %q has control characters: each rule is one line", rule)
	}
	words, err := splitRule(rule)
	if err != nil {
		return err
	}
	if len(words) == 0 {
		return fmt.Errorf("a rule is empty")
	}
	if err := checkOptions(words); err != nil {
		return fmt.Errorf("rule %q has the %w: keep only matches and the target, such as \"-s 10.1.0.0/16 -j DROP\"", rule, err)
	}
	return nil
}

func (c *Chains) create(ctx context.Context, key string, v *ruleChain) (none noMetadata, err error) {
	return none, c.put(ctx, key, v, nil)
}

func (c *Chains) update(ctx context.Context, key string, old, v *ruleChain, none noMetadata) (noMetadata, error) {
	return none, c.put(ctx, key, v, old)
}

func (c *Chains) put(ctx context.Context, key string, v, old *ruleChain) error {
	err := c.change(v, c.Namespaces.AcquireOrMake, func(f *firewall) error {
		if err := f.change(ctx, tableName(v), func(t ipTable) (script, error) { return t.put(v, old.GetRules()) }); err != nil {
			return err
		}
		if err := f.change(ctx, tableName(v), func(t ipTable) (script, error) { return t.seal(v), nil }); err != nil {
			return err
		}
		c.known.put(key, v, f.ns.ID)
		c.ListenTo(f.ns)
		return nil
	})
	if err != nil {
		return fmt.Errorf("set rule chain %q: %w", v.GetName(), err)
	}
	return nil
}

func (c *Chains) delete(ctx context.Context, key string, v *ruleChain, _ noMetadata) error {
	err := c.change(v, c.Namespaces.Acquire, func(f *firewall) error {
		c.known.remove(key)
		return f.change(ctx, tableName(v), func(t ipTable) (script, error) { return t.remove(v) })
	})
	if errors.Is(err, namespaces.ErrGone) || rtnl.IsGone(err) {
		c.known.remove(key)
		return nil
	}
	if err == nil {
		err = c.RemoveUnneeded(v.GetNamespace())
	}
	if err != nil {
		return fmt.Errorf("delete rule chain %q: %w", v.GetName(), err)
	}
	return nil
}

// change calls change with the firewall of the chain. A Watcher never checks the chain during the
// change.
func (c *Chains) change(v *ruleChain, acquire func(*linux_namespace.NetNamespace) (*namespaces.Namespace, error), change func(*firewall) error) error {
	ns, err := acquire(v.GetNamespace())
	if err != nil {
		return err
	}
	defer c.Namespaces.Release(ns)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := change(&firewall{ns: ns, protocol: v.GetProtocol()}); err != nil {
		return fmt.Errorf("in %s: %w", ns.Name, err)
	}
	return nil
}
