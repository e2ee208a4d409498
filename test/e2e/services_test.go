package e2e_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
)

// kube-proxy implements them, or Contiv in a cluster without it.
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

// checkService requires that the service always answers, and both of its pods eventually:
// kube-proxy chooses at random among the pods known to it.
func checkService(t *testing.T, from lab.Endpoint, address string) {
	t.Helper()
	seen := map[string]bool{}
	await.That(t, from.Name+" → service "+address+": both pods answer", func() error {
		for range 100 {
			name, err := page(t, from.Netns, address)
			if err != nil || !strings.HasPrefix(name, "web-") {
				t.Fatalf("%s → service %s: %q, %v", from.Name, address, name, err)
			}
			if seen[name] = true; len(seen) == 2 {
				return nil
			}
		}
		return fmt.Errorf("always %v", seen)
	})
}

// The agents detect whether kube-proxy runs, and replace it if not.
func TestServicesAreTranslatedByOneOfTheTwo(t *testing.T) {
	needKernel(t, "test/vpp tests the conflict with kube-proxy on VPP nodes")
	for _, node := range cluster.Nodes() {
		var report service.Report
		await.That(t, "the service proxy on "+node.Name, func() error {
			return cluster.Agent(node.Name).Get(t.Context(), service.URL, &report)
		})
		if t1 := report.Translator; t1.VSwitch != options.WithoutProxy || (t1.OtherProxy == "") != options.WithoutProxy {
			t.Errorf("%s, without kube-proxy %v: %+v", node.Name, options.WithoutProxy, t1)
		}
	}
}

// resolver is an idle pod on the node's or the pod network.
const resolver = `apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  nodeSelector: {kubernetes.io/hostname: %s}
  hostNetwork: %t
  dnsPolicy: ClusterFirstWithHostNet
  terminationGracePeriodSeconds: 0
  containers: [{name: sleep, image: ` + e2e.BusyboxImage + `, command: [sleep, infinity]}]
---
`

// Kubelet gives pods the cluster IP of DNS, whose pods, on either node, learn of services through
// the API server's cluster IP.
func TestDNSAnswersByName(t *testing.T) {
	needCluster(t)
	if !cluster.HasDNS() {
		t.Skip("make e2e E2E_PROXY=none: pods of nodes with VPP reach no DNS where kube-proxy translates")
	}
	n := newNamespace(t, "names")
	manifest := workload("Deployment", "web", 2, "") + `
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: each}
spec: {clusterIP: None, ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 8080}]}
---
`
	var clients []string
	for _, node := range cluster.Nodes() {
		for suffix, hostNetwork := range map[string]bool{"": false, "-host": true} {
			clients = append(clients, node.Name+suffix)
			manifest += fmt.Sprintf(resolver, node.Name+suffix, node.Name, hostNetwork)
		}
	}
	n.apply(manifest)
	n.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	n.kubectl(append([]string{"wait", "--for=condition=Ready", "--timeout=60s"}, prefixed("pod/", clients)...)...)
	var ips []string
	for _, pod := range n.pods() {
		if pod.Labels["app"] == "web" {
			for _, ip := range pod.Status.PodIPs {
				ips = append(ips, ip.IP)
			}
		}
	}
	clusterIPs := strings.Fields(n.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIPs[*]}"))
	for _, client := range clients {
		for name, want := range map[string][]string{"web": clusterIPs, "web.names.svc.cluster.local": clusterIPs, "each.names.svc.cluster.local": ips} {
			// DNS knows the service some time after its creation.
			await.That(t, client+" resolves "+name, func() error {
				got, want := resolve(n, client, name), slices.Sorted(slices.Values(want))
				if !slices.Equal(got, want) {
					return fmt.Errorf("it has the addresses %v, want %v", got, want)
				}
				return nil
			})
		}
		// Debian's static busybox crashes where it resolves names or ports with the C library, as
		// wget does.
		for _, ip := range clusterIPs {
			if out := n.kubectl("exec", client, "--", "sh", "-c", `printf 'GET /index.html HTTP/1.0\r\n\r\n' | nc -w 5 `+ip+" 80"); !strings.Contains(out, "web-") {
				t.Errorf("%s asks %s: it says %q", client, ip, out)
			}
		}
	}
}

// resolve returns the addresses that a pod resolves for a name, sorted.
func resolve(n namespace, client, name string) (got []string) {
	n.Helper()
	_, answer, _ := strings.Cut(n.kubectl("exec", client, "--", "sh", "-c", "nslookup "+name+"; true"), "Name:") // it fails if one of the IP versions has no answer
	for line := range strings.Lines(answer) {
		if _, address, found := strings.Cut(strings.TrimSpace(line), "Address"); found {
			fields := strings.Fields(address) // "Address: 10.1.2.3", in older versions "Address 1: 10.1.2.3"
			got = append(got, fields[len(fields)-1])
		}
	}
	slices.Sort(got)
	return slices.Compact(got)
}

func prefixed(prefix string, names []string) (list []string) {
	for _, name := range names {
		list = append(list, prefix+name)
	}
	return list
}
