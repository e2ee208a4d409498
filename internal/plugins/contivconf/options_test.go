package contivconf_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

// options holds every option of contiv.conf with its documented default and another value, as JSON.
// "" means an omitted default.
var options = map[string][2]string{
	"stealFirstNIC":                {"", "true"},
	"stealInterface":               {"", `"eth0"`},
	"stnSocketFile":                {`"/var/run/contiv/stn.sock"`, `"/tmp/stn.sock"`},
	"stnVersion":                   {"", "2"},
	"natExternalTraffic":           {"true", "false"},
	"natExternalTrafficIPv6":       {"", "true"},
	"enablePacketTrace":            {"", "true"},
	"crdNodeConfigurationDisabled": {"true", "false"},

	"mtuSize":                    {"", "1450"},
	"useTAPInterfaces":           {"", "false"},
	"tapInterfaceVersion":        {"2", "1"},
	"tapv2RxRingSize":            {"", "256"},
	"tapv2TxRingSize":            {"", "512"},
	"vmxnet3RxRingSize":          {"", "1024"},
	"vmxnet3TxRingSize":          {"", "2048"},
	"interfaceRxMode":            {"", `"polling"`},
	"tcpChecksumOffloadDisabled": {"true", "false"},
	"enableGSO":                  {"", "true"},
	"podConnectionLimit":         {"16384", "100"},
	"podAllowedSources":          {"", `"10.200.0.0/24"`},

	"mainVRFID":                         {"0", "2"},
	"podVRFID":                          {"1", "3"},
	"nodeToNodeTransport":               {`"vxlan"`, `"nooverlay"`},
	"useSRv6ForServices":                {"", "true"},
	"useSRv6ForServiceFunctionChaining": {"", "true"},
	"useDX6ForSrv6NodetoNodeTransport":  {"", "true"},
	"routeServiceCIDRToVPP":             {"", "true"},

	"scanIPNeighbors":          {"true", "false"},
	"ipNeighborScanInterval":   {"1", "2"},
	"ipNeighborStaleThreshold": {"4", "5"},

	"ipamConfig.useExternalIPAM":                   {"", "true"},
	"ipamConfig.contivCIDR":                        {"", `"10.128.0.0/14"`},
	"ipamConfig.serviceCIDR":                       {`"10.96.0.0/12"`, `"10.97.0.0/16"`},
	"ipamConfig.nodeInterconnectDHCP":              {"", "true"},
	"ipamConfig.podSubnetCIDR":                     {`"10.1.0.0/16"`, `"10.2.0.0/16"`},
	"ipamConfig.podSubnetOneNodePrefixLen":         {"24", "25"},
	"ipamConfig.vppHostSubnetCIDR":                 {`"172.30.0.0/16"`, `"172.31.0.0/16"`},
	"ipamConfig.vppHostSubnetOneNodePrefixLen":     {"24", "25"},
	"ipamConfig.podSubnetOneNodePrefixLenIPv6":     {"64", "80"}, // not an option of contiv/vpp, like the next one
	"ipamConfig.vppHostSubnetOneNodePrefixLenIPv6": {"64", "80"},
	"ipamConfig.nodeInterconnectCIDR":              {"", `"192.168.16.0/24"`},
	"ipamConfig.vxlanCIDR":                         {`"192.168.30.0/24"`, `"192.168.31.0/24"`},
	"ipamConfig.defaultGateway":                    {"", `"192.168.16.100"`},

	"ipamConfig.srv6.servicePolicyBSIDSubnetCIDR":            {`"8fff::/16"`, `"8ffe::/16"`},
	"ipamConfig.srv6.servicePodLocalSIDSubnetCIDR":           {`"9300::/16"`, `"9301::/16"`},
	"ipamConfig.srv6.serviceHostLocalSIDSubnetCIDR":          {`"9300::/16"`, `"9302::/16"`},
	"ipamConfig.srv6.serviceNodeLocalSIDSubnetCIDR":          {`"9000::/16"`, `"9001::/16"`},
	"ipamConfig.srv6.nodeToNodePodLocalSIDSubnetCIDR":        {`"9501::/16"`, `"9502::/16"`},
	"ipamConfig.srv6.nodeToNodeHostLocalSIDSubnetCIDR":       {`"9500::/16"`, `"9503::/16"`},
	"ipamConfig.srv6.nodeToNodePodPolicySIDSubnetCIDR":       {`"8501::/16"`, `"8502::/16"`},
	"ipamConfig.srv6.nodeToNodeHostPolicySIDSubnetCIDR":      {`"8500::/16"`, `"8503::/16"`},
	"ipamConfig.srv6.sfcPolicyBSIDSubnetCIDR":                {`"8eee::/16"`, `"8eef::/16"`},
	"ipamConfig.srv6.sfcServiceFunctionSIDSubnetCIDR":        {`"9600::/16"`, `"9601::/16"`},
	"ipamConfig.srv6.sfcEndLocalSIDSubnetCIDR":               {`"9310::/16"`, `"9311::/16"`},
	"ipamConfig.srv6.sfcIDLengthUsedInSidForServiceFunction": {"16", "8"},

	"nodeConfig": {"", `[{"nodeName":"node1","mainVPPInterface":{"interfaceName":"eth0","ip":"192.168.16.1/24","useDHCP":true},` +
		`"otherVPPInterfaces":[{"interfaceName":"eth1","ip":"192.168.17.1/24","useDHCP":true}],"stealInterface":"eth2","gateway":"192.168.16.100","natExternalTraffic":true}]`},
}

// flatten returns the leaves of a JSON object by path. Lists are leaves.
func flatten(t testing.TB, config contivconf.Config) map[string]string {
	t.Helper()
	data, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	leaves := map[string]string{}
	var walk func(prefix string, data []byte)
	walk = func(prefix string, data []byte) {
		var object map[string]json.RawMessage
		if json.Unmarshal(data, &object) != nil {
			leaves[strings.TrimSuffix(prefix, ".")] = string(data)
			return
		}
		for key, value := range object {
			walk(prefix+key+".", value)
		}
	}
	walk("", data)
	return leaves
}

func nested(path, value string) string {
	keys := strings.Split(path, ".")
	return strings.Join(keys, ": {") + ": " + value + strings.Repeat("}", len(keys)-1)
}

func TestEveryOption(t *testing.T) {
	defaults := flatten(t, contivconf.Default())
	for path, value := range defaults {
		if options[path][0] != value {
			t.Errorf("%s is %s by default, want %q", path, value, options[path][0])
		}
	}
	for path, values := range options {
		if defaults[path] != values[0] {
			t.Errorf("%s is %q by default, want %s", path, defaults[path], values[0])
		}
		changed := flatten(t, load(t, nested(path, values[1])))
		if changed[path] != values[1] {
			t.Errorf("%s was set to %s and is %s", path, values[1], changed[path])
		}
		delete(changed, path)
		for other, value := range changed {
			if value != options[other][0] {
				t.Errorf("%s was set, and %s is %s", path, other, value)
			}
		}
	}
	for _, name := range optionNames("", reflect.TypeFor[contivconf.Config]()) {
		if _, listed := options[name]; !listed {
			t.Errorf("option %s is not in the table", name)
		}
	}
}

func optionNames(prefix string, typ reflect.Type) (names []string) {
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		of := field.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case field.Anonymous:
			names = append(names, optionNames(prefix, of)...)
		case of.Kind() == reflect.Struct:
			names = append(names, optionNames(prefix+name+".", of)...)
		default:
			names = append(names, prefix+name)
		}
	}
	return names
}

func TestOptionsOutOfRange(t *testing.T) {
	for conf, want := range map[string]string{
		"tapInterfaceVersion: 3":                              "tapInterfaceVersion is 3: use 2",
		"tapInterfaceVersion: 1":                              "tapInterfaceVersion is 1: use 2",
		"tapv2RxRingSize: 1000":                               "tapv2RxRingSize is 1000: use a power of two",
		"tapv2TxRingSize: 3":                                  "tapv2TxRingSize is 3: use a power of two",
		"vmxnet3RxRingSize: 100":                              "vmxnet3RxRingSize is 100: use a multiple of 64 from 64 to 4096",
		"vmxnet3TxRingSize: 8192":                             "vmxnet3TxRingSize is 8192: use a multiple of 64 from 64 to 4096",
		"stnVersion: 3":                                       "stnVersion is 3: use 1 or 2",
		"podVRFID: 0":                                         "mainVRFID and podVRFID are both 0: use another VRF for pods",
		"ipNeighborScanInterval: 0":                           "ipNeighborScanInterval is 0: use at least 1 minute, or set scanIPNeighbors to false",
		"ipNeighborStaleThreshold: 0":                         "ipNeighborStaleThreshold is 0: use at least 1 minute",
		"ipamConfig: {srv6: {sfcPolicyBSIDSubnetCIDR: 8eee}}": `ipamConfig.srv6.sfcPolicyBSIDSubnetCIDR is "8eee": use an IPv6 network`,
		"ipamConfig: {srv6: {servicePodLocalSIDSubnetCIDR: 10.0.0.0/8}}":    "servicePodLocalSIDSubnetCIDR",
		"ipamConfig: {srv6: {sfcIDLengthUsedInSidForServiceFunction: 0}}":   "sfcIDLengthUsedInSidForServiceFunction is 0",
		"ipamConfig: {srv6: {sfcIDLengthUsedInSidForServiceFunction: 120}}": "sfcIDLengthUsedInSidForServiceFunction is 120",
	} {
		if _, err := contivconf.New("node1", load(t, conf), contivconf.Sources{}, nil, nil, plugintest.Logger()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", conf, err, want)
		}
	}
	for _, conf := range []string{"scanIPNeighbors: false\nipNeighborScanInterval: 0", "tapInterfaceVersion: 2", "tapv2RxRingSize: 256", "vmxnet3RxRingSize: 1024",
		"ipamConfig: {srv6: {sfcPolicyBSIDSubnetCIDR: '8eee::/16'}}"} {
		if _, err := contivconf.New("node1", load(t, conf), contivconf.Sources{}, nil, nil, plugintest.Logger()); err != nil {
			t.Errorf("%s: %v", conf, err)
		}
	}
}

func TestPrecedence(t *testing.T) {
	node := func(fields string) string { return "nodeConfig: [{nodeName: node1, " + fields + "}]\n" }
	for name, test := range map[string]struct{ conf, want string }{
		"nothing":                          {"", "eth0 [] DHCP false, via [], NAT true"},
		"DHCP of the cluster":              {"ipamConfig: {nodeInterconnectDHCP: true}", "eth0 [] DHCP true, via [], NAT true"},
		"DHCP of the node":                 {node("mainVPPInterface: {useDHCP: true}"), "eth0 [] DHCP true, via [], NAT true"},
		"address of the node, and DHCP":    {"ipamConfig: {nodeInterconnectDHCP: true}\n" + node("mainVPPInterface: {useDHCP: true, ip: 192.168.1.9/24}"), "eth0 [192.168.1.9/24] DHCP false, via [], NAT true"},
		"gateway of the cluster":           {"ipamConfig: {defaultGateway: 192.168.1.1}", "eth0 [] DHCP false, via [192.168.1.1], NAT true"},
		"gateway of the node":              {"ipamConfig: {defaultGateway: 192.168.1.1}\n" + node("gateway: 192.168.1.2"), "eth0 [] DHCP false, via [192.168.1.2], NAT true"},
		"gateway, and DHCP":                {"ipamConfig: {defaultGateway: 192.168.1.1, nodeInterconnectDHCP: true}\n" + node("gateway: 192.168.1.2"), "eth0 [] DHCP true, via [], NAT true"},
		"gateway of IPv6":                  {"ipamConfig: {defaultGateway: 'fd00::1'}", "eth0 [] DHCP false, via [fd00::1], NAT true"},
		"NAT of the cluster off":           {"natExternalTraffic: false", "eth0 [] DHCP false, via [], NAT false"},
		"NAT of the cluster off, one's on": {"natExternalTraffic: false\n" + node("natExternalTraffic: true"), "eth0 [] DHCP false, via [], NAT true"},
		"NAT of the cluster on, one's off": {node("natExternalTraffic: false"), "eth0 [] DHCP false, via [], NAT true"},
		"other interface: address":         {node("otherVPPInterfaces: [{interfaceName: eth1, ip: 192.168.7.1/24, useDHCP: true}]"), "eth0 [] DHCP false, via [], NAT true, eth1 [192.168.7.1/24] DHCP false"},
		"other interface: DHCP":            {node("otherVPPInterfaces: [{interfaceName: eth1, useDHCP: true}]"), "eth0 [] DHCP false, via [], NAT true, eth1 [] DHCP true"},
		"name of the main interface":       {node("mainVPPInterface: {interfaceName: eth1}"), "eth1 [] DHCP false, via [], NAT true"},
		"section of another node":          {"nodeConfig: [{nodeName: node2, gateway: 192.168.1.2, mainVPPInterface: {interfaceName: eth1}}]", "eth0 [] DHCP false, via [], NAT true"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := contivconf.New("node1", load(t, test.conf), contivconf.Sources{Links: twoNICs}, nil, nil, plugintest.Logger())
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Resync(context.Background(), &controller.DBResync{}, state(kubeNode("node1")), 1, plugintest.Txn{}); err != nil {
				t.Fatal(err)
			}
			r := c.Resolved()
			got := fmt.Sprintf("%s %v DHCP %v, via %v, NAT %v", r.Main.Name, r.Main.Addresses, r.Main.UseDHCP, r.Gateways, c.NatExternalTraffic())
			for _, o := range r.Other {
				got += fmt.Sprintf(", %s %v DHCP %v", o.Name, o.Addresses, o.UseDHCP)
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestIPVersionOfPods(t *testing.T) {
	for conf, want := range map[string]bool{
		"": false,
		"ipamConfig: {podSubnetCIDR: 'fd10::/48', podSubnetOneNodePrefixLen: 64, vppHostSubnetCIDR: 'fd20::/48', vppHostSubnetOneNodePrefixLen: 64, vxlanCIDR: 'fd30::/64'}": true,
		"ipamConfig: {contivCIDR: 'fe10::/64'}":                               true,
		"ipamConfig: {contivCIDR: 10.128.0.0/14, podSubnetCIDR: 'fd10::/48'}": false,
	} {
		c, err := contivconf.New("node1", load(t, conf), contivconf.Sources{}, nil, nil, plugintest.Logger())
		if err != nil {
			t.Errorf("%s: %v", conf, err)
			continue
		}
		if s := c.Subnets(); s.UseIPv6() != want {
			t.Errorf("%s: IPv6: %v", conf, s.UseIPv6())
		}
	}
}

// The kernel vswitch needs no IPv6 network between host and vswitch, unlike VPP.
func TestHostNetworkOfIPv6(t *testing.T) {
	const conf = "ipamConfig: {podSubnetCIDR: 'fd10::/48', podSubnetOneNodePrefixLen: 64, vxlanCIDR: 'fd30::/64'}"
	c, err := contivconf.New("node1", load(t, conf), contivconf.Sources{Links: links{link("eth0", "", "192.168.1.5/24")}}, nil, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Subnets(); s.VPPHost.IsValid() || !s.UseIPv6() {
		t.Errorf("%+v", s)
	}
	_, err = contivconf.New("node1", load(t, conf), contivconf.Sources{}, nil, nil, plugintest.Logger())
	if err == nil || !strings.Contains(err.Error(), "ipamConfig.vppHostSubnetCIDR 172.30.0.0/16 has no network of the IP version of podSubnetCIDR fd10::/48, which connects VPP with its host") {
		t.Errorf("with VPP: %v", err)
	}
}
