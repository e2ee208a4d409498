package nodesync_test

import (
	"fmt"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

func largeCluster(tb testing.TB, nodes int) *nodesync.NodeSync {
	tb.Helper()
	n := nodesync.New("node1", memory.New(), nodesync.Self{}, &plugintest.Loop{}, plugintest.Logger())
	var all []proto.Message
	for i := 1; i <= nodes; i++ {
		name := fmt.Sprintf("node%d", i)
		all = append(all, vppNode(uint32(i), name, fmt.Sprintf("10.200.%d.%d/16", i/256, i%256)), kubeNode(name, fmt.Sprintf("10.200.%d.%d", i/256, i%256)))
	}
	resync(tb, n, state(all...))
	return n
}

func BenchmarkGetAllNodes(b *testing.B) {
	n := largeCluster(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if len(n.GetAllNodes()) != 1000 {
			b.Fatal("nodes are missing")
		}
	}
}

func BenchmarkNodeUpdate(b *testing.B) {
	n := largeCluster(b, 1000)
	before, after := vppNode(7, "node7", "10.200.0.7/16"), vppNode(7, "node7", "10.200.99.7/16")
	b.ReportAllocs()
	for b.Loop() {
		event := &controller.KubeStateChange{Resource: "vppnode", PrevValue: before, NewValue: after}
		if _, err := n.Update(ctx, event, plugintest.Txn{}); err != nil {
			b.Fatal(err)
		}
		n.GetAllNodes()
		before, after = after, before
	}
}
