package kubestate_test

import (
	"testing"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"google.golang.org/protobuf/proto"
)

func TestKeysBelongToTheirResource(t *testing.T) {
	for key, keyword := range map[string]string{
		kubestate.VppNodeKey(3):                         kubestate.VppNode,
		kubestate.NodeKey("n"):                          kubestate.Node,
		kubestate.NodeConfigKey("n"):                    kubestate.NodeConfig,
		kubestate.NamespaceKey("default"):               kubestate.Namespace,
		kubestate.PodKey("web", "prod"):                 kubestate.Pod,
		kubestate.PolicyKey("deny", "prod"):             kubestate.Policy,
		kubestate.ClusterPolicyKey("deny"):              kubestate.ClusterPolicy,
		kubestate.ServiceCIDRKey("kubernetes"):          kubestate.ServiceCIDR,
		kubestate.ServiceKey("web", "prod"):             kubestate.Service,
		kubestate.EndpointSliceKey("web-x7k2p", "prod"): kubestate.EndpointSlice,
		"k8s/pod/":      "",
		"status/gauges": "",
	} {
		if r, ok := kubestate.ForKey(key); r.Keyword != keyword || ok != (keyword != "") {
			t.Errorf("%s: got %q %v", key, r.Keyword, ok)
		}
	}
}

func TestValuesOfNewerWritersAreRead(t *testing.T) {
	r, _ := kubestate.ForKey(kubestate.PodKey("web", "prod"))
	got, err := r.Unmarshal([]byte(`{"name":"web","ip_address":"10.1.1.2","not_known_yet":{}}`))
	if err != nil || !proto.Equal(got, &pod.Pod{Name: "web", IpAddress: "10.1.1.2"}) {
		t.Errorf("got %v, %v", got, err)
	}
	people, _ := kubestate.ForKey(kubestate.NodeConfigKey("node1"))
	if _, err := people.Unmarshal([]byte(`{"main_vpp_interface": {"interface_nam": "eth0", "ip": "10.0.0.1/24"}}`)); err == nil ||
		err.Error() != `unknown field "main_vpp_interface.interface_nam" (did you mean "interface_name"?)` {
		t.Errorf("a misspelt field: %v", err)
	}
	if _, err := r.Unmarshal([]byte(`{`)); err == nil {
		t.Error("no error")
	}
}
