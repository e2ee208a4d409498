package servicelab

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/namespace"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/policylab"
)

type object = map[string]any

var (
	churnNamespaces = []string{"x", "z"}
	churnNumbers    = []int{10, 11, 12, 13, 14, 15}
)

// families returns the IP versions of a service, which are immutable.
func families(number int) []bool {
	switch number {
	case 14:
		return []bool{false}
	case 15:
		return []bool{true}
	}
	return []bool{false, true}
}

func (c *churn) change(t *testing.T, what string, o object) {
	t.Helper()
	text := policylab.YAML(t, []object{o})
	labtest.Apply(t, c.Lab, text)
	c.do(t, what+": "+strings.TrimSpace(strings.TrimPrefix(text, "---\n")), nil)
}

func (c *churn) remove(t *testing.T, apiVersion, kind, ns, name string) {
	t.Helper()
	labtest.Delete(t, c.Lab, policylab.YAML(t, []object{policylab.Object(apiVersion, kind, ns, name, nil, nil)}))
	c.do(t, fmt.Sprintf("%s %s is gone", kind, name), nil)
}

func (c *churn) changeService(t *testing.T) {
	t.Helper()
	number := pick(c, churnNumbers...)
	delete(c.pins, number)
	name := fmt.Sprint("s", number)
	if c.all[number] != nil && c.Chance(25) {
		delete(c.all, number)
		c.remove(t, "v1", "Service", "default", name)
		return
	}
	s := c.randomService(number)
	c.all[number] = s
	c.change(t, "service", serviceObject(s))
}

func (c *churn) randomService(number int) *service.Service {
	s := &service.Service{
		Name: fmt.Sprint("s", number), Namespace: "default", ServiceType: pick(c, "ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer"),
		InternalTrafficPolicy: pick(c, "Cluster", "Cluster", "Local"), SessionAffinity: pick(c, "None", "None", "ClientIP"), PublishNotReadyAddresses: c.Chance(15),
	}
	balanced := s.GetServiceType() == "LoadBalancer"
	for _, ipv6 := range families(number) {
		s.ClusterIps = append(s.ClusterIps, clusterIP(number, ipv6).String())
		external, balancer := at("198.51.100.", "2001:db8::a:", number, ipv6), at("198.51.101.", "2001:db8::b:", number, ipv6)
		s.ExternalIps = append(s.ExternalIps, c.some(external.Addr().String())...)
		if balanced {
			s.LbIngressIps = append(s.LbIngressIps, c.some(balancer.Addr().String())...)
		}
	}
	s.ClusterIp = s.ClusterIps[0]
	if s.GetServiceType() != "ClusterIP" || len(s.GetExternalIps()) > 0 {
		s.ExternalTrafficPolicy = pick(c, "Cluster", "Local")
	}
	if balanced && c.Chance(40) {
		s.LoadbalancerSourceRanges = pick(c, []string{"192.168.16.254/32", "fd16::fe/128"}, []string{"10.1.1.0/24", "fd10:1:0:1::/64"}, []string{"192.168.16.0/24", "fd16::/112", "10.1.2.2/32"})
	}
	nodePorts := s.GetServiceType() == "NodePort" || balanced && c.Chance(60)
	for i, name := range []string{"tcp", "udp", "more"} {
		if i > 0 && c.Chance(20) {
			continue
		}
		p := &service.Service_ServicePort{Name: name, Protocol: []string{"TCP", "UDP", "TCP"}[i], Port: []int32{80, 80, 81}[i]}
		if nodePorts {
			p.NodePort = int32([]int{30000, 30000, 30100}[i] + number)
		}
		s.Port = append(s.Port, p)
	}
	return s
}

func serviceObject(s *service.Service) object {
	var ports, ingress []object
	nodePorts := false
	for _, p := range s.GetPort() {
		o := object{"name": p.GetName(), "protocol": p.GetProtocol(), "port": p.GetPort()}
		if p.GetNodePort() != 0 {
			o["nodePort"], nodePorts = p.GetNodePort(), true
		}
		ports = append(ports, o)
	}
	spec := object{"type": s.GetServiceType(), "clusterIP": s.GetClusterIp(), "clusterIPs": s.GetClusterIps(), "internalTrafficPolicy": s.GetInternalTrafficPolicy(), "sessionAffinity": s.GetSessionAffinity(), "ports": ports}
	if len(s.GetExternalIps()) > 0 {
		spec["externalIPs"] = s.GetExternalIps()
	}
	if s.GetExternalTrafficPolicy() != "" {
		spec["externalTrafficPolicy"] = s.GetExternalTrafficPolicy()
	}
	if s.GetPublishNotReadyAddresses() {
		spec["publishNotReadyAddresses"] = true
	}
	if s.GetServiceType() == "LoadBalancer" && !nodePorts {
		spec["allocateLoadBalancerNodePorts"] = false
	}
	if len(s.GetLoadbalancerSourceRanges()) > 0 {
		spec["loadBalancerSourceRanges"] = s.GetLoadbalancerSourceRanges()
	}
	o := policylab.Object("v1", "Service", s.GetNamespace(), s.GetName(), nil, spec)
	for _, ip := range s.GetLbIngressIps() {
		ingress = append(ingress, object{"ip": ip, "ipMode": "VIP"})
	}
	if len(ingress) > 0 {
		o["status"] = object{"loadBalancer": object{"ingress": ingress}}
	}
	return o
}

func (c *churn) changeSlice(t *testing.T) {
	t.Helper()
	number := pick(c, churnNumbers...)
	delete(c.pins, number)
	s := &endpointslice.EndpointSlice{Name: fmt.Sprintf("s%d-%s", number, pick(c, "a", "b", "c", "d")), Namespace: "default", Service: fmt.Sprint("s", number), AddressType: endpointslice.EndpointSlice_IPv4}
	if strings.ContainsAny(s.Name[len(s.Name)-1:], "cd") {
		s.AddressType = endpointslice.EndpointSlice_IPv6
	}
	if c.slices[s.Name] != nil && c.Chance(20) {
		delete(c.slices, s.Name)
		c.remove(t, "discovery.k8s.io/v1", "EndpointSlice", "default", s.Name)
		return
	}
	for i, name := range []string{"tcp", "udp", "more"} {
		if !c.Chance(15) {
			s.Ports = append(s.Ports, &endpointslice.EndpointSlice_Port{Name: name, Protocol: []string{"TCP", "UDP", "TCP"}[i], Port: pick(c, churnPorts...)})
		}
	}
	hints := c.Random.IntN(3)
	for _, name := range slices.Sorted(maps.Keys(c.pods)) {
		if c.Chance(60) {
			continue
		}
		p := c.pods[name]
		e := &endpointslice.EndpointSlice_Endpoint{NodeName: p.GetNodeName()}
		for _, a := range p.addrs {
			if a.Is6() == (s.AddressType == endpointslice.EndpointSlice_IPv6) {
				e.Addresses = []string{a.String()}
			}
		}
		if c.Chance(10) {
			e.NodeName = ""
		}
		switch c.Random.IntN(6) {
		case 0:
		case 1:
			e.Serving, e.Terminating = true, true
		default:
			e.Ready, e.Serving = true, true
		}
		if hints > 0 && !c.Chance(15) {
			e.ForZones = c.some("east", "west")
		}
		if hints > 1 && !c.Chance(15) {
			e.ForNodes = c.some("node1", "node2")
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	c.setSlice(t, s)
}

func (c *churn) setSlice(t *testing.T, s *endpointslice.EndpointSlice) {
	t.Helper()
	c.slices[s.GetName()] = s
	ports, ends := []object{}, []object{}
	for _, p := range s.GetPorts() {
		ports = append(ports, object{"name": p.GetName(), "protocol": p.GetProtocol(), "port": p.GetPort()})
	}
	for _, e := range s.GetEndpoints() {
		o := object{"addresses": e.GetAddresses(), "conditions": object{"ready": e.GetReady(), "serving": e.GetServing(), "terminating": e.GetTerminating()}}
		if e.GetNodeName() != "" {
			o["nodeName"] = e.GetNodeName()
		}
		hints := object{}
		for key, names := range map[string][]string{"forZones": e.GetForZones(), "forNodes": e.GetForNodes()} {
			var list []object
			for _, name := range names {
				list = append(list, object{"name": name})
			}
			if len(list) > 0 {
				hints[key] = list
			}
		}
		if len(hints) > 0 {
			o["hints"] = hints
		}
		ends = append(ends, o)
	}
	c.change(t, "slice", object{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": object{"name": s.GetName(), "namespace": "default", "labels": object{"kubernetes.io/service-name": s.GetService()}},
		"addressType": s.GetAddressType().String(), "ports": ports, "endpoints": ends})
}

func (c *churn) changePod(t *testing.T) {
	t.Helper()
	name := pick(c, "a1", "b1", "c1", "a2", "b2", "c2")
	node := "node" + name[1:]
	p := c.pods[name]
	if p != nil && c.Chance(40) {
		c.startAgent(t, node)
		early := c.Chance(50)
		if early {
			c.forgetEndpoint(t, p)
		}
		p.stop()
		c.dropFlows(p.netns)
		c.do(t, "pod "+p.id()+" is removed", c.DelPod(t.Context(), p.id()))
		delete(c.pods, name)
		if !early {
			c.forgetEndpoint(t, p)
		}
		return
	}
	value := &pod.Pod{Name: name, Namespace: map[byte]string{'a': "x", 'b': "x", 'c': "z"}[name[0]], NodeName: node, Labels: c.Labels(), Phase: pod.Pod_RUNNING}
	for _, k := range slices.Sorted(maps.Keys(value.Labels)) {
		value.Label = append(value.Label, &pod.Pod_Label{Key: k, Value: value.Labels[k]})
	}
	if p != nil {
		value.Container, value.IpAddress, value.IpAddresses = p.Container, p.IpAddress, p.IpAddresses
		p.Pod = value
		c.change(t, "pod has other labels", policylab.PodObject(value))
		return
	}
	c.startAgent(t, node)
	container := &pod.Pod_Container{Name: "c"}
	for _, port := range []string{"http", "dns"} {
		container.Port = append(container.Port, &pod.Pod_Container_Port{Name: port, ContainerPort: pick(c, churnPorts...), Protocol: pod.Pod_Container_Port_Protocol(c.Random.IntN(2))})
	}
	if c.Chance(50) {
		container.Port = append(container.Port, &pod.Pod_Container_Port{Name: "host", ContainerPort: 80, HostPort: churnHostPort(name), Protocol: pod.Pod_Container_Port_TCP})
	}
	value.Container = []*pod.Pod_Container{container}
	text := policylab.YAML(t, []object{policylab.PodObject(value)})
	if c.disturbed { // like a kubelet, retry until the disturbance is repaired
		await.That(t, "pod "+name+" is added", func() error { return labtest.TryApply(t, c.Lab, text) })
	} else {
		labtest.Apply(t, c.Lab, text)
	}
	c.do(t, "pod: "+strings.TrimSpace(strings.TrimPrefix(text, "---\n")), nil)
	c.pods[name] = c.serve(t, value)
}

func churnHostPort(name string) int32 { return 8000 + int32(name[0])*10 }

func (c *churn) serve(t *testing.T, value *pod.Pod) *churnPod {
	t.Helper()
	st, err := c.State()
	if err != nil {
		t.Fatal(err)
	}
	made, err := st.Pod(value.GetNamespace() + "/" + value.GetName())
	if err != nil {
		t.Fatal(err)
	}
	p := &churnPod{Pod: value, netns: made.Netns, addrs: made.Addresses()}
	for _, a := range p.addrs {
		value.IpAddresses = append(value.IpAddresses, a.String())
	}
	value.IpAddress = value.IpAddresses[0]
	var stops []func()
	for _, port := range churnPorts {
		stop, err := labtest.ServeName(p.netns, fmt.Sprintf("%s:%d", p.GetName(), port), int(port))
		if err != nil {
			t.Fatal(err)
		}
		stops = append(stops, stop)
	}
	p.stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	c.steps[len(c.steps)-1] += fmt.Sprint(" with addresses ", p.addrs)
	return p
}

func (c *churn) forgetEndpoint(t *testing.T, p *churnPod) {
	t.Helper()
	clear(c.pins)
	for _, name := range slices.Sorted(maps.Keys(c.slices)) {
		s := c.slices[name]
		left := slices.DeleteFunc(slices.Clone(s.GetEndpoints()), func(e *endpointslice.EndpointSlice_Endpoint) bool {
			return slices.Contains(p.addrs, netip.MustParseAddr(e.GetAddresses()[0]))
		})
		if len(left) < len(s.GetEndpoints()) {
			s.Endpoints = left
			c.setSlice(t, s)
		}
	}
}

func (c *churn) changePolicy(t *testing.T) {
	t.Helper()
	ns, name := pick(c, churnNamespaces...), pick(c, "p0", "p1")
	id := ns + "/" + name
	if c.Policies[id] != nil && c.Chance(60) {
		delete(c.Policies, id)
		c.remove(t, "networking.k8s.io/v1", "NetworkPolicy", ns, name)
		return
	}
	value := c.Policy(ns, name)
	for _, r := range value.GetIngressRule() {
		policylab.Known(r.GetPort())
	}
	for _, r := range value.GetEgressRule() {
		policylab.Known(r.GetPort())
	}
	c.Policies[id] = value
	c.change(t, "policy", policylab.PolicyObject(value))
}

func (c *churn) setNamespace(t *testing.T, name string) {
	t.Helper()
	labels := c.Labels()
	c.Namespaces[name] = &namespace.Namespace{Name: name, Label: policylab.NamespaceLabels(labels)}
	c.change(t, "namespace", policylab.Object("v1", "Namespace", "", name, labels, nil))
}

// disturb removes some of Contiv's objects from the kernel of a node.
func (c *churn) disturb(t *testing.T, node string) {
	t.Helper()
	netns := c.Lab.Name() + "-" + node
	var commands []string
	switch c.Random.IntN(5) {
	case 0:
		for _, version := range []string{"-4", "-6"} {
			for line := range strings.Lines(output(t, netns, "ip "+version+" route show proto 121")) {
				commands = append(commands, "ip "+version+" route del "+strings.TrimSpace(strings.ReplaceAll(line, "pref medium", "")))
			}
		}
	case 1:
		for _, version := range []string{"-4", "-6"} {
			for line := range strings.Lines(output(t, netns, "ip "+version+" neigh show nud permanent")) {
				if f := strings.Fields(line); len(f) > 3 {
					commands = append(commands, fmt.Sprintf("ip %s neigh del %s dev %s", version, f[0], f[2]))
				}
			}
		}
	case 2:
		for line := range strings.Lines(output(t, netns, "nft list tables")) {
			if strings.Contains(line, "contiv") {
				commands = append(commands, "nft delete "+strings.TrimSpace(line))
			}
		}
	case 3:
		for line := range strings.Lines(output(t, netns, "nft list tables")) {
			if strings.Contains(line, "contiv") {
				commands = append(commands, chains(output(t, netns, "nft list "+line), strings.TrimPrefix(strings.TrimSpace(line), "table "))...)
			}
		}
	default:
		for line := range strings.Lines(output(t, netns, "nft list tables")) {
			if strings.Contains(line, "contiv") {
				commands = append(commands, elements(output(t, netns, "nft list "+line), strings.TrimPrefix(strings.TrimSpace(line), "table "))...)
			}
		}
	}
	if len(commands) == 0 {
		return
	}
	command := pick(c, commands...)
	c.disturbed = true
	clear(c.pins)
	out, err := exec.CommandContext(t.Context(), "ip", "netns", "exec", netns, "sh", "-c", command).CombinedOutput()
	c.do(t, fmt.Sprintf("another program on %s: %s: %s %v", node, command, out, err), nil)
}

// output returns the output of a command that may fail because objects have been removed.
func output(t *testing.T, netns, command string) string {
	out, _ := exec.CommandContext(t.Context(), "ip", "netns", "exec", netns, "sh", "-c", command).Output()
	return string(out)
}

// chains returns commands that flush the chains of a table.
func chains(text, table string) (commands []string) {
	for _, m := range regexp.MustCompile(`(?m)^\tchain (\S+) \{`).FindAllStringSubmatch(text, -1) {
		commands = append(commands, fmt.Sprintf("nft flush chain %s %s", table, m[1]))
	}
	return commands
}

// elements returns commands that delete elements from the sets and maps of a table.
func elements(text, table string) (commands []string) {
	for _, m := range regexp.MustCompile(`(?ms)^\t(?:set|map) (\S+) \{(.*?)^\t\}`).FindAllStringSubmatch(text, -1) {
		_, list, _ := strings.Cut(m[2], "elements = {")
		list, _, _ = strings.Cut(list, "}")
		for element := range strings.SplitSeq(list, ",") {
			element = strings.TrimSpace(element)
			if element == "" || strings.Contains(element, "expires") || strings.Contains(element, `"" comment`) {
				continue
			}
			key, _, _ := strings.Cut(element, " comment ")
			commands = append(commands, fmt.Sprintf("nft 'delete element %s %s { %s }'", table, m[1], key))
		}
	}
	return commands
}

func (c *churn) end(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	_ = c.StartEtcd(ctx)
	for _, node := range slices.Sorted(maps.Keys(c.stopped)) {
		_ = c.StartAgent(ctx, node)
	}
	for _, p := range c.pods {
		p.stop()
		if err := c.DelPod(ctx, p.id()); err != nil {
			t.Error(err)
		}
	}
	c.dropFlows("")
}
