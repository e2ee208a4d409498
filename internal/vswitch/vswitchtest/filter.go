package vswitchtest

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

type (
	filterRule  = contiv_filter.AccessList_Rule
	filterPorts = contiv_filter.AccessList_Ports
)

const (
	ingress = contiv_filter.AccessList_INGRESS
	egress  = contiv_filter.AccessList_EGRESS

	denied = contiv_filter.AccessList_DENY
	passed = contiv_filter.AccessList_PASS
)

// runFilter tests connections between the hosts of an aclLab. left is a pod, right is a pod with
// its first address.
func runFilter(t *testing.T, c Config) {
	site := c.NewSite(t)
	if err := hasFilter(t, site); errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Skipf("this vswitch has no filter: %v", err)
	}
	t.Run("values are added and removed in any order", func(t *testing.T) { filterValues(t, site) })
	if _, ok := c.NewSite(t).(PacketSite); !ok {
		return
	}
	lab := &filterLab{aclLab: newACLLab(t, c, false)}
	for _, test := range lab.cases() {
		if test.node && !lab.agent.vs.Capabilities().HostStackShared {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			lab.set(t, test.values...)
			lab.probe(t, test.probes...)
		})
	}
	t.Run("connections are judged again when values change", lab.running)
	t.Run("no packet too many passes while policies are replaced", lab.replacement)
	t.Run("changes of one transaction take effect together", lab.oneStep)
	t.Run("they hold while an agent restarts, which finds them", lab.restart)
}

func hasFilter(t *testing.T, site Site) error {
	vs := open(t, site)
	probe := &contiv_filter.AddressSet{Name: "probe"}
	if err := vs.Filter().Set(t.Context(), probe); err != nil {
		return err
	}
	return vs.Filter().Remove(t.Context(), probe)
}

func someFilter() []proto.Message {
	return []proto.Message{
		&contiv_filter.AddressSet{Name: "clients", Addresses: []string{"10.21.0.2", "10.21.0.9", "fd21::2"}},
		&contiv_filter.AddressSet{Name: "nobody"},
		&contiv_filter.EndpointSet{Name: "web", Endpoints: []*contiv_filter.EndpointSet_Endpoint{
			{Address: "10.22.0.3", Port: 80}, {Address: "fd22::3", Protocol: contiv_filter.Protocol_SCTP, Port: 9},
			{Address: "10.22.0.3", Protocol: contiv_filter.Protocol_UDP, Port: 53}}},
		filterList("np/prod/web/ingress", ingress, &filterRule{AddressSets: []string{"clients", "not there"}, Ports: []*filterPorts{
			{First: 80, Last: 80}, {First: 81, Last: 90}, {Protocol: contiv_filter.Protocol_UDP}}},
			&filterRule{Action: contiv_filter.AccessList_DENY, Networks: []string{"10.0.0.0/8", "10.1.0.0/16", "0.0.0.0/0", "fd00::/8"}, EndpointSets: []string{"web", "nothing"}}),
		filterList("np/prod/web/egress", egress, &filterRule{}),
		filterSubject("prod/right", []string{"10.22.0.3", "fd22::3"}, []string{"np/prod/web/ingress", "not there"}, nil),
		filterSubject("prod/left", []string{"10.21.0.2"}, nil, []string{"np/prod/web/egress"}),
		filterSubject("prod/both", []string{"10.21.0.7"}, []string{"np/prod/web/ingress", "not there"}, []string{"np/prod/web/egress"}),
	}
}

func filterList(name string, direction contiv_filter.AccessList_Direction, rules ...*filterRule) *contiv_filter.AccessList {
	return &contiv_filter.AccessList{Name: name, Direction: direction, Rules: rules}
}

// filterSubject isolates a direction if its list is not nil.
func filterSubject(name string, addrs, in, out []string) *contiv_filter.Subject {
	s := &contiv_filter.Subject{Name: name, Addresses: addrs, Interface: strings.TrimPrefix(name, "prod/")}
	if in != nil {
		s.Ingress = []*contiv_filter.Subject_Stage{{Lists: in, Deny: true}}
	}
	if out != nil {
		s.Egress = []*contiv_filter.Subject_Stage{{Lists: out, Deny: true}}
	}
	return s
}

// filterValues: values can be added in any order and twice, are listed by a restarted driver, and
// can be removed in any order and twice. Values that are no longer expected are also listed and can
// be removed.
func filterValues(t *testing.T, site Site) {
	ctx, values := t.Context(), someFilter()
	vs := site.Open(t)
	want := func(when string, vs vswitch.VSwitch, expected []proto.Message, keys int) []proto.Message {
		t.Helper()
		found, err := vs.Filter().List(ctx, expected)
		if err != nil || len(found) != keys {
			t.Errorf("%s: found %d of %d values: %v, %v", when, len(found), keys, found, err)
		}
		for _, e := range expected {
			if keys > 0 && !slices.ContainsFunc(found, func(f proto.Message) bool { return proto.Equal(f, e) }) {
				t.Errorf("%s: %s is missing", when, models.Key(e))
			}
		}
		return found
	}
	backwards := slices.Clone(values)
	slices.Reverse(backwards)
	for range 2 {
		for _, v := range backwards {
			if err := vs.Filter().Set(ctx, v); err != nil {
				t.Fatalf("%s: %v", models.Key(v), err)
			}
		}
	}
	want("set one by one", vs, values, len(values))
	for range 2 {
		for _, v := range values {
			if err := vs.Filter().Remove(ctx, v); err != nil {
				t.Fatalf("%s: %v", models.Key(v), err)
			}
		}
	}
	want("removed", vs, values, 0)
	if err := vs.Filter().Set(ctx, values...); err != nil {
		t.Fatal(err)
	}
	vs.Close()
	vs = site.Open(t)
	want("after a restart", vs, values, len(values))
	vs.Close()
	vs = open(t, site)
	// Expect only some values, model by model like the scheduler.
	for range 3 {
		for _, v := range values {
			found, err := vs.Filter().List(ctx, []proto.Message{v})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range found {
				if f.ProtoReflect().Descriptor() == v.ProtoReflect().Descriptor() && !slices.ContainsFunc(values[:4], func(k proto.Message) bool { return proto.Equal(k, f) }) {
					if err := vs.Filter().Remove(ctx, f); err != nil {
						t.Errorf("removing the unexpected %v: %v", f, err)
					}
				}
			}
		}
	}
	want("the kept values", vs, values[:4], 4)
	if err := vs.Filter().Remove(ctx, values[:4]...); err != nil {
		t.Fatal(err)
	}
	want("nothing is left", vs, nil, 0)
}

type filterLab struct {
	*aclLab
	keys []string
}

type filterCase struct {
	name   string
	values []proto.Message
	probes []probe
	node   bool
}

// Defines the address sets of the cases.
func (lab *filterLab) addresses(name string, hosts ...string) *contiv_filter.AddressSet {
	s := &contiv_filter.AddressSet{Name: name}
	for _, h := range hosts {
		s.Addresses = append(s.Addresses, lab.addressOf(h)...)
	}
	return s
}

func (lab *filterLab) addressOf(host string) []string {
	switch host {
	case "left":
		return []string{lab.leftNet[0] + "2", lab.leftNet[1] + "2"}
	case "right":
		return []string{lab.rightNet[0] + "3", lab.rightNet[1] + "3"}
	}
	return []string{lab.rightNet[0] + "4", lab.rightNet[1] + "4"}
}

func (lab *filterLab) pod(host string, in, out []string) *contiv_filter.Subject {
	return filterSubject("prod/"+host, lab.addressOf(host), in, out)
}

func (lab *filterLab) cases() []filterCase {
	none := []string{}
	left := lab.addresses("left", "left")
	allow := func(r *filterRule) []proto.Message {
		return []proto.Message{left, lab.pod("right", []string{"l"}, nil), filterList("l", ingress, r)}
	}
	isolated := []probe{
		{"left", "tcp", "right", 80, false}, {"left", "udp6", "right", 80, false}, {"left", "ping", "right", 0, false}, {"left", "ping6", "right", 0, false},
	}
	all := []probe{
		{"left", "tcp", "right", 80, true}, {"left", "udp", "right", 8080, true}, {"left", "ping", "right", 0, true},
		{"left", "tcp6", "right", 8080, true}, {"left", "udp6", "right", 80, true}, {"left", "ping6", "right", 0, true},
	}
	others := []probe{
		{"left", "tcp", "right2", 80, true}, {"left", "ping6", "right2", 0, true},
		{"right", "tcp", "left", 80, true}, {"right", "udp6", "left", 80, true}, {"right", "ping", "left", 0, true},
	}
	return []filterCase{
		{name: "an isolated pod", values: []proto.Message{lab.pod("right", none, nil)}, probes: append(slices.Clone(isolated), others...)},
		{name: "a pod that may only answer", values: []proto.Message{lab.pod("left", nil, none)},
			probes: append(slices.Clone(isolated), probe{"right", "tcp", "left", 80, true}, probe{"right", "udp6", "left", 80, true}, probe{"right", "ping", "left", 0, true})},
		{name: "a policy with missing rules allows nothing", values: []proto.Message{lab.pod("right", []string{"gone"}, nil)}, probes: isolated},
		{name: "a rule with missing addresses allows nothing", values: []proto.Message{lab.pod("right", []string{"l"}, nil), filterList("l", ingress, &filterRule{AddressSets: []string{"gone"}})}, probes: isolated},
		{name: "rules for egress allow no ingress", values: []proto.Message{lab.pod("right", []string{"l"}, nil), filterList("l", egress, &filterRule{})}, probes: isolated},
		{name: "a pod without policies", values: []proto.Message{lab.pod("right", nil, nil)}, probes: append(slices.Clone(all), others...)},
		{name: "the node reaches its pods, and they reach it", node: true, values: []proto.Message{lab.pod("right", none, none), lab.pod("left", none, none)}, probes: []probe{
			{"node", "tcp", "right", 80, true}, {"node", "ping6", "left", 0, true}, {"left", "tcp", "node", 80, true}, {"left", "udp6", "node", 80, true}, {"left", "tcp", "right", 80, false},
		}},
		{name: "everything from everybody", values: allow(&filterRule{}), probes: all},
		{name: "everything from some pods", values: allow(&filterRule{AddressSets: []string{"left"}}), probes: all},
		{name: "everything from other pods", values: append(allow(&filterRule{AddressSets: []string{"right"}}), lab.addresses("right", "right", "right2")), probes: isolated},
		{name: "everything from an IPv4 network", values: allow(&filterRule{Networks: []string{"10.21.0.0/16", "10.0.0.0/9", "10.0.0.1/32"}}), probes: []probe{
			{"left", "tcp", "right", 80, true}, {"left", "ping", "right", 0, true}, {"left", "tcp6", "right", 80, false},
		}},
		{name: "everything from all of IPv6", values: allow(&filterRule{Networks: []string{"::/0"}}), probes: []probe{
			{"left", "tcp6", "right", 80, true}, {"left", "ping6", "right", 0, true}, {"left", "tcp", "right", 80, false},
		}},
		{name: "ranges of ports", values: allow(&filterRule{Ports: []*filterPorts{{First: 79, Last: 81}, {First: 80, Last: 90}, {Protocol: contiv_filter.Protocol_UDP, First: 8080, Last: 8080}}}), probes: []probe{
			{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, false}, {"left", "udp", "right", 8080, true}, {"left", "udp", "right", 80, false},
			{"left", "tcp6", "right", 80, true}, {"left", "udp6", "right", 80, false}, {"left", "ping", "right", 0, false}, {"left", "ping6", "right", 0, false},
		}},
		{name: "a whole protocol", values: allow(&filterRule{AddressSets: []string{"left"}, Ports: []*filterPorts{{}, {First: 9, Last: 9}, {Protocol: contiv_filter.Protocol_SCTP}}}), probes: []probe{
			{"left", "tcp", "right", 8080, true}, {"left", "udp", "right", 80, false}, {"left", "ping6", "right", 0, false}, {"left", "tcp6", "right", 80, true},
		}},
		{name: "an address with a port (backends of services)", values: append(allow(&filterRule{EndpointSets: []string{"web"}}), &contiv_filter.EndpointSet{Name: "web", Endpoints: []*contiv_filter.EndpointSet_Endpoint{
			{Address: lab.rightNet[0] + "3", Port: 80}, {Address: lab.rightNet[1] + "3", Protocol: contiv_filter.Protocol_UDP, Port: 8080}}}), probes: []probe{
			{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, false}, {"left", "tcp6", "right", 80, false}, {"left", "udp6", "right", 8080, true},
		}},
		{name: "of several rules, the first one decides", values: []proto.Message{left, lab.pod("right", []string{"a", "b"}, nil),
			filterList("a", ingress, &filterRule{Action: contiv_filter.AccessList_DENY, Ports: []*filterPorts{{First: 80, Last: 80}}}),
			filterList("b", ingress, &filterRule{})}, probes: []probe{
			{"left", "tcp", "right", 80, false}, {"left", "tcp", "right", 8080, true}, {"left", "ping", "right", 0, true},
		}},
		{name: "egress by destination and port", values: []proto.Message{lab.addresses("right", "right"), lab.pod("left", nil, []string{"l"}),
			filterList("l", egress, &filterRule{AddressSets: []string{"right"}, Ports: []*filterPorts{{First: 80, Last: 80}}}, &filterRule{Networks: []string{lab.rightNet[1] + "4/128"}})}, probes: []probe{
			{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, false}, {"left", "tcp", "right2", 80, false},
			{"left", "tcp6", "right2", 80, true}, {"left", "ping6", "right2", 0, true}, {"left", "tcp6", "right", 80, true}, {"left", "ping", "right", 0, false},
		}},
		{name: "egress of the client and ingress of the server must both allow", values: []proto.Message{left, lab.addresses("right", "right"), lab.pod("left", nil, []string{"out"}), lab.pod("right", []string{"in"}, nil),
			filterList("out", egress, &filterRule{AddressSets: []string{"right"}}),
			filterList("in", ingress, &filterRule{AddressSets: []string{"left"}, Ports: []*filterPorts{{First: 80, Last: 80}}})}, probes: []probe{
			{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, false}, {"left", "tcp6", "right", 80, true}, {"left", "tcp", "right2", 80, false}, {"right", "tcp", "left", 80, true},
		}},
		{name: "of policies in several tiers, the first one that decides", values: []proto.Message{
			lab.staged("right", []string{"first", "second"}, []string{"np"}, true),
			filterList("first", ingress, &filterRule{Action: denied, Ports: tcpPorts(80)}, &filterRule{Action: passed, Ports: tcpPorts(8080)}),
			filterList("second", ingress, &filterRule{Action: denied, Ports: tcpPorts(8080)}, &filterRule{Ports: udpPorts(80)}),
			filterList("np", ingress, &filterRule{Ports: tcpPorts(80, 8080)})}, probes: []probe{
			{"left", "tcp", "right", 80, false}, {"left", "tcp", "right", 8080, true}, {"left", "udp", "right", 80, true}, {"left", "udp", "right", 8080, false},
			{"left", "tcp6", "right", 80, false}, {"left", "tcp6", "right", 8080, true}, {"left", "udp6", "right", 80, true}, {"left", "ping6", "right", 0, false},
		}},
		{name: "traffic that no tier decides is allowed", values: []proto.Message{
			lab.staged("right", []string{"first", "second"}, []string{"base", "more"}, false),
			filterList("first", ingress, &filterRule{Action: passed, Ports: tcpPorts(80)}),
			filterList("second", ingress, &filterRule{Action: denied, Ports: tcpPorts(80)}),
			filterList("base", ingress, &filterRule{Action: passed, Ports: udpPorts(80)}, &filterRule{Action: denied, Ports: udpPorts(8080)}),
			filterList("more", ingress, &filterRule{Action: denied, Ports: udpPorts(80)})}, probes: []probe{
			{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, true}, {"left", "udp", "right", 80, true}, {"left", "udp", "right", 8080, false},
			{"left", "tcp6", "right", 80, true}, {"left", "udp6", "right", 8080, false}, {"left", "ping", "right", 0, true},
		}},
		{name: "rules that pass on to the next policy of their tier", values: []proto.Message{
			lab.pod("right", []string{"first", "second"}, nil),
			filterList("first", ingress, &filterRule{Action: passed, Ports: tcpPorts(80)}, &filterRule{Ports: tcpPorts(80, 8080)}),
			filterList("second", ingress, &filterRule{Ports: udpPorts(80)})}, probes: []probe{
			{"left", "tcp", "right", 80, false}, {"left", "tcp", "right", 8080, true}, {"left", "udp", "right", 80, true}, {"left", "udp6", "right", 8080, false},
		}},
		{name: "tiers for ingress and egress", values: []proto.Message{
			&contiv_filter.Subject{Name: "prod/left", Addresses: lab.addressOf("left"), Interface: "left", Egress: []*contiv_filter.Subject_Stage{{Lists: []string{"out"}}, {Lists: []string{"np"}, Deny: true}}},
			lab.staged("right", []string{"in"}, nil, false),
			filterList("out", egress, &filterRule{Action: passed, Ports: tcpPorts(80)}, &filterRule{Ports: tcpPorts(8080)}),
			filterList("np", egress, &filterRule{Ports: tcpPorts(80)}),
			filterList("in", ingress, &filterRule{Action: denied, Ports: tcpPorts(8080)})}, probes: []probe{
			{"left", "tcp", "right", 80, true}, {"left", "tcp", "right", 8080, false}, {"left", "tcp6", "right2", 8080, true}, {"left", "udp", "right", 80, false}, {"right", "tcp", "left", 8080, true},
		}},
		{name: "without policies, everything is allowed again", probes: append(slices.Clone(all), others...)},
	}
}

// staged returns a subject with a stage that does not deny, followed by one that may.
func (lab *filterLab) staged(host string, first, last []string, denies bool) *contiv_filter.Subject {
	s := &contiv_filter.Subject{Name: "prod/" + host, Addresses: lab.addressOf(host), Interface: host, Ingress: []*contiv_filter.Subject_Stage{{Lists: first}}}
	if last != nil {
		s.Ingress = append(s.Ingress, &contiv_filter.Subject_Stage{Lists: last, Deny: denies})
	}
	return s
}

func tcpPorts(ports ...uint32) []*filterPorts { return portsOf(contiv_filter.Protocol_TCP, ports) }
func udpPorts(ports ...uint32) []*filterPorts { return portsOf(contiv_filter.Protocol_UDP, ports) }

func portsOf(protocol contiv_filter.Protocol, ports []uint32) (list []*filterPorts) {
	for _, p := range ports {
		list = append(list, &filterPorts{Protocol: protocol, First: p, Last: p})
	}
	return list
}

func (lab *filterLab) set(t *testing.T, values ...proto.Message) {
	t.Helper()
	lab.agent.t = t
	txn := lab.agent.NewTransaction()
	for _, key := range lab.keys {
		txn.Delete(key)
	}
	lab.keys = nil
	for _, v := range values {
		txn.Put(models.Key(v), v)
		lab.keys = append(lab.keys, models.Key(v))
	}
	if _, err := txn.Commit(t.Context()); err != nil {
		t.Fatalf("setting values: %v", err)
	}
	lab.agent.wantConfigured(append(slices.Clone(lab.values), values...))
}

func (lab *filterLab) probe(t *testing.T, probes ...probe) {
	t.Helper()
	for _, p := range probes {
		if err := lab.send(p); (err == nil) != p.passes {
			t.Errorf("%s from %s to %s, port %d: passes %v, want %v (%v)", p.kind, p.from, p.to, p.port, err == nil, p.passes, err)
		}
	}
}

func (lab *filterLab) running(t *testing.T) {
	subject := lab.pod("right", []string{"l"}, nil)
	rules := filterList("l", ingress, &filterRule{AddressSets: []string{"clients"}, Ports: []*filterPorts{{First: 80, Last: 80}}})
	with, without := lab.addresses("clients", "left"), lab.addresses("clients", "right2")
	lab.set(t, with, rules, subject)
	c, err := lab.left.dial("tcp", lab.rightNet[0]+"3", 80, longWait)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	works := connectionCheck(t, c)
	works("at first", true)
	lab.set(t, with, rules, subject, lab.pod("left", nil, []string{}))
	works("the client may not open connections any more", false)
	lab.set(t, with, rules, subject, lab.pod("left", nil, []string{"l2"}), filterList("l2", egress, &filterRule{Networks: []string{"0.0.0.0/0"}}))
	works("it may again", true)
	lab.set(t, without, rules, subject)
	works("the client is not in the set", false)
	lab.set(t, with, rules, subject)
	works("it is again", true)
	lab.set(t, with, filterList("l", ingress, &filterRule{Ports: []*filterPorts{{First: 8000, Last: 9000}}}), subject)
	works("another port", false)
	lab.set(t)
	works("nothing is judged any more", true)
	lab.set(t, with, rules, subject)
	works("the client is in the set once more", true)
	lab.set(t)
	lab.set(t, without, rules, subject)
	works("all values were removed, and the client is not in the new set", false)
	lab.set(t)
	works("nothing is judged at last", true)
}

// replacement: during the replacement of lists, sets and subjects, packets pass if both versions
// allow them, and are dropped if both deny them.
func (lab *filterLab) replacement(t *testing.T) {
	values := func(round int) []proto.Message {
		var ports []*filterPorts
		for p := range uint32(round%7 + 1) {
			ports = append(ports, &filterPorts{Protocol: contiv_filter.Protocol_UDP, First: 1000 + 10*p, Last: 1005 + 10*p})
		}
		set := lab.addresses(fmt.Sprint("clients", round%2), "left")
		set.Addresses = append(set.Addresses, fmt.Sprintf("10.99.0.%d", round%5+1))
		return []proto.Message{set, lab.pod("right", []string{"l", fmt.Sprint("more", round%3)}, nil),
			filterList("l", ingress, &filterRule{AddressSets: []string{set.GetName()}, Ports: append(ports, &filterPorts{Protocol: contiv_filter.Protocol_UDP, First: 80, Last: 80})})}
	}
	lab.set(t, values(0)...)
	permitted, err := lab.left.dial("udp", lab.rightNet[0]+"3", 80, longWait)
	if err != nil {
		t.Fatal(err)
	}
	defer permitted.Close()
	denied, err := lab.left.dial("udp", lab.rightNet[0]+"3", 8080, longWait)
	if err != nil {
		t.Fatal(err)
	}
	defer denied.Close()
	stop, passed := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		for {
			select {
			case <-stop:
				passed <- n
				return
			default:
			}
			if exchange(denied, shortWait/10) == nil {
				n++
			}
		}
	}()
	for round := 1; round < 30; round++ {
		lab.agent.t = t
		txn := lab.agent.NewTransaction()
		keep := map[string]bool{}
		for _, v := range values(round) {
			txn.Put(models.Key(v), v)
			keep[models.Key(v)] = true
			if !slices.Contains(lab.keys, models.Key(v)) {
				lab.keys = append(lab.keys, models.Key(v))
			}
		}
		if _, err := txn.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := exchange(permitted, longWait); err != nil {
			t.Fatalf("round %d: permitted traffic does not pass: %v", round, err)
		}
	}
	close(stop)
	if n := <-passed; n > 0 {
		t.Errorf("%d packets passed that no list allows", n)
	}
}

// oneStep: one transaction replaces a denied set by another one. If it were not atomic, packets
// would pass in between.
func (lab *filterLab) oneStep(t *testing.T) {
	values := func(round int) []proto.Message {
		clients, nobody := lab.addresses(fmt.Sprint("clients", round%2), "left"), lab.addresses(fmt.Sprint("clients", (round+1)%2))
		for i := range 500 { // takes a moment
			nobody.Addresses = append(nobody.Addresses, fmt.Sprintf("10.99.%d.%d", round%200, i%250))
		}
		nobody.Addresses = slices.Compact(nobody.Addresses)
		lists := []string{fmt.Sprint("deny", round%2)}
		subject := &contiv_filter.Subject{Name: "prod/right", Addresses: lab.addressOf("right"), Interface: "right", Ingress: []*contiv_filter.Subject_Stage{{Lists: lists}}}
		return []proto.Message{clients, nobody, subject, filterList(lists[0], ingress, &filterRule{Action: denied, AddressSets: []string{clients.GetName()}})}
	}
	lab.set(t, values(0)...)
	c, err := lab.left.dial("udp", lab.rightNet[0]+"3", 8080, longWait)
	if err != nil {
		t.Fatal(err)
	}
	var answers atomic.Int64
	var flood sync.WaitGroup
	stop := make(chan struct{})
	flood.Go(func() {
		for {
			select {
			case <-stop:
				c.Close()
				return
			default:
				_, _ = c.Write([]byte("x")) // errors do not matter here
			}
		}
	})
	flood.Go(func() {
		buffer := make([]byte, 10)
		for {
			n, err := c.Read(buffer)
			if n > 0 {
				answers.Add(1)
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
		}
	})
	for round := 1; round < 40; round++ {
		lab.set(t, values(round)...)
	}
	close(stop)
	flood.Wait()
	if n := answers.Load(); n > 0 {
		t.Errorf("%d packets passed that no values allow", n)
	}
	lab.set(t)
	lab.probe(t, probe{"left", "udp", "right", 8080, true}) // a server is listening
}

func (lab *filterLab) restart(t *testing.T) {
	values := []proto.Message{lab.addresses("clients", "left"), lab.pod("right", []string{"l"}, nil),
		filterList("l", ingress, &filterRule{AddressSets: []string{"clients"}, Ports: []*filterPorts{{First: 80, Last: 80}}})}
	lab.set(t, values...)
	count := func(when string) {
		t.Helper()
		t.Log(when)
		lab.probe(t, probe{"left", "tcp", "right", 80, true}, probe{"left", "tcp", "right", 8080, false}, probe{"left", "ping", "right", 0, false})
	}
	lab.agent.stop()
	count("without an agent")
	lab.agent = startAgent(t, lab.site)
	all := append(slices.Clone(lab.values), values...)
	wantNothingExecuted(t, "resync after the restart", lab.agent.resync(all...))
	lab.agent.wantConfigured(all)
	count("after the restart")
	lab.set(t)
	lab.probe(t, probe{"left", "tcp", "right", 8080, true})
}
