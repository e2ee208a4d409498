package integration

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

const service6Manifest = `apiVersion: v1
kind: Service
metadata: {name: web6, namespace: default}
spec:
  type: LoadBalancer
  healthCheckNodePort: 30096
  clusterIP: "fd96::10"
  clusterIPs: ["fd96::10"]
  ipFamilies: [IPv6]
  externalTrafficPolicy: Local
  ports: [{protocol: TCP, port: 80, targetPort: 8090, nodePort: 30086}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web6-1, namespace: default, labels: {kubernetes.io/service-name: web6}}
addressType: IPv6
ports: [{protocol: TCP, port: 8090}]
endpoints: [{addresses: ["%s"], nodeName: %s, conditions: {ready: true}}]
`

// requireServiceOverIPv6 checks connections to a service with an endpoint on node1 and the health
// check node port.
func requireServiceOverIPv6(t *testing.T, l *lab.Lab, endpoint, other lab.Pod) {
	t.Helper()
	labtest.TellPeers(t, endpoint.Netns, 8090)
	file := filepath.Join(t.TempDir(), "web6.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, service6Manifest, endpoint.Address, endpoint.Node), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	node1 := labtest.NodeAddresses(t, l, "node1")[0]
	for what, c := range map[string]struct{ client, to string }{
		"a pod, the cluster IP":       {other.Netns, "[fd96::10]:80"},
		"a pod, a node port":          {other.Netns, netip.AddrPortFrom(node1, 30086).String()},
		"another node, the node port": {l.Name() + "-node2", netip.AddrPortFrom(node1, 30086).String()},
	} {
		await.That(t, "a path exists: "+what, func() error {
			_, _, err := labtest.AskPeer(c.client, "tcp", netip.MustParseAddrPort(c.to))
			return err
		})
	}
	for _, n := range []struct {
		node, weight string
		port, status int
	}{{"node1", "1", 30096, 200}, {"node2", "0", 30096, 503}, {"node2", "", 10256, 200}} {
		url := fmt.Sprintf("http://%s/healthz", netip.AddrPortFrom(labtest.NodeAddresses(t, l, n.node)[0], uint16(n.port)))
		await.That(t, fmt.Sprintf("%s is answered %d", url, n.status), func() error {
			response, err := clientIn(l.Name() + "-node2").Get(url)
			if err != nil {
				return err
			}
			defer response.Body.Close()
			if got := response.Header.Get("X-Load-Balancing-Endpoint-Weight"); response.StatusCode != n.status || got != n.weight {
				return fmt.Errorf("got %s, weight %s", response.Status, got)
			}
			return nil
		})
	}
}

func clientIn(netns string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = lab.InNetns(lab.NetnsPath(netns), func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}}
}

type conversation struct {
	net.Conn
	answers *bufio.Reader
}

func converse(netns, address string) (c conversation, err error) {
	err = lab.InNetns(lab.NetnsPath(netns), func() error {
		c.Conn, err = net.DialTimeout("tcp", address, 2*time.Second)
		return err
	})
	if err == nil {
		c.answers = bufio.NewReader(c)
	}
	return c, err
}

func (c conversation) say(line string) error {
	c.SetDeadline(time.Now().Add(3 * time.Second))
	if _, err := fmt.Fprintln(c, line); err != nil {
		return err
	}
	got, err := c.answers.ReadString('\n')
	if err == nil && got != line+"\n" {
		err = fmt.Errorf("the answer to %q is %q", line, got)
	}
	return err
}
