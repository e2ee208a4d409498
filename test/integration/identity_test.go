package integration

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
)

// identityLab is a lab in which several sandboxes claim to be the same pod.
type identityLab struct {
	objectsLab
	// by node
	runtimes map[string]*libcni.CNIConfig
	lists    map[string]*libcni.NetworkConfigList
}

// Policies must not trust a sandbox because of its name.
func TestIdentityOfPods(t *testing.T) {
	require(t)
	opts := options("id")
	opts.ContivConfig = "ipamConfig:\n  podSubnetOneNodePrefixLen: 28\n"
	l := &identityLab{objectsLab: objectsLab{Lab: labtest.Up(t, opts)}, runtimes: map[string]*libcni.CNIConfig{}, lists: map[string]*libcni.NetworkConfigList{}}
	labtest.AwaitAddresses(t, l.Lab)
	for _, node := range []string{"node1", "node2"} {
		l.runtimes[node], l.lists[node] = newRuntime(t, l.Lab, node), conflist(t, l.Path("nodes", node, "10-contiv-vpp.conflist"))
	}
	l.server, l.far = l.add(t, "server", "node1"), l.add(t, "far", "node2")
	l.port = l.host(l.server.Netns).Serve(t, l.server.Address.String())
	t.Run("an older sandbox", l.testOlderSandbox)
	t.Run("a second interface", l.testSecondInterface)
	t.Run("another UID", l.testUID)
	t.Run("another node", l.testTwoNodes)
	t.Run("order of arrival", l.testOrderOfArrival)
	t.Run("one address for two pods", l.testOneAddress)
	t.Run("a full subnet", l.testFullSubnet)
}

// sandbox makes a network namespace for a sandbox of a pod. number distinguishes sandboxes of the
// same pod.
func (l *identityLab) sandbox(t *testing.T, node, pod string, number int, uid string) *sandbox {
	t.Helper()
	name := fmt.Sprintf("%s-%d", pod, number)
	s := &sandbox{runtime: l.runtimes[node], list: l.lists[node], netns: l.Name() + "-" + node + "-" + name, RuntimeConf: &libcni.RuntimeConf{
		ContainerID: name, NetNS: lab.NetnsPath(l.Name() + "-" + node + "-" + name), IfName: "eth0",
		Args: [][2]string{{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", "default"}, {"K8S_POD_NAME", pod}, {"K8S_POD_UID", uid}},
	}}
	if out, err := exec.Command("ip", "netns", "add", s.netns).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if err := s.del(); err != nil {
			t.Errorf("DEL of %s: %v", name, err)
		}
		exec.Command("ip", "netns", "del", s.netns).Run()
	})
	return s
}

func (s *sandbox) add(ctx context.Context) error {
	result, err := s.runtime.AddNetworkList(ctx, s.list, s.RuntimeConf)
	if err != nil {
		return err
	}
	s.result, err = types100.NewResultFromResult(result)
	return err
}

func (s *sandbox) mustAdd(t *testing.T) {
	t.Helper()
	if err := s.add(t.Context()); err != nil {
		t.Fatalf("ADD of %s: %v", s.ContainerID, err)
	}
}

func (s *sandbox) mustFail(t *testing.T, want string) {
	t.Helper()
	if err := s.add(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("ADD of %s: %v, want an error with %q", s.ContainerID, err, want)
	}
}

func (l *identityLab) asks(t *testing.T, s *sandbox, may bool) {
	t.Helper()
	await.That(t, fmt.Sprintf("%s reaches the server: %v", s.ContainerID, may), func() error {
		if _, err := l.host(s.netns).Ask(l.server.Address.String(), l.port); (err == nil) != may {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
}

func (l *identityLab) testOlderSandbox(t *testing.T) {
	first, second := l.sandbox(t, "node1", "web", 1, ""), l.sandbox(t, "node1", "web", 2, "")
	first.mustAdd(t)
	l.asks(t, first, true)
	second.mustAdd(t)
	l.asks(t, second, true)
	first.mustFail(t, "older than web-2")
	l.asks(t, second, true)
	l.statusTells(t, true, "sandbox web-1 of pod default/web is older than web-2")
	if err := first.del(); err != nil {
		t.Error(err)
	}
	l.statusTells(t, false, "older than web-2")
	l.asks(t, second, true)
	if err := second.check(t); err != nil {
		t.Error(err)
	}
}

func (l *identityLab) testSecondInterface(t *testing.T) {
	s := l.sandbox(t, "node1", "db", 1, "")
	s.mustAdd(t)
	more := *s.RuntimeConf
	more.IfName = "net1"
	_, err := s.runtime.AddNetworkList(t.Context(), s.list, &more)
	if err == nil || !strings.Contains(err.Error(), "contivpp.io/custom-if") {
		t.Errorf("ADD of net1: %v", err)
	}
	if err := s.runtime.DelNetworkList(t.Context(), s.list, &more); err != nil {
		t.Errorf("DEL of net1: %v", err)
	}
	l.asks(t, s, true)
}

func object(name, uid, node, address string) string {
	return fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %[1]s, namespace: default, uid: %[2]s, labels: {app: %[1]s}},
spec: {nodeName: %[3]s, containers: [{name: c, image: i}]}, status: {phase: Running, podIP: "%[4]s", podIPs: [{ip: "%[4]s"}]}}
`, name, uid, node, address)
}

func (l *identityLab) testUID(t *testing.T) {
	old, now := l.sandbox(t, "node1", "uid", 1, "u-1"), l.sandbox(t, "node1", "uid", 2, "u-2")
	l.keep(t, "uid", strings.ReplaceAll(object("uid", "u-2", "node1", ""), `, podIP: "", podIPs: [{ip: ""}]`, ""))
	await.That(t, "the agent knows the pod", func() error {
		var report podmanager.Report
		if err := l.Agent("node1").Get(t.Context(), podmanager.URL+"?name=uid", &report); err != nil || len(report.Pods) != 1 {
			return fmt.Errorf("%v, %v", report, err)
		}
		return nil
	})
	old.mustFail(t, "in Kubernetes, the pod (UID u-2) is on node node1")
	now.mustAdd(t)
	old.mustFail(t, "in Kubernetes, the pod (UID u-2) is on node node1")
	if err := old.add(t.Context()); code(err) != types.ErrTryAgainLater {
		t.Errorf("%v: want code %d", err, types.ErrTryAgainLater)
	}
	l.asks(t, now, true)
	l.statusTells(t, true, "sandbox uid-1 (UID u-1) is not pod default/uid")
}

// StatefulSet pod web-0 is recreated on another node while its old sandbox still runs.
func (l *identityLab) testTwoNodes(t *testing.T) {
	labtest.Apply(t, l.Lab, `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: from-web-0}
spec:
  podSelector: {matchExpressions: [{key: app, operator: In, values: [server, far]}]}
  ingress: [{from: [{podSelector: {matchLabels: {app: web-0}}}]}]
`)
	old, now := l.sandbox(t, "node1", "web-0", 1, "w-1"), l.sandbox(t, "node2", "web-0", 2, "w-2")
	old.mustAdd(t)
	l.keep(t, "web-0", object("web-0", "w-1", "node1", old.endpoint().Address.String()))
	l.asks(t, old, true)
	l.keep(t, "web-0", strings.ReplaceAll(object("web-0", "w-2", "node2", ""), `, podIP: "", podIPs: [{ip: ""}]`, ""))
	l.asks(t, old, false)
	now.mustAdd(t)
	l.keep(t, "web-0", object("web-0", "w-2", "node2", now.endpoint().Address.String()))
	l.asks(t, now, true)
	l.asks(t, old, false)
	port := l.host(l.far.Netns).Serve(t, l.far.Address.String())
	await.That(t, "the pod reaches a pod of its node, the former sandbox does not", func() error {
		_, err := l.host(now.netns).Ask(l.far.Address.String(), port)
		if _, oldErr := l.host(old.netns).Ask(l.far.Address.String(), port); err != nil || oldErr == nil {
			return fmt.Errorf("%v, %v", err, oldErr)
		}
		return nil
	})
	l.statusTells(t, true, "sandbox web-0-1 on this node is no longer pod default/web-0, which is on node node2, UID w-2")
	if err := old.check(t); err != nil {
		t.Errorf("CHECK of an interface that is there: %v", err)
	}
	old.mustFail(t, "is on node node2")
	if err := old.del(); err != nil {
		t.Error(err)
	}
	l.asks(t, now, true)
	l.statusTells(t, false, "no longer pod default/web-0", "is on node node2")
}

func (l *identityLab) testOneAddress(t *testing.T) {
	const text = "default/one, default/two claim the same address 10.1.77.7"
	l.keep(t, "one", object("one", "o-1", "node9", "10.1.77.7"))
	l.keep(t, "two", object("two", "o-2", "node8", "10.1.77.7"))
	l.statusTells(t, true, text)
	l.keep(t, "two", strings.ReplaceAll(object("two", "o-2", "node8", "10.1.77.7"), "Running", "Succeeded"))
	l.statusTells(t, false, text)
}

func (l *identityLab) testFullSubnet(t *testing.T) {
	l.statusTells(t, false, "is full")
	var last *sandbox
	for i := range 16 {
		s := l.sandbox(t, "node2", "many", i, "")
		s.Args[2][1] = fmt.Sprint("many-", i)
		if err := s.add(t.Context()); err != nil {
			if !strings.Contains(err.Error(), "no IP address is free") {
				t.Fatal(err)
			}
			break
		}
		last = s
	}
	l.statusTells(t, true, "is full: all 12 addresses are in use")
	if err := last.del(); err != nil {
		t.Fatal(err)
	}
	l.statusTells(t, false, "is full")
}
