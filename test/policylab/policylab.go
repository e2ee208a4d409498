// Package policylab checks the enforcement of policies with packets in a lab of two nodes.
package policylab

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config is the agents' dual-stack configuration.
const Config = `
ipamConfig:
  podSubnetCIDR: 10.1.0.0/16,fd10:1::/48
  vxlanCIDR: 192.168.30.0/24,fd30::/112
  vppHostSubnetCIDR: 172.30.0.0/16,fd17:30::/48
  nodeInterconnectCIDR: fd16::/112
  defaultGateway: fd16::fe
  serviceCIDR: 10.96.0.0/12,fd96::/108
`

// ServiceConfig is the service.conf that belongs to Config.
const ServiceConfig = "services: vswitch\n"

// policyLab has the pods x/a and z/a on node1, x/b and z/b on node2.
type policyLab struct {
	*lab.Lab
	pods map[string]lab.Pod
	sctp associations
	vpp  []string // nodes with VPP
	dir  string
}

func newPolicyLab(t *testing.T, l *lab.Lab) *policyLab {
	p := &policyLab{Lab: l, pods: map[string]lab.Pod{}, sctp: associations{awaited: map[uint32]chan struct{}{}}, dir: t.TempDir()}
	for i, name := range []string{"x/a", "x/b", "z/a", "z/b"} {
		ns, pod, _ := strings.Cut(name, "/")
		p.pods[name] = labtest.AddPods(t, p.Lab, lab.PodSpec{Namespace: ns, Name: pod, Node: fmt.Sprint("node", 1+i%2), Template: namedPorts(Template(ns, pod, pod))})[0]
		serve(t, p.pods[name].Netns, policyPorts...)
	}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range st.Nodes {
		if n.VSwitch == lab.VPPVSwitch {
			p.vpp = append(p.vpp, n.Name)
		}
	}
	// The lab's own namespaces have none of these labels.
	p.apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: x, labels: {team: red}}
---
`+namespaceZ("blue"))
	return p
}

// Template returns a pod with a label and the port name "web".
func Template(ns, pod, label string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pod, Labels: map[string]string{"pod": label}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none", Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 80, Protocol: corev1.ProtocolTCP}}}}},
	}
}

// namedPorts adds the port name "api", which is port 80 of pods a and port 81 of a sidecar of
// others, and "init" of a terminated container.
func namedPorts(pod *corev1.Pod) *corev1.Pod {
	named := func(name string, number int32) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: name, ContainerPort: number, Protocol: corev1.ProtocolTCP}}
	}
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "none", Ports: named("init", 80)}}
	if pod.Name == "a" {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "api", Image: "none", Ports: named("api", 80)})
		return pod
	}
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "api", Image: "none", RestartPolicy: &always, Ports: named("api", 81)})
	return pod
}

func (p *policyLab) apply(t *testing.T, manifests string) {
	t.Helper()
	file := p.put(t, manifests)
	t.Cleanup(func() { _, _ = p.Delete(context.Background(), file) })
}

func (p *policyLab) put(t *testing.T, manifests string) string {
	t.Helper()
	file := filepath.Join(p.dir, fmt.Sprint(time.Now().UnixNano(), ".yaml"))
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Apply(context.Background(), file); err != nil {
		t.Fatal(err)
	}
	return file
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

func (p *policyLab) want(t *testing.T, when string, want allows, ports ...string) {
	t.Helper()
	await.That(t, when, func() error { return p.differences(want, ports...) })
}

func networkPolicy(namespace, name, spec string) string {
	return fmt.Sprintf("apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {namespace: %s, name: %s}\nspec: %s\n", namespace, name, spec)
}

func (p *policyLab) policy(t *testing.T, namespace, name, spec string) {
	t.Helper()
	p.apply(t, networkPolicy(namespace, name, spec))
}

// NetworkPolicies tests networking.k8s.io/v1: connectivity tables between pods, ports and protocols
// while policies and labels change, and while the agent of the node restarted is restarted, with
// its VPP.
func NetworkPolicies(t *testing.T, l *lab.Lab, restarted string) {
	p := newPolicyLab(t, l)
	p.want(t, "everything passes without policies", func(_, _, _ string) bool { return true })

	p.policy(t, "x", "deny", "{podSelector: {}}")
	p.want(t, "no pod reaches x", func(_, dst, _ string) bool { return !in("x", dst) })
	for _, name := range []string{"x/a", "x/b"} {
		node, err := lab.Ping(t.Context(), p.node(t, p.pods[name].Node), p.pods[name].Endpoint())
		if err != nil {
			t.Errorf("the node does not reach its own pod %s: %v, %v", name, node, err)
		}
	}

	p.policy(t, "x", "allow-b", "{podSelector: {matchLabels: {pod: a}}, ingress: [{from: [{podSelector: {matchLabels: {pod: b}}}], ports: [{port: 80}]}]}")
	fromB := func(src, dst, port string) bool { return src == "x/b" && dst == "x/a" && port == "tcp/80" }
	p.want(t, "x/b reaches x/a at port 80", func(src, dst, port string) bool { return !in("x", dst) || fromB(src, dst, port) })

	p.policy(t, "x", "allow-blue", "{podSelector: {matchExpressions: [{key: pod, operator: In, values: [b]}]}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {pod: a}}}], ports: [{port: web}, {protocol: UDP}]}]}")
	fromBlue := func(src, dst, port string) bool { return src == "z/a" && dst == "x/b" && port != "tcp/81" }
	p.want(t, "z/a reaches the named port of x/b, and all of UDP", func(src, dst, port string) bool {
		return !in("x", dst) || fromB(src, dst, port) || fromBlue(src, dst, port)
	})

	p.policy(t, "z", "egress", fmt.Sprintf("{podSelector: {matchLabels: {pod: a}}, policyTypes: [Egress], egress: [{to: [%s], ports: [{port: 80, endPort: 81}]}]}", p.podsBut("z/b")))
	egress := func(src, dst, port string) bool {
		return src != "z/a" || dst != "z/b" && strings.HasPrefix(port, "tcp/")
	}
	all := func(src, dst, port string) bool {
		return egress(src, dst, port) && (!in("x", dst) || fromB(src, dst, port) || fromBlue(src, dst, port))
	}
	p.want(t, "z/a may only open connections of TCP to others than z/b", all)

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

	// x/b loses its label and gets it back.
	p.relabel(t, "x", "b", "c")
	p.want(t, "x/b has lost its label", func(src, dst, port string) bool { return egress(src, dst, port) && !in("x", dst) })
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
	p.apply(t, clusterPolicy(name, tier, priority, spec))
}

func clusterPolicy(name, tier string, priority int, spec string) string {
	return fmt.Sprintf("apiVersion: policy.networking.k8s.io/v1alpha2\nkind: ClusterNetworkPolicy\nmetadata: {name: %s}\nspec: {tier: %s, priority: %d, %s}\n", name, tier, priority, spec)
}

// ClusterNetworkPolicies tests policy.networking.k8s.io/v1alpha2.
func ClusterNetworkPolicies(t *testing.T, l *lab.Lab, restarted string) {
	p := newPolicyLab(t, l)
	const (
		red  = "namespaces: " + red
		blue = "namespaces: " + blue
		all  = "namespaces: {}"
	)

	p.clusterPolicy(t, "base", "Baseline", 10, "subject: {"+all+"}, ingress: [{action: Accept, from: [{"+red+"}]}, {action: Deny, from: [{"+all+"}]}]")
	base := func(src, _, _ string) bool { return in("x", src) }
	p.want(t, "only red pods reach others", base)

	p.policy(t, "x", "deny", "{podSelector: {matchLabels: {pod: a}}}")
	isolated := func(src, dst, port string) bool { return dst != "x/a" && base(src, dst, port) }
	p.want(t, "a network policy overrides the baseline", isolated)

	p.clusterPolicy(t, "later", "Admin", 9, "subject: {"+all+"}, ingress: [{name: web, action: Deny, from: [{"+all+"}], protocols: [{destinationNamedPort: web}]}]")
	p.want(t, "no pod reaches ports with the name web", func(src, dst, port string) bool { return isolated(src, dst, port) && port != "tcp/80" })

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

	p.clusterPolicy(t, "egress", "Admin", 5, fmt.Sprintf("subject: {pods: {namespaceSelector: {matchLabels: {team: blue}}, podSelector: {matchLabels: {pod: a}}}}, egress: ["+
		"{action: Deny, to: [{networks: [%s]}], protocols: [{tcp: {destinationPort: {number: 81}}}, {udp: {}}]}, {action: Deny, to: [{nodes: {}}]}]", strings.Join(p.prefixes("x/a"), ", ")))
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

// Why checks that contivctl why names the policy and the rule that deny or allow packets, on the
// node that enforces it. binaries is the directory of contivctl.
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
		findings, inWay []string // with the reporting node
	}{
		{"z/a", "z/b", "80", true, nil, []string{"node node2: ingress of pod z/b: no rule of " + guard + " denies it"}},
		{"z/a", "z/b", "81", false, []string{"node node2: rule no-81 of " + guard + ` denies ingress of pod z/b: `}, nil},
		{"z/a", "x/b", "80", true, nil, []string{"node node2: ingress of pod x/b: rule ingress[0] of NetworkPolicy x/web allows it: "}},
		{"z/a", "x/b", "80/udp", false, []string{"node node2: ingress of pod x/b is isolated by NetworkPolicy x/deny, NetworkPolicy x/web, and no rule allows port 80/udp"}, nil},
		{"z/a", "x/a", "80", false, []string{"node node1: ingress of pod x/a is isolated by NetworkPolicy x/deny, and no rule allows port 80/tcp"}, nil},
		{"z/a", "x/a", "", false, []string{"node node1: ingress of pod x/a is isolated by NetworkPolicy x/deny, and no rule allows ICMP"}, nil},
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
