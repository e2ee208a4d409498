package kubeclient

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	cnp "github.com/contiv/contiv/api/kubernetes/clusternetworkpolicy"
	"github.com/contiv/contiv/internal/kubernetes/ksr"
	"github.com/contiv/contiv/internal/kubernetes/kubeapi/kubeapitest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	klog.StopFlushDaemon()
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	goleak.VerifyTestMain(m)
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: "prod"} }

func cluster() []runtime.Object {
	return []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		&corev1.Pod{ObjectMeta: named("a")},
		&corev1.Service{ObjectMeta: named("web")},
		&networkingv1.NetworkPolicy{ObjectMeta: named("deny")},
		&discoveryv1.EndpointSlice{ObjectMeta: named("web-1")},
		clusterPolicy("admin"), serviceCIDR("kubernetes", "10.96.0.0/12"),
	}
}

func clusterPolicy(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "policy.networking.k8s.io/v1alpha2", "kind": "ClusterNetworkPolicy", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"tier": "Admin", "priority": int64(7), "subject": map[string]any{"namespaces": map[string]any{}}},
	}}
}

func serviceCIDR(name string, cidrs ...any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": map[string]any{"name": name}, "spec": map[string]any{"cidrs": cidrs},
	}}
}

var all = []string{"clusternetworkpolicy admin", "endpointslice prod/web-1", "namespace prod", "node n1", "pod prod/a", "policy prod/deny", "service prod/web", "servicecidr kubernetes"}

type server struct {
	*fake.Clientset
	custom   *dynamicfake.FakeDynamicClient
	watching chan watching
	broken   atomic.Pointer[map[string]error]
}

type watching struct {
	resource string
	watch    *watch.RaceFreeFakeWatcher
}

func newServer(objects ...runtime.Object) *server {
	var builtin, custom []runtime.Object
	for _, o := range objects {
		if _, ok := o.(*unstructured.Unstructured); ok {
			custom = append(custom, o)
		} else {
			builtin = append(builtin, o)
		}
	}
	s := &server{Clientset: fake.NewSimpleClientset(builtin...), watching: make(chan watching, 100)}
	s.custom = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{cnp.GroupVersionResource: "ClusterNetworkPolicyList", serviceCIDRs: "ServiceCIDRList"}, custom...)
	s.react(&s.Clientset.Fake, s.Clientset.Tracker())
	s.react(&s.custom.Fake, s.custom.Tracker())
	return s
}

func (s *server) react(f *clienttesting.Fake, tracker clienttesting.ObjectTracker) {
	broken := func(a clienttesting.Action) error {
		if broken := s.broken.Load(); broken != nil {
			return (*broken)[a.GetResource().Resource]
		}
		return nil
	}
	f.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		if err := broken(a); apierrors.IsNotFound(err) {
			return true, nil, err
		}
		w, err := tracker.Watch(a.GetResource(), a.GetNamespace())
		if err == nil {
			s.watching <- watching{a.GetResource().Resource, w.(*watch.RaceFreeFakeWatcher)}
		}
		return true, w, err
	})
	f.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if err := broken(a); err != nil {
			return true, nil, err
		}
		return false, nil, nil
	})
}

func (s *server) fail(errs map[string]error) { s.broken.Store(&errs) }

// awaitWatches waits until all kinds are watched. The fake server drops events between a list and
// its watch.
func (s *server) awaitWatches(t *testing.T) map[string]*watch.RaceFreeFakeWatcher {
	t.Helper()
	out := make(map[string]*watch.RaceFreeFakeWatcher)
	for len(out) < len(all) {
		w := await(t, "watches", s.watching)
		out[w.resource] = w.watch
	}
	return out
}

func await[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing after 20 s", what)
		panic("unreachable")
	}
}

func run(t *testing.T, s *server, patience time.Duration) (*Source, <-chan ksr.Changes) {
	t.Helper()
	source := New(Options{Client: kubeapitest.Client(s), Dynamic: s.custom, Patience: patience, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	reports := make(chan ksr.Changes, 100)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- source.Run(ctx, func(c ksr.Changes) { reports <- c }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return source, reports
}

func refs(c ksr.Changes) (out []string) {
	for _, o := range c.Set {
		ref, _ := ksr.RefOf(o)
		out = append(out, ref.String())
	}
	for _, ref := range c.Deleted {
		out = append(out, "no "+ref.String())
	}
	slices.Sort(out)
	return out
}

func wantReport(t *testing.T, reports <-chan ksr.Changes, complete bool, want ...string) ksr.Changes {
	t.Helper()
	c := await(t, "report", reports)
	if got := refs(c); c.Complete != complete || !slices.Equal(got, want) {
		t.Fatalf("report (complete: %v) of %q, want (%v) %q", c.Complete, got, complete, want)
	}
	return c
}

func TestAllObjectsAreReportedAtOnceAndThenTheirChanges(t *testing.T) {
	s := newServer(cluster()...)
	_, reports := run(t, s, time.Hour)
	wantReport(t, reports, true, all...)
	s.awaitWatches(t)

	ctx := context.Background()
	changed := &corev1.Pod{ObjectMeta: named("a"), Status: corev1.PodStatus{PodIP: "10.1.1.2"}}
	if _, err := s.CoreV1().Pods("prod").Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	c := wantReport(t, reports, true, "pod prod/a")
	if got := c.Set[0].(*corev1.Pod).Status.PodIP; got != "10.1.1.2" {
		t.Errorf("address %q", got)
	}
	if err := s.CoreV1().Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantReport(t, reports, true, "no node n1")
	if _, err := s.DiscoveryV1().EndpointSlices("prod").Create(ctx, &discoveryv1.EndpointSlice{ObjectMeta: named("web-2")}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	wantReport(t, reports, true, "endpointslice prod/web-2")
	if err := s.NetworkingV1().NetworkPolicies("prod").Delete(ctx, "deny", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantReport(t, reports, true, "no policy prod/deny")
}

func TestDeletionDuringAnOutageOfTheWatchIsReported(t *testing.T) {
	s := newServer(cluster()...)
	_, reports := run(t, s, time.Hour)
	wantReport(t, reports, true, all...)
	watches := s.awaitWatches(t)

	pods := watches["pods"]
	gone := apierrors.NewResourceExpired("too old").Status()
	pods.Stop()
	if err := s.Tracker().Delete(schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "prod", "a"); err != nil {
		t.Fatal(err)
	}
	again := await(t, "watch", s.watching)
	again.watch.Error(&gone)
	wantReport(t, reports, true, "no pod prod/a")
}

func TestTombstonesAreDeletions(t *testing.T) {
	for name, object := range map[string]any{
		"last state":            &corev1.Pod{ObjectMeta: named("a")},
		"tombstone with state":  cache.DeletedFinalStateUnknown{Key: "prod/a", Obj: &corev1.Pod{ObjectMeta: named("a")}},
		"tombstone without any": cache.DeletedFinalStateUnknown{Key: "prod/a"},
	} {
		p := newPending()
		p.handler(ksr.Pod).OnDelete(object)
		if got := refs(p.take()); fmt.Sprint(got) != "[no pod prod/a]" {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestOnlyTheLastStateIsPending(t *testing.T) {
	p := newPending()
	h := p.handler(ksr.Pod)
	for i := range 100 {
		h.OnAdd(&corev1.Pod{ObjectMeta: named("a")}, true)
		h.OnUpdate(nil, &corev1.Pod{ObjectMeta: named("b"), Status: corev1.PodStatus{PodIP: fmt.Sprint(i)}})
	}
	h.OnDelete(&corev1.Pod{ObjectMeta: named("a")})
	c := p.take()
	if got := refs(c); fmt.Sprint(got) != "[no pod prod/a pod prod/b]" || c.Set[0].(*corev1.Pod).Status.PodIP != "99" {
		t.Errorf("pending: %q", got)
	}
	if got := refs(p.take()); len(got) > 0 {
		t.Errorf("pending once more: %q", got)
	}
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no rule"))
}

func TestKindThatMustNotBeReadLeavesTheReportIncomplete(t *testing.T) {
	s := newServer(cluster()...)
	s.fail(map[string]error{"endpointslices": forbidden("endpointslices")})
	source, reports := run(t, s, 50*time.Millisecond)
	var first []string
	for len(first) < len(all)-1 {
		c := await(t, "report", reports)
		if first = append(first, refs(c)...); c.Complete || slices.Contains(first, "endpointslice prod/web-1") {
			t.Fatalf("report (complete: %v) of %q", c.Complete, first)
		}
	}
	for deadline := time.Now().Add(20 * time.Second); len(source.Problems()) == 0 && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	problems := source.Problems()
	if len(problems) != 1 || !strings.Contains(problems[0], "endpointslices cannot be read") || !strings.Contains(problems[0], "deploy/contiv-ksr-rbac.yaml") {
		t.Errorf("problems: %q", problems)
	}

	s.fail(nil)
	var got []string
	for complete := false; !complete; {
		c := await(t, "report", reports)
		got, complete = append(got, refs(c)...), c.Complete
	}
	if fmt.Sprint(got) != "[endpointslice prod/web-1]" || len(source.Problems()) > 0 {
		t.Errorf("reported %q, problems %q", got, source.Problems())
	}
}

// An unreachable API server must not look like an empty cluster.
func TestNothingIsReportedWhileNothingCanBeRead(t *testing.T) {
	s := newServer(cluster()...)
	down := map[string]error{}
	for _, r := range resources(kubeapitest.Client(s), s.custom) {
		down[r.name] = errors.New("connection refused")
	}
	s.fail(down)
	source, reports := run(t, s, time.Millisecond)
	for deadline := time.Now().Add(20 * time.Second); len(source.Problems()) < len(all) && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
	}
	if got := source.Problems(); len(got) != len(all) || !strings.Contains(got[0], "namespaces cannot be read: connection refused") {
		t.Errorf("problems: %q", got)
	}
	if len(reports) > 0 {
		t.Errorf("reported: %q", refs(<-reports))
	}
}

func TestWhatIsNotReflectedIsNotKept(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: named("a"), Spec: corev1.PodSpec{
		Volumes:    []corev1.Volume{{Name: "v"}},
		Containers: []corev1.Container{{Name: "c", Env: []corev1.EnvVar{{Name: "SECRET", Value: "x"}}, Ports: []corev1.ContainerPort{{ContainerPort: 80}}}},
	}}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
	s := newServer(p)
	_, reports := run(t, s, time.Hour)
	got := wantReport(t, reports, true, "pod prod/a").Set[0].(*corev1.Pod)
	if len(got.Spec.Containers[0].Ports) != 1 {
		t.Error("the ports are missing")
	}
	if len(got.ManagedFields)+len(got.Spec.Volumes)+len(got.Spec.Containers[0].Env) > 0 {
		t.Errorf("kept: %+v", got)
	}
}

// pages is a resource with paged lists. Its last page expires once.
func pages(expire bool) (resource, *[]metav1.ListOptions) {
	var asked []metav1.ListOptions
	r := resource{list: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
		asked = append(asked, o)
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}}
		switch {
		case o.Limit == 0:
			list.Items = []corev1.Pod{{ObjectMeta: named("a")}, {ObjectMeta: named("b")}}
		case o.Continue == "":
			list.Continue, list.Items = "next", []corev1.Pod{{ObjectMeta: named("a")}}
		case expire:
			return nil, apierrors.NewResourceExpired("too late")
		default:
			list.Items = []corev1.Pod{{ObjectMeta: named("b")}}
		}
		return list, nil
	}}
	return r, &asked
}

func TestListsAreReadInPages(t *testing.T) {
	for _, c := range []struct {
		expire bool
		calls  int
	}{{false, 2}, {true, 3}} {
		r, asked := pages(c.expire)
		object, err := r.listAll(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		list := object.(*internalversion.List)
		if len(list.Items) != 2 || list.Items[1].(*corev1.Pod).Name != "b" || list.ResourceVersion != "7" || len(*asked) != c.calls {
			t.Errorf("expire %v: %d calls, list %+v", c.expire, len(*asked), list)
		}
		for _, o := range *asked {
			if o.ResourceVersion != "" {
				t.Errorf("a list may be stale: %+v", o)
			}
		}
	}
}
