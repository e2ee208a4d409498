package statscollector_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func TestDropsOfPodsAndOthers(t *testing.T) {
	pods := &node{pods: map[string]podmanager.PodID{"vpp-tap-1": {Name: "web", Namespace: "shop"}}}
	var failure error
	drops := statscollector.NewDrops("node1", func() ([]statscollector.Drop, error) {
		return []statscollector.Drop{
			{Interface: "vpp-tap-1", Reason: "ipv4", Packets: 7}, {Interface: "eth0", Reason: "vxlan", Packets: 2}, {Interface: "vpp-tap-1", Reason: "arp", Packets: 1},
			{Interface: "eth0", Reason: "vxlan", Packets: 3}, // a duplicate must not disturb the others
		}, failure
	}, pods, plugintest.Logger())

	answer := httptest.NewRecorder()
	drops.Handler().ServeHTTP(answer, httptest.NewRequest("GET", statscollector.DropsURL, nil))
	var report statscollector.DropsReport
	if err := json.Unmarshal(answer.Body.Bytes(), &report); err != nil || answer.Code != 200 {
		t.Fatalf("%d %v: %s", answer.Code, err, answer.Body)
	}
	if diff := cmp.Diff(statscollector.DropsReport{Node: "node1", Drops: []statscollector.Drop{
		{Interface: "eth0", Reason: "vxlan", Packets: 2}, {Interface: "eth0", Reason: "vxlan", Packets: 3},
		{Namespace: "shop", Pod: "web", Interface: "vpp-tap-1", Reason: "arp", Packets: 1},
		{Namespace: "shop", Pod: "web", Interface: "vpp-tap-1", Reason: "ipv4", Packets: 7},
	}}, report); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}

	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(drops)
	scrape := func() string {
		answer := httptest.NewRecorder()
		promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
		if answer.Code != 200 {
			t.Fatalf("status %d: %s", answer.Code, answer.Body)
		}
		return answer.Body.String()
	}
	for _, line := range []string{
		`guardDropPackets{interfaceName="eth0",node="node1",podName="--",podNamespace="--",reason="vxlan"} 2`,
		`guardDropPackets{interfaceName="vpp-tap-1",node="node1",podName="web",podNamespace="shop",reason="ipv4"} 7`,
	} {
		if !strings.Contains(scrape(), line) {
			t.Errorf("not reported: %s", line)
		}
	}
	failure = errors.New("gone")
	scrape()
	answer = httptest.NewRecorder()
	drops.Handler().ServeHTTP(answer, httptest.NewRequest("GET", statscollector.DropsURL, nil))
	if answer.Code != 500 || !strings.Contains(answer.Body.String(), "gone") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
