package service_test

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service"
	"google.golang.org/protobuf/proto"
)

func redirected(txn plugintest.Txn) (list []string) {
	for _, value := range txn {
		r, is := value.(*contiv_nat.HostRedirect)
		if !is {
			continue
		}
		for _, f := range r.GetFrontends() {
			at := netip.AddrPortFrom(netip.MustParseAddr(f.GetAddress()), uint16(f.GetPort()))
			to := f.GetToAddress()
			if f.GetToPort() != 0 {
				to = netip.AddrPortFrom(netip.MustParseAddr(to), uint16(f.GetToPort())).String()
			}
			list = append(list, r.GetLabel()+" "+at.String()+" "+f.GetProtocol().String()+" to "+to+" from "+f.GetSourceAddress())
		}
	}
	slices.Sort(list)
	return list
}

func sctp(slices []proto.Message) (list []proto.Message) {
	for _, m := range slices {
		s := proto.CloneOf(m.(*endpointslice.EndpointSlice))
		s.Ports[0].Protocol = "SCTP"
		list = append(list, s)
	}
	return list
}

// Node ports are redirected if they have an endpoint, are in nodePortAddresses, and no other proxy
// translates for the host.
func TestNodePortsAtAddressesOfTheHost(t *testing.T) {
	local := func(svc *k8s.Service) { svc.ExternalTrafficPolicy = "Local" }
	all := []proto.Message{webSlice("a", "10.1.1.2@node1"), webSlice("b", "fd10:0:0:1::2@node1")}
	const four, six = "default/web 10.9.9.9:30080 TCP to 172.30.1.1 from 172.30.1.3", "default/web [fd00::1]:30080 TCP to fd17:0:0:1::1 from fd17:0:0:1::3"
	for name, test := range map[string]struct {
		settings string
		svc      *k8s.Service
		slices   []proto.Message
		change   func(*cluster)
		want     []string
	}{
		"both IP versions":                     {svc: nodePortService(), slices: all, want: []string{four, six}},
		"endpoints of one":                     {svc: nodePortService(), slices: all[:1], want: []string{four}},
		"none":                                 {svc: nodePortService()},
		"policy Local":                         {svc: nodePortService(local), slices: all, want: []string{four, six}},
		"policy Local, endpoints elsewhere":    {svc: nodePortService(local), slices: []proto.Message{webSlice("a", "10.1.2.2@node2")}},
		"nodePortAddresses":                    {settings: "nodePortAddresses: [10.9.9.0/24]\n", svc: nodePortService(), slices: all, want: []string{four}},
		"nodePortAddresses of VPP":             {settings: "nodePortAddresses: [192.168.16.0/24]\n", svc: nodePortService(), slices: all},
		"no node port":                         {svc: nodePortService(func(s *k8s.Service) { s.ServiceType, s.Port[0].NodePort = "ClusterIP", 0 }), slices: all},
		"kube-proxy on the host":               {svc: nodePortService(), slices: all, change: func(c *cluster) { c.others = "table ip kube-proxy" }},
		"SCTP, which VPP does over IPv4 only":  {svc: nodePortService(func(s *k8s.Service) { s.Port[0].Protocol = "SCTP" }), slices: sctp(all), want: []string{strings.Replace(four, "TCP", "SCTP", 1)}},
		"an address that VPP has, too":         {svc: nodePortService(), slices: all, change: func(c *cluster) { c.nodes["node1"].MgmtIPs = []netip.Addr{netip.MustParseAddr("192.168.16.1")} }},
		"health checks, which the host serves": {svc: nodePortService(func(s *k8s.Service) { local(s); s.HealthCheckNodePort = 30081 }), slices: all, want: []string{four, six}},
	} {
		c := newCluster()
		c.nodes["node1"].MgmtIPs = append(c.nodes["node1"].MgmtIPs, netip.MustParseAddr("10.9.9.9"))
		if test.change != nil {
			test.change(c)
		}
		s, err := c.onVPP(t, "services: vswitch\n"+test.settings)
		if err != nil {
			t.Fatal(err)
		}
		if got := redirected(resync(t, s, state(append(slices.Clone(test.slices), test.svc)...))); !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
		if got := redirected(resync(t, c.plugin(t, "services: vswitch\n"), state(append(slices.Clone(test.slices), test.svc)...))); len(got) > 0 {
			t.Errorf("%s: the kernel as vswitch redirects %q", name, got)
		}
	}
}

// If the vswitch shares the host's only card, the host's processes reach node ports and host ports
// there by the same path.
func TestPortsAtTheAddressOfAStolenCard(t *testing.T) {
	c := newCluster()
	web := nodePortService()
	pod := onePod{c, podmanager.LocalPod{ID: podmanager.PodID{Namespace: "default", Name: "pod"}, HostPorts: []podmanager.HostPort{{Port: 8080, Protocol: "TCP", PodPort: 80, Address: netip.MustParseAddr("192.168.16.1")}}}}
	s, err := c.onVPPWith(t, fake{ownStack: true, resolved: contivconf.Resolved{Stolen: &contivconf.Stolen{}}}, service.Capabilities{}, "services: vswitch\n", pod.served(c))
	if err != nil {
		t.Fatal(err)
	}
	config := resync(t, s, state(web, webSlice("a", "10.1.1.2@node1")))
	if got, want := redirected(config), []string{
		"default/web 192.168.16.1:30080 TCP to 172.30.1.2 from 172.30.1.3", "hostPort/default/pod 192.168.16.1:8080 TCP to 10.1.1.7:80 from 172.30.1.3",
	}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	text := plugintest.Render(config)
	for addr, ports := range map[string][]string{"192.168.16.1": {"8080", "30080"}, "172.30.1.2": {"30080"}} {
		for _, port := range ports {
			if !strings.Contains(text, `"external_ip":"`+addr+`","external_port":`+port) {
				t.Errorf("the vswitch does not translate %s:%s:\n%s", addr, port, text)
			}
		}
	}
}

// Clients of another card reach external IPs, and packets from its address are not translated.
func TestHostsOfAStolenCardGetAnother(t *testing.T) {
	var cards []netip.Addr
	c := newCluster()
	stolen := fake{ownStack: true, nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI", resolved: contivconf.Resolved{Stolen: &contivconf.Stolen{}}, hostIPs: &cards}
	stolen.resolved.Main.UseDHCP = true
	s, err := c.onThisVPP(t, stolen, service.Capabilities{}, "services: vswitch\n")
	if err != nil {
		t.Fatal(err)
	}
	web := webService()
	web.LbIngressIps, web.LoadbalancerSourceRanges, web.ExternalTrafficPolicy, web.ExternalIps = nil, nil, "Cluster", []string{"203.0.113.9"}
	config := resync(t, s, state(web, webSlice("a", "10.1.1.2@node1")))
	for _, test := range []struct {
		cards   []netip.Addr
		reached bool
	}{{nil, false}, {[]netip.Addr{netip.MustParseAddr("10.9.9.9")}, true}, {nil, false}} {
		cards = test.cards
		config, _, _ = change(t, s, &ipnet.HostAddressesChange{Addresses: cards}, config)
		reached := slices.Contains(redirected(config), "default/web 203.0.113.9:80 TCP to 172.30.1.2:30080 from 172.30.1.3")
		if kept := strings.Contains(plugintest.Render(config), `{"ip_address":"10.9.9.9","protocol":"UDP"}`); reached != test.reached || kept != test.reached {
			t.Errorf("with the cards %v, clients by them reach the external IP: %v, and the host keeps its address: %v", test.cards, reached, kept)
		}
	}
}

// Ports of services take precedence, even without endpoints.
func TestHostPortsAtAddressesOfTheHost(t *testing.T) {
	nodePort := nodePortService()
	port := func(number uint16, protocol, hostIP string) podmanager.HostPort {
		p := podmanager.HostPort{Port: number, Protocol: protocol, PodPort: 80}
		if hostIP != "" {
			p.Address = netip.MustParseAddr(hostIP)
		}
		return p
	}
	const four, six = "hostPort/default/pod 10.9.9.9:8080 TCP to 10.1.1.7:80 from 172.30.1.3", "hostPort/default/pod [fd00::1]:8080 TCP to [fd10::7]:80 from fd17:0:0:1::3"
	both := []string{four, six}
	ofService := []string{"default/web 10.9.9.9:30080 TCP to 172.30.1.1 from 172.30.1.3"}
	for name, test := range map[string]struct {
		settings string
		port     podmanager.HostPort
		state    []proto.Message
		others   string
		want     []string
		wrong    string
	}{
		"both IP versions":                     {port: port(8080, "TCP", ""), want: both},
		"services are kube-proxy's":            {settings: "services: kube-proxy\n", port: port(8080, "TCP", ""), want: both},
		"kube-proxy on the host":               {port: port(8080, "TCP", ""), others: "table ip kube-proxy", want: both},
		"nodePortAddresses":                    {settings: "services: vswitch\nnodePortAddresses: [192.168.16.0/24]\n", port: port(8080, "TCP", ""), want: both},
		"SCTP":                                 {port: port(8080, "SCTP", ""), want: []string{strings.Replace(four, "TCP", "SCTP", 1), strings.Replace(six, "TCP", "SCTP", 1)}},
		"hostIP of the host":                   {port: port(8080, "TCP", "10.9.9.9"), want: []string{four}},
		"hostIP of all, of one IP version":     {port: port(8080, "TCP", "::"), want: []string{six}},
		"hostIP of VPP":                        {port: port(8080, "TCP", "192.168.16.1")},
		"the pod's own port":                   {port: port(80, "TCP", "10.9.9.9"), want: []string{"hostPort/default/pod 10.9.9.9:80 TCP to 10.1.1.7 from 172.30.1.3"}},
		"a node port":                          {port: port(30080, "TCP", "10.9.9.9"), state: []proto.Message{nodePort, webSlice("a", "10.1.1.2@node1")}, want: ofService, wrong: "10.9.9.9:30080 is a port of service default/web"},
		"a node port without endpoint":         {port: port(30080, "TCP", "10.9.9.9"), state: []proto.Message{nodePort}, wrong: "10.9.9.9:30080 is a port of service default/web"},
		"a node port, closed by its addresses": {settings: "services: vswitch\nnodePortAddresses: [192.168.16.0/24]\n", port: port(30080, "TCP", "10.9.9.9"), state: []proto.Message{nodePort, webSlice("a", "10.1.1.2@node1")}, want: []string{"hostPort/default/pod 10.9.9.9:30080 TCP to 10.1.1.7:80 from 172.30.1.3"}},
		"nobody's address":                     {port: port(8080, "TCP", "10.9.9.8"), wrong: "hostIP is none of the addresses [10.9.9.9 192.168.16.1 fd00::1] of this node"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.others = test.others
			c.nodes["node1"].MgmtIPs = append(c.nodes["node1"].MgmtIPs, netip.MustParseAddr("10.9.9.9"))
			pod := onePod{c, podmanager.LocalPod{ID: podmanager.PodID{Namespace: "default", Name: "pod"}, ContainerID: "c1", HostPorts: []podmanager.HostPort{test.port}}}
			s, err := c.onVPPWith(t, fake{ownStack: true}, service.Capabilities{}, cmp.Or(test.settings, "services: vswitch\n"), pod.served(c))
			if err != nil {
				t.Fatal(err)
			}
			config := resync(t, s, state(test.state...))
			if got := redirected(config); !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			txn := plugintest.Txn{}
			if _, err := s.Update(t.Context(), &podmanager.AddPod{Pod: pod.pod.ID, ContainerID: "c1"}, txn); (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("ADD: %v, want %q", err, test.wrong)
			}
			txn = plugintest.Txn{}
			if _, err := s.Update(t.Context(), &podmanager.DeletePod{Pod: pod.pod.ID, ContainerID: "c1"}, txn); err != nil {
				t.Fatal(err)
			}
			if got := redirected(txn.Apply(config)); slices.ContainsFunc(got, func(text string) bool { return strings.HasPrefix(text, "hostPort/") }) {
				t.Errorf("after DEL: %q", got)
			}
		})
	}
}

func TestHostPortsAtAddressesOfTheHostThatServicesTake(t *testing.T) {
	c := newCluster()
	c.nodes["node1"].MgmtIPs = []netip.Addr{netip.MustParseAddr("10.9.9.9")}
	pod := onePod{c, podmanager.LocalPod{ID: podmanager.PodID{Namespace: "default", Name: "pod"}, ContainerID: "c1", HostPorts: []podmanager.HostPort{
		{Port: 30080, Protocol: "TCP", PodPort: 80, Address: netip.MustParseAddr("10.9.9.9")},
	}}}
	s, err := c.onVPPWith(t, fake{ownStack: true}, service.Capabilities{}, "services: vswitch\n", pod.served(c))
	if err != nil {
		t.Fatal(err)
	}
	web := nodePortService()
	const ofPod = "hostPort/default/pod 10.9.9.9:30080 TCP to 10.1.1.7:80 from 172.30.1.3"
	config := resync(t, s, state(webSlice("a", "10.1.1.2@node1")))
	expect := func(when string, want string) {
		t.Helper()
		if got := redirected(config); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", when, got, want)
		}
	}
	expect("at first", ofPod)
	config, _, _ = change(t, s, kubeChange(nil, web), config)
	expect("with the service", "default/web 10.9.9.9:30080 TCP to 172.30.1.1 from 172.30.1.3")
	config, _, _ = change(t, s, kubeChange(web, nil), config)
	expect("without the service", ofPod)
}

// The vswitch does not see the clients, so that source ranges exclude them.
func TestExternalIPsByCardsOfTheHost(t *testing.T) {
	external := func(change func(*k8s.Service)) *k8s.Service {
		svc := webService()
		svc.LoadbalancerSourceRanges, svc.ExternalTrafficPolicy = nil, "Cluster"
		svc.ExternalIps, svc.LbIngressIps = []string{"10.9.9.9"}, []string{"203.0.113.1", "fd99::1"}
		if change != nil {
			change(svc)
		}
		return svc
	}
	local := func(svc *k8s.Service) { svc.ExternalTrafficPolicy = "Local" }
	withoutNodePorts := func(svc *k8s.Service) { svc.Port[0].NodePort = 0 }
	ranges := func(svc *k8s.Service) { svc.LoadbalancerSourceRanges = []string{"172.16.0.0/12"} }
	both := []proto.Message{webSlice("a", "10.1.1.2@node1"), webSlice("b", "fd10:0:0:1::2@node1")}
	const own, lb4, lb6 = "default/web 10.9.9.9:80 TCP to 172.30.1.1:30080 from 172.30.1.3", "default/web 203.0.113.1:80 TCP to 172.30.1.1:30080 from 172.30.1.3",
		"default/web [fd99::1]:80 TCP to [fd17:0:0:1::1]:30080 from fd17:0:0:1::3"
	direct := func(text string) string {
		return strings.NewReplacer("172.30.1.1:30080", "172.30.1.1", "[fd17:0:0:1::1]:30080", "fd17:0:0:1::1").Replace(text)
	}
	shared := func(text string) string {
		return strings.NewReplacer(".1.1:", ".1.2:", ":1::1]", ":1::2]").Replace(text)
	}
	single := fake{resolved: contivconf.Resolved{Stolen: &contivconf.Stolen{}}}
	beside := func(addresses ...string) (node fake) {
		node, node.hostIPs = single, &[]netip.Addr{}
		for _, a := range addresses {
			*node.hostIPs = append(*node.hostIPs, netip.MustParseAddr(a))
		}
		return node
	}
	const note = "VPP does not see their addresses; services: default/web"
	for name, test := range map[string]struct {
		settings string
		svc      *k8s.Service
		slices   []proto.Message
		others   string
		vpp      fake
		want     []string
		note     string
		lacks    string
	}{
		"Cluster":                          {svc: external(nil), slices: both, want: []string{own, lb4, lb6}},
		"Local":                            {svc: external(local), slices: both, want: []string{own, lb4, lb6}},
		"Local, endpoints elsewhere":       {svc: external(local), slices: []proto.Message{webSlice("a", "10.1.2.2@node2")}},
		"no endpoint":                      {svc: external(nil)},
		"node ports are closed":            {settings: "nodePortAddresses: [192.168.16.0/24]\n", svc: external(nil), slices: both, want: []string{own, lb4, lb6}},
		"no node ports":                    {svc: external(withoutNodePorts), slices: both, want: []string{direct(own), direct(lb4), direct(lb6)}},
		"source ranges":                    {svc: external(ranges), slices: both, want: []string{own}, note: note},
		"source ranges, no node ports":     {svc: external(func(s *k8s.Service) { ranges(s); withoutNodePorts(s); s.ExternalIps = nil }), slices: both, note: note, lacks: "172.30.1.1"},
		"kube-proxy on the host":           {svc: external(nil), slices: both, others: "table ip kube-proxy", note: limitOfHost},
		"a single card":                    {svc: external(nil), slices: both, vpp: single, want: []string{shared(own)}},
		"a single card, and source ranges": {svc: external(ranges), slices: both, vpp: single, want: []string{shared(own)}},
		"with one of IPv4":                 {svc: external(nil), slices: both, vpp: beside("10.9.9.9"), want: []string{shared(own), shared(lb4)}},
		"with others":                      {svc: external(nil), slices: both, vpp: beside("10.9.9.9", "fd09::9"), want: []string{shared(own), shared(lb4), shared(lb6)}},
		"with others, source ranges":       {svc: external(ranges), slices: both, vpp: beside("10.9.9.9", "fd09::9"), want: []string{shared(own)}, note: note},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster()
			c.others = test.others
			c.nodes["node1"].MgmtIPs = append(c.nodes["node1"].MgmtIPs, netip.MustParseAddr("10.9.9.9"))
			test.vpp.ownStack = true
			s, err := c.onThisVPP(t, test.vpp, service.Capabilities{}, "services: vswitch\nexternalIPs: allow\n"+test.settings)
			if err != nil {
				t.Fatal(err)
			}
			config := resync(t, s, state(append(slices.Clone(test.slices), test.svc)...))
			got := slices.DeleteFunc(redirected(config), func(text string) bool { return strings.Contains(text, ":30080 TCP") }) // node ports
			if !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
			if notes := s.Notes(); (test.note == "") != (len(notes) == 0) || !strings.Contains(strings.Join(notes, ""), test.note) {
				t.Errorf("notes %q, want %q", notes, test.note)
			}
			if text := plugintest.Render(config); test.lacks != "" && strings.Contains(text, test.lacks) {
				t.Errorf("pods get past the source ranges by %s:\n%s", test.lacks, text)
			}
		})
	}
}

const limitOfHost = "VPP leads all packets for them to the host"
