package contivconf_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

// fleeting marks addresses of a link as deprecated or temporary.
func fleeting(l contivconf.HostLink, addresses ...string) contivconf.HostLink {
	for _, a := range addresses {
		l.Fleeting = append(l.Fleeting, netip.MustParsePrefix(a))
	}
	return l
}

func down(l contivconf.HostLink) contivconf.HostLink {
	l.Up = false
	return l
}

const dualStackConf = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
`

func TestChoiceOfAddressesIsGoodAndStable(t *testing.T) {
	const v4, old6, new6, short6 = "192.168.1.5/24", "2001:db8::5/64", "2001:db8::bb/64", "2001:db8::cc/128"
	type step struct {
		name      string
		internal  []string
		links     links
		want      string
		published []string
	}
	for _, test := range []struct {
		name, conf string
		steps      []step
	}{
		{"deprecated, temporary and host-route addresses at the start", dualStackConf, []step{
			{"start", nil, links{fleeting(link("eth0", "", v4, new6, short6, old6), new6)}, "eth0 192.168.1.5/24 2001:db8::5/64", nil},
		}},
		{"only addresses of the last choice", dualStackConf, []step{
			{"both kinds", nil, links{fleeting(link("eth0", "", "192.168.1.5/32", new6, short6), new6)}, "eth0 192.168.1.5/32 2001:db8::cc/128", nil},
			{"a better one comes", nil, links{fleeting(link("eth0", "", "192.168.1.5/32", new6, short6, old6), new6)}, "eth0 192.168.1.5/32 2001:db8::cc/128", nil},
			{"what was chosen goes", nil, links{fleeting(link("eth0", "", "192.168.1.5/32", new6, old6), new6)}, "eth0 192.168.1.5/32 2001:db8::5/64", nil},
		}},
		{"addresses are added", dualStackConf, []step{
			{"start", nil, links{link("eth0", "", v4, old6)}, "eth0 192.168.1.5/24 2001:db8::5/64", nil},
			{"deprecated", nil, links{fleeting(link("eth0", "", v4, new6, old6), new6)}, "eth0 192.168.1.5/24 2001:db8::5/64", nil},
			{"not deprecated", nil, links{link("eth0", "", "192.168.1.4/24", v4, new6, old6)}, "eth0 192.168.1.5/24 2001:db8::5/64", nil},
			{"the old ones are deprecated", nil, links{fleeting(link("eth0", "", "192.168.1.4/24", v4, new6, old6), v4, old6)}, "eth0 192.168.1.5/24 2001:db8::5/64", nil},
			{"Kubernetes knows others", []string{"192.168.1.4", "2001:db8::bb"}, links{link("eth0", "", "192.168.1.4/24", v4, new6, old6)}, "eth0 192.168.1.4/24 2001:db8::bb/64", nil},
			{"Kubernetes knows all", []string{"192.168.1.5", "192.168.1.4", "2001:db8::5", "2001:db8::bb"}, links{link("eth0", "", v4, "192.168.1.4/24", old6, new6)}, "eth0 192.168.1.4/24 2001:db8::bb/64", nil},
		}},
		{"the agent was restarted", dualStackConf, []step{
			{"start", nil, links{link("eth0", "192.168.1.1", "192.168.1.4/24", new6), link("eth1", "", "192.0.2.1/24", v4, new6, old6)}, "eth1 192.168.1.5/24 2001:db8::5/64", []string{v4, old6}},
		}},
		{"InternalIP of a deprecated address", "", []step{
			{"start", []string{"192.168.1.5"}, links{fleeting(link("eth0", "", "192.168.1.4/24", "192.168.1.5/32"), "192.168.1.5/32")}, "eth0 192.168.1.5/32 invalid Prefix", nil},
		}},
		{"the default route moves", "", []step{
			{"start", nil, links{link("eth0", "192.168.1.1", v4), link("eth1", "", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"moved", nil, links{link("eth0", "", v4), link("eth1", "192.0.2.9", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"down", nil, links{down(link("eth0", "", v4)), link("eth1", "192.0.2.9", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"Kubernetes knows the other", []string{"192.0.2.1"}, links{link("eth0", "", v4), link("eth1", "192.0.2.9", "192.0.2.1/24")}, "eth1 192.0.2.1/24 invalid Prefix", nil},
		}},
		{"renamed", "", []step{
			{"start", []string{"192.168.1.5"}, links{link("eth0", "192.168.1.1", v4), link("eth1", "", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"down", []string{"192.168.1.5"}, links{down(link("lan0", "", v4)), link("eth1", "", "192.0.2.1/24")}, "lan0 192.168.1.5/24 invalid Prefix", nil},
			{"up", []string{"192.168.1.5"}, links{link("lan0", "", v4), link("eth1", "", "192.0.2.1/24")}, "lan0 192.168.1.5/24 invalid Prefix", nil},
		}},
		{"renamed, and Kubernetes knows no address", "", []step{
			{"start", nil, links{link("eth0", "192.168.1.1", v4), link("eth1", "", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"up", nil, links{link("lan0", "", v4), link("eth1", "192.0.2.9", "192.0.2.1/24")}, "lan0 192.168.1.5/24 invalid Prefix", nil},
		}},
		{"replaced", "", []step{
			{"start", []string{"192.168.1.5"}, links{link("eth0", "192.168.1.1", v4), link("eth1", "", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"gone", []string{"192.168.1.5"}, links{link("eth1", "", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"without an address", []string{"192.168.1.5"}, links{link("eth1", "", "192.0.2.1/24"), link("ens7", "")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"with another address", []string{"192.168.1.5"}, links{link("eth1", "", "192.0.2.1/24"), link("ens7", "192.168.1.1", "192.168.1.6/24")}, "ens7 192.168.1.6/24 invalid Prefix", nil},
			{"back", []string{"192.168.1.5"}, links{link("eth0", "", v4), link("eth1", "", "192.0.2.1/24"), link("ens7", "192.168.1.1", "192.168.1.6/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
		}},
		{"the address moves to a bridge", "", []step{
			{"start", []string{"192.168.1.5"}, links{link("eth0", "192.168.1.1", v4)}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"moved", []string{"192.168.1.5"}, links{link("eth0", ""), link("br0", "192.168.1.1", v4)}, "br0 192.168.1.5/24 invalid Prefix", nil},
		}},
		{"configured", "nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth0}}]", []step{
			{"start", nil, links{link("eth0", "", v4), link("eth1", "192.0.2.9", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"another address", nil, links{link("eth0", "", "192.168.1.4/24", v4), link("eth1", "192.0.2.9", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
			{"renamed", nil, links{link("lan0", "", v4), link("eth1", "192.0.2.9", "192.0.2.1/24")}, "eth0 192.168.1.5/24 invalid Prefix", nil},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			current := test.steps[0].links
			loop := &plugintest.Loop{}
			c, err := contivconf.New("node1", load(t, test.conf), contivconf.Sources{Links: &current}, loop, nil, plugintest.Logger())
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range test.steps {
				kube := state(kubeNode("node1", s.internal...))
				kube["vppnode"] = map[string]proto.Message{"allocatedIDs/1": &vppnode.VppNode{Id: 1, Name: "node1", IpAddresses: s.published}}
				resync := func() {
					t.Helper()
					if err := c.Resync(context.Background(), &controller.DBResync{}, kube, 1, plugintest.Txn{}); err != nil && i == 0 {
						t.Fatal(err)
					}
				}
				if i == 0 {
					resync()
				}
				current = s.links
				change := &controller.KubeStateChange{Resource: "node", NewValue: kubeNode("node1", s.internal...)}
				if _, err := c.Update(context.Background(), change, plugintest.Txn{}); err != nil {
					t.Fatal(err)
				}
				c.LinksChanged(context.Background())
				if len(loop.Take()) > 0 {
					resync()
				}
				r := c.Resolved()
				if got := fmt.Sprintf("%s %v %v", r.Main.Name, r.LinkAddress, r.SecondLinkAddress); got != s.want {
					t.Errorf("%s: got %s, want %s", s.name, got, s.want)
				}
			}
		})
	}
}

func TestMissingMainInterface(t *testing.T) {
	current := links{link("eth0", "192.168.1.1", "192.168.1.5/24"), link("eth1", "", "192.0.2.1/24")}
	c, err := contivconf.New("node1", load(t, ""), contivconf.Sources{Links: &current}, &plugintest.Loop{}, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Resync(context.Background(), &controller.DBResync{}, state(kubeNode("node1", "192.168.1.5")), 1, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	current = current[1:]
	c.LinksChanged(context.Background())
	const want = `main interface "eth0" does not exist any more, and no other link has an address of this node (192.168.1.5) or a default route`
	if got := strings.Join(c.Warnings(), "\n"); !strings.Contains(got, want) || strings.Contains(got, "interfaceName") {
		t.Errorf("warnings %q, want %q", got, want)
	}
}

func TestOverlapsAreWarnedOf(t *testing.T) {
	main := link("eth0", "192.168.1.1", "192.168.1.5/24")
	current := links{main}
	c, err := contivconf.New("node1", load(t, dualStackConf), contivconf.Sources{Links: &current}, &plugintest.Loop{}, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	resync := func() {
		t.Helper()
		if err := c.Resync(context.Background(), &controller.DBResync{}, state(kubeNode("node1", "192.168.1.5")), 1, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
	resync()
	for _, test := range []struct {
		with contivconf.HostLink
		want string
	}{
		{link("eth1", "", "192.168.30.77/24"), "network 192.168.30.0/24 of interface eth1 overlaps with ipamConfig.vxlanCIDR 192.168.30.0/24"},
		{link("eth1", "", "10.1.77.5/16"), "overlaps with ipamConfig.podSubnetCIDR 10.1.0.0/16"},
		{link("eth1", "", "10.0.0.5/8"), "network 10.0.0.0/8 of interface eth1 overlaps"},
		{link("eth1", "", "fd30::5/64"), "overlaps with ipamConfig.vxlanCIDR fd30::/112"},
		{link("eth1", "", "10.1.9.9/32"), "network 10.1.9.9/32 of interface eth1 overlaps"},
		{link("eth1", "", "10.96.1.1/24"), "overlaps with ipamConfig.serviceCIDR"},
		{link("kube-ipvs0", "", "10.96.0.10/32"), ""},
		{link("eth1", "", "192.0.2.1/24", "fe80::1/64"), ""},
	} {
		for _, at := range []string{"resync", "change"} {
			current = links{main, test.with}
			if c.LinksChanged(context.Background()); at == "resync" {
				resync()
			}
			got := strings.Join(c.Warnings(), "\n")
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%s with %v: warnings %q, want %q", at, test.with, got, test.want)
			}
			current = links{main}
			if c.LinksChanged(context.Background()); len(c.Warnings()) > 0 {
				t.Errorf("afterwards: %q", c.Warnings())
			}
		}
	}
}
