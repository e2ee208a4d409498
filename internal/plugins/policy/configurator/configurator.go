package configurator

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/api/contiv/policy"
	"github.com/contiv/contiv/internal/plugins/policy/cache"
)

// Pods is a selection that lists refer to.
type Pods struct {
	Scope    cache.Scope
	Selector cache.Selector
}

// Set returns the name of the address set of the pods.
func (p Pods) Set() string { return SetName(cache.Key(p.Scope, p.Selector)) }

// SetName returns the name of the address set of the selection with a cache.Key.
func SetName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "pods-" + hex.EncodeToString(sum[:10])
}

// NodesSet returns the name of the address set of the nodes that a selector selects.
func NodesSet(selector cache.Selector) string {
	sum := sha256.Sum256([]byte(selector.String()))
	return "nodes-" + hex.EncodeToString(sum[:10])
}

// NamedPort identifies container ports by name.
type NamedPort struct {
	Protocol filter.Protocol
	Name     string
}

// Set returns the name of the endpoint set of all container ports with this name.
func (p NamedPort) Set() string {
	return fmt.Sprintf("port-%s-%s", map[filter.Protocol]string{filter.Protocol_TCP: "tcp", filter.Protocol_UDP: "udp", filter.Protocol_SCTP: "sctp"}[p.Protocol], p.Name)
}

// Tier is the tier of a policy.
type Tier int

// Tiers in evaluation order. A network policy decides about all connections of its subjects.
// Policies of the other tiers may leave a connection to the next tier.
const (
	Admin Tier = iota
	Namespaced
	Baseline
)

// String returns the tier's name in cluster network policies.
func (t Tier) String() string { return [...]string{"Admin", "NetworkPolicy", "Baseline"}[t] }

// Lists contains the access lists of a policy.
type Lists struct {
	Tier Tier
	// Priority orders the policies of a tier, lowest first, then by name.
	Priority int32
	Name     string
	Subjects Pods
	// Ingress and Egress are nil if the policy does not apply to the direction.
	Ingress, Egress *filter.AccessList
	// Peers, Nodes and Ports are the sets that the lists refer to.
	Peers []Pods
	Nodes []cache.Selector
	Ports []NamedPort
	// Invalid describes the invalid parts and their effect. After maxInvalid of them, it ends with
	// the number of all others.
	Invalid []string
}

const maxInvalid = 10

// List returns the list for a direction.
func (l *Lists) List(direction filter.AccessList_Direction) *filter.AccessList {
	if direction == filter.AccessList_EGRESS {
		return l.Egress
	}
	return l.Ingress
}

// ListName returns the name of a policy's list. A cluster network policy has no namespace.
func ListName(namespace, name string, direction filter.AccessList_Direction) string {
	policy := "np/" + namespace + "/" + name
	if namespace == "" {
		policy = "cnp/" + name
	}
	if direction == filter.AccessList_EGRESS {
		return policy + "/egress"
	}
	return policy + "/ingress"
}

// IsPolicy reports whether the named list belongs to a policy.
func IsPolicy(list string) bool {
	return strings.HasPrefix(list, "np/") || strings.HasPrefix(list, "cnp/")
}

// Isolating reports whether the named list belongs to a network policy. A connection that no such
// list allows is denied.
func Isolating(list string) bool { return strings.HasPrefix(list, "np/") }

// NetworkPolicy translates a policy into lists. Its valid parts apply. Invalid parts are reported
// in Invalid and allow nothing. If the pod selector is partly invalid, the policy isolates all pods
// selected by the rest.
func NetworkPolicy(p *policy.Policy) *Lists {
	w := writer{namespace: p.GetNamespace(), name: p.GetName(), peers: map[string]bool{}, ports: map[NamedPort]bool{}}
	w.out.Tier, w.out.Name = Namespaced, p.GetName()
	for _, text := range p.GetInvalid() {
		w.invalid("%s", text)
	}
	selector, err := cache.SelectorOf(p.GetPods())
	w.out.Subjects = Pods{Scope: cache.Scope{Namespace: p.GetNamespace()}, Selector: selector}
	if err != nil {
		w.onlyDeny = true
		w.invalid("spec.podSelector: %v; the policy isolates all pods that the rest of the selector selects, and allows nothing", err)
	}
	if n := partsOf(p); n > MaxParts {
		return w.closed(p, n)
	}
	before := w
	ingress, egress := Isolates(p)
	if ingress {
		w.out.Ingress = w.list(filter.AccessList_INGRESS)
		for i, r := range p.GetIngressRule() {
			w.rule(w.out.Ingress, ruleField(filter.AccessList_INGRESS, i), "from", r.GetFrom(), r.GetPort())
		}
	}
	if egress {
		w.out.Egress = w.list(filter.AccessList_EGRESS)
		for i, r := range p.GetEgressRule() {
			w.rule(w.out.Egress, ruleField(filter.AccessList_EGRESS, i), "to", r.GetTo(), r.GetPort())
		}
	}
	if n := w.out.Size(); n > MaxParts {
		return before.closed(p, n)
	}
	return &w.out
}

// Isolates returns the directions that the policy applies to.
func Isolates(p *policy.Policy) (ingress, egress bool) {
	switch p.GetPolicyType() {
	case policy.Policy_INGRESS:
		return true, false
	case policy.Policy_EGRESS:
		return false, true
	case policy.Policy_INGRESS_AND_EGRESS:
		return true, true
	}
	return true, len(p.GetEgressRule()) > 0
}

type writer struct {
	namespace, name string
	out             Lists
	peers           map[string]bool
	ports           map[NamedPort]bool
	onlyDeny        bool
	more            int
}

func (w *writer) invalid(format string, args ...any) {
	if len(w.out.Invalid) < maxInvalid {
		w.out.Invalid = append(w.out.Invalid, fmt.Sprintf(format, args...))
		return
	}
	w.more++
	w.out.Invalid = append(w.out.Invalid[:maxInvalid], fmt.Sprintf("%d more invalid parts", w.more))
}

func (w *writer) list(direction filter.AccessList_Direction) *filter.AccessList {
	description := "NetworkPolicy " + w.namespace + "/" + w.name
	if w.namespace == "" {
		description = fmt.Sprintf("ClusterNetworkPolicy %s (tier %v, priority %d)", w.name, w.out.Tier, w.out.Priority)
	}
	return &filter.AccessList{Name: ListName(w.namespace, w.name, direction), Description: description, Direction: direction}
}

// rule adds nothing if the rule cannot match. field is the name of the peers' field.
func (w *writer) rule(list *filter.AccessList, name, field string, peers []*policy.Policy_Peer, ports []*policy.Policy_Port) {
	r := &filter.AccessList_Rule{Name: name}
	var networks []netip.Prefix
	for i, peer := range peers {
		pods, block, err := w.peer(peer)
		if err != nil {
			w.invalid("spec.%s.%s[%d]%v; it allows nothing", name, field, i, err)
			continue
		}
		if networks = append(networks, block...); pods != nil {
			r.AddressSets = append(r.AddressSets, w.refer(*pods))
		}
	}
	for _, network := range Disjoint(networks) {
		r.Networks = append(r.Networks, network.String())
	}
	for i, port := range ports {
		if err := w.port(r, port); err != nil {
			w.invalid("spec.%s.ports[%d]%v; it allows nothing", name, i, err)
		}
	}
	if w.onlyDeny || len(peers) > 0 && len(r.AddressSets) == 0 && len(r.Networks) == 0 || len(ports) > 0 && len(r.Ports) == 0 && len(r.EndpointSets) == 0 {
		return
	}
	r.AddressSets = unique(r.AddressSets)
	r.EndpointSets = unique(r.EndpointSets)
	list.Rules = append(list.Rules, r)
}

func unique[T cmp.Ordered](list []T) []T {
	slices.Sort(list)
	return slices.Compact(list)
}

// Errors continue the path of the peer.
func (w *writer) peer(peer *policy.Policy_Peer) (*Pods, []netip.Prefix, error) {
	selects := peer.GetNamespaces() != nil || peer.GetPods() != nil
	switch block := peer.GetIpBlock(); {
	case selects == (block != nil):
		return nil, nil, errors.New(": exactly one of ipBlock and selectors is required")
	case block != nil:
		networks, err := BlockOf(block)
		return nil, networks, err
	}
	pods := &Pods{Scope: cache.Scope{Namespace: w.namespace}}
	var err error
	if pods.Selector, err = cache.SelectorOf(peer.GetPods()); err != nil {
		return nil, nil, fmt.Errorf(".podSelector: %w", err)
	}
	if peer.GetNamespaces() != nil {
		namespaces, err := cache.SelectorOf(peer.GetNamespaces())
		if err != nil {
			return nil, nil, fmt.Errorf(".namespaceSelector: %w", err)
		}
		pods.Scope = cache.Scope{Namespaces: namespaces}
	}
	return pods, nil, nil
}

func (w *writer) refer(pods Pods) string {
	name := pods.Set()
	if !w.peers[name] {
		w.peers[name] = true
		w.out.Peers = append(w.out.Peers, pods)
	}
	return name
}

// Errors continue the path of the port.
func (w *writer) port(r *filter.AccessList_Rule, port *policy.Policy_Port) error {
	protocol, known := protocols[port.GetProtocol()]
	number, end := port.GetPort().GetNumber(), port.GetEndPort()
	switch named := port.GetPort().GetType() == policy.Policy_Port_PortNameOrNumber_NAME; {
	case !known:
		return errors.New(".protocol: must be TCP, UDP or SCTP")
	case end != 0 && (port.GetPort() == nil || named):
		return errors.New(".endPort: requires a numeric port")
	case port.GetPort() == nil:
		r.Ports = append(r.Ports, &filter.AccessList_Ports{Protocol: protocol})
	case named && port.GetPort().GetName() == "":
		return errors.New(".port: an empty name")
	case named:
		w.named(r, NamedPort{protocol, port.GetPort().GetName()})
	case number < 1 || number > 65535:
		return fmt.Errorf(".port: %d is not in 1 to 65535", number)
	case end != 0 && (end < number || end > 65535):
		return fmt.Errorf(".endPort: %d is not in %d to 65535", max(end, 0), number)
	default:
		r.Ports = append(r.Ports, &filter.AccessList_Ports{Protocol: protocol, First: uint32(number), Last: uint32(max(number, end))})
	}
	return nil
}

func (w *writer) named(r *filter.AccessList_Rule, port NamedPort) {
	if !w.ports[port] {
		w.ports[port] = true
		w.out.Ports = append(w.out.Ports, port)
	}
	r.EndpointSets = append(r.EndpointSets, port.Set())
}

var protocols = map[policy.Policy_Port_Protocol]filter.Protocol{
	policy.Policy_Port_TCP: filter.Protocol_TCP, policy.Policy_Port_UDP: filter.Protocol_UDP, policy.Policy_Port_SCTP: filter.Protocol_SCTP,
}
