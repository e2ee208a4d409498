package podmanager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/netlink/nsfile"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/vishvananda/netns"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

func request(name, container string) *cni.CNIRequest {
	return &cni.CNIRequest{ContainerId: container, NetworkNamespace: "/var/run/netns/" + name, InterfaceName: "eth0",
		ExtraArguments: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=" + name}
}

func add(t testing.TB, n *plugintest.Node, r *cni.CNIRequest) *cni.CNIReply {
	t.Helper()
	reply, err := n.Server.Add(ctx, r)
	if err != nil || reply.Result != 0 {
		t.Fatalf("ADD %v: %v, %v", r, reply, err)
	}
	return reply
}

func del(t testing.TB, n *plugintest.Node, r *cni.CNIRequest) {
	t.Helper()
	if reply, err := n.Server.Delete(ctx, r); err != nil || reply.Result != 0 {
		t.Fatalf("DEL %v: %v, %v", r, reply, err)
	}
}

// wired lists the local pods as "name:container".
func wired(n *plugintest.Node) string {
	report, err := n.IPNet.PodsReport()
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, p := range report.Pods {
		list = append(list, p.Name+":"+p.ContainerID)
	}
	return strings.Join(list, " ")
}

func TestAdd(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	got := add(t, n, request("web", "c1"))
	if got.AgentDurationNs == 0 || got.SouthboundDurationNs != uint64(time.Millisecond) || got.EventSeqNum == 0 {
		t.Errorf("measurements: %v", got)
	}
	got.AgentDurationNs, got.SouthboundDurationNs, got.EventSeqNum = 0, 0, 0
	want := &cni.CNIReply{
		Interfaces: []*cni.CNIReply_Interface{{
			Name: "eth0", Mac: got.Interfaces[0].Mac, Mtu: 1450, Sandbox: "/var/run/netns/web",
			IpAddresses: []*cni.CNIReply_Interface_IP{{Address: "10.1.1.2/32", Gateway: "10.1.1.1"}},
		}},
		Routes: []*cni.CNIReply_Route{{Dst: "0.0.0.0/0", Gw: "10.1.1.1"}},
	}
	if !proto.Equal(got, want) || !strings.HasPrefix(got.Interfaces[0].Mac, "02:fe:") {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestRepetitions(t *testing.T) {
	for name, test := range map[string]struct {
		steps func(t *testing.T, n *plugintest.Node)
		want  string
	}{
		"ADD twice": {func(t *testing.T, n *plugintest.Node) {
			first := add(t, n, request("web", "c1"))
			second := add(t, n, request("web", "c1"))
			if n.Scheduler.Changed() != 0 {
				t.Error("the second ADD changed something")
			}
			if !proto.Equal(first.Interfaces[0], second.Interfaces[0]) || !proto.Equal(first.Routes[0], second.Routes[0]) {
				t.Errorf("results differ: %v, %v", first, second)
			}
		}, "web:c1"},
		"a failed repetition keeps the pod": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, request("web", "c1"))
			n.Scheduler.FailKeys(func(txn controller.SchedulerTxn) []string { return []string{"some-key"} })
			if reply, err := n.Server.Add(ctx, request("web", "c1")); err != nil || reply.Result != 1 {
				t.Errorf("got %v, %v", reply, err)
			}
			n.Scheduler.FailKeys(nil)
		}, "web:c1"},
		"ADD for a new sandbox": {func(t *testing.T, n *plugintest.Node) {
			first := add(t, n, request("web", "c1"))
			second := add(t, n, request("web", "c2"))
			if first.Interfaces[0].Mac == second.Interfaces[0].Mac {
				t.Error("both sandboxes have the same hardware address")
			}
			for key := range n.Scheduler.Values() {
				if strings.Contains(key, "-c1") {
					t.Errorf("left of the old sandbox: %s", key)
				}
			}
		}, "web:c2"},
		"late DEL of the old sandbox": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, request("web", "c1"))
			add(t, n, request("web", "c2"))
			before := n.Scheduler.Values()
			del(t, n, request("web", "c1"))
			if diff := plugintest.Diff(before, n.Scheduler.Values()); diff != "" {
				t.Error(diff)
			}
		}, "web:c2"},
		"DEL": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, request("web", "c1"))
			del(t, n, request("web", "c1"))
		}, ""},
		"DEL twice": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, request("web", "c1"))
			del(t, n, request("web", "c1"))
			del(t, n, request("web", "c1"))
		}, ""},
		"DEL of an unknown container": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, request("web", "c1"))
			del(t, n, request("db", "c9"))
		}, "web:c1"},
		"DEL by container only": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, request("web", "c1"))
			del(t, n, &cni.CNIRequest{ContainerId: "c1", InterfaceName: "eth0"})
		}, ""},
		"DEL of another interface": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, request("web", "c1"))
			del(t, n, &cni.CNIRequest{ContainerId: "c1", InterfaceName: "net1"})
		}, "web:c1"},
		"DEL that fails in the vswitch": {func(t *testing.T, n *plugintest.Node) {
			add(t, n, request("web", "c1"))
			n.Scheduler.FailKeys(func(controller.SchedulerTxn) []string { return []string{"some-key"} })
			del(t, n, request("web", "c1"))
			n.Scheduler.FailKeys(nil)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := plugintest.StartNode(t, plugintest.NodeOptions{})
			test.steps(t, n)
			if got := wired(n); got != test.want {
				t.Errorf("wired: %q, want %q", got, test.want)
			}
		})
	}
}

func TestMalformedRequests(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	for name, test := range map[string]struct {
		change func(*cni.CNIRequest)
		want   string
	}{
		"no container":       {func(r *cni.CNIRequest) { r.ContainerId = "" }, "CNI_CONTAINERID"},
		"evil container":     {func(r *cni.CNIRequest) { r.ContainerId = "../x" }, "CNI_CONTAINERID"},
		"no interface":       {func(r *cni.CNIRequest) { r.InterfaceName = "" }, "CNI_IFNAME"},
		"long interface":     {func(r *cni.CNIRequest) { r.InterfaceName = strings.Repeat("e", 16) }, "at most 15 characters"},
		"no namespace":       {func(r *cni.CNIRequest) { r.NetworkNamespace = "" }, "CNI_NETNS"},
		"relative namespace": {func(r *cni.CNIRequest) { r.NetworkNamespace = "netns/x" }, "absolute path"},
		"no pod name":        {func(r *cni.CNIRequest) { r.ExtraArguments = "K8S_POD_NAMESPACE=default" }, "K8S_POD_NAME="},
		"no pod namespace":   {func(r *cni.CNIRequest) { r.ExtraArguments = "K8S_POD_NAME=web" }, "K8S_POD_NAMESPACE="},
		"evil pod name":      {func(r *cni.CNIRequest) { r.ExtraArguments = "K8S_POD_NAME=a/b;K8S_POD_NAMESPACE=default" }, `K8S_POD_NAME="a/b"`},
		"garbage arguments":  {func(r *cni.CNIRequest) { r.ExtraArguments = "garbage" }, "CNI_ARGS"},
		"no IPAM data":       {func(r *cni.CNIRequest) { r.IpamType = "host-local" }, "ipam_data"},
		"bad IPAM list":      {func(r *cni.CNIRequest) { r.IpamType, r.IpamData = "host-local", `[{"address":"10.1.1.9/24"},{}]` }, "prefix length"},
		"bad IPAM data":      {func(r *cni.CNIRequest) { r.IpamType, r.IpamData = "host-local", `{"address":"10.1.1.9"}` }, "prefix length"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("web", "c1")
			test.change(r)
			_, err := n.Server.Add(ctx, r)
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
	if got := wired(n); got != "" {
		t.Errorf("wired: %s", got)
	}
}

func TestPodsSurviveARestart(t *testing.T) {
	var mu sync.Mutex
	existing := map[string]string{}
	namespaces := func(path string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		if id := existing[path]; id != "" {
			return id, nil
		}
		return "", fmt.Errorf("network namespace %s: %w", path, os.ErrNotExist)
	}
	set := func(name, id string) {
		mu.Lock()
		defer mu.Unlock()
		existing["/var/run/netns/"+name] = id
	}
	n := plugintest.StartNode(t, plugintest.NodeOptions{Namespaces: namespaces})

	reply, err := n.Server.Add(ctx, request("web", "c1"))
	if err != nil || reply.Result != 1 || !strings.Contains(reply.Error, "/var/run/netns/web") {
		t.Errorf("ADD without a namespace: %v, %v", reply, err)
	}
	for i, name := range []string{"web", "db", "gone", "replaced"} {
		set(name, fmt.Sprint("ns-", i))
		add(t, n, request(name, "c-"+name))
	}
	set("gone", "")
	set("replaced", "another")
	if err := n.Options.Local.Put(ctx, podmanager.StorePrefix+"default/garbage", []byte("{")); err != nil {
		t.Fatal(err)
	}

	n = n.Restart()
	if got, want := wired(n), "db:c-db web:c-web"; got != want {
		t.Errorf("wired: %q, want %q", got, want)
	}
	kvs, _, err := n.Options.Local.List(ctx, podmanager.StorePrefix)
	if err != nil || len(kvs) != 2 {
		t.Errorf("records: %v, %v", kvs, err)
	}
	if first := add(t, n, request("web", "c-web")); first.Interfaces[0].IpAddresses[0].Address != "10.1.1.2/32" || n.Scheduler.Changed() != 0 {
		t.Errorf("repeated ADD after the restart: %v, %d changes", first, n.Scheduler.Changed())
	}
}

func TestStoreFailureFailsADD(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	n.Options.Local.SetAvailable(false)
	reply, err := n.Server.Add(ctx, request("web", "c1"))
	if err != nil || reply.Result != 1 || !strings.Contains(reply.Error, "remember pod default/web") {
		t.Errorf("got %v, %v", reply, err)
	}
	n.Options.Local.SetAvailable(true)
	if got := wired(n); got != "" {
		t.Errorf("wired: %s", got)
	}
}

func TestRequestsBeforeTheFirstResync(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{NoResync: true})

	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := n.Server.Add(short, request("web", "c1"))
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "startup resync") {
		t.Errorf("deadline before the resync: %v", err)
	}

	done := make(chan *cni.CNIReply)
	go func() {
		reply, err := n.Server.Add(ctx, request("db", "c2"))
		if err != nil {
			t.Error(err)
		}
		done <- reply
	}()
	n.Resync()
	if reply := <-done; reply.GetResult() != 0 {
		t.Errorf("waiting ADD: %v", reply)
	}
	if got := wired(n); got != "db:c2" {
		t.Errorf("wired: %s; a caller who gave up is not served", got)
	}
}

type heldLoop struct {
	controller.EventLoop
	mu   sync.Mutex
	held []controller.Event
	more chan struct{}
}

func (l *heldLoop) PushEvent(_ context.Context, event controller.Event) error {
	l.mu.Lock()
	l.held = append(l.held, event)
	l.mu.Unlock()
	l.more <- struct{}{}
	return nil
}

func TestCallerGivesUp(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	loop := &heldLoop{EventLoop: n.Loop, more: make(chan struct{}, 1)}
	server := podmanager.NewServer(n.PodManager, loop, podmanager.NodeView{}, plugintest.Logger())
	defer server.Stop(ctx)
	caller, cancel := context.WithCancel(ctx)
	failed := make(chan error)
	go func() {
		_, err := server.Add(caller, request("web", "c1"))
		failed <- err
	}()
	<-loop.more
	cancel()
	if err := <-failed; status.Code(err) != codes.Canceled {
		t.Errorf("got %v", err)
	}
	if err := n.Loop.PushEvent(ctx, loop.held[0]); err != nil {
		t.Fatal(err)
	}
	n.Barrier()
	if got := wired(n); got != "" {
		t.Errorf("wired: %s", got)
	}
}

func TestQueueErrors(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	add(t, n, request("web", "c1"))
	n.Stop()
	for name, call := range map[string]func(context.Context, *cni.CNIRequest) (*cni.CNIReply, error){
		"ADD": n.Server.Add, "DEL": n.Server.Delete, "CHECK": n.Server.Check,
	} {
		if _, err := call(ctx, request("web", "c1")); status.Code(err) != codes.Unavailable {
			t.Errorf("%s without an event loop: %v", name, err)
		}
	}
}

type panicLoop struct{}

func (panicLoop) PushEvent(context.Context, controller.Event) error { panic("made to panic") }

// The real socket, including a panic that ends only one request.
func TestSocket(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	dir := t.TempDir()
	connect := func(name string, server *podmanager.Server) cni.RemoteCNIClient {
		path := filepath.Join(dir, name)
		l, err := listener.Unix(path)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			conn.Close()
			server.Stop(ctx)
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
		})
		return cni.NewRemoteCNIClient(conn)
	}
	client := connect("cni.sock", n.Server)
	if reply, err := client.Add(ctx, request("web", "c1")); err != nil || reply.Result != 0 {
		t.Errorf("ADD: %v, %v", reply, err)
	}

	broken := connect("panic.sock", podmanager.NewServer(n.PodManager, panicLoop{}, podmanager.NodeView{}, plugintest.Logger()))
	for range 2 {
		_, err := broken.Add(ctx, request("db", "c2"))
		if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "made to panic") {
			t.Errorf("panic: %v", err)
		}
	}
}

func TestConcurrentRequests(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			r := request(fmt.Sprint("pod-", i), fmt.Sprint("c-", i))
			for range 3 {
				if reply, err := n.Server.Add(ctx, r); err != nil || reply.Result != 0 {
					t.Errorf("ADD: %v, %v", reply, err)
				}
			}
			if i%2 == 0 {
				if reply, err := n.Server.Delete(ctx, r); err != nil || reply.Result != 0 {
					t.Errorf("DEL: %v, %v", reply, err)
				}
			}
		})
	}
	wg.Wait()
	if used, _ := n.IPAM.Usage(); used != 10 || len(n.PodManager.LocalPods()) != 10 {
		t.Errorf("%d addresses, %d pods", used, len(n.PodManager.LocalPods()))
	}
}

func TestKernelNamespaces(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("creating network namespaces needs root")
	}
	name := fmt.Sprintf("contiv-pm-%d", os.Getpid())
	path := filepath.Join("/var/run/netns", name)
	create := func() {
		t.Helper()
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		own, err := netns.Get()
		if err != nil {
			t.Fatal(err)
		}
		defer own.Close()
		created, err := netns.NewNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		created.Close()
		if err := netns.Set(own); err != nil {
			panic(err) // the thread must not be reused
		}
	}
	create()
	t.Cleanup(func() { netns.DeleteNamed(name) })
	first, err := podmanager.KernelNamespaces(path)
	if err != nil || first == "" {
		t.Fatalf("got %q, %v", first, err)
	}
	if again, err := podmanager.KernelNamespaces(path); err != nil || again != first {
		t.Errorf("the same namespace: %q, %v; want %q", again, err, first)
	}
	hold, err := netns.GetFromPath(path) // prevents reuse of the inode
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	if err := netns.DeleteNamed(name); err != nil {
		t.Fatal(err)
	}
	if _, err := podmanager.KernelNamespaces(path); !errors.Is(err, nsfile.ErrNone) {
		t.Errorf("deleted namespace: %v", err)
	}
	create()
	if other, err := podmanager.KernelNamespaces(path); err != nil || other == first {
		t.Errorf("another namespace at the path: %q, %v", other, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := podmanager.KernelNamespaces(file); !errors.Is(err, nsfile.ErrNone) {
		t.Errorf("ordinary file: %v", err)
	}
	if _, err := podmanager.KernelNamespaces("/proc/self/ns/mnt"); !errors.Is(err, nsfile.ErrOther) {
		t.Errorf("mount namespace: %v", err)
	}
}
