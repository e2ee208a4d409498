package kubernetes

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/calico/datastore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	"sigs.k8s.io/yaml"
)

var discarded = slog.New(slog.DiscardHandler)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

func newClient(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		Blocks: "IPAMBlockList", Affinities: "BlockAffinityList", Nodes: "NodeList",
	}, objects...)
}

// Objects as made by Calico with the Kubernetes datastore.
const (
	block = `
apiVersion: crd.projectcalico.org/v1
kind: IPAMBlock
metadata: {name: 10-244-1-0-26, annotations: {projectcalico.org/metadata: '{"creationTimestamp":null}'}}
spec:
  affinity: host:w1
  allocations: [0, null, 1]
  attributes:
  - handle_id: vxlan-tunnel-addr-w1
    secondary: {node: w1, type: vxlanTunnelAddress}
  - handle_id: k8s-pod-network.5b
    secondary: {namespace: default, node: w2, pod: web}
  cidr: 10.244.1.0/26
  deleted: false
  strictAffinity: false
  unallocated: [1]`
	affinity = `
apiVersion: crd.projectcalico.org/v1
kind: BlockAffinity
metadata: {name: w2-10-244-2-0-26}
spec: {cidr: 10.244.2.0/26, deleted: "false", node: w2, state: confirmed}`
	node1 = `
apiVersion: v1
kind: Node
metadata: {name: w1, annotations: {projectcalico.org/IPv4Address: 192.168.1.1/24}}
status: {addresses: [{type: InternalIP, address: 10.0.0.1}, {type: InternalIP, address: "2001:db8::1"}]}`
	node2 = `
apiVersion: v1
kind: Node
metadata: {name: w2, annotations: {projectcalico.org/IPv4Address: 192.168.1.2/24, contivpp.io/calico-peerip-ipv4: 192.168.2.2}}
status: {addresses: [{type: Hostname, address: w2}]}`
)

func describe(s *datastore.State) string {
	var words []string
	for _, b := range s.Blocks {
		words = append(words, fmt.Sprint(b.CIDR, "=", b.Host, b.Borrowed))
	}
	for _, a := range s.Affinities {
		words = append(words, fmt.Sprint(a.CIDR, "~", a.Host))
	}
	for _, p := range s.Peers {
		words = append(words, fmt.Sprint(p.Host, "@", p.Addr))
	}
	for key := range s.Problems {
		words = append(words, "!"+key)
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func TestSource(t *testing.T) {
	client := newClient(object(t, block), object(t, affinity), object(t, node1), object(t, node2))
	s := &Source{Client: client, Families: []int{4, 6}, Interval: time.Millisecond, Log: discarded}
	updates := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx, func(state *datastore.State) { updates <- describe(state) }) })
	defer running.Wait()
	defer cancel()
	want := func(text string) {
		t.Helper()
		var got []string
		for {
			select {
			case u := <-updates:
				if u == text {
					return
				}
				got = append(got, u)
			case <-time.After(time.Minute):
				t.Fatalf("got %q, want %q", got, text)
			}
		}
	}
	must := func(_ *unstructured.Unstructured, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want("10.244.1.0/26=w1map[10.244.1.2:w2] 10.244.2.0/26~w2 w1@192.168.1.1 w1@2001:db8::1 w2@192.168.2.2")
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	must(client.Resource(Blocks).Update(ctx, object(t, strings.ReplaceAll(block, "node: w2", "node: w1")), metav1.UpdateOptions{}))
	want("10.244.1.0/26=w1map[] 10.244.2.0/26~w2 w1@192.168.1.1 w1@2001:db8::1 w2@192.168.2.2")
	must(client.Resource(Blocks).Update(ctx, object(t, strings.ReplaceAll(block, "cidr: 10", "cidr: x")), metav1.UpdateOptions{}))
	want("!IPAMBlock/10-244-1-0-26 10.244.2.0/26~w2 w1@192.168.1.1 w1@2001:db8::1 w2@192.168.2.2")
	if err := client.Resource(Affinities).Delete(ctx, "w2-10-244-2-0-26", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("!IPAMBlock/10-244-1-0-26 w1@192.168.1.1 w1@2001:db8::1 w2@192.168.2.2")
	if err := client.Resource(Nodes).Delete(ctx, "w1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	want("!IPAMBlock/10-244-1-0-26 w2@192.168.2.2")

	// An address published by a route agent takes precedence over Calico's.
	p := Annotations{Client: client, Node: "w2", Addresses: []netip.Addr{netip.MustParseAddr("192.168.9.2"), netip.MustParseAddr("2001:db8::2")}}
	if err := p.Put(ctx); err != nil {
		t.Fatal(err)
	}
	want("!IPAMBlock/10-244-1-0-26 w2@192.168.9.2 w2@2001:db8::2")
	if err := (Annotations{Client: client, Node: "missing"}).Put(ctx); err == nil || !strings.Contains(err.Error(), "reading the Node missing") {
		t.Errorf("got %v", err)
	}
}
