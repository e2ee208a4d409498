package podmanager_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/pod"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
)

func TestPodsThatKubernetesKnows(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{NoResync: true})
	ask := func(query string) string {
		w := httptest.NewRecorder()
		n.PodManager.Handler().ServeHTTP(w, httptest.NewRequest("GET", podmanager.URL+query, nil))
		return strings.Join(strings.Fields(w.Body.String()), "")
	}
	if got := ask("?name=db"); !strings.Contains(got, "unknownbeforethestartupresync") {
		t.Errorf("before the resync: %s", got)
	}
	n.Options.State = plugintest.State(
		&pod.Pod{Name: "db", Namespace: "shop", NodeName: "node2", IpAddress: "10.1.2.2"},
		&pod.Pod{Name: "db", Namespace: "jobs", NodeName: "node2", IpAddress: "10.1.2.3", Phase: pod.Pod_SUCCEEDED},
		&pod.Pod{Name: "db", Namespace: "default"})
	n.Resync()
	for query, want := range map[string]string{
		"?name=db":      `{"pods":[{"namespace":"default","name":"db","ips":[]},{"namespace":"shop","name":"db","node":"node2","ips":["10.1.2.2"]}]}`,
		"?name=shop/db": `{"pods":[{"namespace":"shop","name":"db","node":"node2","ips":["10.1.2.2"]}]}`,
		"?name=none":    `{"pods":[]}`,
		"":              `{"Error":"missingargument:use?name=NAMEor?name=NAMESPACE/NAME"}`,
	} {
		if got := ask(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}
