package integration

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/command"
	"github.com/contiv/contiv/test/hostile"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// stateOfSamples contains objects of kinds that the lab does not create.
const stateOfSamples = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {clusterIP: 10.96.0.77, clusterIPs: [10.96.0.77], selector: {app: web}, ports: [{name: http, port: 80, targetPort: 8080, nodePort: 30080}], type: NodePort}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.1.2], conditions: {ready: true}, nodeName: node1}]
ports: [{name: http, port: 8080, protocol: TCP}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: allow, namespace: default}
spec: {podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress, Egress], ingress: [{from: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.9.0.0/16]}}, {podSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}}], ports: [{port: 80, endPort: 90}]}]}
---
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: tenants}
spec:
  tier: Admin
  priority: 10
  subject: {pods: {namespaceSelector: {matchLabels: {tenant: a}}, podSelector: {matchExpressions: [{key: app, operator: In, values: [db]}]}}}
  ingress: [{name: web, action: Accept, from: [{namespaces: {matchLabels: {tenant: b}}}], protocols: [{tcp: {destinationPort: {range: {start: 80, end: 90}}}}]}]
  egress: [{name: out, action: Deny, to: [{networks: [10.9.0.0/16]}, {nodes: {matchLabels: {a: b}}}]}]
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: kubernetes}
spec: {cidrs: [10.96.0.0/12, 'fd96::/108']}
`

// Writes hostile Kubernetes state, node records, IDs and claims to etcd, generated from existing
// values: under new keys, and replacing the objects of another node. Agents must not restart, ADD
// must work, and nothing may remain.
func TestHostileState(t *testing.T) {
	l := newHostileLab(t)
	manifests := l.Path("state.yaml")
	if err := os.WriteFile(manifests, []byte(stateOfSamples), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Apply(t.Context(), manifests); err != nil {
		t.Fatal(err)
	}
	await.That(t, "KSR has reflected all", func() error {
		return l.has(t, "k8s/policy/", "k8s/clusternetworkpolicy/", "k8s/service/", "k8s/servicecidr/", "k8s/endpointslice/", "k8s/pod/", "k8s/node/", "k8s/namespace/")
	})
	labtest.RequireQuiet(t, l.Lab)
	original := l.reflected(t)
	before := l.southbound(t)

	for key := range l.good {
		if !strings.Contains(key, "vpp-tap") && !strings.Contains(key, "podGwLoop") {
			delete(l.good, key)
		}
	}
	perKind := 60
	if os.Getenv("HOSTILE_LONG") != "" {
		perKind = 0
	}
	overlap := []string{"node1", "node2", "192.168.16.1/24", "192.168.16.2", "10.1.1.2", "default", "good1", "web"}
	garbage := []string{"", "null", "{", "[]", "\x00", "\xff\xfe", `{"name":5}`, `{"id":"x"}`, strings.Repeat("[", 1<<16), `{"name":"` + strings.Repeat("x", 1<<20) + `"}`, "\x1b[2J"}
	p1, p2 := l.process(t, "node1"), l.process(t, "node2")
	alive := func(when string) {
		t.Helper()
		l.wantAlive(t, when, "node1", p1)
		l.wantAlive(t, when, "node2", p2)
	}
	for _, resource := range kubestate.All() {
		var variants []variant
		for key, data := range original {
			if !strings.HasPrefix(key, resource.KeyPrefix) {
				continue
			}
			sample, err := resource.Unmarshal([]byte(data))
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range hostile.Generate(sample, overlap) {
				if data, err := kubestate.Marshal(v.Message); err == nil && len(data) < 1<<20 {
					variants = append(variants, variant{data, v.Message})
				}
			}
		}
		if len(variants) == 0 && resource.Keyword != kubestate.NodeConfig {
			t.Errorf("no %s to derive hostile ones from", resource.Keyword)
		}
		if perKind > 0 && len(variants) > perKind {
			some := make([]variant, perKind)
			for i := range some {
				some[i] = variants[i*len(variants)/perKind]
			}
			variants = some
		}
		for _, text := range garbage {
			variants = append(variants, variant{data: []byte(text)})
		}
		for i, v := range variants {
			key, data := v.at(t, resource.KeyPrefix, fmt.Sprint("h", i))
			switch {
			case resource.Keyword == kubestate.VppNode && i%2 == 0:
				key = fmt.Sprintf("allocatedIDs/%d", 100+i)
			case resource.Keyword == kubestate.Node && i%2 == 0:
				key, data = v.at(t, resource.KeyPrefix, "node2")
			case resource.Keyword == kubestate.NodeConfig:
				key = kubestate.NodeConfigKey("node2")
			}
			if _, err := l.etcd.Put(t.Context(), models.KSRPrefix+key, string(data)); err != nil {
				t.Fatal(err)
			}
		}
		when := "hostile " + resource.Keyword
		l.barrier(t, when)
		l.resync(t, "node1")
		l.wantGood(t, when)
		l.addAndDel(t, when)
		alive(when)
		if t.Failed() {
			return
		}
	}
	for i, text := range append(garbage, `{"host":"\u001b[2J","pid":-1}`) {
		if _, err := l.etcd.Put(t.Context(), nodesync.ClaimKey(fmt.Sprint("h", i, "\x1b[2J")), text); err != nil {
			t.Fatal(err)
		}
	}
	l.barrier(t, "claims")
	l.resync(t, "node1")
	alive("claims")
	await.That(t, "status names a value that cannot be used", func() error {
		if out := statusOf(l.Lab); !strings.Contains(out, "values of the cluster's state in etcd are INVALID, such as: "+models.KSRPrefix) {
			return fmt.Errorf("status is\n%s", out)
		}
		return nil
	})
	if err := errors.Join(l.StopAgent(t.Context(), "node1"), l.StartAgent(t.Context(), "node1")); err != nil {
		t.Fatal(err)
	}
	p1 = l.process(t, "node1")
	l.wantGood(t, "after a restart")
	l.addAndDel(t, "after a restart")
	alive("after a restart")

	for key := range l.reflected(t) {
		data, ours := original[key]
		var err error
		if ours {
			_, err = l.etcd.Put(t.Context(), models.KSRPrefix+key, data)
		} else {
			_, err = l.etcd.Delete(t.Context(), models.KSRPrefix+key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for key, data := range original {
		if _, err := l.etcd.Put(t.Context(), models.KSRPrefix+key, data); err != nil {
			t.Fatal(err)
		}
	}
	l.barrier(t, "removal")
	l.resync(t, "node1")
	l.resync(t, "node2")
	l.addAndDel(t, "after the removal")
	labtest.RequireQuiet(t, l.Lab)
	alive("after the removal")
	await.That(t, "the node is as it was", func() error {
		if after := l.southbound(t); after != before {
			return errors.New(difference(before, after))
		}
		return nil
	})
	if err := ping(t, l.pod(t, "good1"), l.pod(t, "good2")); err != nil {
		t.Error(err)
	}
	for _, p := range []lab.Process{p1, p2} {
		if !p.Alive() {
			t.Error("an agent has ended")
		}
	}
}

// variant is a hostile value of the cluster's state. message is nil if it cannot be decoded.
type variant struct {
	data    []byte
	message proto.Message
}

// at returns the key of a name, and the value with the name and the namespace of the key: agents ignore
// others. Some values keep their own names.
func (v variant) at(t *testing.T, prefix, name string) (key string, data []byte) {
	t.Helper()
	key = prefix + name
	if v.message == nil {
		return key, v.data
	}
	m := v.message.ProtoReflect()
	field := func(name protoreflect.Name) protoreflect.FieldDescriptor { return m.Descriptor().Fields().ByName(name) }
	namespaced := field("namespace") != nil
	if namespaced {
		key += "/namespace/default"
	}
	if len(v.data)%4 == 0 || field("name") == nil || prefix == kubestate.VppNodePrefix {
		return key, v.data
	}
	m.Set(field("name"), protoreflect.ValueOfString(name))
	if namespaced {
		m.Set(field("namespace"), protoreflect.ValueOfString("default"))
	}
	data, err := kubestate.Marshal(v.message)
	if err != nil {
		t.Fatal(err)
	}
	return key, data
}

// reflected returns the Kubernetes state in etcd by key without the common prefix.
func (l *hostileLab) reflected(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	answer, err := l.etcd.Get(t.Context(), models.KSRPrefix, clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range answer.Kvs {
		key := strings.TrimPrefix(string(kv.Key), models.KSRPrefix)
		if strings.HasPrefix(key, "k8s/") || strings.HasPrefix(key, "allocatedIDs/") {
			state[key] = string(kv.Value)
		}
	}
	return state
}

func (l *hostileLab) has(t *testing.T, prefixes ...string) error {
	state := l.reflected(t)
	for _, prefix := range prefixes {
		found := false
		for key := range state {
			found = found || strings.HasPrefix(key, prefix)
		}
		if !found {
			return fmt.Errorf("nothing in %s", prefix)
		}
	}
	return nil
}

// barrier waits until node1 has processed all earlier writes to etcd.
func (l *hostileLab) barrier(t *testing.T, when string) {
	t.Helper()
	l.pods++
	address := fmt.Sprintf("10.223.%d.1/24", l.pods)
	key := models.NodePrefix("node1") + "config/vpp/v2/interfaces/barrier"
	if _, err := l.etcd.Put(t.Context(), key, fmt.Sprintf(`{"name":"barrier","type":"SOFTWARE_LOOPBACK","enabled":true,"ip_addresses":[%q]}`, address)); err != nil {
		t.Fatal(err)
	}
	await.That(t, when+" is processed", func() error {
		if out := command.In(t, l.node(t).Netns, "ip -br addr"); !strings.Contains(out, address) {
			return errors.New(out)
		}
		return nil
	})
	if _, err := l.etcd.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the barrier is gone", func() error {
		if out := command.In(t, l.node(t).Netns, "ip -br addr"); strings.Contains(out, address) {
			return errors.New(out)
		}
		return nil
	})
}
