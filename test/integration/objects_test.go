package integration

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/policylab"
	"github.com/contiv/contiv/vswitch/vswitchtest"
)

// objectsLab is a lab of both IP versions with one server on node1 and two clients, for Kubernetes objects that are valid but unusual,
// or that an API server keeps although they are not valid.
type objectsLab struct {
	*lab.Lab
	server, near, far lab.Pod
	port              int
}

// Unusual objects of Kubernetes, from the manifest to packets.
func TestUnusualObjects(t *testing.T) {
	require(t)
	opts := options("ob")
	opts.ContivConfig, opts.ServiceConfig = policylab.Config, policylab.ServiceConfig
	l := &objectsLab{Lab: labtest.Up(t, opts)}
	labtest.AwaitAddresses(t, l.Lab)
	l.server, l.near, l.far = pod(t, l.Lab, "server", "node1"), pod(t, l.Lab, "near", "node1"), pod(t, l.Lab, "far", "node2")
	l.port = l.host(l.server.Netns).Serve(t, l.server.Address.String())
	t.Run("labels that exclude services", l.testExcludedServices)
	t.Run("addresses and ports with the same digits in a row", l.testJoinedDigits)
}

func (l *objectsLab) host(netns string) *vswitchtest.Host {
	return &vswitchtest.Host{NetNS: lab.NetnsPath(netns)}
}

func (l *objectsLab) reaches(t *testing.T, what, netns, to string, port int) {
	t.Helper()
	await.That(t, what, func() error {
		_, err := l.host(netns).Ask(to, port)
		return err
	})
}

// refused waits until a cluster IP is translated to nothing.
func (l *objectsLab) refused(t *testing.T, what, netns, to string, port int) {
	t.Helper()
	await.That(t, what, func() error {
		start := time.Now()
		if _, err := l.host(netns).Ask(to, port); !errors.Is(err, syscall.ECONNREFUSED) || time.Since(start) > 2*time.Second {
			return fmt.Errorf("got %v after %v, want %v at once", err, time.Since(start), syscall.ECONNREFUSED)
		}
		return nil
	})
}

// A label takes a service, or one of its slices, away from service proxies, whenever it comes and whatever its value.
func (l *objectsLab) testExcludedServices(t *testing.T) {
	manifest := func(ofService, ofSlice string) string {
		return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: labelled, namespace: default, labels: {app: web%s}}
spec:
  clusterIP: 10.96.0.40
  clusterIPs: [10.96.0.40]
  ports: [{name: http, protocol: TCP, port: 80}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: labelled-1, namespace: default, labels: {kubernetes.io/service-name: labelled%s}}
addressType: IPv4
ports: [{name: http, protocol: TCP, port: %d}]
endpoints: [{addresses: [%s], nodeName: node1, conditions: {ready: true}}]
`, ofService, ofSlice, l.port, l.server.Address)
	}
	for _, label := range []string{`service.kubernetes.io/headless: ""`, `service.kubernetes.io/service-proxy-name: ""`, `service.kubernetes.io/service-proxy-name: other`} {
		for what, text := range map[string]string{"the service": manifest(", "+label, ""), "its slice": manifest("", ", "+label)} {
			labtest.Apply(t, l.Lab, manifest("", ""))
			for _, client := range []lab.Pod{l.near, l.far} {
				l.reaches(t, fmt.Sprintf("%s reaches the service", client.Name), client.Netns, "10.96.0.40", 80)
			}
			labtest.Apply(t, l.Lab, text)
			for _, client := range []lab.Pod{l.near, l.far} {
				l.refused(t, fmt.Sprintf("%s with %s on %s", client.Name, label, what), client.Netns, "10.96.0.40", 80)
			}
		}
	}
	labtest.RequireQuietRestart(t, l.Lab, "node1")
	l.refused(t, "after a restart of the agent", l.near.Netns, "10.96.0.40", 80)
	labtest.Apply(t, l.Lab, manifest("", ""))
	l.reaches(t, "the label is gone", l.near.Netns, "10.96.0.40", 80)
	labtest.Delete(t, l.Lab, manifest("", ""))
}

// An address and a port belong to one frontend, whatever digits follow each other.
func (l *objectsLab) testJoinedDigits(t *testing.T) {
	text := fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: digits, namespace: default}
spec:
  clusterIP: 10.96.0.41
  clusterIPs: [10.96.0.41]
  externalIPs: [198.51.0.1, 198.51.0.11]
  ports: [{name: one, port: 1, targetPort: %[1]d}, {name: eleven, port: 11, targetPort: %[1]d}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: digits-1, namespace: default, labels: {kubernetes.io/service-name: digits}}
addressType: IPv4
ports: [{name: one, port: %[1]d}, {name: eleven, port: %[1]d}]
endpoints: [{addresses: [%[2]s], conditions: {ready: true}}]
`, l.port, l.server.Address)
	labtest.Apply(t, l.Lab, text)
	for _, at := range []string{"198.51.0.1:1", "198.51.0.1:11", "198.51.0.11:1", "198.51.0.11:11", "10.96.0.41:1", "10.96.0.41:11"} {
		to := netip.MustParseAddrPort(at)
		l.reaches(t, "reach "+at, l.far.Netns, to.Addr().String(), int(to.Port()))
	}
	if out, err := contivLab(t, l.Lab, "ctl", "services", "default/digits"); err != nil || strings.Contains(out, "INVALID") {
		t.Errorf("%v\n%s", err, out)
	}
	labtest.Delete(t, l.Lab, text)
}
