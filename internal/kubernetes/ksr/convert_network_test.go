package ksr

import (
	"strings"
	"testing"
	"time"

	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func ptr[T any](v T) *T { return &v }

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "prod"} }

func selector(pairs ...string) *metav1.LabelSelector {
	s := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(pairs); i += 2 {
		s.MatchLabels[pairs[i]] = pairs[i+1]
	}
	return s
}

func TestConversionOfPolicies(t *testing.T) {
	const key = "/vnf-agent/contiv-ksr/k8s/policy/p/namespace/prod"
	for _, c := range []struct {
		name string
		spec networkingv1.NetworkPolicySpec
		want string
	}{
		{
			"empty rules and empty selectors are kept apart from none",
			networkingv1.NetworkPolicySpec{
				PolicyTypes: []networkingv1.PolicyType{"Ingress"},
				Ingress: []networkingv1.NetworkPolicyIngressRule{
					{},
					{From: []networkingv1.NetworkPolicyPeer{{PodSelector: selector()}, {NamespaceSelector: selector()}}},
				},
			},
			`"pods":{},"policy_type":"INGRESS","ingress_rule":[{},{"from":[{"pods":{}},{"namespaces":{}}]}]`,
		},
		{
			"pod and namespace selector of one peer are combined",
			networkingv1.NetworkPolicySpec{
				PodSelector: *selector("b", "2", "a", "1"), PolicyTypes: []networkingv1.PolicyType{"Egress", "Ingress"},
				Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
					{PodSelector: selector("app", "web"), NamespaceSelector: selector("team", "x")},
					{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8", Except: []string{"10.1.0.0/16", "10.2.0.0/16"}}},
				}}},
			},
			`"pods":{"match_label":[{"key":"a","value":"1"},{"key":"b","value":"2"}]},"policy_type":"INGRESS_AND_EGRESS",` +
				`"ingress_rule":[{"from":[{"pods":{"match_label":[{"key":"app","value":"web"}]},"namespaces":{"match_label":[{"key":"team","value":"x"}]}},` +
				`{"ip_block":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16","10.2.0.0/16"]}}]}]`,
		},
		{
			"ports: number, name, range, whole protocol, SCTP; never TCP by mistake",
			networkingv1.NetworkPolicySpec{
				PolicyTypes: []networkingv1.PolicyType{"Egress"},
				Egress: []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{
					{Port: ptr(intstr.FromInt32(80))},
					{Port: ptr(intstr.FromString("dns")), Protocol: ptr(corev1.ProtocolUDP)},
					{Port: ptr(intstr.FromInt32(9000)), EndPort: ptr(int32(9100)), Protocol: ptr(corev1.ProtocolSCTP)},
					{Protocol: ptr(corev1.ProtocolUDP)},
					{Port: ptr(intstr.FromInt32(1)), Protocol: ptr(corev1.Protocol("DCCP"))},
				}}},
			},
			`"pods":{},"policy_type":"EGRESS","egress_rule":[{"port":[{"port":{"number":80}},{"port":{"type":"NAME","name":"dns"},"protocol":"UDP"},` +
				`{"port":{"number":9000},"protocol":"SCTP","end_port":9100},{"protocol":"UDP"},{"port":{"number":1},"protocol":"OTHER"}]}]`,
		},
		{
			"expressions; an unknown operator matches nothing",
			networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: "In", Values: []string{"1", "2"}}, {Key: "b", Operator: "NotIn", Values: []string{"3"}},
				{Key: "c", Operator: "Exists"}, {Key: "d", Operator: "DoesNotExist"}, {Key: "e", Operator: "Gt", Values: []string{"4"}},
			}}},
			`"pods":{"match_expression":[{"key":"a","value":["1","2"]},{"key":"b","operator":"NOT_IN","value":["3"]},` +
				`{"key":"c","operator":"EXISTS"},{"key":"d","operator":"DOES_NOT_EXIST"},{"key":"e"}]},"policy_type":"INGRESS"`,
		},
		{"types by default: ingress", networkingv1.NetworkPolicySpec{}, `"pods":{},"policy_type":"INGRESS"`},
		{
			"default types: also egress if egress rules exist",
			networkingv1.NetworkPolicySpec{Egress: []networkingv1.NetworkPolicyEgressRule{{}}},
			`"pods":{},"policy_type":"INGRESS_AND_EGRESS","egress_rule":[{}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantConverted(t, &networkingv1.NetworkPolicy{ObjectMeta: meta("p"), Spec: c.spec}, key, `{"name":"p","namespace":"prod",`+c.want+`}`)
		})
	}
}

func TestConversionOfServices(t *testing.T) {
	const key = "/vnf-agent/contiv-ksr/k8s/service/web/namespace/prod"
	const head = `{"name":"web","namespace":"prod",`
	t.Run("a manifest gets the defaults of the API server", func(t *testing.T) {
		wantConverted(t, &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.10", Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}},
		}}, key, head+`"port":[{"protocol":"TCP","port":80,"target_port":{"int_val":80}}],"selector":{"app":"web"},"cluster_ip":"10.96.0.10",`+
			`"service_type":"ClusterIP","session_affinity":"None","external_traffic_policy":"Cluster","cluster_ips":["10.96.0.10"],"internal_traffic_policy":"Cluster"}`)
	})
	t.Run("everything", func(t *testing.T) {
		m := meta("web")
		m.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
		m.Annotations = map[string]string{"contivpp.io/x": "1", "other": "2"}
		m.CreationTimestamp = metav1.NewTime(time.Date(2026, 11, 1, 1, 0, 0, 0, time.FixedZone("", 3600)))
		wantConverted(t, &corev1.Service{
			ObjectMeta: m,
			Spec: corev1.ServiceSpec{
				Type: "LoadBalancer", ClusterIPs: []string{"10.96.0.10", "fd00::10"}, IPFamilies: []corev1.IPFamily{"IPv4", "IPv6"},
				IPFamilyPolicy: ptr(corev1.IPFamilyPolicyRequireDualStack), ExternalIPs: []string{"1.2.3.4"},
				Ports: []corev1.ServicePort{{
					Name: "sip", Protocol: "SCTP", Port: 5060, NodePort: 30060, TargetPort: intstr.FromString("sip"), AppProtocol: ptr("x/sip"),
				}},
				SessionAffinity: "ClientIP", ExternalTrafficPolicy: "Local", InternalTrafficPolicy: ptr(corev1.ServiceInternalTrafficPolicyLocal),
				HealthCheckNodePort: 30001, LoadBalancerIP: "9.9.9.9", LoadBalancerSourceRanges: []string{"10.0.0.0/8"},
				PublishNotReadyAddresses: true, TrafficDistribution: ptr("PreferClose"),
			},
			Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{
				{IP: "9.9.9.9"}, {Hostname: "lb.example"}, {IP: "8.8.8.8", IPMode: ptr(corev1.LoadBalancerIPModeProxy)},
			}}},
		}, key, head+`"port":[{"name":"sip","protocol":"SCTP","port":5060,"target_port":{"type":"STRING","string_val":"sip"},"node_port":30060,"app_protocol":"x/sip"}],`+
			`"cluster_ip":"10.96.0.10","service_type":"LoadBalancer","external_ips":["1.2.3.4"],"lb_ingress_ips":["9.9.9.9"],"session_affinity":"ClientIP",`+
			`"loadbalancer_ip":"9.9.9.9","loadbalancer_source_ranges":["10.0.0.0/8"],"external_traffic_policy":"Local","health_check_node_port":30001,`+
			`"session_affinity_timeout":10800,"annotations":{"contivpp.io/x":"1"},"cluster_ips":["10.96.0.10","fd00::10"],"ip_families":["IPv4","IPv6"],`+
			`"ip_family_policy":"RequireDualStack","internal_traffic_policy":"Local","traffic_distribution":"PreferClose","publish_not_ready_addresses":true,`+
			`"lb_ingress":[{"ip":"9.9.9.9"},{"hostname":"lb.example"},{"ip":"8.8.8.8","ip_mode":"Proxy"}],"labels":{"service.kubernetes.io/service-proxy-name":"other"},"creation_time":"2026-11-01T00:00:00Z"}`)
	})
	t.Run("the timeout counts only with affinity", func(t *testing.T) {
		config := &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr(int32(60))}}
		for affinity, want := range map[corev1.ServiceAffinity]uint32{"ClientIP": 60, "None": 0, "": 0} {
			if got := affinityTimeout(&corev1.ServiceSpec{SessionAffinity: affinity, SessionAffinityConfig: config}); got != want {
				t.Errorf("affinity %q: %d s, want %d", affinity, got, want)
			}
		}
	})
}

func newSlice(name, serviceName string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: meta(name), AddressType: "IPv4", Endpoints: endpoints}
	if serviceName != "" {
		s.Labels = map[string]string{"kubernetes.io/service-name": serviceName}
	}
	return s
}

func TestConversionOfEndpointSlices(t *testing.T) {
	s := newSlice("web-1", "web",
		discoveryv1.Endpoint{
			Addresses: []string{"10.1.1.2"}, Hostname: ptr("h"), NodeName: ptr("node1"), Zone: ptr("z1"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "prod", Name: "web-x", UID: "u", ResourceVersion: "77"},
			Hints:     &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z1"}, {Name: "z2"}}, ForNodes: []discoveryv1.ForNode{{Name: "node1"}}},
		},
		discoveryv1.Endpoint{Addresses: []string{"10.1.1.3"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(false), Serving: ptr(true), Terminating: ptr(true)}},
		discoveryv1.Endpoint{Addresses: []string{"10.1.1.4"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr(false)}},
	)
	s.Annotations = map[string]string{"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-02T03:04:05Z", "other": "x"}
	s.Ports = []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080)), AppProtocol: ptr("kubernetes.io/h2c")}, {Port: ptr(int32(53)), Protocol: ptr(corev1.ProtocolUDP)}}
	wantConverted(t, s, "/vnf-agent/contiv-ksr/k8s/endpointslice/web-1/namespace/prod",
		`{"name":"web-1","namespace":"prod","service":"web","address_type":"IPv4",`+
			`"ports":[{"name":"http","port":8080,"protocol":"TCP","app_protocol":"kubernetes.io/h2c"},{"port":53,"protocol":"UDP"}],`+
			`"endpoints":[{"addresses":["10.1.1.2"],"ready":true,"serving":true,"host_name":"h","node_name":"node1",`+
			`"target_ref":{"kind":"Pod","namespace":"prod","name":"web-x","uid":"u"},"zone":"z1","for_zones":["z1","z2"],"for_nodes":["node1"]},`+
			`{"addresses":["10.1.1.3"],"serving":true,"terminating":true},{"addresses":["10.1.1.4"]}],"trigger_time":"2026-01-02T03:04:05Z"}`)
}

func TestSliceOfNoServiceIsNotReflected(t *testing.T) {
	if got, err := convert(newSlice("web-1", "")); got != nil || err != nil {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestSliceThatProxiesIgnoreIsNotReflected(t *testing.T) {
	for _, label := range []string{"service.kubernetes.io/headless", "service.kubernetes.io/service-proxy-name"} {
		s := newSlice("web-1", "web")
		s.Labels[label] = ""
		if got, err := convert(s); got != nil || err != nil {
			t.Errorf("%s: got %s, %v", label, got, err)
		}
	}
}

func TestSidecarsAreToldFromContainersThatOnlyInitialize(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "prod", DeletionTimestamp: &metav1.Time{}}, Spec: corev1.PodSpec{InitContainers: []corev1.Container{
		{Name: "init"},
		{Name: "proxy", RestartPolicy: ptr(corev1.ContainerRestartPolicyAlways), Ports: []corev1.ContainerPort{{Name: "admin", ContainerPort: 15000}}},
	}}}
	wantConverted(t, p, "/vnf-agent/contiv-ksr/k8s/pod/a/namespace/prod",
		`{"name":"a","namespace":"prod","init_container":[{"name":"init"},{"name":"proxy","port":[{"name":"admin","container_port":15000}],"restartable":true}],"terminating":true}`)
}

func TestObjectThatDoesNotFitIsRefused(t *testing.T) {
	p := newPod("a")
	p.Labels["x"] = strings.Repeat("y", maxValue)
	if _, err := convert(p); err == nil || !strings.Contains(err.Error(), "split it") {
		t.Errorf("got %v", err)
	}
}

// While a ServiceCIDR exists, services may have addresses of it.
func TestServiceCIDRCountsUntilItIsGone(t *testing.T) {
	for name, c := range map[string]*networkingv1.ServiceCIDR{
		"ready":     {Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionTrue}}}},
		"not ready": {Status: networkingv1.ServiceCIDRStatus{Conditions: []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: metav1.ConditionFalse}}}},
		"deleted":   {ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Now()}, Finalizers: []string{"networking.k8s.io/service-cidr-finalizer"}}},
	} {
		t.Run(name, func(t *testing.T) {
			c.Name, c.Spec.CIDRs = "second", []string{"10.112.0.0/16", "fd97::/112"}
			wantConverted(t, c, "/vnf-agent/contiv-ksr/k8s/servicecidr/second", `{"name":"second","cidrs":["10.112.0.0/16","fd97::/112"]}`)
		})
	}
}

func TestTimeOfAPolicy(t *testing.T) {
	at := func(second int) *metav1.Time {
		return &metav1.Time{Time: time.Date(2026, 11, 23, 12, 0, second, 0, time.FixedZone("", 3600))}
	}
	m := meta("p")
	m.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "a", Time: at(3)}, {Manager: "b", Time: at(7)}, {Manager: "c"}, {Manager: "d", Subresource: "status", Time: at(9)}}
	wantConverted(t, &networkingv1.NetworkPolicy{ObjectMeta: m}, "/vnf-agent/contiv-ksr/k8s/policy/p/namespace/prod",
		`{"name":"p","namespace":"prod","pods":{},"policy_type":"INGRESS","change_time":"2026-11-23T11:00:07Z"}`)
	m.Namespace = ""
	wantConverted(t, &cnp.ClusterNetworkPolicy{ObjectMeta: m, Spec: cnp.Spec{Tier: cnp.Admin}}, "/vnf-agent/contiv-ksr/k8s/clusternetworkpolicy/p",
		`{"name":"p","change_time":"2026-11-23T11:00:07Z"}`)
}
