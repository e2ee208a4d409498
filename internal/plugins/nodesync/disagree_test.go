package nodesync_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

// A node in the minority reports that its addressing differs. Nodes of the majority, and nodes that
// know no others, do not.
func TestDisagreement(t *testing.T) {
	long, short := "podSubnetOneNodePrefixLen (IPv4)=25", "podSubnetOneNodePrefixLen (IPv4)=24"
	for name, test := range map[string]struct {
		own    string
		others []string
		want   string
	}{
		"alone":                             {own: long},
		"the same":                          {own: long, others: []string{long, long}},
		"older agents":                      {own: long, others: []string{"", ""}},
		"one against one":                   {own: long, others: []string{short}, want: "disagrees with node2: ipamConfig.podSubnetOneNodePrefixLen (IPv4) is 25, not 24"},
		"in the minority":                   {own: long, others: []string{short, long, short}, want: "node2, node4"},
		"in the majority":                   {own: long, others: []string{short, long, long}},
		"against many":                      {own: long, others: []string{short, short, short, short, short}, want: "node2, node3, node4 and 2 more"},
		"an option that this one lacks":     {own: long, others: []string{long + " futureOption=5"}},
		"a pod subnet that this one lacks":  {own: long, others: []string{long + " podSubnetCIDR (IPv6)=fd00::/48"}, want: "podSubnetCIDR (IPv6) is missing"},
		"a pod subnet that the others lack": {own: long + " podSubnetCIDR (IPv6)=fd00::/48", others: []string{long}},
	} {
		t.Run(name, func(t *testing.T) {
			options := func(text string) (list []string) {
				for _, part := range strings.Split(strings.ReplaceAll(text, " (", "~("), " ") {
					if part != "" {
						list = append(list, strings.ReplaceAll(part, "~", " "))
					}
				}
				return list
			}
			db := memory.New()
			n := nodesync.New("node1", db, nodesync.Self{IPAMOptions: options(test.own)}, &plugintest.Loop{}, plugintest.Logger())
			values := []proto.Message{vppNode(1, "node1")}
			for i, other := range test.others {
				values = append(values, &vppnode.VppNode{Id: uint32(i + 2), Name: fmt.Sprint("node", i+2), IpamOptions: options(other)})
			}
			resync(t, n, state(values...))
			err := n.Disagreement()
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestOptionsArePublished(t *testing.T) {
	db := memory.New()
	for _, option := range []string{"a=1", "a=2"} {
		n := nodesync.New("node1", db, nodesync.Self{IPAMOptions: []string{option}}, &plugintest.Loop{}, plugintest.Logger())
		values := []proto.Message{kubeNode("node1", "192.168.16.1")}
		if v := stored(t, db, 1); v != nil {
			values = append(values, v)
		}
		resync(t, n, state(values...))
		if err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false); err != nil {
			t.Fatal(err)
		}
		v := stored(t, db, 1)
		if len(v.GetIpamOptions()) != 1 || v.IpamOptions[0] != option {
			t.Errorf("published: %v", v)
		}
		other := nodesync.New("node2", memory.New(), nodesync.Self{IPAMOptions: []string{"a=3"}}, &plugintest.Loop{}, plugintest.Logger())
		resync(t, other, state(vppNode(2, "node2"), v))
		if err := other.Disagreement(); err == nil || !strings.Contains(err.Error(), "node1") {
			t.Errorf("the other node: %v", err)
		}
	}
}
