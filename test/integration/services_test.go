package integration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/vswitch/vswitchtest"
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

// Services of Kubernetes, from the manifest to packets, without kube-proxy.
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
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = lab.InNetns(lab.NetnsPath(st.Underlay()), func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}}
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

	apply("Cluster", "a2")
	sees("a pod reaches an endpoint on another node", a1.Netns, clusterIP, 80, a1.Address.String())
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
				return fmt.Errorf("a load balancer is told %s, weight %s", response.Status, got)
			}
			return nil
		})
	}
	healthCheck("load balancers are told of the local endpoint", http.StatusOK, "1")
	remove("a1")
	healthCheck("load balancers are told that there is none", http.StatusServiceUnavailable, "0")
	await.That(t, "without local endpoint, it is told nothing", func() error {
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
	text := metrics(t, l, "node1")
	for _, never := range []string{`contiv_service_network_programming_duration_seconds_count{node="node1"} 0`, `contiv_service_syncs_total{node="node1",result="ok"} 0`} {
		if name, _, _ := strings.Cut(never, "{"); strings.Contains(text, never) || !strings.Contains(text, name) {
			t.Errorf("metrics have %s, or nothing of it", never)
		}
	}

	requireRestartWithoutOperations(t, l, "node1")
	sees("after a restart of the agent", a1.Netns, clusterIP, 80, a1.Address.String())
	if _, err := l.Delete(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	refused("a service that is gone", a1.Netns)
	labtest.RequireQuiet(t, l)
}
