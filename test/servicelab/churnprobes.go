package servicelab

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/pod"
	policies "github.com/contiv/contiv/internal/plugins/policy/oracle"
	"github.com/contiv/contiv/internal/plugins/service/oracle"
	"github.com/contiv/contiv/test/labtest"
)

type churnClient struct {
	client
	value *pod.Pod
	addrs []netip.Addr
}

func (c churnClient) addr(ipv6 bool) netip.Addr {
	return c.addrs[slices.IndexFunc(c.addrs, func(a netip.Addr) bool { return a.Is6() == ipv6 })]
}

func (c *churn) lasting(t *testing.T) (list []churnClient) {
	t.Helper()
	for _, from := range c.clients {
		one := churnClient{client: from}
		switch {
		case from.pod:
			one.addrs = labtest.GlobalAddresses(t, from.netns)
			name := map[string]string{"a pod of the node": "mate", "the endpoint itself": "near", "a pod of another node": "other"}[from.who]
			one.value = &pod.Pod{Name: name, Namespace: "default", Phase: pod.Pod_RUNNING, NodeName: from.node, Label: []*pod.Pod_Label{{Key: "app", Value: name}}}
		case from.node != "":
			one.addrs = c.about[from.node].Addresses
		default:
			one.addrs = []netip.Addr{netip.MustParseAddr("192.168.16.254"), netip.MustParseAddr("fd16::fe")}
		}
		list = append(list, one)
	}
	return list
}

// probe is a connection of a client to a service or a host port.
type probe struct {
	from    churnClient
	kind    string
	number  int // of the service
	network string
	// node is the node of the translating vswitch: the client's node for inside clients.
	node   string
	inside bool
	to     netip.AddrPort
	host   *churnPod // the pod with the host port
}

func (p probe) String() string {
	return fmt.Sprintf("%s (%v) to a %s, %v by %s", p.from.who, p.from.addr(p.to.Addr().Is6()), p.kind, p.to, p.network)
}

// outcome is the permitted result of a probe.
type outcome struct {
	// names lists endpoints that must answer.
	names []string
	// may lists endpoints that may answer.
	may []string
	// denied is set if a policy may deny some connections.
	denied bool
	// unanswered excludes all of the above: connections are refused, ignored, or either of them if
	// it is "".
	unanswered *string
	// seen is the source address that the endpoint sees: "own", "hidden" or "" for any.
	seen     string
	affinity bool
	skip     bool
}

func (o outcome) String() string {
	if o.unanswered != nil {
		return fmt.Sprintf("no answer (%s)", *o.unanswered)
	}
	return fmt.Sprintf("answers of %v, perhaps %v, denied %t, seen %q, affinity %t", o.names, o.may, o.denied, o.seen, o.affinity)
}

func (c *churn) randomProbe() probe {
	froms := slices.Clone(c.from)
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		p := c.pods[name]
		froms = append(froms, churnClient{client{"pod " + p.id(), p.netns, p.GetNodeName(), true}, p.Pod, p.addrs})
	}
	p := probe{from: pick(c, froms...), number: pick(c, churnNumbers...), network: pick(c, "tcp", "tcp", "udp")}
	ipv6 := c.Chance(50)
	port := pick[uint16](c, 80, 80, 80, 81)
	p.kind = pick(c, "cluster IP", "cluster IP", "node port", "external IP", "load balancer", "host port")
	if p.from.node == "" && p.kind == "cluster IP" {
		p.kind = "node port"
	}
	p.node, p.inside = p.from.node, p.from.node != ""
	if p.node == "" {
		p.node = "node1" // follows the routes
	}
	node := pick(c, "node1", "node2")
	address := func() netip.Addr {
		addrs := c.about[node].Addresses
		return addrs[slices.IndexFunc(addrs, func(a netip.Addr) bool { return a.Is6() == ipv6 })]
	}
	switch p.kind {
	case "cluster IP":
		p.to = netip.AddrPortFrom(clusterIP(p.number, ipv6), port)
	case "external IP":
		p.to = netip.AddrPortFrom(at("198.51.100.", "2001:db8::a:", p.number, ipv6).Addr(), port)
	case "load balancer":
		p.to = netip.AddrPortFrom(at("198.51.101.", "2001:db8::b:", p.number, ipv6).Addr(), port)
	case "node port":
		p.to = netip.AddrPortFrom(address(), 30000+(port-80)*100+uint16(p.number))
		p.node, p.inside = node, p.from.node == node
	case "host port":
		name := pick(c, "a", "b", "c") + node[4:]
		p.to = netip.AddrPortFrom(address(), uint16(churnHostPort(name)))
		p.node, p.inside, p.host, p.network = node, p.from.node == node, c.pods[name], "tcp"
	}
	return p
}

// oracle returns the oracle of a service on a node.
func (c *churn) oracle(number int, node string) oracle.Service {
	o := oracle.Service{Service: c.all[number], Node: c.about[node]}
	for _, name := range slices.Sorted(maps.Keys(c.slices)) {
		if s := c.slices[name]; s.GetService() == fmt.Sprint("s", number) {
			o.Slices = append(o.Slices, s)
		}
	}
	return o
}

// expected returns the oracles' outcome of a probe.
func (c *churn) expected(p probe) (o outcome) {
	ipv6 := p.to.Addr().Is6()
	isolated := func(value *pod.Pod) bool {
		return value != nil && slices.ContainsFunc(slices.Collect(maps.Keys(c.Policies)), func(id string) bool { return strings.HasPrefix(id, value.GetNamespace()+"/") })
	}
	unanswered := func(how string) outcome {
		if isolated(p.from.value) || c.vpp && p.node == "node1" && (p.network == "udp" || p.inside && how == ignored) { // VPP refuses some connections
			how = ""
		}
		return outcome{unanswered: &how}
	}
	own := p.from.addr(ipv6)
	fate := oracle.Fate{}
	process := c.vpp && p.from.node == "node1" && !p.from.pod
	onVPP := c.vpp && p.node == "node1"
	closed := refused
	if onVPP {
		closed = "" // VPP does not answer on its own closed ports
	}
	if process && (ipv6 && p.kind != "cluster IP" || onVPP && len(c.all[p.number].GetLoadbalancerSourceRanges()) > 0) {
		return outcome{skip: true} // docs/design/services.md: the host's only IPv6 address is the one towards VPP
	}
	if p.kind == "host port" {
		if p.host == nil || len(p.host.GetContainer()[0].GetPort()) < 3 {
			return unanswered(closed)
		}
		to := p.host.addrs[slices.IndexFunc(p.host.addrs, func(a netip.Addr) bool { return a.Is6() == ipv6 })]
		fate = oracle.Fate{Verdict: oracle.Forward, To: map[string]bool{netip.AddrPortFrom(to, 80).String(): true}}
	} else {
		fate = c.oracle(p.number, p.node).Ask(oracle.Connection{Inside: p.inside && (!onVPP || p.kind == "cluster IP"), From: own, To: p.to, Protocol: strings.ToUpper(p.network)})
		o.affinity = c.all[p.number].GetSessionAffinity() == "ClientIP"
	}
	switch {
	case fate.Verdict == oracle.Refuse:
		return unanswered(refused)
	case fate.Verdict == oracle.Drop:
		return unanswered(ignored)
	case fate.Verdict == oracle.None && p.kind == "cluster IP":
		return unanswered(refused)
	case fate.Verdict == oracle.None && p.kind == "node port":
		return unanswered(closed)
	case fate.Verdict == oracle.None, p.from.pod && !p.inside && isolated(p.from.value):
		return outcome{skip: true}
	}
	switch outside := p.from.node == ""; {
	case p.kind == "host port":
	case p.inside && p.from.pod, outside && fate.Source:
		o.seen = "own"
	case outside:
		o.seen = "hidden"
	}
	if onVPP && p.kind != "cluster IP" && p.from.node != "" {
		o.seen = ""
	}
	cluster := c.cluster()
	for _, text := range slices.Sorted(maps.Keys(fate.To)) {
		end := netip.MustParseAddrPort(text)
		var target *churnPod
		for _, candidate := range c.pods {
			if slices.Contains(candidate.addrs, end.Addr()) {
				target = candidate
			}
		}
		name := fmt.Sprintf("%s:%d", target.GetName(), end.Port())
		conn := policies.Connection{From: policies.End{Pod: p.from.value, Addr: own}, To: policies.End{Pod: target.Pod, Addr: end.Addr()}, Protocol: strings.ToUpper(p.network), Port: int(end.Port())}
		here := target.GetNodeName() == p.node
		known := p.inside && (p.from.pod || here) || !p.inside && !p.from.pod && (fate.Source || here && !onVPP) // the policies' view of the client address
		switch {
		case !isolated(target.Pod) && !isolated(p.from.value), p.inside && !p.from.pod && here:
			o.names = append(o.names, name)
		case !known:
			o.may, o.denied = append(o.may, name), true
		case cluster.Allowed(conn):
			o.names = append(o.names, name)
		default:
			o.denied = true
		}
	}
	return o
}

// try makes the connections of a probe and compares them with the outcome.
func (c *churn) try(p probe, o outcome) error {
	if o.unanswered != nil {
		return unanswered(p.from.netns, p.network, p.to, *o.unanswered)
	}
	few, many, patience := 6, 100, labtest.Patience
	if o.denied {
		few, many = 3, 3
		if len(o.names) == 0 {
			patience = 400 * time.Millisecond
		}
	}
	seen := map[string]bool{}
	for n := 0; n < few || n < many && len(seen) < len(o.names) && !o.affinity; n++ {
		h, err := labtest.AskNameWithin(p.from.netns, p.network, p.to, patience)
		if c.vpp && !o.denied && timedOut(err) { // retry from other client ports
			h, err = c.ask(p.from.netns, p.network, p.to)
		}
		if err == nil {
			err = o.wrong(h, p.from)
			seen[h.Name] = true
		} else if o.denied && !errors.Is(err, syscall.ENETUNREACH) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", n+1, err)
		}
	}
	switch {
	case o.denied:
		return nil
	case o.affinity && len(seen) > 1:
		return fmt.Errorf("%v answer in spite of the affinity", slices.Sorted(maps.Keys(seen)))
	case !o.affinity && len(seen) < len(o.names):
		return fmt.Errorf("only %v answer", slices.Sorted(maps.Keys(seen)))
	case o.affinity:
		return c.pinned(p, slices.Collect(maps.Keys(seen))[0])
	case p.network == "udp" && !c.vpp: // flows move slowly on VPP
		return c.flowOn(p, o)
	}
	return nil
}

func (o outcome) wrong(h labtest.Told, from churnClient) error {
	itself := from.value != nil && strings.HasPrefix(h.Name, from.value.GetName()+":")
	switch {
	case !slices.Contains(o.names, h.Name) && !slices.Contains(o.may, h.Name):
		return fmt.Errorf("%s answers", h.Name)
	case o.seen == "own" && h.Seen != h.Own && !itself, o.seen == "hidden" && h.Seen == h.Own:
		return fmt.Errorf("%s sees %v, the client is %v", h.Name, h.Seen, h.Own)
	}
	return nil
}

// pinned checks that a client with affinity reaches the same endpoint as before.
func (c *churn) pinned(p probe, name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pins[p.number] == nil {
		c.pins[p.number] = map[string]string{}
	}
	key := fmt.Sprint(p.from.who, p.node, p.inside, p.network, p.to)
	if had := c.pins[p.number][key]; had != "" && had != name {
		return fmt.Errorf("%s answers, before it was %s: the service has affinity and has not changed", name, had)
	}
	c.pins[p.number][key] = name
	return nil
}

// flowOn checks that a flow, new or old, reaches a current endpoint.
func (c *churn) flowOn(p probe, o outcome) error {
	key := p.from.netns + " " + p.to.String()
	c.mu.Lock()
	flow := c.flows[key]
	delete(c.flows, key) // in use
	c.mu.Unlock()
	if flow == nil {
		var err error
		if flow, err = labtest.Dial(p.from.netns, "udp", p.to); err != nil {
			return err
		}
	}
	h, err := labtest.Say(flow)
	if errors.Is(err, syscall.ECONNREFUSED) { // of an earlier datagram
		h, err = labtest.Say(flow)
	}
	c.mu.Lock()
	if old := c.flows[key]; old != nil {
		old.Close()
	}
	c.flows[key] = flow
	c.mu.Unlock()
	if err == nil {
		err = o.wrong(h, p.from)
	}
	if err != nil {
		return fmt.Errorf("an older flow: %w", err)
	}
	return nil
}

// dropFlows closes the flows of a network namespace. An empty name means all.
func (c *churn) dropFlows(netns string) {
	for key, flow := range c.flows {
		if netns == "" || strings.HasPrefix(key, netns+" ") {
			flow.Close()
			delete(c.flows, key)
		}
	}
}
