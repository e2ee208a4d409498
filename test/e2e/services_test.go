package e2e_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
)

// They are translated by kube-proxy, or by Contiv in a cluster without.
func TestServicesLeadToPods(t *testing.T) {
	needKernel(t, "packets of pods pass no kube-proxy")
	n := newNamespace(t, "services")
	n.apply(workload("Deployment", "web", 2, "") + `
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`)
	n.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	client := n.pod("client", "node1")
	pods := n.pods()
	clusterIPs := strings.Fields(n.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIPs[*]}"))
	if len(clusterIPs) != len(cluster.Addresses(cluster.Nodes()[0])) {
		t.Fatalf("cluster IPs: %v", clusterIPs)
	}
	nodePort := n.kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")

	inside := []lab.Endpoint{nodeEndpoint(t, "node1"), nodeEndpoint(t, "node2"), endpoint(t, client)}
	for _, pod := range pods {
		if pod.Name != "client" {
			inside = append(inside, endpoint(t, pod)) // also to itself
		}
	}
	for _, from := range inside {
		for _, ip := range clusterIPs {
			checkService(t, from, net.JoinHostPort(ip, "80"))
		}
	}
	if out := n.kubectl("exec", client.Name, "--", "sh", "-c", "nc -w 3 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT </dev/null && echo connected"); out != "connected" {
		t.Errorf("a pod → the service of the API server: says %q", out)
	}
	state, err := cluster.Lab().State()
	if err != nil {
		t.Fatal(err)
	}
	outside := lab.Endpoint{Name: "outside of the cluster", Netns: state.Underlay()}
	for _, node := range cluster.Nodes() {
		for _, ip := range cluster.Addresses(node) {
			for _, from := range append(inside, outside) {
				checkService(t, from, net.JoinHostPort(ip.String(), nodePort))
			}
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

// The agents see whether kube-proxy runs, and do its work where it does not.
func TestServicesAreTranslatedByOneOfTheTwo(t *testing.T) {
	needKernel(t, "VPP translates no services")
	for _, node := range cluster.Nodes() {
		var report service.Report
		await.That(t, "who translates services on "+node.Name, func() error {
			return cluster.Agent(node.Name).Get(t.Context(), service.URL, &report)
		})
		if t1 := report.Translator; t1.VSwitch != options.WithoutProxy || (t1.Others == "") != options.WithoutProxy {
			t.Errorf("%s, without kube-proxy %v: %+v", node.Name, options.WithoutProxy, t1)
		}
	}
}
