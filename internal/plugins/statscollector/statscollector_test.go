package statscollector_test

import (
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

type node struct {
	stats []statscollector.Stats
	err   error
	pods  map[string]podmanager.PodID
}

func (n *node) PodInterfaces() map[string]podmanager.PodID { return n.pods }
func (n *node) read() ([]statscollector.Stats, error)      { return n.stats, n.err }

func (n *node) collector() *statscollector.Collector {
	return statscollector.New("node1", n.read, n, plugintest.Logger())
}

func counted(iface string, in, out uint64) statscollector.Stats {
	return statscollector.Stats{Interface: iface, Counters: map[statscollector.Metric]uint64{
		statscollector.InPackets: in, statscollector.OutPackets: out}}
}

// scrape returns the lines of the metrics without help and types.
func (n *node) scrape(t *testing.T) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(n.collector())
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	if answer.Code != 200 {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	var lines []string
	for line := range strings.Lines(answer.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func (n *node) expect(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, n.scrape(t)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestSeriesOfAPodEndWithItsInterface(t *testing.T) {
	n := &node{
		stats: []statscollector.Stats{counted("vpp-tap-1", 7, 8), counted("eth0", 1, 2)},
		pods:  map[string]podmanager.PodID{"vpp-tap-1": {Name: "web", Namespace: "shop"}},
	}
	eth0In, eth0Out := `inPackets{interfaceName="eth0",node="node1",podName="--",podNamespace="--"} 1`,
		`outPackets{interfaceName="eth0",node="node1",podName="--",podNamespace="--"} 2`
	n.expect(t,
		eth0In, `inPackets{interfaceName="vpp-tap-1",node="node1",podName="web",podNamespace="shop"} 7`,
		eth0Out, `outPackets{interfaceName="vpp-tap-1",node="node1",podName="web",podNamespace="shop"} 8`)
	n.stats, n.pods = n.stats[1:], nil
	n.expect(t, eth0In, eth0Out)
}

func TestOnlyWhatIsCountedIsTold(t *testing.T) {
	n := &node{stats: []statscollector.Stats{counted("eth0", 0, 0), {Interface: "eth1"},
		{Interface: "eth2", Counters: map[statscollector.Metric]uint64{"fantasy": 3}}}}
	if lines := n.scrape(t); len(lines) != 2 {
		t.Errorf("want 2 series, got %q", lines)
	}
}

func TestTroubleWithTheVSwitchIsNoTroubleForOthers(t *testing.T) {
	for name, n := range map[string]*node{
		"it cannot be read":      {err: errors.New("gone")},
		"it has one name twice":  {stats: []statscollector.Stats{counted("eth0", 1, 2), counted("eth0", 3, 4)}},
		"it has no interface at": {},
	} {
		t.Run(name, func(t *testing.T) {
			n.scrape(t)
		})
	}
}
