package podmanager_test

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/plugins/plugintest"
	"github.com/contiv/contiv/plugins/podmanager"
	"github.com/contiv/contiv/store/memory"
)

// What is remembered of a new pod is written at once: each write waits for the disk.
func TestNewPodIsOneWrite(t *testing.T) {
	local := memory.New()
	n := plugintest.StartNode(t, plugintest.NodeOptions{Local: local})
	_, before, err := local.List(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	add(t, n, request("web", "c1"))
	kvs, after, err := local.List(ctx, "/local/")
	if err != nil || after != before+1 {
		t.Errorf("%d writes, %v", after-before, err)
	}
	var keys []string
	for _, kv := range kvs {
		keys = append(keys, kv.Key)
	}
	if got, want := strings.Join(keys, " "), "/local/ipam/pods/default/web "+podmanager.StorePrefix+"default/web"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A pod of which nothing can be remembered is not wired.
func TestNewPodThatCannotBeRemembered(t *testing.T) {
	local := memory.New()
	n := plugintest.StartNode(t, plugintest.NodeOptions{Local: local})
	n.Change(nil, &pod.Pod{Name: "web", Namespace: "default", NodeName: "node1"}) // holds the address
	local.SetAvailable(false)
	reply, err := n.Server.Add(ctx, request("web", "c1"))
	if err != nil || !strings.Contains(reply.GetError(), "remember pod default/web and its addresses") {
		t.Errorf("got %v, %v", reply, err)
	}
	if got := wired(n); got != "" {
		t.Errorf("wired: %s", got)
	}
	local.SetAvailable(true)
	add(t, n, request("web", "c1"))
	if got := wired(n); got != "web:c1" {
		t.Errorf("wired: %s", got)
	}
	if _, found, err := local.Get(ctx, "/local/ipam/pods/default/web"); !found || err != nil {
		t.Errorf("the address is not remembered, though it is that of the attempt before: %v", err)
	}
}
