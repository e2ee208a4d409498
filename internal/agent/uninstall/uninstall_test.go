package uninstall

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/api/contiv/node"
	"github.com/contiv/contiv/api/contiv/vppnode"
	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/etcd/store/storetest/memory"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/kernel"
	"github.com/contiv/contiv/internal/vswitch/linux"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/test/command"
	"github.com/google/go-cmp/cmp"
)

// netns is the name of a network namespace of the test.
type netns string

func newNetns(t *testing.T, suffix string) netns {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	n := netns(fmt.Sprintf("ag%d-%s", os.Getpid(), suffix))
	if out, err := exec.Command("ip", "netns", "add", string(n)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", string(n)).Run() })
	n.run(t, "sysctl -qw net.ipv6.conf.all.forwarding=1; ip link set lo up") // uninstall leaves sysctls alone
	return n
}

func (n netns) path() string { return "/var/run/netns/" + string(n) }

func (n netns) run(t *testing.T, commands string) string {
	t.Helper()
	return command.In(t, string(n), commands)
}

// content describes all objects in the namespace.
func (n netns) content(t *testing.T) string {
	t.Helper()
	text := n.run(t, "ip link; ip addr; ip route show table all; ip -6 route show table all; ip rule; ip -6 rule; ip neigh; bridge fdb; nft list ruleset")
	return strings.ReplaceAll(text, "\t", " ")
}

// configure applies the values to the namespace, like an agent does.
func configure(t *testing.T, n netns, values plugintest.Txn) {
	t.Helper()
	vs, err := kernel.New(kernel.Options{NetNS: n.path(), Logger: plugintest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer vs.Close()
	scheduler := kvscheduler.New(kvscheduler.Options{Logger: plugintest.Logger()})
	lin, err := linux.New(scheduler, linux.Options{NetNS: n.path(), Logger: plugintest.Logger()})
	if err != nil {
		t.Fatal(err)
	}
	defer lin.Close()
	defer scheduler.Close()
	txn := scheduler.NewTransaction()
	for key, value := range values {
		txn.Put(key, value)
	}
	if err = descriptors.Register(scheduler, vs); err == nil {
		_, err = txn.Commit(t.Context(), kvscheduler.WithResync(kvscheduler.FullResync))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestUninstallLeavesWhatWasThereBefore(t *testing.T) {
	host, pod := newNetns(t, "node"), newNetns(t, "pod")
	host.run(t, `
		ip link add eth0 address 02:00:00:00:00:01 type veth peer name wire address 02:00:00:00:00:02
		for dev in eth0 wire; do sysctl -qw net.ipv6.conf.$dev.disable_ipv6=1; ip link set $dev up; done
		for dev in eth0 wire; do while ip link show $dev | grep -q NO-CARRIER; do sleep 0.02; done; done
		ip address add 10.0.0.1/24 dev eth0
		ip route add 10.9.0.0/16 via 10.0.0.9 proto 122
		ip route add blackhole 10.8.0.0/16 metric 5
		ip neigh add 10.0.0.9 lladdr 02:00:00:00:00:09 dev eth0 nud permanent
		ip link add br-foreign type bridge
		ip link set br-foreign alias contiv-but-not-ours
		nft add table inet foreign
		nft add chain inet foreign contiv
		nft add table ip other-contiv`)
	before, beforeInPod := host.content(t), pod.content(t)

	agent := plugintest.StartNode(t, plugintest.NodeOptions{
		Links:      plugintest.Links{plugintest.Link("eth0", "10.0.0.1/24")},
		Namespaces: podmanager.KernelNamespaces,
		Conf:       "ipamConfig: {nodeInterconnectCIDR: 192.168.16.0/24, defaultGateway: 192.168.16.254}",
		State: plugintest.State(&node.Node{Name: "node1"}, &vppnode.VppNode{Id: 1, Name: "node1"},
			&vppnode.VppNode{Id: 2, Name: "node2", IpAddresses: []string{"192.168.16.2/24"}}),
	})
	reply, err := agent.Server.Add(t.Context(), &cni.CNIRequest{ContainerId: "0123456789", NetworkNamespace: pod.path(), InterfaceName: "eth0",
		ExtraArguments: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web"})
	if err != nil || reply.Result != 0 {
		t.Fatal(reply, err)
	}
	configure(t, host, agent.Scheduler.Values())
	host.run(t, `
		ip rule add priority 127 protocol 121 to 10.96.0.10 ipproto udp sport 1000 dport 53 unreachable
		ip -6 rule add priority 127 protocol 121 to fd96::10 ipproto udp sport 1000 dport 53 unreachable`) // left by an earlier VPP
	for where, missing := range map[string]bool{
		"node: device":   !strings.Contains(host.content(t), "contiv:vpp/podGwLoop"),
		"node: address":  !strings.Contains(host.content(t), "192.168.16.1/24"),
		"node: nftables": !strings.Contains(host.content(t), "table ip contiv"),
		"pod: device":    !strings.Contains(pod.content(t), "10.1.1.2"),
		"pod: loopback":  !strings.Contains(pod.content(t), "contiv:linux/linux-loop"),
	} {
		if missing {
			t.Errorf("%s was not configured; the test proves nothing", where)
		}
	}

	for _, n := range []netns{host, pod} { // the kernel's output changes after duplicate address detection
		n.run(t, `while [ -n "$(ip -6 address show tentative)" ]; do sleep 0.05; done`)
	}
	configured, configuredInPod := host.content(t), pod.content(t)
	onHost := southbound.Options{VSwitch: southbound.KernelVSwitch, NetNS: host.path(), Log: plugintest.Logger()}
	var out strings.Builder
	if err := Preview(t.Context(), &out, onHost, agent.Options.Local); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"config/vpp/v2/interfaces/podGwLoop is removed\n", "all tables, chains and rules of Contiv are removed\n", "Pod default/web loses its network\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("not announced: %s%s", want, out.String())
		}
	}
	if diff := cmp.Diff(configured+configuredInPod, host.content(t)+pod.content(t)); diff != "" {
		t.Errorf("changed by the announcement (-before +after):\n%s", diff)
	}

	for _, times := range []string{"once", "twice"} {
		if err := Run(context.Background(), onHost, agent.Options.Local); err != nil {
			t.Fatalf("%s: %v", times, err)
		}
		if diff := cmp.Diff(before, host.content(t)); diff != "" {
			t.Errorf("on the node, after uninstalling %s (-before +after):\n%s", times, diff)
		}
		if diff := cmp.Diff(beforeInPod, pod.content(t)); diff != "" {
			t.Errorf("in the pod, after uninstalling %s (-before +after):\n%s", times, diff)
		}
	}
}

// Each object that could not be removed causes a warning with the reason.
func TestWhatIsNotRemoved(t *testing.T) {
	var out strings.Builder
	logRemoved(slog.New(slog.NewTextHandler(&out, nil)), []kvscheduler.RecordedOp{{Key: "config/a"}, {Key: "config/b", NewErr: errors.New("device or resource busy")}})
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "level=INFO msg=Removed key=config/a") ||
		!strings.Contains(lines[1], `level=WARN msg="Not removed" key=config/b error="device or resource busy"`) {
		t.Error(out.String())
	}
}

// Neither uninstall nor its dry run changes pod records that it cannot decode.
func TestUnusableRecordsStay(t *testing.T) {
	local := memory.New()
	if err := local.Put(t.Context(), podmanager.StorePrefix+"shop/web", []byte("{")); err != nil {
		t.Fatal(err)
	}
	pods, err := runningPods(t.Context(), local, plugintest.Logger())
	if err != nil || len(pods) > 0 {
		t.Errorf("%d pods, %v", len(pods), err)
	}
	if kvs, _, err := local.List(t.Context(), podmanager.StorePrefix); err != nil || len(kvs) != 1 {
		t.Errorf("%d records stay, %v", len(kvs), err)
	}
}
