package apiserver

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/kubernetes/ksr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

const (
	servicePrefix = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: default}, spec: "
	policyPrefix  = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: default}, spec: "
	slicePrefix   = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: web-1, namespace: default}, "
	podPrefix     = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: default}, spec: "
	cidrPrefix    = "{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: "
	clusterPrefix = "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: "
)

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"{apiVersion: v1, kind: Servce, metadata: {name: web}}":                                    `kind: KSR reads no objects of this kind: did you mean "Service"?`,
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}}":                             "kind: KSR reads no objects of this kind, so that it would change nothing; it reads Namespace, Pod",
		"{kind: Service, metadata: {name: web}}":                                                   `apiVersion: must be v1, not ""`,
		"{apiVersion: v1, kind: Namespace, metadata: {name: a b}}":                                 `metadata.name: Invalid value: "a b"`,
		"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default, labels: {'x y': z}}}": "metadata.labels: Invalid value",
		"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default, labels: [x]}}":        "metadata.labels: must be a map of fields, not a list",

		policyPrefix + "{podSelectr: {}}}":                                                           `spec.podSelectr: no such field: did you mean "podSelector"?`,
		policyPrefix + "{podselector: {}}}":                                                          `spec.podselector: no such field: did you mean "podSelector"?`,
		policyPrefix + "{frobnicate: 1}}":                                                            "spec.frobnicate: no such field: known here are egress, ingress, podSelector, policyTypes",
		policyPrefix + "{ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/99}}]}]}}":                      `spec.ingress[0].from[0].ipBlock.cidr: Invalid value: "10.0.0.0/99": must be a network`,
		policyPrefix + "{ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/9]}}]}]}}": "ipBlock.except[0]: Invalid value: \"11.0.0.0/9\": must be a part of cidr",
		policyPrefix + "{ingress: [{from: [{}]}]}}":                                                  "spec.ingress[0].from[0]: Required value: a peer has",
		policyPrefix + "{egress: [{to: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}]}}":         "spec.egress[0].to[0].ipBlock: Forbidden",
		policyPrefix + "{ingress: [{ports: [{port: 70000}]}]}}":                                      "spec.ingress[0].ports[0].port: Invalid value: 70000: must be between 1 and 65535",
		policyPrefix + "{ingress: [{ports: [{port: 80, endPort: 79}]}]}}":                            "endPort: Invalid value: 79: must not be less than port, 80",
		policyPrefix + "{ingress: [{ports: [{port: web, endPort: 79}]}]}}":                           "endPort: Invalid value: 79: needs a port that is a number",
		policyPrefix + "{ingress: [{ports: [{port: true}]}]}}":                                       "spec.ingress[0].ports[0].port: must be a number or a name, not true",
		policyPrefix + "{ingress: [{ports: [{protocol: HTTP}]}]}}":                                   `protocol: Unsupported value: "HTTP"`,
		policyPrefix + "{policyTypes: [ingress]}}":                                                   `spec.policyTypes[0]: Unsupported value: "ingress": supported values: "Ingress", "Egress"`,
		policyPrefix + "{podSelector: {matchExpressions: [{key: a, operator: Is}]}}}":                "spec.podSelector.matchExpressions[0].operator: Invalid value",

		servicePrefix + "{clusterIP: 10.96.0.999, ports: [{port: 80}]}}":                                 `spec.clusterIP: Invalid value: "10.96.0.999": must be an IP address`,
		servicePrefix + "{ports: [{port: 0}]}}":                                                          "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535",
		servicePrefix + "{ports: [{port: '80'}]}}":                                                       `spec.ports[0].port: must be a whole number, not the string "80"`,
		servicePrefix + "{ports: [{port: 80.5}]}}":                                                       "spec.ports[0].port: must be a whole number, not 80.5",
		servicePrefix + "{ports: [{port: 99999999999}]}}":                                                "spec.ports[0].port: 99999999999 is too large or too small a number",
		servicePrefix + "{ports: {port: 80}}}":                                                           "spec.ports: must be a list, not a map of fields",
		servicePrefix + "{ports: [{port: 80}, {port: 81}]}}":                                             "spec.ports[0].name: Required value",
		servicePrefix + "{ports: [{name: a, port: 80}, {name: b, port: 80}]}}":                           "spec.ports[1].port: Duplicate value: 80",
		servicePrefix + "{ports: [{port: 80, nodePort: 80}], type: NodePort}}":                           "spec.ports[0].nodePort: Invalid value: 80: must be between 30000 and 32767",
		servicePrefix + "{ports: [{port: 80, targetPort: '8080'}]}}":                                     "spec.ports[0].targetPort: Invalid value: \"8080\"",
		servicePrefix + "{}}":                                                                            "spec.ports: Required value",
		servicePrefix + "{type: External, ports: [{port: 80}]}}":                                         `spec.type: Unsupported value: "External"`,
		servicePrefix + "{externalIPs: [nowhere], ports: [{port: 80}]}}":                                 "spec.externalIPs[0]: Invalid value",
		servicePrefix + "{ports: [{port: 80, nodePort: 30080}]}}":                                        "spec.ports[0].nodePort: Forbidden: may not be used when `type` is ClusterIP",
		servicePrefix + "{externalTrafficPolicy: Local, ports: [{port: 80}]}}":                           "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for services that clients outside reach",
		servicePrefix + "{loadBalancerSourceRanges: [10.0.0.0/8], ports: [{port: 80}], type: NodePort}}": "spec.loadBalancerSourceRanges: Forbidden: may only be used when `type` is LoadBalancer",
		servicePrefix + "{healthCheckNodePort: 30081, ports: [{port: 80}], type: LoadBalancer}}":         "spec.healthCheckNodePort: Invalid value: 30081: may only be set when",
		servicePrefix + "{externalIPs: [127.0.0.1], ports: [{port: 80}]}}":                               `spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be a loopback address`,
		servicePrefix + "{externalIPs: [0.0.0.0], ports: [{port: 80}]}}":                                 "may not be unspecified",
		servicePrefix + "{externalIPs: [169.254.1.1], ports: [{port: 80}]}}":                             "may not be a link-local address",
		servicePrefix + "{externalIPs: [224.0.0.1], ports: [{port: 80}]}}":                               "may not be a link-local address",
		servicePrefix + "{clusterIP: 10.1.2.2, ports: [{port: 80}]}}":                                    `spec.clusterIP: Invalid value: "10.1.2.2": must be in a network of services, serviceCIDR, which is [10.96.0.0/12]`,
		slicePrefix + "addressType: IPv4, endpoints: [{addresses: [127.0.0.1]}]}":                        `endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be a loopback address`,
		servicePrefix + "{loadBalancerSourceRanges: [10.0.0.1], ports: [{port: 80}]}}":                   "spec.loadBalancerSourceRanges[0]: Invalid value",
		servicePrefix + "{ipFamilyPolicy: DualStack, ports: [{port: 80}]}}":                              `spec.ipFamilyPolicy: Unsupported value: "DualStack"`,
		servicePrefix + "{ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]}}":                       "this cluster is not configured for dual-stack services, its serviceCIDR is 10.96.0.0/12: use PreferDualStack",
		servicePrefix + "{sessionAffinity: ip, ports: [{port: 80}]}}":                                    "spec.sessionAffinity: Unsupported value",
		servicePrefix + "{selector: {'a b': c}, ports: [{port: 80}]}}":                                   "spec.selector: Invalid value",
		servicePrefix + "{publishNotReadyAddresses: 'yes', ports: [{port: 80}]}}":                        `spec.publishNotReadyAddresses: must be true or false, not the string "yes"`,
		strings.Replace(servicePrefix, "name: web", "name: web.1", 1) + "{ports: [{port: 80}]}}":         `metadata.name: Invalid value: "web.1"`,
		cidrPrefix + "{cidrs: [10.112.0.0/33]}}":                                                         `spec.cidrs[0]: Invalid value: "10.112.0.0/33"`,

		slicePrefix + "endpoints: [{addresses: [10.1.1.2]}]}":                                                                                                                "addressType: Required value",
		slicePrefix + "addressType: IPv6, endpoints: [{addresses: [10.1.1.2]}]}":                                                                                             `endpoints[0].addresses[0]: Invalid value: "10.1.1.2": must be an IPv6 address`,
		slicePrefix + "addressType: IPv4, endpoints: [{}]}":                                                                                                                  "endpoints[0].addresses: Required value",
		slicePrefix + "addressType: IPv4, endpoints: [], ports: [{port: 70000}]}":                                                                                            "ports[0].port: Invalid value: 70000",
		podPrefix + "{nodename: node1}}":                                                                                                                                     `spec.nodename: no such field: did you mean "nodeName"?`,
		podPrefix + "{containers: [{name: c, ports: [{containerPort: 99999}]}]}}":                                                                                            "spec.containers[0].ports[0].containerPort: Invalid value: 99999",
		podPrefix + "{terminationGracePeriodSeconds: soon}}":                                                                                                                 "spec.terminationGracePeriodSeconds: must be a whole number",
		clusterPrefix + "{tier: admin, subject: {namespaces: {}}}}":                                                                                                          `spec.tier: Unsupported value: "admin"`,
		clusterPrefix + "{tier: Admin, priority: 1001, subject: {namespaces: {}}}}":                                                                                          "spec.priority: Invalid value: 1001",
		clusterPrefix + "{tier: Admin, subject: {}}}":                                                                                                                        "spec.subject: Invalid value: must have exactly one of namespaces or pods",
		clusterPrefix + "{tier: Admin, subject: {namespaces: {}}, egress: [{action: Deny, to: [{networks: [10.0.0.0/33]}]}]}}":                                               "spec.egress[0].to[0].networks[0]: Invalid value",
		clusterPrefix + "{tier: Admin, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{networks: [10.0.0.0/8]}]}]}}":                                             "spec.ingress[0].from[0]: Forbidden",
		clusterPrefix + "{tier: Admin, subject: {namespaces: {}}, ingress: [{action: allow, from: [{namespaces: {}}]}]}}":                                                    `spec.ingress[0].action: Unsupported value: "allow"`,
		clusterPrefix + "{tier: Admin, subject: {namespaces: {}}, ingress: [{action: Deny, from: [{namespaces: {}}], protocols: [{tcp: {destinationPort: {number: 0}}}]}]}}": "destinationPort: Invalid value",
	} {
		var lines []string
		for _, err := range Check(object(t, text), []netip.Prefix{DefaultServiceNetwork}) {
			lines = append(lines, err.Error())
		}
		if !strings.Contains(strings.Join(lines, "\n"), want) {
			t.Errorf("%s:\n got %q\nwant %q", text, lines, want)
		}
	}
}

func TestNoMistakes(t *testing.T) {
	for _, text := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {tenant: a}, creationTimestamp: null}}",
		podPrefix + "{nodeName: node1, containers: [{name: c, image: i, resources: {limits: {cpu: 100m}}, livenessProbe: {httpGet: {port: web, path: /}}, ports: [{name: web, containerPort: 8080}]}], volumes: [{name: v, emptyDir: {}}]}}",
		servicePrefix + "{clusterIP: None}}",
		strings.Replace(servicePrefix, "name: web", "name: 1web", 1) + "{ports: [{port: 80}]}}",
		cidrPrefix + "{cidrs: [10.112.0.0/16, 'fd97::/112']}}",
		servicePrefix + "{type: ExternalName, externalName: example.com}}",
		servicePrefix + "{externalIPs: [255.255.255.255, 203.0.113.7], externalTrafficPolicy: Local, ports: [{port: 80}]}}",
		servicePrefix + "{type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30081, loadBalancerSourceRanges: [10.0.0.0/8], ports: [{port: 80, nodePort: 30080}]}}",
		servicePrefix + "{type: LoadBalancer, selector: {app: web}, ports: [{port: 80, targetPort: web}], internalTrafficPolicy: Local}, status: {loadBalancer: {ingress: [{ip: 198.51.100.7}]}}}",
		policyPrefix + "{podSelector: {}, policyTypes: [Ingress, Egress], egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.9.0.0/16]}}], ports: [{port: 80, endPort: 90, protocol: TCP}, {port: web}]}, {}]}}",
		slicePrefix + "addressType: IPv4, endpoints: [{addresses: [10.1.1.2], conditions: {ready: true}}], ports: [{port: 80}]}",
		clusterPrefix + "{tier: Admin, priority: 10, subject: {namespaces: {}}, egress: [{name: out, action: Deny, to: [{networks: [10.9.0.0/16]}, {nodes: {}}], protocols: [{tcp: {destinationPort: {range: {start: 80, end: 90}}}}, {udp: {}}]}]}}",
	} {
		if errs := Check(object(t, text), []netip.Prefix{DefaultServiceNetwork}); len(errs) > 0 {
			t.Errorf("%s: %v", text, errs)
		}
	}
}

func TestKindsAreThoseOfKSR(t *testing.T) {
	for _, k := range kinds {
		if _, known := ksr.NewObject(k.apiVersion, k.name); !known {
			t.Errorf("%+v", k)
		}
	}
}

func service(name, clusterIP string, typ corev1.ServiceType, ports ...corev1.ServicePort) corev1.Service {
	s := corev1.Service{}
	s.Namespace, s.Name, s.Spec.ClusterIP, s.Spec.Type, s.Spec.Ports = "default", name, clusterIP, typ, ports
	return s
}

func TestAllocate(t *testing.T) {
	first, second := service("a", "", ""), service("b", "", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80}, corev1.ServicePort{Port: 81})
	networks := []netip.Prefix{DefaultServiceNetwork}
	if err := Allocate(&first, nil, nil, networks); err != nil || first.Spec.ClusterIP != "10.96.0.100" {
		t.Errorf("%v, %v", first.Spec.ClusterIP, err)
	}
	if err := Allocate(&second, nil, []corev1.Service{first}, networks); err != nil || second.Spec.ClusterIPs[0] != "10.96.0.101" || second.Spec.Ports[0].NodePort != 30000 || second.Spec.Ports[1].NodePort != 30001 {
		t.Errorf("%+v, %v", second.Spec, err)
	}
	again := service("b", "", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 81})
	if err := Allocate(&again, &second, nil, networks); err != nil || again.Spec.ClusterIP != "10.96.0.101" || again.Spec.Ports[0].NodePort != 30001 {
		t.Errorf("applied again: %+v, %v", again.Spec, err)
	}
	more := append(slices.Clone(networks), netip.MustParsePrefix("10.112.0.0/16"))
	inMore := service("f", "10.112.0.7", "")
	if err := Allocate(&inMore, nil, nil, more); err != nil || len(inMore.Spec.ClusterIPs) != 1 || inMore.Spec.ClusterIPs[0] != "10.112.0.7" {
		t.Errorf("in another network: %+v, %v", inMore.Spec, err)
	}
	headless := service("c", corev1.ClusterIPNone, "")
	if err := Allocate(&headless, nil, nil, networks); err != nil || len(headless.Spec.ClusterIPs) > 0 {
		t.Errorf("headless: %+v, %v", headless.Spec, err)
	}
	taken := service("d", "10.96.0.100", "")
	if err := Allocate(&taken, nil, []corev1.Service{first}, networks); err == nil || !strings.Contains(err.Error(), "10.96.0.100 is used by service default/a") {
		t.Errorf("an address of another one: %v", err)
	}
	takenPort := service("e", "", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80, NodePort: 30000})
	if err := Allocate(&takenPort, nil, []corev1.Service{second}, networks); err == nil || !strings.Contains(err.Error(), "node port 30000 is used by service default/b") {
		t.Errorf("a node port of another one: %v", err)
	}
}

func TestAllocateHealthCheckNodePort(t *testing.T) {
	networks := []netip.Prefix{DefaultServiceNetwork}
	local := func(name string, port int32) corev1.Service {
		s := service(name, "", corev1.ServiceTypeLoadBalancer, corev1.ServicePort{Port: 80, NodePort: 30001})
		s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, port
		return s
	}
	first := local("a", 0)
	if err := Allocate(&first, nil, nil, networks); err != nil || first.Spec.HealthCheckNodePort != 30000 {
		t.Fatalf("%+v, %v", first.Spec, err)
	}
	again := local("a", 0)
	if err := Allocate(&again, &first, nil, networks); err != nil || again.Spec.HealthCheckNodePort != 30000 {
		t.Errorf("applied again: %+v, %v", again.Spec, err)
	}
	other := service("b", "", corev1.ServiceTypeNodePort, corev1.ServicePort{Port: 80})
	if err := Allocate(&other, nil, []corev1.Service{first}, networks); err != nil || other.Spec.Ports[0].NodePort != 30002 {
		t.Errorf("another one: %+v, %v", other.Spec, err)
	}
	taken := local("c", 30000)
	taken.Spec.Ports[0].NodePort = 30003
	if err := Allocate(&taken, nil, []corev1.Service{first}, networks); err == nil || !strings.Contains(err.Error(), "spec.healthCheckNodePort: node port 30000 is used by service default/a") {
		t.Errorf("the port of another one: %v", err)
	}
	cluster := service("d", "", corev1.ServiceTypeLoadBalancer, corev1.ServicePort{Port: 80})
	if err := Allocate(&cluster, nil, nil, networks); err != nil || cluster.Spec.HealthCheckNodePort != 0 {
		t.Errorf("policy Cluster: %+v, %v", cluster.Spec, err)
	}
}

func TestAllocateFamilies(t *testing.T) {
	const both, v4, v6 = "10.96.0.0/12 fd96::/108", "10.96.0.0/12", "fd96::/108"
	for _, c := range []struct{ spec, cluster, want, refused string }{
		{"{}", v4, "10.96.0.100", ""},
		{"{}", v6, "fd96::64", ""},
		{"{}", both, "10.96.0.100", ""},
		{"{ipFamilies: [IPv6]}", both, "fd96::64", ""},
		{"{ipFamilies: [IPv6, IPv4]}", both, "fd96::64 10.96.0.100", ""},
		{"{ipFamilyPolicy: PreferDualStack}", v4, "10.96.0.100", ""},
		{"{ipFamilyPolicy: PreferDualStack}", both, "10.96.0.100 fd96::64", ""},
		{"{ipFamilyPolicy: RequireDualStack, ipFamilies: [IPv6]}", both, "fd96::64 10.96.0.100", ""},
		{"{ipFamilyPolicy: RequireDualStack, clusterIPs: [10.96.0.7], clusterIP: 10.96.0.7}", both, "10.96.0.7 fd96::64", ""},
		{"{clusterIPs: ['fd96::7', 10.96.0.7]}", both, "fd96::7 10.96.0.7", ""},
		{"{clusterIP: None, ipFamilyPolicy: RequireDualStack}", v4, "None", ""},
		{"{clusterIP: None, ipFamilyPolicy: RequireDualStack, selector: {app: web}}", v4, "", "this cluster is not configured for dual-stack services"},
		{"{ipFamilyPolicy: RequireDualStack}", v4, "", `spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services, its serviceCIDR is 10.96.0.0/12`},
		{"{ipFamilies: [IPv4, IPv6]}", v4, "", "this cluster is not configured for dual-stack services"},
		{"{ipFamilies: [IPv6]}", v4, "", `spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster`},
		{"{clusterIP: 'fd96::7', clusterIPs: ['fd96::7']}", v4, "", "not configured on this cluster"},
	} {
		s := service("web", "", "")
		if err := yaml.Unmarshal([]byte(c.spec), &s.Spec); err != nil {
			t.Fatal(err)
		}
		var networks []netip.Prefix
		for _, n := range strings.Fields(c.cluster) {
			networks = append(networks, netip.MustParsePrefix(n))
		}
		err := Allocate(&s, nil, nil, networks)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s in %s: %v", c.spec, c.cluster, err)
			}
			continue
		}
		if got := strings.Join(s.Spec.ClusterIPs, " "); err != nil || got != c.want && s.Spec.ClusterIP != c.want {
			t.Errorf("%s in %s: %s, %v", c.spec, c.cluster, got, err)
		}
	}
	old := service("web", "", "")
	networks := []netip.Prefix{netip.MustParsePrefix(v4), netip.MustParsePrefix(v6)}
	if err := Allocate(&old, nil, nil, networks); err != nil {
		t.Fatal(err)
	}
	more, policy := service("web", "", ""), corev1.IPFamilyPolicyRequireDualStack
	more.Spec.IPFamilyPolicy = &policy
	if err := Allocate(&more, &old, nil, networks); err != nil || more.Spec.ClusterIPs[0] != old.Spec.ClusterIP || len(more.Spec.ClusterIPs) != 2 {
		t.Errorf("a second family: %v, %v", more.Spec.ClusterIPs, err)
	}
	less := service("web", "", "")
	if err := Allocate(&less, &more, nil, networks); err != nil || len(less.Spec.ClusterIPs) != 1 {
		t.Errorf("one family again: %v, %v", less.Spec.ClusterIPs, err)
	}
}

func TestSlices(t *testing.T) {
	pod := func(name, address string, port int32) corev1.Pod {
		p := corev1.Pod{}
		p.Namespace, p.Name, p.Labels, p.Spec.NodeName = "default", name, map[string]string{"app": "web"}, "node1"
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: port}}}}
		if address != "" {
			p.Status.PodIPs = []corev1.PodIP{{IP: address}}
		}
		return p
	}
	web := service("web", "10.96.0.7", "", corev1.ServicePort{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}, corev1.ServicePort{Name: "plain", Port: 81})
	web.Spec.Selector = map[string]string{"app": "web"}
	other := pod("other", "10.1.1.9", 80)
	other.Labels = nil
	pods := []corev1.Pod{pod("a", "10.1.1.2", 8080), pod("b", "10.1.1.3", 8080), pod("c", "10.1.1.4", 9090), pod("starting", "", 8080), other}
	list := Slices([]corev1.Service{web}, pods, nil)
	if len(list) != 2 || len(list[0].Endpoints) != 2 || len(list[1].Endpoints) != 1 {
		t.Fatalf("%+v", list)
	}
	if p := list[0].Ports; *p[0].Port != 8080 || *p[1].Port != 81 || *list[1].Ports[0].Port != 9090 {
		t.Errorf("ports %+v, %+v", p, list[1].Ports)
	}
	for _, s := range list {
		s.TypeMeta.Kind = "EndpointSlice"
		data, err := yaml.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if errs := Check(object(t, string(data)), []netip.Prefix{DefaultServiceNetwork}); len(errs) > 0 {
			t.Errorf("%s: %v", data, errs)
		}
	}
	empty := Slices([]corev1.Service{web}, []corev1.Pod{other}, nil)
	if len(empty) != 1 || len(empty[0].Endpoints) != 0 || empty[0].AddressType != discoveryv1.AddressTypeIPv4 || empty[0].Labels[discoveryv1.LabelServiceName] != "web" {
		t.Errorf("of a service that no pod matches: %+v", empty)
	}
	own := list[0].DeepCopy()
	own.Name, own.Labels["endpointslice.kubernetes.io/managed-by"] = "own", "somebody"
	if left := Slices([]corev1.Service{web}, pods, append(list[:1:1], *own)); len(left) > 0 {
		t.Errorf("the user's own slices are added to: %+v", left)
	}
	if kept := Slices([]corev1.Service{web}, pods, list); len(kept) != 2 {
		t.Errorf("ours count as the user's: %+v", kept)
	}
}
