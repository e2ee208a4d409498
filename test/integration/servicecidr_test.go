package integration

import (
	"fmt"
	"testing"

	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/labtest"
)

// testServiceCIDRs: nodes refuse connections to unused addresses of a ServiceCIDR from the moment
// when it appears until it is gone. Its services work, and a restart changes nothing.
func (l *objectsLab) testServiceCIDRs(t *testing.T) {
	state, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	cidr := func(name, cidrs string) string {
		return fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: ServiceCIDR\nmetadata: {name: %s}\nspec: {cidrs: [%s]}\n", name, cidrs)
	}
	const outside, unusedIPv6, unused = "10.112.0.7", "fd97::7", "10.96.77.78"
	command.In(t, state.Underlay(), "ip address add "+outside+"/32 dev nodes")
	t.Cleanup(func() { command.In(t, state.Underlay(), "ip address del "+outside+"/32 dev nodes") })
	port := l.host(state.Underlay()).Serve(t, outside)
	clients := map[string]string{"a pod of node1": l.near.Netns, "a pod of node2": l.far.Netns, "node1": state.Nodes[0].Netns}
	leaves := func(when string) {
		t.Helper()
		for client, netns := range clients {
			l.reaches(t, client+" reaches an address outside "+when, netns, outside, port)
			l.refused(t, client+" connects to an unused cluster IP "+when, netns, unused, 80)
		}
	}
	isRefused := func(when string, addresses ...string) {
		t.Helper()
		for client, netns := range clients {
			for _, to := range addresses {
				l.refused(t, fmt.Sprintf("%s connects to %s %s", client, to, when), netns, to, port)
			}
		}
	}
	leaves("without ServiceCIDRs")

	kubernetes, second := cidr("kubernetes", "10.96.0.0/12, 'fd96::/108'"), cidr("second", "10.112.0.0/16, 'fd97::/112'")
	service := fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: 2nd-range, namespace: default}
spec: {clusterIP: 10.112.0.40, ports: [{name: http, protocol: TCP, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: 2nd-range-1, namespace: default, labels: {kubernetes.io/service-name: 2nd-range}}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: %d}]
endpoints: [{addresses: [%s], nodeName: node1, conditions: {ready: true}}]
`, l.port, l.server.Address)
	labtest.Apply(t, l.Lab, kubernetes)
	leaves("with the first ServiceCIDR")
	labtest.Apply(t, l.Lab, second)
	isRefused("of a new ServiceCIDR", outside, unusedIPv6, unused)
	labtest.Apply(t, l.Lab, service)
	for client, netns := range clients {
		l.reaches(t, client+" reaches a service of the new ServiceCIDR", netns, "10.112.0.40", 80)
	}
	labtest.RequireQuietRestart(t, l.Lab, "node1")
	isRefused("after a restart", outside, unusedIPv6, unused)

	// What would cut off pods or nodes, or cannot be read, is reported and changes nothing.
	pods := cidr("pods", "10.1.0.0/18")
	labtest.Apply(t, l.Lab, pods)
	l.statusTells(t, true, "a range of ServiceCIDR pods is ignored: 10.1.0.0/18 overlaps with ipamConfig.podSubnetCIDR 10.1.0.0/16")
	t.Run("invalid text", func(t *testing.T) {
		l.keep(t, "servicecidr", cidr("invalid", "10.113.0.0"))
		l.statusTells(t, true, `a range of ServiceCIDR invalid is ignored: "10.113.0.0" is no network`)
	})
	l.reaches(t, "a pod reaches another one", l.far.Netns, l.server.Address.String(), l.port)
	labtest.Delete(t, l.Lab, pods)
	l.statusTells(t, false, "a range of ServiceCIDR")

	labtest.Delete(t, l.Lab, service)
	labtest.Delete(t, l.Lab, second)
	leaves("after the removal of the ServiceCIDR")
	labtest.Delete(t, l.Lab, kubernetes)
	leaves("without ServiceCIDRs again")
}
