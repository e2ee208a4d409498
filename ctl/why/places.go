package why

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/ctl/text"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/nodesync"
)

// Place is one end of a path.
type Place struct {
	// Name for people: "pod default/web", "node node1", or the address.
	Name    string `json:"name"`
	Address string `json:"address"`
	// Node on which it is, or which it is; empty if unknown, or outside of the cluster.
	Node string `json:"node,omitempty"`
	// others has its further addresses.
	others []netip.Addr
	// ports of a service, as in "80/tcp".
	ports []string
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

// Places are those of a cluster, by the names of pods with namespaces, and of nodes.
type Places map[string]Place

// Resolve finds the places that words name: addresses, pods as NAME or NAMESPACE/NAME, nodes, and services, as
// svc/NAME or svc/NAMESPACE/NAME; "svc/" may be left out where no pod and no node has the name. A
// name without a namespace names a pod in the given namespace, if there is one, else the only pod of
// that name. The pods of agents that do not answer are unknown. It returns all that are known, too.
func Resolve(ctx context.Context, agents []*target.Agent, namespace string, words ...string) ([]Place, Places, error) {
	pods := target.GetAll[ipnet.PodsReport](ctx, agents, ipnet.PodsURL, nil)
	nodes := target.GetAll[nodesync.NodesReport](ctx, agents, nodesync.NodesURL, nil)
	known := Places{}
	var silent, alone []string
	for _, a := range nodes {
		for _, n := range a.Value.Nodes {
			if addresses := parse(append(slices.Clone(n.VPPIPs), n.MgmtIPs...)); len(addresses) > 0 {
				known[n.Name] = Place{Name: "node " + n.Name, Address: addresses[0].String(), Node: n.Name, others: addresses[1:]}
			}
		}
	}
	for _, a := range pods {
		switch {
		case errors.Is(a.Err, target.ErrNotServed):
			alone = append(alone, a.Agent.Name)
		case a.Err != nil:
			silent = append(silent, a.Agent.Name)
		}
		for _, pod := range a.Value.Pods {
			if addresses := parse(pod.IPs); len(addresses) > 0 {
				known[pod.Namespace+"/"+pod.Name] = Place{Name: "pod " + pod.Namespace + "/" + pod.Name, Address: addresses[0].String(), Node: a.Value.Node, others: addresses[1:]}
			}
		}
	}
	var places []Place
	for _, word := range words {
		if name, is := strings.CutPrefix(word, "svc/"); is {
			place, err := findService(ctx, agents, namespace, name)
			if err != nil {
				return nil, nil, err
			}
			places = append(places, place)
			continue
		}
		place, err := known.find(namespace, word)
		if err != nil {
			if place, notFound := findService(ctx, agents, namespace, word); notFound == nil {
				places = append(places, place)
				continue
			}
			if len(silent) > 0 {
				err = fmt.Errorf("%w (no answer from %s, whose pods are not known: give the address of the pod)", err, strings.Join(silent, ", "))
			}
			if len(alone) > 0 {
				err = fmt.Errorf("%w (agents without Kubernetes, such as %s, know none: give addresses)", err, alone[0])
			}
			return nil, nil, err
		}
		places = append(places, place)
	}
	return places, known, sameVersion(places)
}

// parse returns addresses without prefix lengths, and leaves out invalid ones.
func parse(texts []string) (list []netip.Addr) {
	for _, t := range texts {
		host, _, _ := strings.Cut(t, "/")
		if addr, err := netip.ParseAddr(host); err == nil {
			list = append(list, addr)
		}
	}
	return list
}

// at returns the place that has an address.
func (known Places) at(addr netip.Addr) Place {
	for _, p := range known {
		if p.addr() == addr || slices.Contains(p.others, addr) {
			p.Address, p.others = addr.String(), nil
			return p
		}
	}
	return Place{Name: addr.String(), Address: addr.String()}
}

func (known Places) find(namespace, word string) (Place, error) {
	if addr, err := netip.ParseAddr(word); err == nil {
		return known.at(addr), nil
	}
	for _, name := range []string{namespace + "/" + word, word} {
		if p, ok := known[name]; ok {
			return p, nil
		}
	}
	var found, names []string
	for name := range known {
		names = append(names, name)
		if strings.HasSuffix(name, "/"+word) && namespace == "" {
			found = append(found, name)
		}
	}
	slices.Sort(names)
	slices.Sort(found)
	switch {
	case len(found) == 1:
		return known[found[0]], nil
	case len(found) > 1:
		return Place{}, fmt.Errorf("%q means several pods: %s", word, strings.Join(found, ", "))
	}
	if word == "outside" {
		return Place{}, errors.New("outside of the cluster, places have no names: write the address of one, such as 203.0.113.10")
	}
	return Place{}, text.Hinted(fmt.Errorf("there is no pod and no node %q", word), word, names)
}

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
				x.this.Address = addr.String()
				return nil
			}
		}
	}
	return fmt.Errorf("%v and %v have no IP version in common", *a, *b)
}

// Port parses PORT, PORT/tcp or PORT/udp.
func Port(word string) (protocol string, port uint16, err error) {
	number, protocol, _ := strings.Cut(word, "/")
	if protocol = strings.ToLower(protocol); protocol == "" {
		protocol = "tcp"
	}
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n == 0 || protocol != "tcp" && protocol != "udp" {
		return "", 0, fmt.Errorf("%q is no port: write 80, 80/tcp or 53/udp", word)
	}
	return protocol, uint16(n), nil
}
