package integration

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

const halfClosedManifest = `apiVersion: v1
kind: Service
metadata: {name: half, namespace: default}
spec: {clusterIP: 10.96.0.77, clusterIPs: [10.96.0.77], ports: [{protocol: TCP, port: 80, targetPort: 7300}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: half-a, namespace: default, labels: {kubernetes.io/service-name: half}}
addressType: IPv4
ports: [{protocol: TCP, port: 7300}]
endpoints: [{addresses: [%s], nodeName: node2, conditions: {ready: true}}]
`

// Connections through services have the timeouts of kube-proxy, for clients in pods and on nodes,
// by default and with options of service.conf.
func TestTimeoutsOfServices(t *testing.T) {
	require(t)
	for name, test := range map[string]struct {
		config                 string
		established, closeWait uint32 // seconds
	}{
		"defaults": {"services: vswitch\n", 24 * 3600, 3600},
		"options":  {"services: vswitch\nconntrack: {tcpEstablishedTimeout: 2h, tcpCloseWaitTimeout: 20m}\n", 2 * 3600, 1200},
	} {
		t.Run(name, func(t *testing.T) {
			opts := options("hc")
			opts.ServiceConfig = test.config
			l := labtest.Up(t, opts)
			client, server := pod(t, l, "client", "node1"), pod(t, l, "server", "node2")
			st, err := l.State()
			if err != nil {
				t.Fatal(err)
			}
			node1, node2 := st.Nodes[0], st.Nodes[1]
			accepted := accept(t, server.Netns, netip.AddrPortFrom(server.Address, 7300))
			file := filepath.Join(t.TempDir(), "half.yaml")
			if err := os.WriteFile(file, fmt.Appendf(nil, halfClosedManifest, server.Address), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := l.Apply(t.Context(), file); err != nil {
				t.Fatal(err)
			}
			for _, from := range []string{client.Netns, node1.Netns} {
				var c net.Conn
				await.That(t, "the service answers", func() (err error) {
					c, err = dialTCP(from, netip.MustParseAddrPort("10.96.0.77:80"))
					return err
				})
				defer c.Close()
				end := <-accepted
				lives(t, node1, c, test.established)
				if err := c.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
				if _, err := end.Read(make([]byte, 1)); err != io.EOF {
					t.Fatalf("the server reads %v, want the end", err)
				}
				lives(t, node1, c, test.closeWait)
				lives(t, node2, end, test.closeWait)
				answer := make([]byte, 4)
				if _, err := end.Write([]byte("done")); err != nil {
					t.Fatal(err)
				}
				if _, err := io.ReadFull(c, answer); err != nil {
					t.Errorf("the answer of a half-closed connection: %v", err)
				}
			}
		})
	}
}

func accept(t *testing.T, netns string, at netip.AddrPort) <-chan net.Conn {
	t.Helper()
	var listener net.Listener
	if err := labtest.Inside(netns, func() (err error) {
		listener, err = net.Listen("tcp", at.String())
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	accepted := make(chan net.Conn)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			select {
			case accepted <- c:
			case <-t.Context().Done():
				return
			}
		}
	}()
	return accepted
}

// lives waits until a node removes an idle connection and checks that this takes about the given
// seconds.
func lives(t *testing.T, node lab.Node, c net.Conn, seconds uint32) {
	t.Helper()
	local, remote := netip.MustParseAddrPort(c.LocalAddr().String()).Port(), netip.MustParseAddrPort(c.RemoteAddr().String()).Port()
	await.That(t, fmt.Sprintf("%s forgets the connection after %d s", node.Name, seconds), func() error {
		for _, flow := range connections(t, node, false) {
			for _, tuple := range []struct{ src, dst uint16 }{{flow.Forward.SrcPort, flow.Forward.DstPort}, {flow.Reverse.SrcPort, flow.Reverse.DstPort}} {
				if tuple.src != local || tuple.dst != remote {
					continue
				}
				if flow.TimeOut > seconds || flow.TimeOut+60 < seconds {
					return fmt.Errorf("it is forgotten after %d s", flow.TimeOut)
				}
				return nil
			}
		}
		return fmt.Errorf("it is unknown")
	})
}
