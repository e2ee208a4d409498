package integration

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/contiv/contiv/test/policylab"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// objectsLab is a dual-stack lab with a server on node1 and two clients. It tests unusual
// Kubernetes objects, including invalid ones that an API server stores.
type objectsLab struct {
	*lab.Lab
	server, near, far lab.Pod
	port              int
}

func TestUnusualObjects(t *testing.T) {
	require(t)
	opts := options("ob")
	opts.ContivConfig, opts.ServiceConfig = policylab.Config, policylab.ServiceConfig
	l := &objectsLab{Lab: labtest.Up(t, opts)}
	labtest.AwaitAddresses(t, l.Lab)
	l.server, l.near, l.far = l.add(t, "server", "node1"), l.add(t, "near", "node1"), l.add(t, "far", "node2")
	l.port = l.host(l.server.Netns).Serve(t, l.server.Address.String())
	t.Run("labels that exclude services", l.testExcludedServices)
	t.Run("addresses and ports with the same digits in a row", l.testJoinedDigits)
	t.Run("addresses of services", l.testTextsOfServices)
	t.Run("networks of policies", l.testTextsOfPolicies)
	t.Run("invalid parts of policies", l.testInvalidPolicies)
	t.Run("nodes as peers", l.testNodesAsPeers)
	t.Run("unused cluster IPs", l.testUnusedClusterIPs)
	t.Run("ServiceCIDRs", l.testServiceCIDRs)
}

func (l *objectsLab) add(t *testing.T, name, node string) lab.Pod {
	t.Helper()
	template := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}}
	return labtest.AddPods(t, l.Lab, lab.PodSpec{Name: name, Node: node, Template: template})[0]
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

// A service-proxy-name or headless label excludes a service or an EndpointSlice at any time and
// with any value.
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

// An address and a port identify a frontend even if the concatenation of their digits is ambiguous.
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

// keep stores objects without validation until the test ends.
func (l *objectsLab) keep(t *testing.T, name, text string) {
	t.Helper()
	file := l.Path("manifests", name+".yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
}

func (l *objectsLab) statusTells(t *testing.T, tells bool, texts ...string) {
	t.Helper()
	await.That(t, fmt.Sprintf("contivctl status shows %q: %v", texts, tells), func() error {
		out, _ := contivLab(t, l.Lab, "ctl", "status")  // the exit code reports problems, too
		words := strings.Join(strings.Fields(out), " ") // tables wrap lines
		for _, text := range texts {
			if strings.Contains(words, text) != tells {
				return fmt.Errorf("%q: %s", text, out)
			}
		}
		return nil
	})
}

// Addresses of services are parsed as in Kubernetes. A service with an invalid address works
// without it, and the status names it.
func (l *objectsLab) testTextsOfServices(t *testing.T) {
	address := l.server.Address.As4()
	zeros := fmt.Sprintf("%03d.%03d.%03d.%03d", address[0], address[1], address[2], address[3])
	manifest := func(externalIP, endpoint string) string {
		return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: texts, namespace: default}
spec:
  type: LoadBalancer
  clusterIP: 010.096.000.042
  clusterIPs: [010.096.000.042]
  ports: [{name: p, port: 80, targetPort: 8080}]
  externalIPs: ["198.051.100.009", "::ffff:198.51.100.11", "%s"]
  loadBalancerSourceRanges: ["010.000.000.001/8"]
status: {loadBalancer: {ingress: [{ip: "198.051.100.010"}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: texts-1, namespace: default, labels: {kubernetes.io/service-name: texts}}
addressType: IPv4
ports: [{name: p, port: %d}]
endpoints: [{addresses: ["%s"], nodeName: node1, conditions: {ready: true}}]
`, externalIP, l.port, endpoint)
	}
	for _, endpoint := range []string{zeros, "::ffff:" + l.server.Address.String()} {
		l.keep(t, "texts", manifest("198.51.100.12", endpoint))
		for _, to := range []string{"10.96.0.42", "198.51.100.9", "198.51.100.10", "198.51.100.11", "198.51.100.12"} {
			l.reaches(t, fmt.Sprintf("%s at %s", endpoint, to), l.far.Netns, to, 80)
		}
	}
	l.statusTells(t, false, "service default/texts", "endpointslice default/texts-1")
	l.keep(t, "texts", strings.Replace(manifest("198.51.100.300", zeros), `endpoints: [`, `endpoints: [{addresses: ["10.1.1.1x"]}, `, 1))
	l.statusTells(t, true, `service default/texts has fields that cannot be read and have no effect: spec.externalIPs[2]: "198.51.100.300" is no IP address`,
		`endpointslice default/texts-1 has fields that cannot be read and have no effect: endpoints[0].addresses[0]`)
	for _, to := range []string{"10.96.0.42", "198.51.100.9", "198.51.100.10"} {
		l.reaches(t, "in addition to an unreadable address, "+to, l.far.Netns, to, 80)
	}
	l.keep(t, "texts", manifest("198.51.100.12", zeros))
	l.statusTells(t, false, "service default/texts", "endpointslice default/texts-1")
}

// Networks of policies are parsed as in Kubernetes, in allow rules, exceptions and deny rules.
func (l *objectsLab) testTextsOfPolicies(t *testing.T) {
	other := l.add(t, "other", "node2")
	port := l.host(other.Netns).Serve(t, other.Address.String())
	address := func(p lab.Pod) (mapped, zeros string) {
		a := p.Address.As4()
		return "::ffff:" + p.Address.String() + "/128", fmt.Sprintf("%03d.%03d.%03d.%03d/032", a[0], a[1], a[2], a[3])
	}
	mapped, zeros := address(l.server)
	otherMapped, _ := address(other)
	egress := func(peers string) string {
		return fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: texts, namespace: default}
spec:
  podSelector: {matchLabels: {app: far}}
  policyTypes: [Egress]
  egress: [%s]
`, peers)
	}
	deny := func(networks string) string {
		return fmt.Sprintf(`apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: texts}
spec:
  tier: Admin
  priority: 10
  subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: far}}}}
  egress: [{name: r, action: Deny, to: [{networks: [%s]}]}]
`, networks)
	}
	for _, c := range []struct {
		name, policy  string
		server, other bool // expected connectivity
	}{
		{"an allowed address as IPv6", egress(fmt.Sprintf("{to: [{ipBlock: {cidr: %q}}]}", mapped)), true, false},
		{"an allowed address with zeros", egress(fmt.Sprintf("{to: [{ipBlock: {cidr: %q}}]}", zeros)), true, false},
		{"both, and another rule", egress(fmt.Sprintf("{to: [{ipBlock: {cidr: %q}}]}, {to: [{ipBlock: {cidr: %q}}]}", mapped, other.Address.String()+"/32")), true, true},
		{"an exception as IPv6", egress(fmt.Sprintf("{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [%q]}}]}", mapped)), false, true},
		{"an exception with zeros", egress(fmt.Sprintf("{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [%q]}}]}", zeros)), false, true},
		{"host bits", egress(fmt.Sprintf("{to: [{ipBlock: {cidr: %s/8, except: [%s/24]}}]}", other.Address, l.server.Address)), false, true},
		{"a denied address as IPv6", deny(fmt.Sprintf("%q", mapped)), false, true},
		{"a denied address with zeros", deny(fmt.Sprintf("%q", zeros)), false, true},
		{"denied addresses of both forms", deny(fmt.Sprintf("%q, %s/32", otherMapped, l.server.Address)), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.keep(t, "texts", c.policy)
			l.isReached(t, l.far, l.server, l.port, c.server)
			l.isReached(t, l.far, other, port, c.other)
		})
	}
}

// Invalid parts of policies fail closed, valid parts apply, and commands show the invalid ones.
func (l *objectsLab) testInvalidPolicies(t *testing.T) {
	other := l.add(t, "second", "node2")
	port := l.host(other.Netns).Serve(t, other.Address.String())
	network := func(rules string) string {
		return fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: invalid, namespace: default}
spec: {podSelector: {matchLabels: {app: far}}, policyTypes: [Egress], egress: [%s]}
`, rules)
	}
	cluster := func(tier, rules string) string {
		return fmt.Sprintf(`apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: invalid}
spec: {tier: %s, priority: 10, subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {app: far}}}}, egress: [%s]}
`, tier, rules)
	}
	toServer, toOther := l.server.Address.String()+"/32", other.Address.String()+"/32"
	for _, c := range []struct {
		name, policy  string
		server, other bool   // expected connectivity
		part          string // the invalid part of the policy
	}{
		{"a network", network(fmt.Sprintf("{to: [{ipBlock: {cidr: x}}, {ipBlock: {cidr: %s}}]}", toOther)), false, true, `spec.egress[0].to[0].ipBlock.cidr: "x" is no network`},
		{"an exception", network(fmt.Sprintf("{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [x]}}]}, {to: [{ipBlock: {cidr: %s}}]}", toOther)), false, true, "spec.egress[0].to[0].ipBlock.except[0]"},
		{"an operator", network(fmt.Sprintf("{to: [{podSelector: {matchExpressions: [{key: app, operator: Near, values: [server]}]}}]}, {to: [{ipBlock: {cidr: %s}}]}", toOther)), false, true, "spec.egress[0].to[0].podSelector"},
		{"the end of a range without a port", network(fmt.Sprintf("{to: [{podSelector: {matchLabels: {app: server}}}], ports: [{endPort: 65535}]}, {to: [{ipBlock: {cidr: %s}}]}", toOther)), false, true, "spec.egress[0].ports[0].endPort"},
		{"a denied network", cluster("Admin", fmt.Sprintf("{action: Deny, to: [{networks: [%s, x]}], protocols: [{tcp: {destinationPort: {number: %d}}}]}", toServer, l.port)), false, true, "spec.egress[0].to[0].networks[1]"},
		{"a denied peer", cluster("Baseline", fmt.Sprintf("{action: Accept, to: [{networks: [%s]}]}, {action: Deny, to: [{domainNames: [x.example]}]}", toOther)), false, true, "spec.egress[1].to[0]: a peer of an unknown kind"},
		{"an accepted peer", cluster("Admin", fmt.Sprintf("{action: Accept, to: [{networks: [x, %s]}]}, {action: Deny, to: [{namespaces: {}}]}", toOther)), false, true, "spec.egress[0].to[0].networks[0]"},
		{"a passed port", cluster("Admin", fmt.Sprintf("{action: Pass, to: [{networks: [%s]}], protocols: [{tcp: {destinationPort: {number: 70000}}}]}", toServer)), false, true, "spec.egress[0].protocols[0]"},
		{"an action", cluster("Admin", fmt.Sprintf("{action: Log, to: [{networks: [%s]}]}", toServer)), false, true, `spec.egress[0].action: "Log"`},
		{"a tier", cluster("Middle", fmt.Sprintf("{action: Accept, to: [{networks: [%s]}]}, {action: Deny, to: [{networks: [%s]}]}", toOther, toServer)), false, true, `spec.tier: "Middle"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l.keep(t, "invalid", c.policy)
			l.isReached(t, l.far, l.server, l.port, c.server)
			l.isReached(t, l.far, other, port, c.other)
			l.statusTells(t, true, "invalid is invalid in part: "+c.part)
			await.That(t, "contivctl policies says why", func() error {
				out, _ := contivLab(t, l.Lab, "ctl", "policies")
				if words := strings.Join(strings.Fields(out), " "); !strings.Contains(words, c.part) || !strings.Contains(words, "0/2") {
					return errors.New(out)
				}
				return nil
			})
		})
	}
	t.Run("restart", func(t *testing.T) {
		l.keep(t, "invalid", cluster("Admin", fmt.Sprintf("{action: Pass, to: [{networks: [%s]}], protocols: [{}]}", toServer)))
		l.isReached(t, l.far, l.server, l.port, false)
		labtest.RequireQuietRestart(t, l.Lab, "node2")
		l.isReached(t, l.far, l.server, l.port, false)
		l.statusTells(t, true, "policy invalid is invalid in part: spec.egress[0].protocols[0]")
	})
	l.statusTells(t, false, "is invalid in part")
	l.isReached(t, l.far, l.server, l.port, true)
}

func (l *objectsLab) isReached(t *testing.T, from, to lab.Pod, port int, may bool) {
	t.Helper()
	await.That(t, fmt.Sprintf("%s reaches %s: %v", from.Name, to.Name, may), func() error {
		if _, err := l.host(from.Netns).Ask(to.Address.String(), port); (err == nil) != may {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}
