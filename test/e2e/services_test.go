package e2e_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/lab"
)

// Until Contiv renders services, kube-proxy does, as on any node.
func TestServicesLeadToPods(t *testing.T) {
	needKernel(t, "packets of pods pass no kube-proxy")
	n := newNamespace(t, "services")
	n.apply(workload("Deployment", "web", 2, "") + `
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`)
	n.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	client := n.pod("client", "node1")
	pods := n.pods()
	clusterIP := net.JoinHostPort(n.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}"), "80")
	nodePort := n.kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")

	inside := []lab.Endpoint{nodeEndpoint(t, "node1"), nodeEndpoint(t, "node2"), endpoint(t, client)}
	for _, pod := range pods {
		if pod.Name != "client" {
			inside = append(inside, endpoint(t, pod)) // also to itself
		}
	}
	for _, from := range inside {
		checkService(t, from, clusterIP)
	}
	state, err := cluster.Lab().State()
	if err != nil {
		t.Fatal(err)
	}
	outside := lab.Endpoint{Name: "outside of the cluster", Netns: state.Underlay()}
	for _, node := range cluster.Nodes() {
		address := net.JoinHostPort(node.Address.Addr().String(), nodePort)
		for _, from := range append(inside, outside) {
			checkService(t, from, address)
		}
	}
}

// checkService demands that the service answers, again and again, and that both of
// its pods do, sooner or later: kube-proxy chooses by chance.
func checkService(t *testing.T, from lab.Endpoint, address string) {
	t.Helper()
	seen := map[string]bool{}
	for range 100 {
		name, err := page(t, from.Netns, address)
		if err != nil || !strings.HasPrefix(name, "web-") {
			t.Errorf("%s → service %s: %q, %v", from.Name, address, name, err)
			return
		}
		if seen[name] = true; len(seen) == 2 {
			return
		}
	}
	t.Errorf("%s → service %s: always %s", from.Name, address, fmt.Sprint(seen))
}
