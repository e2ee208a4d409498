// Package policylab measures with packets, in a lab of two nodes, whether policies are enforced.
package policylab

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/ctl/why"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policyLab has the pods x/a and z/a on node1, x/b and z/b on node2.
type policyLab struct {
	*lab.Lab
	pods map[string]lab.Pod
	dir  string
}

// Ports that all pods answer at, by tcp and udp; 80 has the name "web".
var policyPorts = []string{"tcp/80", "tcp/81", "udp/80"}

func newPolicyLab(t *testing.T, l *lab.Lab) *policyLab {
	p := &policyLab{Lab: l, pods: map[string]lab.Pod{}, dir: t.TempDir()}
	for i, name := range []string{"x/a", "x/b", "z/a", "z/b"} {
		ns, pod, _ := strings.Cut(name, "/")
		p.pods[name] = labtest.AddPods(t, p.Lab, lab.PodSpec{Namespace: ns, Name: pod, Node: fmt.Sprint("node", 1+i%2), Template: Template(ns, pod, pod)})[0]
		servePorts(t, p.pods[name])
	}
	// The lab makes namespaces without labels of ours.
	p.apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: x, labels: {team: red}}
---
apiVersion: v1
kind: Namespace
metadata: {name: z, labels: {team: blue}}`)
	return p
}

// Template is a pod with a label, and a port with the name "web".
func Template(ns, pod, label string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pod, Labels: map[string]string{"pod": label}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 80, Protocol: corev1.ProtocolTCP}}}}},
	}
}

// apply gives manifests to KSR; they are removed with the test.
func (p *policyLab) apply(t *testing.T, manifests string) {
	t.Helper()
	file := filepath.Join(p.dir, fmt.Sprint(time.Now().UnixNano(), ".yaml"))
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = p.Delete(t.Context(), file) })
}

func (p *policyLab) remove(t *testing.T, kind, namespace, name string) {
	t.Helper()
	p.removeOf(t, "networking.k8s.io/v1", kind, namespace, name)
}

func (p *policyLab) removeOf(t *testing.T, apiVersion, kind, namespace, name string) {
	t.Helper()
	file := filepath.Join(p.dir, "remove.yaml")
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {namespace: %q, name: %s}\n", apiVersion, kind, namespace, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Delete(t.Context(), file); err != nil {
		t.Fatal(err)
	}
}

// servePorts answers at the ports of a pod until the end of the test.
func servePorts(t *testing.T, pod lab.Pod) {
	t.Helper()
	for _, port := range policyPorts {
		network, number, _ := strings.Cut(port, "/")
		err := labtest.Inside(pod.Netns, func() error {
			if network == "udp" {
				c, err := net.ListenPacket(network, ":"+number)
				if err == nil {
					t.Cleanup(func() { c.Close() })
					go func() {
						buffer := make([]byte, 100)
						for {
							n, from, err := c.ReadFrom(buffer)
							if err != nil {
								return
							}
							_, _ = c.WriteTo(buffer[:n], from)
						}
					}()
				}
				return err
			}
			l, err := net.Listen(network, ":"+number)
			if err == nil {
				t.Cleanup(func() { l.Close() })
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						c.Close()
					}
				}()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// reaches reports whether a connection can be opened.
func reaches(netnsPath, address, port string) bool {
	network, number, _ := strings.Cut(port, "/")
	const wait = 400 * time.Millisecond
	return labtest.Inside(netnsPath, func() error {
		c, err := net.DialTimeout(network, net.JoinHostPort(address, number), wait)
		if err != nil {
			return err
		}
		defer c.Close()
		if network == "tcp" {
			return nil
		}
		if _, err := c.Write([]byte("?")); err != nil {
			return err
		}
		_ = c.SetReadDeadline(time.Now().Add(wait))
		_, err = c.Read(make([]byte, 10))
		return err
	}) == nil
}

type allows func(from, to, port string) bool

// differences are the cells of the table in which packets say something else.
func (p *policyLab) differences(want allows) error {
	var mu sync.Mutex
	var wrong []string
	var all sync.WaitGroup
	for from, client := range p.pods {
		for to, server := range p.pods {
			for _, port := range policyPorts {
				all.Go(func() {
					expected := from == to || want(from, to, port)
					if got := reaches(client.Netns, server.Address.String(), port); got != expected {
						mu.Lock()
						defer mu.Unlock()
						wrong = append(wrong, fmt.Sprintf("%s to %s at %s: %v, want %v", from, to, port, got, expected))
					}
				})
			}
		}
	}
	all.Wait()
	if len(wrong) > 0 {
		return fmt.Errorf("%d cells are wrong: %s", len(wrong), strings.Join(wrong, "; "))
	}
	return nil
}

func (p *policyLab) want(t *testing.T, when string, want allows) {
	t.Helper()
	await.That(t, when, func() error { return p.differences(want) })
}

const policyHead = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: %s, name: %s}\nspec: %s\n"

func (p *policyLab) policy(t *testing.T, namespace, name, spec string) {
	t.Helper()
	p.apply(t, fmt.Sprintf(policyHead, namespace, name, spec))
}

// NetworkPolicies is about those of networking.k8s.io/v1: truth tables between pods, ports and protocols
// while policies and labels change and the agent of a node restarts. That takes VPP along, if the
// node has it.
func NetworkPolicies(t *testing.T, l *lab.Lab, restarted string) {
	p := newPolicyLab(t, l)
	to := func(namespace, pod string) bool { return strings.HasPrefix(pod, namespace+"/") }
	p.want(t, "everything passes without policies", func(_, _, _ string) bool { return true })

	p.policy(t, "x", "deny", "{podSelector: {}}")
	p.want(t, "nobody reaches x", func(_, dst, _ string) bool { return !to("x", dst) })
	for _, name := range []string{"x/a", "x/b"} {
		node, err := lab.Ping(t.Context(), p.node(t, p.pods[name].Node), p.pods[name].Endpoint())
		if err != nil {
			t.Errorf("the node does not reach its own pod %s: %v, %v", name, node, err)
		}
	}

	p.policy(t, "x", "allow-b", "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}], ports: [{port: 80}]}]}")
	fromB := func(src, dst, port string) bool { return src == "x/b" && dst == "x/a" && port == "tcp/80" }
	p.want(t, "x/b reaches x/a at port 80", func(src, dst, port string) bool { return !to("x", dst) || fromB(src, dst, port) })

	p.policy(t, "x", "allow-blue", "{podSelector: {matchExpressions: [{key: pod, operator: In, values: [b]}]}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {pod: a}}}], ports: [{port: web}, {protocol: UDP}]}]}")
	fromBlue := func(src, dst, port string) bool { return src == "z/a" && dst == "x/b" && port != "tcp/81" }
	p.want(t, "z/a reaches the named port of x/b, and all of UDP", func(src, dst, port string) bool {
		return !to("x", dst) || fromB(src, dst, port) || fromBlue(src, dst, port)
	})

	p.policy(t, "z", "egress", fmt.Sprintf("{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 10.1.0.0/16, except: [%s/32]}}], ports: [{port: 80, endPort: 81}]}]}", p.pods["z/b"].Address))
	egress := func(src, dst, port string) bool {
		return src != "z/a" || dst != "z/b" && strings.HasPrefix(port, "tcp/")
	}
	all := func(src, dst, port string) bool {
		return egress(src, dst, port) && (!to("x", dst) || fromB(src, dst, port) || fromBlue(src, dst, port))
	}
	p.want(t, "z/a may only open connections of TCP to others than z/b", all)

	// A restart changes nothing, neither while there is no agent nor after.
	if err := p.StopAgent(t.Context(), restarted); err != nil {
		t.Fatal(err)
	}
	if err := p.differences(all); err != nil {
		t.Errorf("without the agent of %s: %v", restarted, err)
	}
	if err := p.StartAgent(t.Context(), restarted); err != nil {
		t.Fatal(err)
	}
	if err := p.differences(all); err != nil {
		t.Errorf("after the agent was started: %v", err)
	}

	// A pod that gets another label, and one that gets its label.
	p.relabel(t, "x", "b", "c")
	p.want(t, "x/b has lost its label", func(src, dst, port string) bool { return egress(src, dst, port) && !to("x", dst) })
	p.relabel(t, "x", "b", "b")
	p.want(t, "x/b has its label again", all)

	for _, name := range []string{"deny", "allow-b", "allow-blue"} {
		p.remove(t, "NetworkPolicy", "x", name)
	}
	p.want(t, "only egress of z/a is restricted", egress)
	p.remove(t, "NetworkPolicy", "z", "egress")
	p.want(t, "everything passes again", func(_, _, _ string) bool { return true })
	labtest.RequireQuiet(t, p.Lab)
}

func (p *policyLab) clusterPolicy(t *testing.T, name, tier string, priority int, spec string) {
	t.Helper()
	p.apply(t, fmt.Sprintf("apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: %s}\nspec: {tier: %s, priority: %d, %s}\n", name, tier, priority, spec))
}

// ClusterNetworkPolicies is about those of policy.networking.k8s.io/v1alpha2.
func ClusterNetworkPolicies(t *testing.T, l *lab.Lab, restarted string) {
	p := newPolicyLab(t, l)
	in := func(namespace, pod string) bool { return strings.HasPrefix(pod, namespace+"/") }
	const (
		red  = "namespaces: {matchLabels: {team: red}}"
		blue = "namespaces: {matchLabels: {team: blue}}"
		all  = "namespaces: {}"
	)

	p.clusterPolicy(t, "base", "Baseline", 10, "subject: {"+all+"}, ingress: [{action: Accept, from: [{"+red+"}]}, {action: Deny, from: [{"+all+"}]}]")
	base := func(src, _, _ string) bool { return in("x", src) }
	p.want(t, "only red pods reach others", base)

	p.policy(t, "x", "deny", "{podSelector: {matchLabels: {pod: a}}}")
	isolated := func(src, dst, port string) bool { return dst != "x/a" && base(src, dst, port) }
	p.want(t, "a network policy overrides the baseline", isolated)

	p.clusterPolicy(t, "later", "Admin", 9, "subject: {"+all+"}, ingress: [{name: web, action: Deny, from: [{"+all+"}], protocols: [{destinationNamedPort: web}]}]")
	p.want(t, "nobody reaches ports with the name web", func(src, dst, port string) bool { return isolated(src, dst, port) && port != "tcp/80" })

	p.clusterPolicy(t, "earlier", "Admin", 3, "subject: {pods: {namespaceSelector: {}, podSelector: {matchLabels: {pod: a}}}}, ingress: ["+
		"{action: Pass, from: [{pods: {namespaceSelector: {matchLabels: {team: red}}, podSelector: {matchLabels: {pod: b}}}}]}, "+
		"{action: Accept, from: [{"+blue+"}], protocols: [{tcp: {destinationPort: {range: {start: 80, end: 81}}}}]}]")
	ingress := func(src, dst, port string) bool {
		if strings.HasSuffix(dst, "/a") {
			switch {
			case src == "x/b":
				return isolated(src, dst, port)
			case in("z", src) && strings.HasPrefix(port, "tcp/"):
				return true
			}
		}
		return isolated(src, dst, port) && port != "tcp/80"
	}
	p.want(t, "x/b passes to the next tier, blue pods are accepted", ingress)

	// Egress, to pods, networks and nodes.
	p.clusterPolicy(t, "egress", "Admin", 5, fmt.Sprintf("subject: {pods: {namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {pod: a}}}}, egress: ["+
		"{action: Deny, to: [{networks: [%s/32, 'fd00::/8']}], protocols: [{tcp: {destinationPort: {number: 81}}}, {udp: {}}]}, {action: Deny, to: [{nodes: {}}]}]", p.pods["x/a"].Address))
	egress := func(src, dst, port string) bool {
		return ingress(src, dst, port) && !(src == "z/a" && dst == "x/a" && port != "tcp/80")
	}
	p.want(t, "z/a may only reach port 80 of x/a", egress)
	other := p.node(t, "node2")
	await.That(t, "z/a does not reach node2", func() error {
		if _, err := lab.Ping(t.Context(), p.pods["z/a"].Endpoint(), other); err == nil {
			return fmt.Errorf("it does")
		}
		return nil
	})
	if _, err := lab.Ping(t.Context(), p.pods["x/a"].Endpoint(), other); err != nil {
		t.Errorf("x/a does not reach node2: %v", err)
	}

	if err := p.StopAgent(t.Context(), restarted); err != nil {
		t.Fatal(err)
	}
	if err := p.differences(egress); err != nil {
		t.Errorf("without the agent of %s: %v", restarted, err)
	}
	if err := p.StartAgent(t.Context(), restarted); err != nil {
		t.Fatal(err)
	}
	if err := p.differences(egress); err != nil {
		t.Errorf("after the agent was started: %v", err)
	}

	for _, name := range []string{"base", "later", "earlier", "egress"} {
		p.removeOf(t, "policy.networking.k8s.io/v1alpha2", "ClusterNetworkPolicy", "", name)
	}
	p.want(t, "only x/a is isolated", func(_, dst, _ string) bool { return dst != "x/a" })
	labtest.RequireQuiet(t, p.Lab)
}

// NewPods: a pod whose namespace has policies cannot be reached for a moment: not before, while
// and after its ADD.
func NewPods(t *testing.T, l *lab.Lab) {
	p := newPolicyLab(t, l)
	p.policy(t, "x", "deny", "{podSelector: {}}")
	p.want(t, "nobody reaches x", func(_, dst, _ string) bool { return !strings.HasPrefix(dst, "x/") })
	// What answers are the network stacks of pods: they refuse connections.
	stop := make(chan struct{})
	var scanning sync.WaitGroup
	var mu sync.Mutex
	reached := map[string]bool{}
	scanner := p.pods["z/a"]
	last := p.pods["z/b"].Address
	for range 24 { // the next addresses of node2
		last = last.Next()
		addr := last.String()
		scanning.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				began := time.Now()
				err := labtest.Inside(scanner.Netns, func() error {
					c, err := net.DialTimeout("tcp", net.JoinHostPort(addr, "9"), 100*time.Millisecond)
					if err == nil {
						c.Close()
					}
					return err
				})
				if err == nil || strings.Contains(err.Error(), "refused") {
					mu.Lock()
					reached[fmt.Sprint(addr, " after ", time.Since(began))] = true
					mu.Unlock()
				}
			}
		})
	}
	for i := range 10 {
		name := fmt.Sprint("new", i)
		pods := labtest.AddPods(t, p.Lab, lab.PodSpec{Namespace: "x", Name: name, Node: "node2", Template: Template("x", name, "new")})
		if err := p.DelPod(t.Context(), pods[0].ID()); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	scanning.Wait()
	if len(reached) > 0 {
		t.Errorf("reached: %v", reached)
	}
}

func (p *policyLab) node(t *testing.T, name string) lab.Endpoint {
	t.Helper()
	st, err := p.State()
	if err != nil {
		t.Fatal(err)
	}
	n, err := st.Node(name)
	if err != nil {
		t.Fatal(err)
	}
	return n.Endpoint()
}

func (p *policyLab) relabel(t *testing.T, ns, pod, label string) {
	t.Helper()
	file := filepath.Join(p.dir, "relabel.yaml")
	text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {namespace: %s, name: %s, labels: {pod: %s}}\nspec: {nodeName: %s, containers: [{name: c, image: none, ports: [{name: web, containerPort: 80}]}]}\n",
		ns, pod, label, p.pods[ns+"/"+pod].Node)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(t.Context(), file); err != nil {
		t.Fatal(err)
	}
}

// Why: contivctl why names the policy and the rule that refuse packets, or that allow them, at the end
// where they are judged. It is in the directory with binaries.
func Why(t *testing.T, l *lab.Lab, binaries string) {
	p := newPolicyLab(t, l)
	p.policy(t, "x", "deny", "{podSelector: {}}")
	p.policy(t, "x", "web", "{podSelector: {matchLabels: {pod: b}}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}}], ports: [{port: web}]}]}")
	p.policy(t, "z", "out", "{podSelector: {matchLabels: {pod: b}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 192.0.2.0/24}}]}]}")
	p.clusterPolicy(t, "guard", "Admin", 7, "subject: {namespaces: {}}, ingress: [{name: no-81, action: Deny, from: [{namespaces: {matchLabels: {team: blue}}}], protocols: [{tcp: {destinationPort: {number: 81}}}]}]")
	const guard = "ClusterNetworkPolicy guard (tier Admin, priority 7)"
	for _, c := range []struct {
		from, to, port  string
		reached         bool
		findings, inWay []string // each with the node that says so
	}{
		{"z/a", "z/b", "80", true, nil, []string{"node node2: ingress of pod z/b: no rule of " + guard + " denies it"}},
		{"z/a", "z/b", "81", false, []string{"node node2: rule no-81 of " + guard + ` denies ingress of pod z/b: `}, nil},
		{"z/a", "x/b", "80", true, nil, []string{"node node2: ingress of pod x/b: rule ingress[0] of NetworkPolicy x/web allows it: "}},
		{"z/a", "x/b", "80/udp", false, []string{"node node2: ingress of pod x/b is isolated by " + guard + ", NetworkPolicy x/deny, NetworkPolicy x/web, and no rule allows port 80/udp"}, nil},
		{"z/a", "x/a", "80", false, []string{"node node1: ingress of pod x/a is isolated by " + guard + ", NetworkPolicy x/deny, and no rule allows port 80/tcp"}, nil},
		{"z/a", "x/a", "", false, []string{"node node1: ingress of pod x/a is isolated by " + guard + ", NetworkPolicy x/deny, and no rule allows ICMP"}, nil},
		{"z/b", "x/a", "80", false, []string{"node node1: ingress of pod x/a", "node node2: egress of pod z/b is isolated by NetworkPolicy z/out, and no rule allows port 80/tcp"}, nil},
	} {
		await.That(t, fmt.Sprintf("why %s %s %s says so", c.from, c.to, c.port), func() error {
			args := []string{c.from, c.to}
			if c.port != "" {
				args = append(args, c.port)
			}
			a, code := labtest.AskWhy(t, p.Lab, binaries, args...)
			var findings []string
			for _, f := range a.Findings {
				findings = append(findings, f.Where+": "+f.Text)
			}
			wrong := len(findings) != len(c.findings) || (code == 0) != c.reached || (a.Verdict == why.Reached) != c.reached
			for _, want := range c.findings {
				wrong = wrong || !slices.ContainsFunc(findings, func(text string) bool { return strings.HasPrefix(text, want) })
			}
			for _, want := range c.inWay {
				wrong = wrong || !slices.ContainsFunc(a.Way, func(text string) bool { return strings.HasPrefix(text, want) })
			}
			if wrong {
				return fmt.Errorf("exit code %d, %s, findings %q, way %q, probes %+v", code, a.Verdict, findings, a.Way, a.Probes)
			}
			return nil
		})
	}
}
