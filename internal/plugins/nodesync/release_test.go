package nodesync_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"google.golang.org/protobuf/proto"
)

// The next node that joins gets the ID of a node that left. Other nodes connect to it, and the old
// agent ends.
func TestIDOfANodeThatLeftIsGivenToTheNext(t *testing.T) {
	db, loop := memory.New(), &plugintest.Loop{}
	agent := func(name string) *nodesync.NodeSync {
		n := nodesync.New(name, db, nodesync.Self{}, loop, plugintest.Logger())
		resync(t, n, state(kubeNode(name)))
		return n
	}
	first, second, third := agent("node1"), agent("node2"), agent("node3")
	if ids := fmt.Sprint(first.GetNodeID(), second.GetNodeID(), third.GetNodeID()); ids != "1 2 3" {
		t.Fatalf("IDs %s", ids)
	}
	change := func(n *nodesync.NodeSync, resource string, prev, next proto.Message) error {
		event := &controller.KubeStateChange{Resource: resource, PrevValue: prev, NewValue: next}
		_, err := n.Update(ctx, event, plugintest.Txn{})
		return err
	}
	told := func(what, want string) {
		t.Helper()
		var got []string
		for _, event := range loop.Take() {
			u := event.(*nodesync.NodeUpdate)
			state := "left"
			if u.NewState != nil {
				state = fmt.Sprint(u.NewState.ID)
			}
			got = append(got, u.NodeName+" "+state)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %v, want %s", what, got, want)
		}
	}
	for _, err := range []error{
		change(first, "vppnode", nil, vppNode(2, "node2")),
		change(second, "node", kubeNode("node2"), nil),
		db.Delete(ctx, nodesync.IDPrefix+"2"),
		change(second, "vppnode", vppNode(2, "node2"), nil),
		change(first, "vppnode", vppNode(2, "node2"), nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	told("the node left", "[node2 2 node2 left]")
	if v := stored(t, db, 2); v != nil {
		t.Fatalf("the ID is still stored: %v", v)
	}

	fourth := agent("node4")
	if id := fourth.GetNodeID(); id != 2 {
		t.Errorf("the next node got ID %d, want the free one", id)
	}
	if err := change(first, "vppnode", nil, vppNode(2, "node4")); err != nil {
		t.Fatal(err)
	}
	told("another node joined", "[node4 2]")
	if nodes := first.GetAllNodes(); len(nodes) != 2 || nodes["node4"].ID != 2 {
		t.Errorf("nodes: %v", nodes)
	}

	if err := change(second, "node", nil, kubeNode("node2")); !errors.Is(err, nodesync.ErrNoNodeID) {
		t.Errorf("the agent keeps an ID of another node: %v", err)
	}
	if again := agent("node2"); again.GetNodeID() != 4 {
		t.Errorf("it got ID %d, want the first free one, 4", again.GetNodeID())
	}
}
