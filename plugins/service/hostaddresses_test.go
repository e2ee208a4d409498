package service_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

// redirected lists what the host sends to VPP.
func redirected(txn plugintest.Txn) (list []string) {
	for _, value := range txn {
		r, is := value.(*contiv_nat.HostRedirect)
		if !is {
			continue
		}
		for _, f := range r.GetFrontends() {
			at := netip.AddrPortFrom(netip.MustParseAddr(f.GetAddress()), uint16(f.GetPort()))
			list = append(list, r.GetLabel()+" "+at.String()+" "+f.GetProtocol().String()+" to "+f.GetToAddress()+" from "+f.GetSourceAddress())
		}
	}
	slices.Sort(list)
	return list
}

// sctp are the same slices with ports of SCTP.
func sctp(slices []proto.Message) (list []proto.Message) {
	for _, m := range slices {
		s := proto.CloneOf(m.(*endpointslice.EndpointSlice))
		s.Ports[0].Protocol = "SCTP"
		list = append(list, s)
	}
	return list
}

// Node ports at addresses of the host's own cards lead to the vswitch, where there is an endpoint, nobody else translates for the
// host, and nodePortAddresses has them.
func TestNodePortsAtAddressesOfTheHost(t *testing.T) {
	nodePort := func(change func(*k8s.Service)) *k8s.Service {
		svc := webService()
		svc.LbIngressIps, svc.LoadbalancerSourceRanges, svc.ExternalTrafficPolicy = nil, nil, "Cluster"
		if change != nil {
			change(svc)
		}
		return svc
	}
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
		"both IP versions":                     {svc: nodePort(nil), slices: all, want: []string{four, six}},
		"endpoints of one":                     {svc: nodePort(nil), slices: all[:1], want: []string{four}},
		"none":                                 {svc: nodePort(nil)},
		"policy Local":                         {svc: nodePort(local), slices: all, want: []string{four, six}},
		"policy Local, endpoints elsewhere":    {svc: nodePort(local), slices: []proto.Message{webSlice("a", "10.1.2.2@node2")}},
		"nodePortAddresses":                    {settings: "nodePortAddresses: [10.9.9.0/24]\n", svc: nodePort(nil), slices: all, want: []string{four}},
		"nodePortAddresses of VPP":             {settings: "nodePortAddresses: [192.168.16.0/24]\n", svc: nodePort(nil), slices: all},
		"no node port":                         {svc: nodePort(func(s *k8s.Service) { s.ServiceType, s.Port[0].NodePort = "ClusterIP", 0 }), slices: all},
		"kube-proxy on the host":               {svc: nodePort(nil), slices: all, change: func(c *cluster) { c.others = "table ip kube-proxy" }},
		"SCTP, which VPP does over IPv4 only":  {svc: nodePort(func(s *k8s.Service) { s.Port[0].Protocol = "SCTP" }), slices: sctp(all), want: []string{strings.Replace(four, "TCP", "SCTP", 1)}},
		"an address that VPP has, too":         {svc: nodePort(nil), slices: all, change: func(c *cluster) { c.nodes["node1"].MgmtIPs = []netip.Addr{netip.MustParseAddr("192.168.16.1")} }},
		"health checks, which the host serves": {svc: nodePort(func(s *k8s.Service) { local(s); s.HealthCheckNodePort = 30081 }), slices: all, want: []string{four, six}},
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
