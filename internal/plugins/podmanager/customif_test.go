package podmanager_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/podmanager"
)

func TestParseCustomIfs(t *testing.T) {
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("net%d/tap", i))
	}
	iface := func(name, kind, network string) podmanager.CustomIf {
		return podmanager.CustomIf{Name: name, Type: kind, Network: network}
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		want        []podmanager.CustomIf
		endpoint    string
		refused     []string
	}{
		"none": {nil, nil, "", nil},
		"all forms": {map[string]string{"contivpp.io/custom-if": " net1/tap, net2/veth/default,net3/tap/,net4/veth/stub,"},
			[]podmanager.CustomIf{iface("net1", "tap", "default"), iface("net2", "veth", "default"), iface("net3", "tap", "default"), iface("net4", "veth", "stub")}, "", nil},
		"several annotations": {map[string]string{"contivpp.io/custom-if-2": "b/tap", "contivpp.io/custom-if": "c/tap", "contivpp.io/custom-if-1": "a/tap"},
			[]podmanager.CustomIf{iface("c", "tap", "default"), iface("a", "tap", "default"), iface("b", "tap", "default")}, "", nil},
		"bad entries fail alone": {map[string]string{"contivpp.io/custom-if": "net1/memif, net2/tap, net2/veth, net3, net4/tap/red, eth0/tap, lo/tap, a b/tap, /tap, 0123456789abcdef/tap, net5/bridge, x/tap/default/more, ../tap"},
			[]podmanager.CustomIf{iface("net2", "tap", "default")}, "", []string{
				`"net1/memif": type memif is not supported: use tap or veth`, "declared already", "write NAME/TYPE", "custom networks are not supported: use the network default, or stub",
				"eth0 is taken", "lo is taken", "the name must", "the name must", "the name must", "the type must be tap or veth", "write NAME/TYPE", "the name must"}},
		"too many": {map[string]string{"contivpp.io/custom-if": strings.Join(many, ",")}, func() (list []podmanager.CustomIf) {
			for i := range 16 {
				list = append(list, iface(fmt.Sprintf("net%d", i), "tap", "default"))
			}
			return list
		}(), "", []string{"one too many", "one too many", "one too many", "one too many"}},
		"endpoint interface": {map[string]string{"contivpp.io/custom-if": "net1/tap,net2/tap/stub", "contivpp.io/service-endpoint-if": "net1"},
			[]podmanager.CustomIf{iface("net1", "tap", "default"), iface("net2", "tap", "stub")}, "net1", nil},
		"endpoint interface without address": {map[string]string{"contivpp.io/custom-if": "net2/tap/stub", "contivpp.io/service-endpoint-if": "net2"},
			[]podmanager.CustomIf{iface("net2", "tap", "stub")}, "", []string{"is not in the network default: services use eth0"}},
		"endpoint interface that is not declared": {map[string]string{"contivpp.io/service-endpoint-if": "net1\x1b"}, nil, "", []string{`names "net1\x1b", which contivpp.io/custom-if does not declare`}},
		"endpoint interface that is refused":      {map[string]string{"contivpp.io/custom-if": "net1/memif", "contivpp.io/service-endpoint-if": "net1"}, nil, "", []string{"type memif is not supported", `names "net1", which is refused: services use eth0`}},
		"the main interface":                      {map[string]string{"contivpp.io/service-endpoint-if": "eth0"}, nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := podmanager.ParseCustomIfs(test.annotations, "eth0")
			if !slices.Equal(got.Interfaces, test.want) || got.EndpointIf != test.endpoint {
				t.Errorf("got %+v, want %+v and endpoint interface %q", got, test.want, test.endpoint)
			}
			if !slices.EqualFunc(got.Refused, test.refused, strings.Contains) {
				t.Errorf("refused %q, want %q", got.Refused, test.refused)
			}
		})
	}
}

func FuzzParseCustomIfs(f *testing.F) {
	f.Add("net1/tap,net2/veth/stub", "net1")
	f.Add("eth0/tap,net1/memif,//,\x00/tap", "eth0")
	f.Add(strings.Repeat("x/tap,", 100), "x")
	f.Fuzz(func(t *testing.T, interfaces, endpoint string) {
		got := podmanager.ParseCustomIfs(map[string]string{podmanager.CustomIfAnnotation: interfaces, podmanager.EndpointIfAnnotation: endpoint}, "eth0")
		if len(got.Interfaces) > 16 || len(got.Refused) > 16 {
			t.Errorf("%d interfaces, %d refused", len(got.Interfaces), len(got.Refused))
		}
		names := map[string]bool{}
		for _, i := range got.Interfaces {
			if names[i.Name] || i.Name == "eth0" || len(i.Name) > 15 || strings.ContainsAny(i.Name, "/ \t\n\x00:%") {
				t.Errorf("interface %q", i.Name)
			}
			names[i.Name] = true
		}
		if got.EndpointIf != "" && !names[got.EndpointIf] {
			t.Errorf("endpoint interface %q is none of %v", got.EndpointIf, got.Interfaces)
		}
		for _, text := range got.Refused {
			if len(text) > 1000 {
				t.Errorf("a reason of %d bytes", len(text))
			}
		}
	})
}
