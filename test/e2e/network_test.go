package e2e_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	corev1 "k8s.io/api/core/v1"
)

func TestPodsGetTheAddressesThatContivAllocates(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "addresses")
	n.apply(workload("Deployment", "web", 6, ""))
	n.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	seen := map[string]string{}
	perNode := map[string]int{}
	for _, pod := range n.pods() {
		ip := pod.Status.PodIP
		perNode[pod.Spec.NodeName]++
		if other, double := seen[ip]; double {
			t.Errorf("%s and %s both have %s", pod.Name, other, ip)
		}
		seen[ip] = pod.Name
		var report ipnet.IPAMReport
		if err := cluster.Agent(pod.Spec.NodeName).Get(t.Context(), ipnet.IPAMURL, &report); err != nil {
			t.Fatal(err)
		}
		if subnet := netip.MustParsePrefix(report.PodSubnetThisNode); !subnet.Contains(netip.MustParseAddr(ip)) {
			t.Errorf("%s on %s has %s, which is not in %s", pod.Name, pod.Spec.NodeName, ip, subnet)
		}
		if held := allocation(t, pod); held != ip {
			t.Errorf("%s has %s, allocated is %q", pod.Name, ip, held)
		}
		// The pod's own view.
		if out := n.kubectl("exec", pod.Name, "--", "ip", "-4", "-o", "address", "show", "dev", "eth0"); !strings.Contains(out, " "+ip+"/") {
			t.Errorf("%s has status.podIP %s, and inside: %s", pod.Name, ip, out)
		}
	}
	if perNode["node1"] != 3 || perNode["node2"] != 3 {
		t.Errorf("pods per node: %v", perNode)
	}
}

// allocation returns the address that the agent of the pod's node holds for it.
func allocation(t *testing.T, pod corev1.Pod) string {
	t.Helper()
	var report ipam.AllocationsReport
	if err := cluster.Agent(pod.Spec.NodeName).Get(t.Context(), ipam.URL, &report); err != nil {
		t.Fatal(err)
	}
	for _, a := range report.Pods {
		if a.PodID.Name == pod.Name && a.PodID.Namespace == pod.Namespace {
			return a.MainIP
		}
	}
	return ""
}

func TestEverybodyReachesEveryPod(t *testing.T) {
	needCluster(t)
	one, two := newNamespace(t, "one"), newNamespace(t, "two")
	// The same names in both namespaces.
	var pods []corev1.Pod
	for _, n := range []namespace{one, two} {
		first, second := n.pair()
		pods = append(pods, first, second)
	}
	from := []lab.Endpoint{nodeEndpoint(t, "node1"), nodeEndpoint(t, "node2")}
	for _, pod := range pods {
		from = append(from, endpoint(t, pod))
	}
	for _, source := range from {
		for _, pod := range pods {
			if err := fetch(t, source, pod); err != nil {
				t.Errorf("%s → %s/%s on %s: %v", source.Name, pod.Namespace, pod.Name, pod.Spec.NodeName, err)
			}
			if _, err := lab.Ping(t.Context(), source, endpoint(t, pod)); err != nil {
				t.Errorf("ping %s → %s/%s on %s: %v", source.Name, pod.Namespace, pod.Name, pod.Spec.NodeName, err)
			}
		}
	}
}

func TestPodsReachTheAPIServer(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "api")
	n.pod("client", "node2")
	host, _, err := net.SplitHostPort(cluster.APIServer())
	if err != nil {
		t.Fatal(err)
	}
	// This address is outside the cluster: the node's address hides the pod's.
	out := n.kubectl("exec", "client", "--", "sh", "-c", "nc -w 3 "+host+" 443 </dev/null && echo connected")
	if out != "connected" {
		t.Errorf("says %q", out)
	}
}

func TestHostPortLeadsToThePod(t *testing.T) {
	needKernel(t, "answers of pods do not pass the kernel, which has changed the destination")
	n := newNamespace(t, "hostport")
	n.apply(`apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  nodeSelector: {kubernetes.io/hostname: node2}` + strings.Replace(webPod, "readinessProbe:", "ports: [{containerPort: 8080, hostPort: 8080}]\n    readinessProbe:", 1))
	pod := n.ready("web")
	client := n.pod("client", "node1")
	pod.Status.PodIP = nodeEndpoint(t, "node2").Address.String()
	for _, from := range []lab.Endpoint{nodeEndpoint(t, "node1"), nodeEndpoint(t, "node2"), endpoint(t, client), endpoint(t, pod)} {
		if err := fetch(t, from, pod); err != nil {
			t.Errorf("%s → %s: %v", from.Name, pod.Status.PodIP, err)
		}
	}
	n.kubectl("delete", "pod", "web")
	if err := fetch(t, nodeEndpoint(t, "node1"), pod); err == nil {
		t.Error("the port still leads to a deleted pod")
	}
}

// Contiv also chains the plugin bandwidth; pods request it by annotation.
func TestBandwidthOfAPodIsLimited(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "bandwidth")
	n.apply(`apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {kubernetes.io/ingress-bandwidth: 8M, kubernetes.io/egress-bandwidth: 8M}
spec:
  nodeSelector: {kubernetes.io/hostname: node2}` + webPod)
	checkReachable(t, n.ready("web"))
	limits := func() int {
		out, err := cluster.Lab().Exec(t.Context(), "node2", "tc", "qdisc", "show")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(out, "tbf") // one to the pod, one from it
	}
	if got := limits(); got != 2 {
		t.Errorf("%d limits", got)
	}
	n.kubectl("delete", "pod", "web")
	if got := limits(); got != 0 {
		t.Errorf("%d limits after the pod was deleted", got)
	}
}

func TestDeletedPodsLeaveNothing(t *testing.T) {
	needCluster(t)
	n := newNamespace(t, "deleted")
	links := func() (all string) {
		for _, node := range cluster.Nodes() {
			out, err := cluster.Lab().Exec(t.Context(), node.Name, "ip", "-o", "link")
			if err != nil {
				t.Fatal(err)
			}
			all += fmt.Sprintf("%s: %d links\n", node.Name, strings.Count(out, "\n"))
		}
		return all
	}
	await.That(t, "the pods of earlier tests are gone", func() error {
		if left := kubectl(t, "get", "pods", "-A", "-o", "name", "--field-selector", "metadata.namespace!=kube-system"); left != "" {
			return errors.New(left)
		}
		return nil
	})
	before := links()
	n.apply(workload("Deployment", "web", 6, ""))
	n.kubectl("rollout", "status", "deployment/web", "--timeout=60s")
	pods := n.pods()
	n.kubectl("delete", "deployment/web")
	n.kubectl("wait", "pods", "-l", "app=web", "--for=delete", "--timeout=60s")
	for _, pod := range pods {
		await.That(t, pod.Name+" is forgotten", func() error {
			if held := allocation(t, pod); held != "" {
				return fmt.Errorf("%s is still allocated", held)
			}
			return nil
		})
		wired, err := cluster.WiredPods(t.Context(), pod.Spec.NodeName)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range wired {
			if w.Namespace == n.name {
				t.Errorf("%s is still wired", w.Name)
			}
		}
	}
	if after := links(); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}
