package location

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/kubernetes/kubeapi/kubeapitest"
	"go.uber.org/goleak"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func slice(name, service string, addresses ...string) *discoveryv1.EndpointSlice {
	port, ready := int32(12379), false
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
		Ports:      []discoveryv1.EndpointPort{{Port: &port}},
	}
	for _, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	return s
}

func TestFindReturnsTheEndpointsOfAllSlicesOfEtcd(t *testing.T) {
	client := fake.NewClientset(slice("a", Service, "192.168.16.1"), slice("b", Service, "fd00::1", "192.168.16.1"), slice("c", "other", "10.0.0.1"))
	got, err := Find(t.Context(), kubeapitest.Client(client), "kube-system")
	if want := []string{"192.168.16.1:12379", "[fd00::1]:12379"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got, err := Find(t.Context(), kubeapitest.Client(client), "other"); err != nil || len(got) > 0 {
		t.Errorf("in another namespace: %v, %v", got, err)
	}
}

type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func TestKeepFollowsEtcd(t *testing.T) {
	client := fake.NewClientset()
	watching := make(chan struct{}, 10)
	client.PrependWatchReactor("endpointslices", func(action clienttesting.Action) (bool, watch.Interface, error) {
		w, err := client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		watching <- struct{}{}
		return true, w, err
	})
	file := filepath.Join(t.TempDir(), "run", "endpoints")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	log := make(lines, 10)
	go func() {
		ended <- Keep(ctx, kubeapitest.Client(client), "kube-system", file, slog.New(slog.NewTextHandler(log, nil)))
	}()
	holds := func(want string) {
		t.Helper()
		line := <-log
		data, err := os.ReadFile(file)
		if got := strings.TrimSpace(string(data)); err != nil || got != want {
			t.Errorf("the file holds %q, %v, want %q; log: %s", got, err, want, line)
		}
	}
	<-watching // client-go's fake drops events between the list and the watch
	slicesOf := client.DiscoveryV1().EndpointSlices("kube-system")
	if _, err := slicesOf.Create(ctx, slice("a", Service, "192.168.16.1"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("192.168.16.1:12379")
	if _, err := slicesOf.Update(ctx, slice("a", Service, "192.168.16.2"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	holds("192.168.16.2:12379")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
