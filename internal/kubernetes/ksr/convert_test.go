package ksr

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The JSON is a contract with agents of other versions.
func TestConversion(t *testing.T) {
	for _, c := range []struct {
		name     string
		object   Object
		key, val string
	}{
		{
			"namespace",
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{"b": "2", "a": "1"}}},
			"/vnf-agent/contiv-ksr/k8s/namespace/prod",
			`{"name":"prod","label":[{"key":"a","value":"1"},{"key":"b","value":"2"}]}`,
		},
		{
			"node",
			&corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "node1", Labels: map[string]string{"zone": "z"}, Annotations: map[string]string{
					"contivpp.io/x": "1", "other.io/x": "2",
				}},
				Spec: corev1.NodeSpec{PodCIDR: "10.1.1.0/24", ProviderID: "p"},
				Status: corev1.NodeStatus{
					Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.168.16.1"}, {Type: corev1.NodeHostName, Address: "n"}, {Type: "New", Address: "x"}},
					NodeInfo:  corev1.NodeSystemInfo{MachineID: "m", OSImage: "Debian"},
				},
			},
			"/vnf-agent/contiv-ksr/k8s/node/node1",
			`{"name":"node1","pod_CIDR":"10.1.1.0/24","provider_ID":"p","addresses":[{"type":"NodeInternalIP","address":"192.168.16.1"},` +
				`{"type":"NodeHostName","address":"n"},{"address":"x"}],"node_info":{"machine_ID":"m","os_image":"Debian"},` +
				`"pod_CIDRs":["10.1.1.0/24"],"labels":{"zone":"z"},"annotations":{"contivpp.io/x":"1"}}`,
		},
		{
			"dual-stack node",
			&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{PodCIDRs: []string{"fd00::/64", "10.1.1.0/24"}}},
			"/vnf-agent/contiv-ksr/k8s/node/n",
			`{"name":"n","pod_CIDR":"fd00::/64","node_info":{},"pod_CIDRs":["fd00::/64","10.1.1.0/24"]}`,
		},
		{
			"pod",
			&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "web", Namespace: "prod", UID: "u-1", Labels: map[string]string{"b": "2", "a": "1"},
					Annotations: map[string]string{"contivpp.io/custom-if": "m", "x": "y"},
				},
				Spec: corev1.PodSpec{
					NodeName:       "node1",
					InitContainers: []corev1.Container{{Name: "init"}},
					Containers: []corev1.Container{{Name: "c", Ports: []corev1.ContainerPort{
						{Name: "http", ContainerPort: 80, HostPort: 8080, HostIP: "1.2.3.4"},
						{ContainerPort: 53, Protocol: corev1.ProtocolUDP},
						{ContainerPort: 99, Protocol: corev1.ProtocolSCTP},
						{ContainerPort: 1, Protocol: "ODD"},
					}}},
				},
				Status: corev1.PodStatus{
					Phase: corev1.PodRunning, PodIP: "10.1.1.2", HostIP: "192.168.16.1",
					PodIPs: []corev1.PodIP{{IP: "10.1.1.2"}, {IP: "fd00::2"}},
				},
			},
			"/vnf-agent/contiv-ksr/k8s/pod/web/namespace/prod",
			`{"name":"web","namespace":"prod","label":[{"key":"a","value":"1"},{"key":"b","value":"2"}],"ip_address":"10.1.1.2","host_ip_address":"192.168.16.1",` +
				`"container":[{"name":"c","port":[{"name":"http","host_port":8080,"container_port":80,"host_ip_address":"1.2.3.4"},` +
				`{"container_port":53,"protocol":"UDP"},{"container_port":99,"protocol":"SCTP"}]}],"annotations":{"contivpp.io/custom-if":"m"},` +
				`"labels":{"a":"1","b":"2"},"phase":"RUNNING","ip_addresses":["10.1.1.2","fd00::2"],"node_name":"node1",` +
				`"init_container":[{"name":"init"}],"uid":"u-1","host_ip_addresses":["192.168.16.1"]}`,
		},
		{
			"pod of the host's network, without an address yet",
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Spec: corev1.PodSpec{HostNetwork: true}},
			"/vnf-agent/contiv-ksr/k8s/pod/a/namespace/default",
			`{"name":"a","namespace":"default","host_network":true}`,
		},
		{
			"static pod",
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", UID: "u-1", Annotations: map[string]string{"kubernetes.io/config.mirror": "5ca1ab1e"}}},
			"/vnf-agent/contiv-ksr/k8s/pod/a/namespace/default",
			`{"name":"a","namespace":"default","uid":"5ca1ab1e"}`,
		},
		{
			"pod that only knows podIP",
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default"}, Status: corev1.PodStatus{PodIP: "10.1.1.2"}},
			"/vnf-agent/contiv-ksr/k8s/pod/a/namespace/default",
			`{"name":"a","namespace":"default","ip_address":"10.1.1.2","ip_addresses":["10.1.1.2"]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) { wantConverted(t, c.object, c.key, c.val) })
	}
}

// wantConverted also checks that the encoding is canonical and that trimmed objects are complete.
func wantConverted(t *testing.T, object Object, key, value string) {
	t.Helper()
	ref, ok := RefOf(object)
	if !ok || ref.Key() != key {
		t.Errorf("key is %s (%v), want %s", ref.Key(), ok, key)
	}
	for i := range 20 {
		if i > 0 {
			object = Trim(object)
		}
		got, err := convert(object)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != value {
			t.Fatalf("got  %s\nwant %s", got, value)
		}
	}
}
