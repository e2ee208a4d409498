package ipnet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

func annotated(addresses string) *pod.Pod {
	return &pod.Pod{Name: "web", Namespace: "default", Annotations: map[string]string{ipnet.SourcesAnnotation: addresses}}
}

func sources(t *testing.T, n *plugintest.Node) []string {
	t.Helper()
	g, ok := n.Scheduler.Values()["config/contiv/guard/v1/source/vpp-tap-c1"].(*guard.SourceGuard)
	if !ok {
		t.Fatal("no guard")
	}
	return g.GetIpAddresses()
}

func TestAllowedSources(t *testing.T) {
	many := make([]string, 40)
	for i := range many {
		many[i] = fmt.Sprintf("10.200.1.%d", i)
	}
	const permitted = "podAllowedSources: 10.200.0.0/16,192.168.16.0/24,fd20::/64"
	for name, test := range map[string]struct {
		conf, annotation string
		want             []string
	}{
		"not permitted":           {"", "10.200.0.1", nil},
		"permitted":               {permitted, "10.200.0.1, fd20::1 ,10.200.0.1,", []string{"10.200.0.1", "fd20::1"}},
		"others":                  {permitted, "10.201.0.1,10.1.1.3,10.96.0.1,fd21::1,8.8.8.8", nil},
		"the node's address":      {permitted, "192.168.16.1,192.168.16.200", []string{"192.168.16.200"}},
		"another node's address":  {permitted, "192.168.16.2", nil},
		"what is no address":      {permitted, "everything,10.200.0.0/16,fe80::1%eth0,10.200.0.7\n,\x1b[2J,::ffff:10.201.0.9", []string{"10.200.0.7"}},
		"what Kubernetes reads":   {permitted, "::ffff:10.200.0.9,010.200.000.007", []string{"10.200.0.9", "10.200.0.7"}},
		"too many":                {permitted, strings.Join(many, ","), many[:32]},
		"an annotation of a page": {permitted, strings.Repeat("x,", 100_000), nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := annotated(test.annotation)
			n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: test.conf, State: plugintest.State(before, kubeNode("node2", "192.168.16.2"), vppNode(2, "node2", "192.168.16.2/24"))})
			if _, err := n.Server.Add(ctx, request("web", "c1")); err != nil {
				t.Fatal(err)
			}
			want := append([]string{"10.1.1.2"}, test.want...)
			got := sources(t, n)
			if !slices.Equal(got, want) {
				t.Errorf("may send from %q, want %q", got, want)
			}
			n = n.Restart()
			if got := sources(t, n); !slices.Equal(got, want) {
				t.Errorf("after a restart it may send from %q, want %q", got, want)
			}
		})
	}
}

func TestAllowedSourcesChange(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: "podAllowedSources: 10.200.0.0/16"})
	if _, err := n.Server.Add(ctx, request("web", "c1")); err != nil {
		t.Fatal(err)
	}
	before := n.Scheduler.Values()
	want := func(addrs ...string) {
		t.Helper()
		if got := sources(t, n); !slices.Equal(got, append([]string{"10.1.1.2"}, addrs...)) {
			t.Errorf("may send from %q, want %q besides its own", got, addrs)
		}
	}
	want()
	one, two := annotated("10.200.0.1"), annotated("10.200.0.2,10.200.0.1")
	n.Change(nil, one)
	want("10.200.0.1")
	n.Change(one, two)
	want("10.200.0.2", "10.200.0.1")
	n.Change(two, nil)
	want()
	if diff := plugintest.Diff(before, n.Scheduler.Values()); diff != "" {
		t.Error(diff)
	}
	n.Change(nil, &pod.Pod{Name: "other", Namespace: "default", Annotations: one.Annotations})
	want()
}

func TestAllowedSourceBecomesNode(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{Conf: "podAllowedSources: 192.168.16.0/24", State: plugintest.State(annotated("192.168.16.2"))})
	if _, err := n.Server.Add(ctx, request("web", "c1")); err != nil {
		t.Fatal(err)
	}
	if got := sources(t, n); len(got) != 2 {
		t.Errorf("may send from %q", got)
	}
	n.Change(nil, kubeNode("node2", "192.168.16.2"))
	n.Change(nil, vppNode(2, "node2", "192.168.16.2/24"))
	if got := sources(t, n); len(got) != 1 {
		t.Errorf("may send from %q, which a node has", got)
	}
}
