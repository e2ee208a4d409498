package main

import (
	"encoding/json"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/agent/activity"
	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/health/peers"
	"github.com/contiv/contiv/internal/lib/metrics"
	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"
)

// recorder is a Registerer that records metric names with their labels.
type recorder map[string][]string

var described = regexp.MustCompile(`fqName: "([^"]+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

func (r recorder) Register(c prometheus.Collector) error {
	descs := make(chan *prometheus.Desc)
	go func() { c.Describe(descs); close(descs) }()
	for d := range descs {
		parts := described.FindStringSubmatch(d.String())
		labels := strings.Split(parts[3], ",")
		for pair := range strings.SplitSeq(parts[2], ",") {
			name, _, _ := strings.Cut(pair, "=")
			labels = append(labels, name)
		}
		r[parts[1]] = labels
		if name := metrics.Name(parts[1]); name != "" {
			for _, label := range labels {
				r[name] = append(r[name], metrics.Label(label))
			}
		}
	}
	return nil
}

func (r recorder) MustRegister(list ...prometheus.Collector) {
	for _, c := range list {
		_ = r.Register(c)
	}
}

func (r recorder) Unregister(prometheus.Collector) bool { return true }

// ours returns the metrics of an agent.
func ours(t *testing.T) recorder {
	t.Helper()
	r := recorder{}
	scheduler := kvscheduler.New(kvscheduler.Options{Metrics: r})
	t.Cleanup(func() { scheduler.Close() })
	log := slog.New(slog.DiscardHandler)
	r.MustRegister(peers.New(peers.Options{}), health.NewMonitor(nil), health.NewStates(scheduler), activity.New(), activity.PodAddresses(nil),
		statscollector.New("n", nil, nil, log), statscollector.NewDrops("n", nil, nil, log))
	return r
}

// Words of PromQL that are not metrics.
var (
	text     = regexp.MustCompile(`"[^"]*"|\[[^\]]*\]`)
	grouping = regexp.MustCompile(`\b(by|without|on|ignoring) *\(([^)]*)\)`)
	selector = regexp.MustCompile(`([A-Za-z_]\w*)\{([^}]*)\}`)
	word     = regexp.MustCompile(`[A-Za-z_]\w*( *\()?`)
	keywords = []string{"and", "or", "unless", "by", "without", "on", "ignoring"}
)

// check returns the mistakes in an expression.
func (r recorder) check(expression string) (problems []string) {
	plain := text.ReplaceAllString(expression, "")
	if strings.Count(plain, "(") != strings.Count(plain, ")") || strings.Count(plain, "{") != strings.Count(plain, "}") {
		problems = append(problems, "brackets do not match")
	}
	var labels []string
	known := func(metric string) []string {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if names, ok := r[strings.TrimSuffix(metric, suffix)]; ok && strings.HasSuffix(metric, suffix) {
				return append(names, "instance", "job", "le")
			}
		}
		if metric == "up" {
			return []string{"instance", "job"}
		}
		problems = append(problems, "unknown metric "+metric)
		return nil
	}
	for _, s := range selector.FindAllStringSubmatch(plain, -1) {
		names := known(s[1])
		for matcher := range strings.SplitSeq(s[2], ",") {
			if label := word.FindString(matcher); label != "" && !slices.Contains(names, label) {
				problems = append(problems, s[1]+" has no label "+label)
			}
		}
		labels = append(labels, names...)
	}
	rest := grouping.ReplaceAllString(selector.ReplaceAllString(plain, ""), "")
	for _, w := range word.FindAllString(rest, -1) {
		if !strings.HasSuffix(w, "(") && !slices.Contains(keywords, w) {
			labels = append(labels, known(w)...)
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(plain, -1) {
		for label := range strings.SplitSeq(g[2], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(labels, label) {
				problems = append(problems, "no metric has a label "+label)
			}
		}
	}
	return problems
}

// Each alert and panel uses existing metrics and labels.
func TestMonitoringAsksForMetricsThatExist(t *testing.T) {
	known := ours(t)
	if len(known) < 50 {
		t.Fatalf("metrics: %v", slices.Sorted(maps.Keys(known)))
	}
	for wrong, want := range map[string]string{
		"contiv_peer_down == 1":                         "unknown metric contiv_peer_down",
		`contiv_values{kind="x"}`:                       "contiv_values has no label kind",
		"sum by (pod) (contiv_values)":                  "no metric has a label pod",
		"sum(contiv_values":                             "brackets do not match",
		`rate(inBytes{podName!="--"}[5m]) / inByte > 1`: "unknown metric inByte",
	} {
		if got := known.check(wrong); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", wrong, got, want)
		}
	}

	var alerts struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	read(t, "contiv-alerts.yaml", func(data []byte) error { return yaml.UnmarshalStrict(data, &alerts) })
	for _, group := range alerts.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" || rule.For == "" || rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("alert %s is not complete", rule.Alert)
			}
			for _, problem := range known.check(rule.Expr) {
				t.Errorf("alert %s: %s: %s", rule.Alert, rule.Expr, problem)
			}
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	read(t, "contiv-dashboard.json", func(data []byte) error { return json.Unmarshal(data, &dashboard) })
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 {
			t.Errorf("panel %s shows nothing", panel.Title)
		}
		for _, target := range panel.Targets {
			for _, problem := range known.check(target.Expr) {
				t.Errorf("panel %s: %s: %s", panel.Title, target.Expr, problem)
			}
		}
	}
}

func read(t *testing.T, file string, decode func([]byte) error) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "deploy", "chart", "monitoring", file))
	if err == nil {
		err = decode(data)
	}
	if err != nil {
		t.Fatal(err)
	}
}
