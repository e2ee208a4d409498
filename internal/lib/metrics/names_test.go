package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

// Metrics with a conventional name appear twice, the second time with conventional labels and
// types.
func TestConventional(t *testing.T) {
	registry := prometheus.NewRegistry()
	in := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "inPackets", Help: "Received."}, []string{"podName", "interfaceName"})
	adds := prometheus.NewGauge(prometheus.GaugeOpts{Name: "adds", Help: "Added."})
	other := prometheus.NewGauge(prometheus.GaugeOpts{Name: "contiv_other", Help: "Other."})
	registry.MustRegister(in, adds, other)
	in.WithLabelValues("web", "tap1").Add(3)
	adds.Set(2)
	want := `# HELP adds Added.
# TYPE adds gauge
adds 2
# HELP contiv_interface_receive_packets_total Received.
# TYPE contiv_interface_receive_packets_total counter
contiv_interface_receive_packets_total{interface="tap1",pod="web"} 3
# HELP contiv_ksr_adds_total Added.
# TYPE contiv_ksr_adds_total counter
contiv_ksr_adds_total 2
# HELP contiv_other Other.
# TYPE contiv_other gauge
contiv_other 0
# HELP inPackets Received.
# TYPE inPackets counter
inPackets{interfaceName="tap1",podName="web"} 3
`
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(Conventional(registry), promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if diff := cmp.Diff(want, answer.Body.String()); diff != "" {
		t.Error(diff)
	}
}

// Prometheus' linter accepts the conventional names.
func TestNamesFollowTheConventions(t *testing.T) {
	seen := map[string]string{}
	for documented, name := range names {
		if other := seen[name]; other != "" {
			t.Errorf("%s is a name of %s and of %s", name, documented, other)
		}
		seen[name] = documented
		kind := "gauge"
		switch {
		case strings.HasSuffix(name, counted):
			kind = "counter"
		case strings.HasSuffix(name, "_seconds"):
			continue // a histogram
		}
		problems, err := promlint.New(strings.NewReader("# HELP " + name + " x\n# TYPE " + name + " " + kind + "\n" + name + " 1\n")).Lint()
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %v", name, problems, err)
		}
	}
}
