package podmanager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func inNetwork(network, name, container string) *cni.CNIRequest {
	r := request(name, container)
	r.ExtraNwConfig = `{"cniVersion":"1.1.0","name":"` + network + `","type":"contiv-cni"}`
	return r
}

func TestGarbageIsWhatIsNotListed(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	add(t, n, inNetwork("net", "listed", "c1"))
	add(t, n, inNetwork("net", "stale", "c2"))
	add(t, n, inNetwork("net", "other-interface", "c3"))
	add(t, n, inNetwork("other", "other-network", "c4"))
	add(t, n, request("unknown-network", "c5"))
	n = n.Restart()
	valid := []*cni.Attachment{{ContainerId: "c1", InterfaceName: "eth0"}, {ContainerId: "c3", InterfaceName: "net1"}, {ContainerId: "c9", InterfaceName: "eth0"}}

	reply, err := n.Server.CollectGarbage(ctx, &cni.GarbageRequest{Network: "net", ValidAttachments: valid})
	if err != nil || reply.Result != 0 {
		t.Fatal(reply, err)
	}
	var removed []string
	for _, a := range reply.Removed {
		removed = append(removed, a.ContainerId+"/"+a.InterfaceName)
	}
	if want := []string{"c3/eth0", "c2/eth0"}; !slices.Equal(removed, want) {
		t.Errorf("removed %v, want %v", removed, want)
	}
	if got, want := wired(n), "listed:c1 other-network:c4 unknown-network:c5"; got != want {
		t.Errorf("wired: %s, want %s", got, want)
	}
	if used, _ := n.IPAM.Usage(); used != 3 {
		t.Errorf("%d addresses are in use, want 3", used)
	}
	reply, err = n.Server.CollectGarbage(ctx, &cni.GarbageRequest{Network: "net", ValidAttachments: valid})
	if err != nil || reply.Result != 0 || len(reply.Removed) > 0 {
		t.Errorf("the second time: %v, %v", reply, err)
	}
}

func TestGarbageRequestsThatAreRefused(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	if _, err := n.Server.CollectGarbage(ctx, &cni.GarbageRequest{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("without a network: %v", err)
	}
	add(t, n, inNetwork("net", "web", "c1"))
	given, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := n.Server.CollectGarbage(given, &cni.GarbageRequest{Network: "net"}); status.Code(err) != codes.Canceled {
		t.Errorf("after the caller gave up: %v", err)
	}
	starting := plugintest.StartNode(t, plugintest.NodeOptions{NoResync: true})
	if _, err := starting.Server.CollectGarbage(ctx, &cni.GarbageRequest{Network: "net"}); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "startup resync") {
		t.Errorf("before the first resync: %v", err)
	}
}

func TestStatusTellsWhyPodsCannotBeWired(t *testing.T) {
	var failure error
	n := plugintest.StartNode(t, plugintest.NodeOptions{NoResync: true, View: podmanager.NodeView{
		Ready:    func() error { return failure },
		PodCIDRs: func() []string { return []string{"10.9.1.0/24"} },
	}})
	expect := func(when, reason string) {
		t.Helper()
		reply, err := n.Server.Status(ctx, &cni.StatusRequest{})
		if err != nil || reply.Ready != (reason == "") || !strings.Contains(reply.Reason, reason) {
			t.Errorf("%s: %v, %v", when, reply, err)
		}
		if !slices.Equal(reply.Pod_CIDRs, []string{"10.9.1.0/24"}) {
			t.Errorf("%s: pod CIDRs %v", when, reply.Pod_CIDRs)
		}
	}
	expect("before the first resync", "startup resync")
	failure = errors.New("resync failed")
	n.Resync()
	expect("after a resync that failed", "resync failed")
	failure = nil
	expect("after the first resync", "")
}

func TestResultNamesTheDeviceOnTheNode(t *testing.T) {
	device := "c-web"
	n := plugintest.StartNode(t, plugintest.NodeOptions{View: podmanager.NodeView{Device: func(id podmanager.PodID) (name, mac string, ok bool) {
		return device, "02:00:00:00:00:01", id.Name == "web"
	}}})
	r := inNetwork("net", "web", "c1")
	check := func(r *cni.CNIRequest) []*cni.CNIReply_Interface {
		reply, err := n.Server.Check(ctx, r)
		if err != nil || reply.Result != 0 {
			t.Fatal(reply, err)
		}
		return reply.Interfaces
	}
	for command, interfaces := range map[string][]*cni.CNIReply_Interface{"ADD": add(t, n, r).Interfaces, "CHECK": check(r)} {
		if len(interfaces) != 2 || interfaces[0].Name != device || interfaces[0].Sandbox != "" || len(interfaces[0].IpAddresses) != 0 || interfaces[1].Name != "eth0" {
			t.Errorf("%s: interfaces %v", command, interfaces)
		}
	}
	if interfaces := add(t, n, inNetwork("net", "without", "c2")).Interfaces; len(interfaces) != 1 || interfaces[0].Name != "eth0" {
		t.Errorf("without a device: interfaces %v", interfaces)
	}
}
