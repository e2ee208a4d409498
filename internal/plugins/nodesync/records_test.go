package nodesync_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func known(n *nodesync.NodeSync) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(n.GetAllNodes())) {
		if node := n.GetAllNodes()[name]; name != "node1" {
			list = append(list, fmt.Sprintf("%s #%d %v", name, node.ID, node.VPPIPs))
		}
	}
	return strings.Join(list, "; ")
}

func TestRecordsThatContradictEachOther(t *testing.T) {
	const real = "node2 #2 [192.168.16.2/24]; node3 #3 [192.168.16.3/24]"
	base := []proto.Message{vppNode(1, "node1", "192.168.16.1/24"), vppNode(2, "node2", "192.168.16.2/24"), vppNode(3, "node3", "192.168.16.3/24"),
		kubeNode("node1", "192.168.16.1"), kubeNode("node2", "192.168.16.2"), kubeNode("node3", "10.0.0.3")}
	for name, test := range map[string]struct {
		key    string
		record proto.Message
		want   string
	}{
		"a stale node has the address of one that Kubernetes knows": {"allocatedIDs/7", vppNode(7, "old", "192.168.16.2/24"), real + "; old #7 []"},
		"with a lower ID":            {"allocatedIDs/0", vppNode(0, "old", "192.168.16.3/24"), real},
		"the address of this node":   {"allocatedIDs/7", vppNode(7, "old", "192.168.16.1/24"), real + "; old #7 []"},
		"another prefix length":      {"allocatedIDs/7", vppNode(7, "old", "192.168.16.3/8"), real + "; old #7 []"},
		"ID that is not the key's":   {"allocatedIDs/8", vppNode(2, "old", "192.168.16.8/24"), real},
		"ID of another one":          {"allocatedIDs/9", vppNode(2, "node2", "192.168.16.99/24"), real},
		"key that is no ID":          {"allocatedIDs/x", vppNode(9, "old", "192.168.16.9/24"), real},
		"key with leading zeros":     {"allocatedIDs/002", vppNode(2, "node2", "192.168.16.9/24"), real},
		"no name":                    {"allocatedIDs/9", vppNode(9, "", "192.168.16.9/24"), real},
		"second ID":                  {"allocatedIDs/9", vppNode(9, "node2", "192.168.16.9/24"), real},
		"second ID without address":  {"allocatedIDs/9", vppNode(9, "node3"), real},
		"second ID of this node":     {"allocatedIDs/9", vppNode(9, "node1", "192.168.16.9/24"), real},
		"no addresses":               {"allocatedIDs/9", vppNode(9, "x", "\x00", strings.Repeat("9", 1000)), real + "; x #9 []"},
		"greatest ID":                {"allocatedIDs/4294967295", vppNode(4294967295, "x", "192.168.16.9/24"), real + "; x #4294967295 [192.168.16.9/24]"},
		"ID beyond the greatest one": {"allocatedIDs/4294967296", vppNode(9, "x", "192.168.16.9/24"), real},
	} {
		t.Run(name, func(t *testing.T) {
			log := plugintest.Logger()
			n := nodesync.New("node1", memory.New(), nodesync.Self{}, &plugintest.Loop{}, log)
			resync(t, n, state(base...))
			if got := known(n); got != real {
				t.Fatalf("before: %s", got)
			}
			change := func(prev, next proto.Message) {
				t.Helper()
				event := &controller.KubeStateChange{Resource: "vppnode", Key: test.key, PrevValue: prev, NewValue: next}
				if _, err := n.Update(ctx, event, plugintest.Txn{}); err != nil {
					t.Error(err)
				}
			}
			change(nil, test.record)
			if got := known(n); got != test.want {
				t.Errorf("with the record:\n got %s\nwant %s", got, test.want)
			}
			with := state(base...)
			with["vppnode"][test.key] = test.record
			restarted := nodesync.New("node1", memory.New(), nodesync.Self{}, &plugintest.Loop{}, log)
			for what, n := range map[string]*nodesync.NodeSync{"resync": n, "restart": restarted} {
				resync(t, n, with)
				if got := known(n); got != test.want || n.GetNodeID() != 1 {
					t.Errorf("%s: this is #%d\n got %s\nwant %s", what, n.GetNodeID(), got, test.want)
				}
			}
			change(test.record, nil)
			if got := known(n); got != real {
				t.Errorf("without it again: %s", got)
			}
		})
	}
}

func TestOverwrittenRecord(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":1,"name":"nobody"}`: "now used by node nobody",
		"{\x00":                    "",
		"":                         "",
	} {
		db := memory.New()
		n := nodesync.New("node1", db, nodesync.Self{}, &plugintest.Loop{}, plugintest.Logger())
		s := state(vppNode(1, "node1"), kubeNode("node1", "192.168.16.1"))
		resync(t, n, s)
		if err := db.Put(ctx, models.KSRPrefix+"allocatedIDs/1", []byte(text)); err != nil {
			t.Fatal(err)
		}
		err := n.PublishNodeIPs(ctx, prefixes("192.168.16.1/24"), false)
		if fatal := (*controller.FatalError)(nil); (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || errors.As(err, &fatal)) {
			t.Errorf("%q: %v", text, err)
		}
		if want == "" {
			if v := stored(t, db, 1); v.GetName() != "node1" {
				t.Errorf("%q: stored %v", text, v)
			}
		}
	}
}
