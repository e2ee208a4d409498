package ipam_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

func TestAddressesOfWiredPodsDoNotMove(t *testing.T) {
	for conf, want := range map[string]string{
		"ipamConfig: {podSubnetOneNodePrefixLen: 25}": "podSubnetOneNodePrefixLen (IPv4) is 25, not 24",
		"ipamConfig: {podSubnetCIDR: 10.7.0.0/16}":    "podSubnetCIDR (IPv4) is 10.7.0.0/16, not 10.1.0.0/16",
		"ipamConfig: {podSubnetCIDR: 'fd01::/48', podSubnetOneNodePrefixLen: 64, vxlanCIDR: 'fd30::/112', vppHostSubnetCIDR: 'fd31::/48', vppHostSubnetOneNodePrefixLen: 64}": "podSubnetCIDR (IPv4) is missing, not 10.1.0.0/16",
	} {
		n := plugintest.StartNode(t, plugintest.NodeOptions{})
		request := &cni.CNIRequest{ContainerId: "c1", InterfaceName: "eth0", NetworkNamespace: "/n", ExtraArguments: "K8S_POD_NAME=web;K8S_POD_NAMESPACE=default"}
		add := func() {
			t.Helper()
			if reply, err := n.Server.Add(context.Background(), request); err != nil || reply.GetResult() != 0 {
				t.Fatalf("ADD: %v, %v", reply, err)
			}
		}
		add()
		web := podmanager.PodID{Namespace: "default", Name: "web"}
		before := n.IPAM.GetPodIPs(web)

		n.Stop()
		refused := n.Options
		refused.Conf, refused.NoResync, refused.Scheduler = conf, true, &plugintest.Scheduler{}
		agent := plugintest.StartNode(t, refused)
		if err := agent.Loop.PushEvent(context.Background(), &controller.DBResync{State: refused.State}); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-agent.Loop.Fatal():
			if !errors.Is(err, ipam.ErrAddressesMoved) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "kubectl drain node1") {
				t.Errorf("%s: %v", conf, err)
			}
		case <-time.After(plugintest.Timeout):
			t.Fatalf("%s: accepted", conf)
		}

		n = n.Restart()
		if after := n.IPAM.GetPodIPs(web); len(after) == 0 || !slices.Equal(after, before) {
			t.Errorf("%s: the pod had %v, and has %v", conf, before, after)
		}

		if reply, err := n.Server.Delete(context.Background(), request); err != nil || reply.GetResult() != 0 {
			t.Fatalf("DEL: %v, %v", reply, err)
		}
		n.Options.Conf = conf
		n = n.Restart()
		add()
		subnets := n.ContivConf.Subnets()
		if after := n.IPAM.GetPodIPs(web); len(after) == 0 || !subnets.Pods.Contains(after[0]) {
			t.Errorf("%s: the pod has %v", conf, after)
		}
		n = n.Restart()
	}
}

func TestOtherOptionsMayChange(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	request := &cni.CNIRequest{ContainerId: "c1", InterfaceName: "eth0", NetworkNamespace: "/n", ExtraArguments: "K8S_POD_NAME=web;K8S_POD_NAMESPACE=default"}
	if reply, err := n.Server.Add(context.Background(), request); err != nil || reply.GetResult() != 0 {
		t.Fatalf("ADD: %v, %v", reply, err)
	}
	n.Options.Conf = "ipamConfig: {vxlanCIDR: 192.168.40.0/24, serviceCIDR: 10.97.0.0/16}"
	n = n.Restart()
	if after := n.IPAM.GetPodIPs(podmanager.PodID{Namespace: "default", Name: "web"}); !slices.Equal(after, []netip.Addr{netip.MustParseAddr("10.1.1.2")}) {
		t.Errorf("the pod has %v", after)
	}
}
