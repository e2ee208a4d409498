package podmanager_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

func ofUID(name, container, uid string) *cni.CNIRequest {
	r := request(name, container)
	r.NetworkNamespace += "-" + container
	if uid != "" {
		r.ExtraArguments += ";K8S_POD_UID=" + uid
	}
	return r
}

func kubePod(name, node, uid string) *pod.Pod {
	return &pod.Pod{Name: name, Namespace: "default", NodeName: node, Uid: uid}
}

func refused(t *testing.T, n *plugintest.Node, r *cni.CNIRequest, want string) {
	t.Helper()
	before := n.Scheduler.Values()
	reply, err := n.Server.Add(ctx, r)
	if err == nil && reply.GetResult() == 0 {
		t.Errorf("ADD %v succeeded", r)
		return
	}
	if text := fmt.Sprint(reply.GetError(), err); !strings.Contains(text, want) {
		t.Errorf("ADD %v: %s, want %q", r, text, want)
	}
	if diff := plugintest.Diff(before, n.Scheduler.Values()); diff != "" {
		t.Errorf("a refused ADD changed: %s", diff)
	}
}

func TestCurrentSandbox(t *testing.T) {
	for name, test := range map[string]struct {
		steps func(t *testing.T, n *plugintest.Node)
		want  string
	}{
		"an older sandbox is retried": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, ofUID("web", "c1", ""))
			add(t, n, ofUID("web", "c2", ""))
			refused(t, n, ofUID("web", "c1", ""), "sandbox c1 of pod default/web is older than c2")
		}, "web:c2"},
		"an older sandbox is retried with the same UID": {func(t *testing.T, n *plugintest.Node) {
			for _, container := range []string{"c1", "c2", "c3"} {
				add(t, n, ofUID("web", container, "u1"))
			}
			refused(t, n, ofUID("web", "c1", "u1"), "older than c3")
			refused(t, n, ofUID("web", "c2", "u1"), "older than c3")
		}, "web:c3"},
		"an older sandbox is retried after its DEL": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, ofUID("web", "c1", "u1"))
			add(t, n, ofUID("web", "c2", "u1"))
			del(t, n, ofUID("web", "c1", "u1"))
			refused(t, n, ofUID("web", "c1", "u1"), "older than c2")
		}, "web:c2"},
		"another sandbox of a former pod": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, ofUID("web", "c1", "u1"))
			add(t, n, ofUID("web", "c2", "u2"))
			refused(t, n, ofUID("web", "c3", "u1"), "older than c2")
		}, "web:c2"},
		"the current sandbox is added again": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, ofUID("web", "c1", "u1"))
			add(t, n, ofUID("web", "c2", "u1"))
			add(t, n, ofUID("web", "c2", "u1"))
		}, "web:c2"},
		"the UID of a pod that Kubernetes does not have": {func(t *testing.T, n *plugintest.Node) {
			n.Change(nil, kubePod("web", "node1", "u2"))
			add(t, n, ofUID("web", "c2", "u2"))
			refused(t, n, ofUID("web", "c1", "u1"), "sandbox c1 (UID u1) is not pod default/web of this node, node1: in Kubernetes, the pod (UID u2) is on node node1")
			if _, err := n.Server.Add(ctx, ofUID("web", "c1", "u1")); status.Code(err) != codes.Unavailable {
				t.Errorf("%v: want that the runtime tries again, as the object may be late", err)
			}
		}, "web:c2"},
		"before the pod that Kubernetes has": {func(t *testing.T, n *plugintest.Node) {
			n.Change(nil, kubePod("web", "node1", "u2"))
			refused(t, n, ofUID("web", "c1", "u1"), "is not pod default/web")
		}, ""},
		"a pod that is on another node": {func(t *testing.T, n *plugintest.Node) {
			n.Change(nil, kubePod("web", "node2", "u2"))
			refused(t, n, ofUID("web", "c1", "u1"), "on node node2")
			refused(t, n, ofUID("web", "c2", ""), "on node node2")
		}, ""},
		"a pod without a node": {func(t *testing.T, n *plugintest.Node) {
			n.Change(nil, kubePod("web", "", "u1"))
			add(t, n, ofUID("web", "c1", "u1"))
		}, "web:c1"},
		"a runtime that does not give the UID": {func(t *testing.T, n *plugintest.Node) {
			n.Change(nil, kubePod("web", "node1", "u2"))
			add(t, n, ofUID("web", "c1", ""))
		}, "web:c1"},
		"a second interface": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, ofUID("web", "c1", "u1"))
			second := ofUID("web", "c1", "u1")
			second.InterfaceName = "net1"
			refused(t, n, second, "declare further interfaces with the annotation contivpp.io/custom-if of the pod instead of CNI_IFNAME=net1")
			del(t, n, second)
			if reply, err := n.Server.Check(ctx, ofUID("web", "c1", "u1")); err != nil || reply.Result != 0 {
				t.Errorf("CHECK of eth0: %v, %v", reply, err)
			}
		}, "web:c1"},
		"CHECK of an older sandbox": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, ofUID("web", "c1", "u1"))
			add(t, n, ofUID("web", "c2", "u1"))
			if reply, err := n.Server.Check(ctx, ofUID("web", "c1", "u1")); err != nil || !strings.Contains(reply.GetError(), "not connected") {
				t.Errorf("%v, %v", reply, err)
			}
		}, "web:c2"},
		"GC with an older sandbox that the runtime still has": {func(t *testing.T, n *plugintest.Node) {
			for _, container := range []string{"c1", "c2"} {
				r := ofUID("web", container, "u1")
				r.ExtraNwConfig = `{"name": "net"}`
				add(t, n, r)
			}
			reply, err := n.Server.CollectGarbage(ctx, &cni.GarbageRequest{Network: "net", ValidAttachments: []*cni.Attachment{{ContainerId: "c1", InterfaceName: "eth0"}, {ContainerId: "c2", InterfaceName: "eth0"}}})
			if err != nil || len(reply.GetRemoved()) > 0 {
				t.Errorf("%v, %v", reply, err)
			}
		}, "web:c2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := plugintest.StartNode(t, plugintest.NodeOptions{})
			test.steps(t, n)
			if got := wired(n); got != test.want {
				t.Errorf("wired: %q, want %q", got, test.want)
			}
		})
	}
}

func TestOlderSandboxesSurviveARestart(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	add(t, n, ofUID("web", "c1", "u1"))
	add(t, n, ofUID("web", "c2", "u2"))
	n = n.Restart()
	refused(t, n, ofUID("web", "c1", "u1"), "older than c2")
	refused(t, n, ofUID("web", "c3", "u1"), "older than c2")
	add(t, n, ofUID("web", "c4", "u2"))
	if got := wired(n); got != "web:c4" {
		t.Errorf("wired: %s", got)
	}
}

func TestKubernetesIsLate(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	former, now := kubePod("web", "node1", "u1"), kubePod("web", "node1", "u2")
	n.Change(nil, former)
	done := make(chan *cni.CNIReply)
	go func() {
		reply, err := n.Server.Add(ctx, ofUID("web", "c2", "u2"))
		if err != nil {
			t.Error(err)
		}
		done <- reply
	}()
	add(t, n, ofUID("db", "c1", ""))
	n.Change(former, now)
	if reply := <-done; reply.GetResult() != 0 {
		t.Errorf("%v", reply)
	}
	if got := wired(n); got != "db:c1 web:c2" {
		t.Errorf("wired: %s", got)
	}
}

func TestKubernetesIsAway(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{View: podmanager.NodeView{Connected: func() error { return fmt.Errorf("no etcd") }}})
	n.Change(nil, kubePod("web", "node1", "u1"))
	add(t, n, ofUID("web", "c2", "u2"))
	add(t, n, ofUID("web", "c3", "u3"))
	refused(t, n, ofUID("web", "c4", "u2"), "older than c3")
}

func TestRefusedSandboxesAreReported(t *testing.T) {
	var mu sync.Mutex
	gone := map[string]bool{}
	n := plugintest.StartNode(t, plugintest.NodeOptions{Namespaces: func(path string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if gone[path] {
			return "", fmt.Errorf("%s: %w", path, os.ErrNotExist)
		}
		return "id of " + path, nil
	}})
	expect := func(want ...string) {
		t.Helper()
		got := n.PodManager.RefusedSandboxes()
		if len(got) != len(want) {
			t.Fatalf("%q, want %q", got, want)
		}
		for i := range want {
			if !strings.Contains(got[i], want[i]) {
				t.Errorf("%q, want %q", got[i], want[i])
			}
		}
	}
	for _, container := range []string{"c1", "c2", "c3"} {
		add(t, n, ofUID("web", container, ""))
	}
	expect()
	refused(t, n, ofUID("web", "c1", ""), "older than c3")
	refused(t, n, ofUID("web", "c2", ""), "older than c3")
	expect("sandbox c1 of pod default/web is older than c3", "sandbox c2")
	del(t, n, ofUID("web", "c2", ""))
	expect("sandbox c1")
	mu.Lock()
	gone["/var/run/netns/web-c1"] = true
	mu.Unlock()
	expect()
}

type order struct {
	controller.EventLoop
	mu     sync.Mutex
	events []string
}

func (o *order) PushEvent(ctx context.Context, event controller.Event) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch e := event.(type) {
	case *podmanager.AddPod:
		o.events = append(o.events, "ADD "+e.ContainerID)
	case *podmanager.DeletePod:
		o.events = append(o.events, "DEL "+e.ContainerID)
	}
	return o.EventLoop.PushEvent(ctx, event)
}

func TestOrderOfArrival(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{NoResync: true})
	loop := &order{EventLoop: n.Loop}
	server := podmanager.NewServer(n.PodManager, loop, podmanager.NodeView{}, plugintest.Logger())
	defer server.Stop(ctx)
	var wg sync.WaitGroup
	call := func(method func(context.Context, *cni.CNIRequest) (*cni.CNIReply, error), r *cni.CNIRequest) {
		wg.Add(1)
		server.Enter(func() {
			defer wg.Done()
			if reply, err := method(ctx, r); err != nil || reply.Result != 0 {
				t.Errorf("%v: %v, %v", r, reply, err)
			}
		})
	}
	const pods = 20
	var want []string
	for i := range pods {
		call(server.Add, ofUID(fmt.Sprint("pod-", i), fmt.Sprint("c-", i), ""))
		want = append(want, fmt.Sprint("ADD c-", i))
	}
	call(server.Add, ofUID("web", "c1", ""))
	call(server.Add, ofUID("web", "c2", ""))
	call(server.Add, ofUID("gone", "c3", ""))
	call(server.Delete, ofUID("gone", "c3", ""))
	n.Resync()
	wg.Wait()
	if got := loop.events[:pods]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	list := wired(n)
	if !strings.Contains(list, "web:c2") || strings.Contains(list, "gone") {
		t.Errorf("wired: %s; want the newer sandbox of web, and none of gone", list)
	}
}

// Waiting connections are served in order: each sandbox of a pod replaces the one before.
func TestOrderOfConnections(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	socket := filepath.Join(t.TempDir(), "cni.sock")
	l, err := listener.Unix(socket)
	if err != nil {
		t.Fatal(err)
	}
	const pods = 30
	var conns []net.Conn
	for sandbox := range 3 {
		for i := range pods {
			conn, err := net.Dial("unix", socket)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			request, err := protojson.Marshal(ofUID(fmt.Sprint("pod-", i), fmt.Sprintf("c-%d-%d", sandbox, i), ""))
			if err != nil {
				t.Fatal(err)
			}
			if err := cniwire.Write(conn, &cniwire.Call{Method: cniwire.Add, Request: request}); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, conn)
		}
	}
	served := make(chan error, 1)
	go func() { served <- n.Server.Serve(l) }()
	for _, conn := range conns {
		var a cniwire.Answer
		var reply cniwire.CNIReply
		if err := errors.Join(cniwire.Read(conn, &a), json.Unmarshal(a.Reply, &reply)); err != nil || a.Code != cniwire.OK || reply.Result != 0 {
			t.Errorf("%+v, %v, %v", a, reply.Error, err)
		}
	}
	n.Server.Stop(ctx)
	if err := <-served; err != nil {
		t.Error(err)
	}
	for id, local := range n.PodManager.LocalPods() {
		if !strings.HasPrefix(local.ContainerID, "c-2-") {
			t.Errorf("pod %v is sandbox %s, want the newest", id, local.ContainerID)
		}
	}
}
