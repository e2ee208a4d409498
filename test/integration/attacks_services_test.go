package integration

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/policylab"
)

// created returns the manifest of a service and its only endpoint.
func created(namespace, day, clusterIP string, port uint16, endpoint netip.AddrPort, external netip.Addr) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: web, namespace: %[1]s, creationTimestamp: "2026-11-%[2]sT00:00:00Z"}
spec: {clusterIP: %[3]s, clusterIPs: [%[3]s], externalIPs: [%[4]v], ports: [{port: %[5]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: %[1]s, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: %[7]d}]
endpoints: [{addresses: [%[6]v], conditions: {ready: true}}]
---
`, namespace, day, clusterIP, external, port, endpoint.Addr(), endpoint.Port())
}

// withNodePort gives a created service a node port.
func withNodePort(manifest string, port uint16) string {
	return strings.NewReplacer("spec: {", "spec: {type: NodePort, ", "ports: [{port: 80}]", fmt.Sprintf("ports: [{port: 80, nodePort: %d}]", port)).Replace(manifest)
}

// balanced moves the external IP of a created service to its status, as if a load balancer had it.
func balanced(manifest string, addr netip.Addr) string {
	return strings.NewReplacer("spec: {", fmt.Sprintf("status: {loadBalancer: {ingress: [{ip: %v}]}}\nspec: {type: LoadBalancer, ", addr), fmt.Sprintf("externalIPs: [%v], ", addr), "").Replace(manifest)
}

func (l *attackLab) podWithHostPort(t *testing.T, name string, port, podPort int32) lab.Pod {
	t.Helper()
	object := policylab.Template(lab.DefaultNamespace, name, name)
	object.Spec.Containers[0].Ports[0].HostPort, object.Spec.Containers[0].Ports[0].ContainerPort = port, podPort
	pod := labtest.AddPods(t, l.Lab, lab.PodSpec{Name: name, Node: "node1", Template: object})[0]
	labtest.TellPeers(t, pod.Netns, int(podPort))
	return pod
}

// testAddressesOfOthers: a tenant, whose name sorts first, creates services that name addresses of
// others. Its only endpoint refuses connections.
func (l *attackLab) testAddressesOfOthers(t *testing.T) {
	const victim, tenant = "zzz-victim", "aaa-tenant"
	const podPort, hostPort, nodePort = 9090, 18443, 30777
	nowhere := netip.AddrPortFrom(l.evil.Of(false), 1)
	listen(t, l.near.Netns, netip.AddrPortFrom(l.near.Of(false), podPort))
	old := l.podWithHostPort(t, "hostport", hostPort, podPort)

	external, node := netip.MustParseAddr("203.0.113.77"), l.node1.Address.Addr()
	of := withNodePort(created(victim, "01", "10.96.8.1", 80, netip.AddrPortFrom(l.near.Of(false), podPort), external), nodePort)
	works := func() (errs error) {
		for _, to := range []netip.AddrPort{netip.MustParseAddrPort("10.96.8.1:80"), netip.AddrPortFrom(external, 80)} {
			c, err := dialTCP(l.evil.Netns, to)
			if err == nil {
				c.Close()
			}
			errs = errors.Join(errs, err)
		}
		for _, port := range []uint16{hostPort, nodePort} {
			for _, client := range []string{l.far.Netns, l.evil.Netns, l.node2.Netns} {
				c, err := dialTCP(client, netip.AddrPortFrom(node, port))
				if err == nil {
					c.Close()
				}
				errs = errors.Join(errs, err)
			}
		}
		return errs
	}
	labtest.Apply(t, l.Lab, of)
	await.That(t, "the victims work", works)
	told := func(node, text string) error {
		var report service.Report
		if err := l.Agent(node).Get(t.Context(), service.URL+"?service="+tenant+"/web", &report); err != nil {
			return err
		}
		if got := fmt.Sprint(report.Services); !strings.Contains(got, text) {
			return fmt.Errorf("%s, want %q", got, text)
		}
		return nil
	}
	for name, attack := range map[string]struct{ manifest, told string }{
		"a pod that is an endpoint": {created(tenant, "02", "10.96.8.2", podPort, nowhere, l.near.Of(false)), "of the pod network"},
		"an older external IP":      {created(tenant, "02", "10.96.8.2", 80, nowhere, external), "of " + victim + "/web"},
		"a host port":               {created(tenant, "02", "10.96.8.2", hostPort, nowhere, node), "reserved for the host port of pod default/hostport"},
		"a node port":               {created(tenant, "01", "10.96.8.2", nodePort, nowhere, node), "reserved for the node port of service " + victim + "/web"},
		"a node port, by a load balancer's IP": {
			balanced(created(tenant, "01", "10.96.8.2", nodePort, nowhere, node), node), "reserved for the node port of service " + victim + "/web",
		},
	} {
		labtest.Apply(t, l.Lab, attack.manifest)
		for _, node := range []string{"node1", "node2"} {
			await.That(t, name+": the tenant's service says what it is without on "+node, func() error { return told(node, attack.told) })
		}
		if err := works(); err != nil {
			t.Errorf("%s: a victim lost connections: %v", name, err)
		}
		labtest.Delete(t, l.Lab, attack.manifest)
	}

	// Another pod gets its host port although the service came first.
	early := created(tenant, "02", "10.96.8.2", hostPort+1, netip.AddrPortFrom(l.near.Of(false), podPort), node)
	labtest.Apply(t, l.Lab, early)
	await.That(t, "the service has the port without a pod", func() error {
		c, err := dialTCP(l.far.Netns, netip.AddrPortFrom(node, hostPort+1))
		if err == nil {
			c.Close()
		}
		return err
	})
	late := l.podWithHostPort(t, "late", hostPort+1, podPort)
	await.That(t, "node2 leaves the port to the new pod", func() error {
		_, _, err := labtest.AskPeer(l.far.Netns, "tcp", netip.AddrPortFrom(node, hostPort+1))
		return err
	})
	if _, _, err := labtest.AskPeer(l.evil.Netns, "tcp", netip.AddrPortFrom(node, hostPort+1)); err != nil {
		t.Errorf("the new pod's host port: %v", err)
	}
	requireRestartWithoutOperations(t, l.Lab, "node1")
	if _, _, err := labtest.AskPeer(l.far.Netns, "tcp", netip.AddrPortFrom(node, hostPort+1)); err != nil {
		t.Errorf("the new pod's host port after a restart of the agent: %v", err)
	}
	if err := errors.Join(l.DelPod(t.Context(), late.ID()), l.DelPod(t.Context(), old.ID())); err != nil {
		t.Error(err)
	}
	await.That(t, "the service has the port when the pod is gone", func() error {
		c, err := dialTCP(l.far.Netns, netip.AddrPortFrom(node, hostPort+1))
		if err == nil {
			c.Close()
		}
		return err
	})
	labtest.Delete(t, l.Lab, of+early)
	await.That(t, "the agent has seen that the services went", func() error {
		for _, namespace := range []string{victim, tenant} {
			if err := l.Agent("node1").Get(t.Context(), service.URL+"?service="+namespace+"/web", &service.Report{}); err == nil {
				return fmt.Errorf("service %s/web is there", namespace)
			}
		}
		return nil
	})
}
