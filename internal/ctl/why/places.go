package why

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

// Place is one end of a path.
type Place struct {
	// Name for output: "pod default/web", "node node1", or the address.
	Name    string `json:"name"`
	Address string `json:"address"`
	// Node of the place, or the node itself; empty if unknown or outside the cluster.
	Node string `json:"node,omitempty"`
	// others has its further addresses.
	others []netip.Addr
	// ports of a service.
	ports []servicePort
	// onHost: it is a pod on its node's network.
	onHost bool
	// process: it stands for processes of the node itself, which send from the address that the route says.
	process bool
}

func (p Place) addr() netip.Addr { return netip.MustParseAddr(p.Address) }

func (p Place) String() string {
	switch {
	case p.Name == p.Address:
		return p.Name
	case p.Node == "" || strings.HasPrefix(p.Name, "node "):
		return fmt.Sprintf("%s (%s)", p.Name, p.Address)
	}
	return fmt.Sprintf("%s (%s on %s)", p.Name, p.Address, p.Node)
}

// Places maps the names of pods, with namespaces, and nodes to the places of a cluster.
type Places map[string]Place

// Resolve finds the places named by words: addresses; pods as NAME or NAMESPACE/NAME; nodes; and
// services as svc/NAME or svc/NAMESPACE/NAME, without "svc/" if no pod or node has the name. The
// prefixes pod/ and node/ are unambiguous. A name without namespace is a pod in the given
// namespace, or else the only pod of that name. For agents that do not answer, the pods are those
// in Kubernetes, as known to other agents. It also returns all known places.
func Resolve(ctx context.Context, agents []*target.Agent, namespace string, words ...string) ([]Place, Places, error) {
	r := resolver{agents: agents, namespace: namespace, known: Places{}}
	r.look(ctx)
	var places []Place
	for _, word := range words {
		place, err := r.place(ctx, word)
		if err != nil {
			return nil, nil, err
		}
		places = append(places, place)
	}
	if len(places) > 0 && places[0].isService() {
		return nil, nil, fmt.Errorf("a %s sends no packets: use one of its pods as FROM", places[0].Name)
	}
	return places, r.known, sameVersion(places)
}

// resolver finds the places named by words.
type resolver struct {
	agents    []*target.Agent
	namespace string
	known     Places
	// silent agents do not answer; alone ones run without Kubernetes.
	silent, alone []string
}

// look asks all agents for the places on their nodes.
func (r *resolver) look(ctx context.Context) {
	search, end := target.Search(ctx)
	defer end()
	var pods []target.Answer[ipnet.PodsReport]
	var nodes []target.Answer[nodesync.NodesReport]
	var both sync.WaitGroup
	both.Go(func() { pods = target.GetAll[ipnet.PodsReport](search, r.agents, ipnet.PodsURL, nil) })
	both.Go(func() { nodes = target.GetAll[nodesync.NodesReport](search, r.agents, nodesync.NodesURL, nil) })
	both.Wait()
	for _, a := range nodes {
		for _, n := range a.Value.Nodes {
			if addresses := parse(append(slices.Clone(n.VPPIPs), n.MgmtIPs...)); len(addresses) > 0 {
				r.known[n.Name] = Place{Name: "node " + n.Name, Address: addresses[0].String(), Node: n.Name, others: addresses[1:], process: true}
			}
		}
	}
	for _, a := range pods {
		switch {
		case errors.Is(a.Err, target.ErrNotServed):
			r.alone = append(r.alone, a.Agent.Name)
		case a.Err != nil:
			r.silent = append(r.silent, a.Agent.Name)
		}
		for _, pod := range a.Value.Pods {
			if pod.Former {
				continue // the pod is elsewhere
			}
			addresses := parse(pod.IPs)
			for _, further := range pod.CustomInterfaces {
				addresses = append(addresses, parse(further.IPs)...)
			}
			if len(addresses) > 0 {
				r.known[pod.Namespace+"/"+pod.Name] = podPlace(pod.Namespace+"/"+pod.Name, a.Value.Node, addresses)
			}
		}
	}
}

func podPlace(name, node string, addresses []netip.Addr) Place {
	return Place{Name: "pod " + name, Address: addresses[0].String(), Node: node, others: addresses[1:]}
}

// place returns the place named by a word.
func (r *resolver) place(ctx context.Context, word string) (Place, error) {
	if name, is := strings.CutPrefix(word, "svc/"); is {
		return findService(ctx, r.agents, r.namespace, name)
	}
	if name, is := strings.CutPrefix(word, "node/"); is {
		if place, ok := r.known[name]; ok && isNode(name) {
			return place, nil
		}
		return Place{}, text.Hinted(fmt.Errorf("unknown node %q", name), name, r.known.names(isNode))
	}
	name, mustBePod := strings.CutPrefix(word, "pod/")
	place, found, err := r.known.find(r.namespace, name, mustBePod)
	if err != nil || found && !r.guessed(place, name) {
		return place, err
	}
	pods, told := PodsInKubernetes(ctx, r.agents, r.namespace, name)
	if found {
		return place, r.doubt(place, name, pods, told)
	}
	switch len(pods) {
	case 0:
	case 1:
		return r.inKubernetes(ctx, pods[0], name)
	default:
		var names []string
		for _, p := range pods {
			names = append(names, p.Namespace+"/"+p.Name)
		}
		return Place{}, severalPods(name, names)
	}
	if !mustBePod {
		if place, err := findService(ctx, r.agents, r.namespace, name); err == nil {
			if len(r.silent) > 0 && !told {
				return Place{}, fmt.Errorf("%q is a service and may also be a pod of %s, where no agent answers: use svc/%s, or the pod's address", name, strings.Join(r.silent, ", "), name)
			}
			return place, nil
		}
	}
	return Place{}, r.notFound(name, mustBePod, told)
}

// guessed reports whether a place is the only known pod of a name, although silent agents may have
// another.
func (r *resolver) guessed(p Place, name string) bool {
	full, isPod := strings.CutPrefix(p.Name, "pod ")
	return len(r.silent) > 0 && isPod && r.namespace == "" && strings.HasSuffix(full, "/"+name)
}

// doubt returns an error if a guessed pod is not, or may not be, the only one of the name.
func (r *resolver) doubt(guessed Place, name string, pods []podmanager.PodReport, told bool) error {
	full := strings.TrimPrefix(guessed.Name, "pod ")
	if !told {
		silent := strings.Join(r.silent, ", ")
		return fmt.Errorf("%q is pod %s of %s, and may also be a pod of %s, where no agent answers: use %s, or set the namespace with -n", name, full, guessed.Node, silent, full)
	}
	names := []string{full}
	for _, p := range pods {
		if other := p.Namespace + "/" + p.Name; !slices.Contains(names, other) {
			names = append(names, other)
		}
	}
	if len(names) > 1 {
		return severalPods(name, names)
	}
	return nil
}

// inKubernetes returns the place of a pod that no agent reports.
func (r *resolver) inKubernetes(ctx context.Context, pod podmanager.PodReport, word string) (Place, error) {
	name := pod.Namespace + "/" + pod.Name
	if addresses := parse(pod.IPs); len(addresses) > 0 {
		place := podPlace(name, pod.Node, addresses)
		place.onHost, place.process = pod.HostNetwork, pod.HostNetwork
		return place, nil
	}
	err := fmt.Errorf("pod %s has no network yet: it is not scheduled to a node", name)
	if pod.Node != "" {
		err = fmt.Errorf("pod %s of node %s has no network yet, as far as Kubernetes knows", name, pod.Node)
	}
	if _, notFound := findService(ctx, r.agents, r.namespace, word); notFound == nil {
		err = fmt.Errorf("%w; for the service, use svc/%s", err, word)
	}
	return Place{}, err
}

// notFound returns the error for an unknown name, with the reasons why it may exist nevertheless.
func (r *resolver) notFound(name string, mustBePod, told bool) error {
	if name == "outside" {
		return errors.New("outside is not an endpoint: use an address outside of the cluster, such as 203.0.113.10")
	}
	err := text.Hinted(fmt.Errorf("unknown pod, node or service %q", name), name, r.known.names(func(string) bool { return true }))
	if mustBePod {
		err = text.Hinted(fmt.Errorf("unknown pod %q", name), name, r.known.names(func(name string) bool { return !isNode(name) }))
	}
	if len(r.silent) > 0 && !told {
		err = fmt.Errorf("%w (no answer from %s: for pods there, use the address of the pod)", err, strings.Join(r.silent, ", "))
	}
	if len(r.alone) > 0 {
		err = fmt.Errorf("%w (agents without Kubernetes, such as %s, have no names: use addresses)", err, r.alone[0])
	}
	return err
}

// PodsInKubernetes returns the pods in Kubernetes of a name, NAME or NAMESPACE/NAME, on all nodes.
// told reports whether an agent could answer; older agents and agents without Kubernetes cannot.
func PodsInKubernetes(ctx context.Context, agents []*target.Agent, namespace, word string) (pods []podmanager.PodReport, told bool) {
	if namespace != "" && !strings.Contains(word, "/") {
		word = namespace + "/" + word
	}
	for _, a := range target.GetAll[podmanager.Report](ctx, agents, podmanager.URL, url.Values{"name": {word}}) {
		told = told || a.Err == nil
		for _, pod := range a.Value.Pods {
			same := func(p podmanager.PodReport) bool { return p.Namespace == pod.Namespace && p.Name == pod.Name }
			if i := slices.IndexFunc(pods, same); i < 0 {
				pods = append(pods, pod)
			} else if len(pods[i].IPs) == 0 { // that agent is behind
				pods[i] = pod
			}
		}
	}
	return pods, told
}

// parse parses addresses, drops prefix lengths, and skips invalid ones.
func parse(texts []string) (list []netip.Addr) {
	for _, t := range texts {
		host, _, _ := strings.Cut(t, "/")
		if addr, err := kubeaddr.ParseAddr(host); err == nil {
			list = append(list, addr)
		}
	}
	return list
}

// with returns the places, adding pods' addresses on further interfaces.
func (known Places) with(interfaces []pathexplain.PodInterface) Places {
	all := maps.Clone(known)
	for _, at := range interfaces {
		p, ok := all[at.Pod]
		if !ok {
			p = podPlace(at.Pod, "", []netip.Addr{at.Address})
		}
		p.others = append(slices.Clip(p.others), at.Address)
		all[at.Pod] = p
	}
	return all
}

// at returns the place with an address.
func (known Places) at(addr netip.Addr) Place {
	for _, p := range known {
		if p.addr() == addr || slices.Contains(p.others, addr) {
			p.Address, p.others, p.process = addr.String(), nil, false
			return p
		}
	}
	return Place{Name: addr.String(), Address: addr.String()}
}

// find returns the place named by a word, or an error if several pods have the name.
func (known Places) find(namespace, word string, mustBePod bool) (place Place, found bool, err error) {
	if addr, err := kubeaddr.ParseAddr(word); err == nil && !mustBePod {
		return known.at(addr), true, nil
	}
	for _, name := range []string{namespace + "/" + word, word} {
		if p, ok := known[name]; ok && (!mustBePod || !isNode(name)) {
			return p, true, nil
		}
	}
	var names []string
	for name := range known {
		if strings.HasSuffix(name, "/"+word) && namespace == "" {
			names = append(names, name)
		}
	}
	switch len(names) {
	case 0:
		return place, false, nil
	case 1:
		return known[names[0]], true, nil
	}
	return place, false, severalPods(word, names)
}

func severalPods(word string, names []string) error {
	slices.Sort(names)
	return fmt.Errorf("%q matches several pods: %s", word, strings.Join(names, ", "))
}

// names returns the names of the places for which some is true.
func (known Places) names(some func(name string) bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if some(name) {
			names = append(names, name)
		}
	}
	return names
}

// isNode reports whether the name of a place is a node's.
func isNode(name string) bool { return !strings.Contains(name, "/") }

// sameVersion selects addresses of the same IP version for both places.
func sameVersion(places []Place) error {
	if len(places) != 2 {
		return nil
	}
	a, b := &places[0], &places[1]
	for _, x := range []struct{ this, other *Place }{{a, b}, {b, a}} {
		if x.this.addr().Is4() == x.other.addr().Is4() {
			return nil
		}
		for _, addr := range x.this.others {
			if addr.Is4() == x.other.addr().Is4() {
				x.this.others = append(slices.Clip(x.this.others), x.this.addr())
				x.this.Address = addr.String()
				return nil
			}
		}
	}
	return fmt.Errorf("%v and %v have no IP version in common", *a, *b)
}

// parsePort parses PORT, PORT/tcp, PORT/udp or PORT/sctp.
func parsePort(word string) (protocol string, port uint16, err error) {
	number, protocol, _ := strings.Cut(word, "/")
	if protocol = strings.ToLower(protocol); protocol == "" {
		protocol = "tcp"
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 || protocol != "tcp" && protocol != "udp" && protocol != "sctp" {
		return "", 0, fmt.Errorf("%q is not a port: use 80, 80/tcp, 53/udp or 3868/sctp", word)
	}
	return protocol, uint16(n), nil
}
