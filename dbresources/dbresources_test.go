package dbresources_test

import (
	"testing"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/dbresources"
	"google.golang.org/protobuf/proto"
)

func TestKeysBelongToTheirResource(t *testing.T) {
	for key, keyword := range map[string]string{
		dbresources.VppNodeKey(3):                         dbresources.VppNode,
		dbresources.NodeKey("n"):                          dbresources.Node,
		dbresources.NodeConfigKey("n"):                    dbresources.NodeConfig,
		dbresources.NamespaceKey("default"):               dbresources.Namespace,
		dbresources.PodKey("web", "prod"):                 dbresources.Pod,
		dbresources.PolicyKey("deny", "prod"):             dbresources.Policy,
		dbresources.ClusterPolicyKey("deny"):              dbresources.ClusterPolicy,
		dbresources.ServiceKey("web", "prod"):             dbresources.Service,
		dbresources.EndpointSliceKey("web-x7k2p", "prod"): dbresources.EndpointSlice,
		"k8s/pod/":      "",
		"status/gauges": "",
	} {
		if r, ok := dbresources.ForKey(key); r.Keyword != keyword || ok != (keyword != "") {
			t.Errorf("%s: got %q %v", key, r.Keyword, ok)
		}
	}
}

func TestValuesOfNewerWritersAreRead(t *testing.T) {
	r, _ := dbresources.ForKey(dbresources.PodKey("web", "prod"))
	got, err := r.Unmarshal([]byte(`{"name":"web","ip_address":"10.1.1.2","not_known_yet":{}}`))
	if err != nil || !proto.Equal(got, &pod.Pod{Name: "web", IpAddress: "10.1.1.2"}) {
		t.Errorf("got %v, %v", got, err)
	}
	people, _ := dbresources.ForKey(dbresources.NodeConfigKey("node1"))
	if _, err := people.Unmarshal([]byte(`{"main_vpp_interface": {"interface_nam": "eth0", "ip": "10.0.0.1/24"}}`)); err == nil ||
		err.Error() != `unknown field "main_vpp_interface.interface_nam" (did you mean "interface_name"?)` {
		t.Errorf("a misspelt field: %v", err)
	}
	if _, err := r.Unmarshal([]byte(`{`)); err == nil {
		t.Error("no error")
	}
}
