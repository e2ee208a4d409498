package integration

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

const serviceManifest = `apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  type: LoadBalancer
  healthCheckNodePort: 30099
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  externalTrafficPolicy: %s
  ports: [{name: http, protocol: TCP, port: 80, targetPort: http, nodePort: 30080}]
`

const sliceManifest = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-%s
  namespace: default
  labels: {kubernetes.io/service-name: web}
  annotations: {endpoints.kubernetes.io/last-change-trigger-time: "%s"}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: %d}]
endpoints: [{addresses: [%s], nodeName: %s, conditions: {ready: true}}]
`

func TestServices(t *testing.T) {
	require(t)
	opts := options("sv")
	opts.ServiceConfig = "services: vswitch\n"
	l := labtest.Up(t, opts)
	a1, b1, a2 := pod(t, l, "a1", "node1"), pod(t, l, "b1", "node1"), pod(t, l, "a2", "node2")
	host := func(netns string) *vswitchtest.Host { return &vswitchtest.Host{NetNS: lab.NetnsPath(netns)} }
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	node1, err := st.Node("node1")
	if err != nil {
		t.Fatal(err)
	}
	slices := map[string]string{}
	for _, p := range []lab.Pod{a1, a2} { // named ports differ per pod
		port := host(p.Netns).Serve(t, p.Address.String())
		slices[p.Name] = fmt.Sprintf(sliceManifest, p.Name, time.Now().Format(time.RFC3339Nano), port, p.Address, p.Node)
	}
	file := filepath.Join(t.TempDir(), "web.yaml")
	apply := func(policy string, pods ...string) {
		t.Helper()
		text := fmt.Sprintf(serviceManifest, policy)
		if policy != "Local" { // an API server rejects it for other policies
			text = strings.Replace(text, "  healthCheckNodePort: 30099\n", "", 1)
		}
		for _, p := range pods {
			text += slices[p]
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Apply(t.Context(), file); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(pod string) {
		t.Helper()
		gone := filepath.Join(t.TempDir(), "gone.yaml")
		if err := errors.Join(os.WriteFile(gone, []byte(slices[pod]), 0o600)); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Delete(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	client := clientIn(st.Underlay())
	nodeIP := node1.Address.Addr()
	clusterIP := netip.MustParseAddr("10.96.0.10")
	sees := func(what, netns string, to netip.Addr, port int, want string) {
		t.Helper()
		await.That(t, what, func() error {
			seen, err := host(netns).Ask(to.String(), port)
			if err == nil && !strings.HasPrefix(seen, want) {
				err = fmt.Errorf("the endpoint sees %s, want %s", seen, want)
			}
			return err
		})
	}
	refused := func(what, netns string) {
		t.Helper()
		await.That(t, what, func() error {
			start := time.Now()
			_, err := host(netns).Ask(clusterIP.String(), 80)
			if !errors.Is(err, syscall.ECONNREFUSED) || time.Since(start) > 2*time.Second {
				return fmt.Errorf("got %v after %v, want %v at once", err, time.Since(start), syscall.ECONNREFUSED)
			}
			return nil
		})
	}

	refused("a cluster IP that no service has", a1.Netns)
	apply("Cluster")
	refused("no endpoint, from a pod", a1.Netns)
	refused("no endpoint, from the node", node1.Netns)

	await.That(t, "it is known why a service without endpoints is not reached", func() error {
		a, code := askWhy(t, l, a1.Name, clusterIP.String(), "80")
		if code != 1 || a.Verdict != why.NotReached || !strings.Contains(fmt.Sprint(a.Findings), "has no endpoint: clients are refused") {
			return fmt.Errorf("exit code %d, %+v", code, a)
		}
		return nil
	})
	apply("Cluster", "a2")
	sees("a pod reaches an endpoint on another node", a1.Netns, clusterIP, 80, a1.Address.String())
	if a, code := askWhy(t, l, a1.Name, "svc/web", "80"); code != 0 || a.Verdict != why.Reached || !strings.Contains(fmt.Sprint(a.Way), "connections go to "+a2.Address.String()) {
		t.Errorf("why is a service reached: exit code %d, %+v", code, a)
	}
	sees("so does the endpoint itself", a2.Netns, clusterIP, 80, "10.1.")
	sees("so does the node, through the overlay", node1.Netns, clusterIP, 80, "192.168.30.")
	sees("so does a client outside, at a node port of another node", st.Underlay(), nodeIP, 30080, "192.168.30.")
	sees("so does a pod at the node port of its node", b1.Netns, nodeIP, 30080, b1.Address.String())

	apply("Local", "a1", "a2")
	outside := lab.RouterAddress.Addr().String()
	sees("with the policy Local, the client outside is seen", st.Underlay(), nodeIP, 30080, outside)
	healthCheck := func(what string, status int, weight string) {
		t.Helper()
		await.That(t, what, func() error {
			response, err := client.Get(fmt.Sprintf("http://%s:30099/", nodeIP))
			if err != nil {
				return err
			}
			response.Body.Close()
			if got := response.Header.Get("X-Load-Balancing-Endpoint-Weight"); response.StatusCode != status || got != weight {
				return fmt.Errorf("a load balancer got %s, weight %s", response.Status, got)
			}
			return nil
		})
	}
	healthCheck("load balancers learn of the local endpoint", http.StatusOK, "1")
	remove("a1")
	healthCheck("load balancers learn that no local endpoint exists", http.StatusServiceUnavailable, "0")
	await.That(t, "without a local endpoint, it gets nothing", func() error {
		if _, err := host(st.Underlay()).Ask(nodeIP.String(), 30080); err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("got %v, want a time-out", err)
		}
		return nil
	})
	sees("pods still reach endpoints elsewhere there", b1.Netns, nodeIP, 30080, b1.Address.String())

	out, err := contivLab(t, l, "ctl", "services", "default/web", "--node", "node1")
	if err != nil || !strings.Contains(out, a2.Address.String()+":") || !strings.Contains(out, "config/vpp/nat/v2/dnat44/default/web") || !strings.Contains(out, "CONFIGURED") {
		t.Errorf("contivctl services: %v\n%s", err, out)
	}
	if out, err := contivLab(t, l, "ctl", "explain", "svc/web", "--node", "node1"); err != nil || !strings.Contains(out, "node1: service default/web is CONFIGURED") {
		t.Errorf("contivctl explain: %v\n%s", err, out)
	}
	text := metrics(t, l, "node1")
	for _, never := range []string{`contiv_service_network_programming_duration_seconds_count{node="node1"} 0`, `contiv_service_syncs_total{node="node1",result="ok"} 0`} {
		if name, _, _ := strings.Cut(never, "{"); strings.Contains(text, never) || !strings.Contains(text, name) {
			t.Errorf("metrics have %s, or nothing of it", never)
		}
	}

	for metric, count := range map[string]string{"natSessions": "[1-9]", "tcpNatSessions": "[1-9]", "otherNatSessions": "0"} {
		if line := regexp.MustCompile(`(?m)^` + metric + `\{node="node1"\} ` + count); !line.MatchString(text) {
			t.Errorf("the metric %s of node1 is not %s, with connections of TCP only", metric, count)
		}
	}

	requireConnectionsAcrossProxies(t, l, node1.Netns, a1.Netns, a2)

	requireRestartWithoutOperations(t, l, "node1")
	sees("after a restart of the agent", a1.Netns, clusterIP, 80, a1.Address.String())
	if _, err := l.Delete(t.Context(), file); err != nil && !errors.Is(err, lab.ErrNotFound) { // some slices no longer exist
		t.Fatal(err)
	}
	refused("a service that is gone", a1.Netns)
	labtest.RequireQuiet(t, l)
}

const echoManifest = `apiVersion: v1
kind: Service
metadata: {name: echo, namespace: default}
spec:
  clusterIP: 10.96.0.20
  clusterIPs: [10.96.0.20]
  ports: [{protocol: TCP, port: 7, targetPort: 7007}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: echo-1, namespace: default, labels: {kubernetes.io/service-name: echo}}
addressType: IPv4
ports: [{protocol: TCP, port: 7007}]
endpoints: [{addresses: ["%s"], nodeName: %s, conditions: {ready: true}}]
`

// requireConnectionsAcrossProxies lets kube-proxy take over the services of a node and removes it
// again. Established connections survive, and new ones always work.
func requireConnectionsAcrossProxies(t *testing.T, l *lab.Lab, node, client string, endpoint lab.Pod) {
	t.Helper()
	labtest.Echo(t, endpoint.Netns, ":7007")
	file := filepath.Join(t.TempDir(), "echo.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, echoManifest, endpoint.Address, endpoint.Node), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	var open []conversation
	connect := func(when string) {
		t.Helper()
		await.That(t, when+", a new connection", func() error {
			c, err := converse(client, "10.96.0.20:7")
			if err == nil {
				open = append(open, c)
				t.Cleanup(func() { c.Close() })
			}
			return err
		})
		for i, c := range open {
			if err := c.say(when); err != nil {
				t.Errorf("%s, connection %d of %d: %v", when, i+1, len(open), err)
			}
		}
	}
	translates := func(want bool) {
		t.Helper()
		await.That(t, fmt.Sprintf("the vswitch translates: %v", want), func() error {
			out, err := exec.Command("ip", "netns", "exec", node, "nft", "list", "map", "ip", "contiv", "nat-static").CombinedOutput()
			if has := strings.Contains(string(out), "10.96.0.20"); err != nil || has != want {
				return fmt.Errorf("%v: %s", err, out)
			}
			return nil
		})
	}
	translates(true)
	connect("while the vswitch translates")
	command.In(t, node, fmt.Sprintf("nft -f - <<E\ntable ip kube-proxy {\nchain services { type nat hook prerouting priority dstnat; ip daddr 10.96.0.20 tcp dport 7 dnat to %s:7007; }\n}\nE", endpoint.Address))
	translates(false)
	connect("while kube-proxy translates")
	command.In(t, node, "nft delete table ip kube-proxy")
	translates(true)
	connect("when the vswitch translates again")
}
