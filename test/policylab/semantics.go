package policylab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

var allPorts = []string{"tcp/80", "tcp/81", "udp/80", "icmp", "sctp/80", "sctp/81"}

func in(namespace, pod string) bool { return strings.HasPrefix(pod, namespace+"/") }

const (
	red    = "{matchLabels: {team: red}}"
	blue   = "{matchLabels: {team: blue}}"
	isPodA = "{matchLabels: {pod: a}}"
	isPodB = "{matchLabels: {pod: b}}"
)

type row struct {
	name     string
	policies []string
	want     allows
}

func (p *policyLab) rows() []row {
	// VPP does not support SCTP ports: rules with them allow nothing.
	ports := func(dst string) bool { return !p.onVPP(dst) }
	return []row{
		{"policyTypes default to Ingress",
			[]string{networkPolicy("x", "p", "{podSelector: "+isPodA+", ingress: [{from: [{podSelector: {}}]}]}")},
			func(src, dst, _ string) bool { return dst != "x/a" || in("x", src) }},
		{"policyTypes default to both with rules of egress",
			[]string{networkPolicy("x", "p", "{podSelector: "+isPodA+", egress: [{to: [{podSelector: {}}]}]}")},
			func(src, dst, _ string) bool { return dst != "x/a" && (src != "x/a" || in("x", dst)) }},
		{"policyTypes without Ingress",
			[]string{networkPolicy("x", "p", "{podSelector: "+isPodA+", policyTypes: [Egress], ingress: [{from: [{podSelector: {}}]}]}")},
			func(src, _, _ string) bool { return src != "x/a" }},
		{"a rule without peers, which has a protocol only",
			[]string{networkPolicy("x", "p", "{podSelector: {}, ingress: [{ports: [{protocol: TCP}]}]}")},
			func(_, dst, port string) bool { return !in("x", dst) || in("tcp", port) }},
		{"a rule without ports is about all protocols",
			[]string{networkPolicy("x", "p", "{podSelector: {}, ingress: [{from: [{namespaceSelector: "+blue+"}]}]}")},
			func(src, dst, _ string) bool { return !in("x", dst) || in("z", src) }},
		{"an empty rule allows everything",
			[]string{networkPolicy("x", "p", "{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{}], egress: [{}]}")},
			func(_, _, _ string) bool { return true }},
		{"both selectors of one peer",
			[]string{networkPolicy("x", "p", "{podSelector: {}, ingress: [{from: [{namespaceSelector: "+blue+", podSelector: "+isPodA+"}]}]}")},
			func(src, dst, _ string) bool { return !in("x", dst) || src == "z/a" }},
		{"the same selectors in two peers",
			[]string{networkPolicy("x", "p", "{podSelector: {}, ingress: [{from: [{namespaceSelector: "+blue+"}, {podSelector: "+isPodA+"}]}]}")},
			func(src, dst, _ string) bool { return !in("x", dst) || in("z", src) || src == "x/a" }},
		{"an empty namespaceSelector",
			[]string{networkPolicy("x", "p", "{podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: "+isPodB+"}]}]}")},
			func(src, dst, _ string) bool { return !in("x", dst) || strings.HasSuffix(src, "/b") }},
		{"In, NotIn, Exists and DoesNotExist",
			[]string{networkPolicy("x", "p", "{podSelector: {matchExpressions: [{key: pod, operator: NotIn, values: [b, c]}, {key: nothing, operator: DoesNotExist}]}, "+
				"ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: team, operator: Exists}]}, podSelector: {matchExpressions: [{key: pod, operator: In, values: [b, c]}]}}]}]}")},
			func(src, dst, _ string) bool { return dst != "x/a" || strings.HasSuffix(src, "/b") }},
		{"ipBlock with except, of ingress",
			[]string{networkPolicy("x", "p", "{podSelector: {}, ingress: [{from: ["+p.podsBut("z/b")+"]}]}")},
			func(src, dst, _ string) bool { return !in("x", dst) || src != "z/b" }},
		{"ports of protocols",
			[]string{networkPolicy("x", "p", "{podSelector: {}, ingress: [{ports: [{port: 81}, {port: 80, protocol: UDP}, {port: 80, protocol: SCTP}]}]}")},
			func(_, dst, port string) bool {
				return !in("x", dst) || port == "tcp/81" || port == "udp/80" || port == "sctp/80" && ports(dst)
			}},
		{"endPort",
			[]string{networkPolicy("x", "p", "{podSelector: {}, ingress: [{ports: [{port: 81, endPort: 90}, {port: 70, endPort: 80, protocol: SCTP}]}]}")},
			func(_, dst, port string) bool {
				return !in("x", dst) || port == "tcp/81" || port == "sctp/80" && ports(dst)
			}},
		{"a protocol of SCTP",
			[]string{networkPolicy("x", "p", "{podSelector: "+isPodA+", policyTypes: [Egress], egress: [{ports: [{protocol: SCTP}]}]}")},
			func(src, _, port string) bool { return src != "x/a" || in("sctp", port) }},
		{"names of ports are specific to a pod, including its sidecars, and to a protocol",
			[]string{networkPolicy("x", "p", "{podSelector: {}, ingress: [{ports: [{port: api}, {port: web, protocol: UDP}, {port: init}, {port: none}]}]}")},
			func(_, dst, port string) bool { return !in("x", dst) || api(dst, port) }},
		{"names of ports are specific to a destination",
			[]string{networkPolicy("x", "p", "{podSelector: "+isPodA+", policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{port: api}]}]}")},
			func(src, dst, port string) bool { return src != "x/a" || api(dst, port) }},
		{"policies are additive, and both ends must allow",
			[]string{
				networkPolicy("x", "p", "{podSelector: {}, ingress: [{from: [{namespaceSelector: "+blue+"}], ports: [{port: 80}]}]}"),
				networkPolicy("x", "q", "{podSelector: "+isPodA+", ingress: [{from: [{podSelector: {}}]}]}"),
				networkPolicy("z", "r", "{podSelector: "+isPodB+", policyTypes: [Egress], egress: [{to: [{namespaceSelector: "+red+", podSelector: "+isPodA+"}]}, {to: [{podSelector: {}}], ports: [{port: 80}]}]}"),
			},
			func(src, dst, port string) bool {
				arrives := !in("x", dst) || in("z", src) && port == "tcp/80" || dst == "x/a" && in("x", src)
				leaves := src != "z/b" || dst == "x/a" || in("z", dst) && port == "tcp/80"
				return arrives && leaves
			}},
		{"the least and the greatest priority, and names of the same priority",
			[]string{
				clusterPolicy("first", "Admin", 0, "subject: {namespaces: "+red+"}, ingress: [{action: Deny, from: [{namespaces: "+blue+"}], protocols: [{tcp: {destinationPort: {number: 80}}}]}]"),
				clusterPolicy("last", "Admin", 1000, "subject: {namespaces: "+red+"}, ingress: [{action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {}}, {udp: {}}]}]"),
				clusterPolicy("last-but-later", "Admin", 1000, "subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{udp: {}}]}]"),
				networkPolicy("x", "p", "{podSelector: {}}"),
			},
			func(src, dst, port string) bool {
				if in("x", dst) {
					return in("udp", port) || in("tcp", port) && !(in("z", src) && port == "tcp/80")
				}
				return !in("udp", port)
			}},
		{"traffic passed by the tier Admin is decided by network policies, or without them by the tier Baseline",
			[]string{
				clusterPolicy("pass", "Admin", 5, "subject: {namespaces: {}}, ingress: [{action: Pass, from: [{namespaces: "+blue+"}]}, {action: Accept, from: [{namespaces: "+red+"}]}]"),
				networkPolicy("x", "p", "{podSelector: "+isPodA+", ingress: [{ports: [{port: 80}]}]}"),
				clusterPolicy("base", "Baseline", 5, "subject: {namespaces: "+red+"}, ingress: [{action: Accept, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {range: {start: 81, end: 90}}}}, {sctp: {}}]}, "+
					"{action: Deny, from: [{namespaces: {}}]}]"),
			},
			func(src, dst, port string) bool {
				switch {
				case in("x", src) || in("z", dst):
					return true
				case dst == "x/a":
					return port == "tcp/80"
				}
				return port == "tcp/81" || in("sctp", port)
			}},
		{"a named port of cluster network policies, and networks",
			[]string{clusterPolicy("names", "Admin", 5, "subject: {pods: {namespaceSelector: "+red+", podSelector: "+isPodA+"}}, egress: ["+
				"{action: Accept, to: [{pods: {namespaceSelector: {}, podSelector: {}}}], protocols: [{destinationNamedPort: api}]}, "+
				"{action: Deny, to: [{networks: ["+strings.Join(p.prefixes("z/b"), ", ")+"]}]}]")},
			func(src, dst, port string) bool { return src != "x/a" || dst != "z/b" || api(dst, port) }},
	}
}

// api reports whether the port has the name "api" in the pod. Pod b has it in a sidecar.
func api(pod, port string) bool {
	return strings.HasSuffix(pod, "/a") && port == "tcp/80" || strings.HasSuffix(pod, "/b") && port == "tcp/81"
}

// Semantics tests each documented property of peers, ports and tiers of the API with a table, and
// then changes of the referenced objects.
func Semantics(t *testing.T, l *lab.Lab) {
	p := newPolicyLab(t, l)
	for _, pod := range p.pods {
		p.sctp.serve(t, pod.Netns)
	}
	for _, r := range p.rows() {
		t.Run(r.name, func(t *testing.T) {
			p.apply(t, strings.Join(r.policies, "---\n"))
			p.want(t, r.name, r.want, allPorts...)
		})
	}
	p.want(t, "everything passes again", func(_, _, _ string) bool { return true }, allPorts...)
	t.Run("namespaces come after pods and policies, and get other labels", p.namespaces)
	t.Run("finished pods are no peers", p.finished)
	t.Run("pods of the host network are peers by ipBlock only", p.hostNetwork)
	t.Run("services and hairpins: the client and the endpoint are the ends", p.services)
	labtest.RequireQuiet(t, p.Lab)
}

func (p *policyLab) namespaces(t *testing.T) {
	t.Cleanup(func() { p.put(t, namespaceZ("blue")) })
	p.removeOf(t, "v1", "Namespace", "", "z")
	p.apply(t, networkPolicy("x", "p", "{podSelector: {}, ingress: [{from: [{namespaceSelector: "+blue+"}]}]}"))
	nobody := func(_, dst, _ string) bool { return !in("x", dst) }
	blues := func(src, dst, _ string) bool { return !in("x", dst) || in("z", src) }
	p.want(t, "nothing is known of z", nobody)
	p.put(t, namespaceZ("blue"))
	p.want(t, "z is blue", blues)
	p.put(t, namespaceZ("green"))
	p.want(t, "z is green", nobody)
}

func namespaceZ(team string) string {
	return "apiVersion: v1\nkind: Namespace\nmetadata: {name: z, labels: {team: " + team + "}}\n"
}

func (p *policyLab) finished(t *testing.T) {
	p.apply(t, networkPolicy("x", "p", "{podSelector: {}, ingress: [{from: [{namespaceSelector: "+blue+"}]}]}"))
	p.want(t, "all of z", func(src, dst, _ string) bool { return !in("x", dst) || in("z", src) })
	p.setPhase(t, "pod_z_a.yaml", "Running", "Succeeded")
	p.want(t, "z/a has finished", func(src, dst, _ string) bool { return !in("x", dst) || src == "z/b" })
	p.setPhase(t, "pod_z_a.yaml", "Succeeded", "Running")
	p.want(t, "z/a runs", func(src, dst, _ string) bool { return !in("x", dst) || in("z", src) })
}

func (p *policyLab) setPhase(t *testing.T, manifest, from, to string) {
	t.Helper()
	file := p.Path("manifests", manifest)
	data, err := os.ReadFile(file)
	if err == nil && !strings.Contains(string(data), "phase: "+from) {
		err = fmt.Errorf("the pod is not %s: %s", from, data)
	}
	next := file + ".next"
	if err == nil {
		err = os.WriteFile(next, []byte(strings.Replace(string(data), "phase: "+from, "phase: "+to, 1)), 0o600)
	}
	if err == nil {
		err = os.Rename(next, file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// hostNetwork: a client on the host network of node2 has a pod's labels that a policy selects.
func (p *policyLab) hostNetwork(t *testing.T) {
	const port = 8099
	server := p.pods["x/a"]
	labtest.TellPeers(t, server.Netns, port)
	client := p.node(t, "node2").Netns
	var clients []string
	for _, address := range server.Addresses() {
		await.That(t, fmt.Sprintf("node2 reaches %v without policies", address), func() error {
			_, seen, err := labtest.AskPeer(client, "tcp", netip.AddrPortFrom(address, port))
			if err == nil {
				clients = append(clients, netip.PrefixFrom(seen, seen.BitLen()).String())
			}
			return err
		})
	}
	reached := func(netns string, want bool) func() error {
		return func() error {
			for _, address := range server.Addresses() {
				if got := reaches(netns, address, "tcp/80", waitFor(want)); got != want {
					return fmt.Errorf("%v: %v", address, got)
				}
			}
			return nil
		}
	}
	p.apply(t, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: host, namespace: x, labels: {pod: b}}
spec: {nodeName: node2, hostNetwork: true, containers: [{name: c, image: none}]}
status: {phase: Running, hostIP: %[1]s, podIP: %[1]s, podIPs: [{ip: %[1]s}]}
`, strings.Split(clients[0], "/")[0]))
	p.apply(t, networkPolicy("x", "p", "{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}"))
	await.That(t, "a pod of the host network is not selected", reached(client, false))
	if err := reached(p.node(t, "node1").Netns, true)(); err != nil {
		t.Errorf("a node does not reach its own pod: %v", err)
	}
	var blocks []string
	for _, c := range clients {
		blocks = append(blocks, "{ipBlock: {cidr: '"+c+"'}}")
	}
	p.apply(t, networkPolicy("x", "q", "{podSelector: {}, ingress: [{from: ["+strings.Join(blocks, ", ")+"]}]}"))
	await.That(t, "an ipBlock selects it", reached(client, true))
}

const serviceOf = `apiVersion: v1
kind: Service
metadata: {name: of-%[1]s, namespace: x}
spec:
  clusterIP: 10.96.0.%[2]d
  clusterIPs: [10.96.0.%[2]d, "fd96::%[2]d"]
  ipFamilies: [IPv4, IPv6]
  ports: [{name: web, protocol: TCP, port: 8080, targetPort: 80}]
`

const endpointOf = `---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: of-%[1]s-%[2]d, namespace: x, labels: {kubernetes.io/service-name: of-%[1]s}}
addressType: %[3]s
ports: [{name: web, protocol: TCP, port: 80}]
endpoints: [{addresses: ["%[4]v"], nodeName: %[5]s, conditions: {ready: true}}]
`

// services: each pod of x has a service with a port that differs from the pod's.
func (p *policyLab) services(t *testing.T) {
	clusterIPs := map[string][]netip.Addr{}
	for i, pod := range []string{"a", "b"} {
		number := 21 + i
		manifest := fmt.Sprintf(serviceOf, pod, number)
		for version, address := range p.pods["x/"+pod].Addresses() {
			manifest += fmt.Sprintf(endpointOf, pod, version, []string{"IPv4", "IPv6"}[version], address, p.pods["x/"+pod].Node)
		}
		p.apply(t, manifest)
		clusterIPs["x/"+pod] = []netip.Addr{netip.MustParseAddr(fmt.Sprint("10.96.0.", number)), netip.MustParseAddr(fmt.Sprint("fd96::", number))}
	}
	want := func(when string, want func(src, dst string) bool) {
		t.Helper()
		await.That(t, when, func() error {
			var wrong []string
			for dst, addresses := range clusterIPs {
				for src, client := range p.pods {
					for _, address := range addresses {
						if got := reaches(client.Netns, address, "tcp/8080", waitFor(want(src, dst))); got != want(src, dst) {
							wrong = append(wrong, fmt.Sprintf("%s to the service of %s, %v: %v", src, dst, address, got))
						}
					}
				}
			}
			if len(wrong) > 0 {
				return errors.New(strings.Join(wrong, "; "))
			}
			return nil
		})
	}
	want("all services are reached", func(_, _ string) bool { return true })
	p.apply(t, networkPolicy("x", "p", "{podSelector: {}, policyTypes: [Ingress, Egress], ingress: [{from: [{namespaceSelector: "+blue+"}], ports: [{port: 80}]}]}")+"---\n"+
		networkPolicy("z", "q", "{podSelector: "+isPodA+", policyTypes: [Egress], egress: [{to: [{namespaceSelector: "+red+", podSelector: "+isPodB+"}], ports: [{port: 80}]}, {ports: [{port: 8080}]}]}"))
	want("policies are about the endpoint and its port, and a pod reaches itself", func(src, dst string) bool {
		return src == "z/b" || src == "z/a" && dst == "x/b" || src == dst
	})
}

func (p *policyLab) onVPP(pod string) bool { return slices.Contains(p.vpp, p.pods[pod].Node) }

// prefixes returns the quoted prefixes of all addresses of pods.
func (p *policyLab) prefixes(pods ...string) (list []string) {
	for _, pod := range pods {
		for _, address := range p.pods[pod].Addresses() {
			list = append(list, fmt.Sprintf("'%v/%d'", address, address.BitLen()))
		}
	}
	return list
}

// podsBut returns an ipBlock peer of the pod networks except one pod.
func (p *policyLab) podsBut(name string) string {
	var blocks []string
	for _, address := range p.pods[name].Addresses() {
		bits := 16
		if address.Is6() {
			bits = 48
		}
		blocks = append(blocks, fmt.Sprintf("{ipBlock: {cidr: '%v', except: ['%v/%d']}}", netip.PrefixFrom(address, bits).Masked(), address, address.BitLen()))
	}
	return strings.Join(blocks, ", ")
}
