package contivconf_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

func TestMainInterfaceIsTheFirstNICOfTheVSwitch(t *testing.T) {
	node := func(fields string) string { return "nodeConfig: [{nodeName: node1, " + fields + "}]" }
	for name, test := range map[string]struct {
		conf string
		nics []string
		want string
	}{
		"first":           {"", []string{"nic1", "nic2"}, "nic1"},
		"none":            {"", nil, ""},
		"named":           {node("mainVPPInterface: {interfaceName: nic2}"), []string{"nic1", "nic2"}, "nic2"},
		"named, unknown":  {node("mainVPPInterface: {interfaceName: eth1}"), []string{"nic1"}, "eth1"},
		"one in use":      {node("otherVPPInterfaces: [{interfaceName: nic1}]"), []string{"nic1", "nic2"}, "nic2"},
		"all in use":      {node("otherVPPInterfaces: [{interfaceName: nic1}]"), []string{"nic1"}, ""},
		"with an address": {node("mainVPPInterface: {ip: 192.168.16.1/24}"), []string{"nic1"}, "nic1"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := contivconf.New("node1", load(t, test.conf), contivconf.Sources{NICs: func() ([]string, error) { return test.nics, nil }}, nil, nil, plugintest.Logger())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Resync(t.Context(), &controller.DBResync{}, state(kubeNode("node1")), 1, plugintest.Txn{}); err != nil {
				t.Fatal(err)
			}
			if name := c.Resolved().Main.Name; name != test.want {
				t.Errorf("main interface %q, want %q", name, test.want)
			}
		})
	}
}

func TestNICsOfAVSwitchThatIsAway(t *testing.T) {
	var names []string
	away := errors.New("VPP is away")
	c, err := contivconf.New("node1", load(t, ""), contivconf.Sources{NICs: func() ([]string, error) { return names, away }}, nil, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	resync := func() error {
		return c.Resync(t.Context(), &controller.DBResync{}, state(kubeNode("node1")), 1, plugintest.Txn{})
	}
	if err := resync(); !errors.Is(err, away) || !strings.Contains(err.Error(), "nodeConfig.mainVPPInterface.interfaceName") {
		t.Errorf("nothing is known yet: %v", err)
	}
	for _, step := range []struct {
		names []string
		err   error
		want  string
	}{
		{nil, nil, ""}, {nil, away, ""}, {[]string{"nic1"}, nil, "nic1"}, {nil, away, "nic1"}, {[]string{"nic2"}, nil, "nic2"}, {nil, nil, ""},
	} {
		names, away = step.names, step.err
		if err := resync(); err != nil {
			t.Fatalf("%+v: %v", step, err)
		}
		if name := c.Resolved().Main.Name; name != step.want {
			t.Errorf("%+v: main interface %q", step, name)
		}
	}
}

func TestLeaseOfTheNICThatWasFound(t *testing.T) {
	loop := &plugintest.Loop{}
	c, err := contivconf.New("node1", load(t, "ipamConfig: {nodeInterconnectDHCP: true}"), contivconf.Sources{NICs: func() ([]string, error) { return []string{"nic1"}, nil }}, loop, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Resync(t.Context(), &controller.DBResync{}, state(kubeNode("node1")), 1, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	c.LeaseChanged(t.Context(), "nic1", netip.MustParsePrefix("192.168.16.7/24"))
	if events := loop.Take(); len(events) != 1 {
		t.Fatalf("events %v", events)
	}
	if err := c.Resync(t.Context(), &controller.DBResync{}, state(kubeNode("node1")), 2, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	if r := c.Resolved(); r.LinkAddress.String() != "192.168.16.7/24" {
		t.Errorf("address %v", r.LinkAddress)
	}
}

func TestRefusedOptionsDoNotClaimAVSwitch(t *testing.T) {
	for conf, want := range map[string]string{
		"nodeToNodeTransport: srv6":               "option nodeToNodeTransport: srv6 is not supported by this version: use vxlan or nooverlay",
		"useSRv6ForServiceFunctionChaining: true": "option useSRv6ForServiceFunctionChaining is not supported by this version: set it to false",
		"useDX6ForSrv6NodetoNodeTransport: true":  "option useDX6ForSrv6NodetoNodeTransport is not supported by this version: set it to false",
	} {
		for vswitch, links := range map[string]contivconf.HostLinks{"kernel": twoNICs, "VPP": nil} {
			_, err := contivconf.New("node1", load(t, conf), contivconf.Sources{Links: links}, nil, nil, plugintest.Logger())
			if err == nil || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("%s on %s: got %v, want %q", conf, vswitch, err, want)
			}
		}
	}
}
