package integration

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/lab"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestInterfacesAreCounted(t *testing.T) {
	l := require(t)
	a, b := pod(t, l, "counted", "node1"), pod(t, l, "peer", "node1")
	const id = `podName="counted",podNamespace="default"`
	before := counter(t, l, "node1", "inPackets", id)
	if err := ping(t, a, b); err != nil {
		t.Fatal(err)
	}
	if after := counter(t, l, "node1", "inPackets", id); after < before+3 {
		t.Errorf("packets of the pod: %v before three pings, %v after", before, after)
	}
	if got := counter(t, l, "node1", "inBytes", `interfaceName="eth0"`); got == 0 {
		t.Error("nothing was counted of the node's eth0")
	}
	if err := l.DelPod(t.Context(), a.ID()); err != nil {
		t.Fatal(err)
	}
	if text := metrics(t, l, "node1"); strings.Contains(text, id) {
		t.Error("series of a removed pod are left")
	}
}

// Metrics pass Prometheus' linter, and an agent with a pod exports all metrics.
func TestMetricsFollowTheConventions(t *testing.T) {
	l := require(t)
	pod(t, l, "linted", "node1")
	text := metrics(t, l, "node1")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "contiv_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for _, series := range []string{
		`contiv_interface_receive_bytes_total{interface="eth0",namespace="--",node="node1",pod="--"}`,
		`contiv_transactions_total{type=`, `contiv_transaction_duration_seconds_bucket{type=`, `contiv_operations_total{operation="CREATE"}`, `contiv_southbound_seconds_total `,
		`contiv_events_total{event="Add Pod",result="ok"}`, `contiv_event_duration_seconds_count{event="Add Pod"}`, `contiv_event_wait_seconds_count `,
		`contiv_values{state="CONFIGURED"}`, `contiv_drift_repairs_total `, `contiv_drift_repaired_values_total `,
		`contiv_ipam_pod_addresses_used `, `contiv_ipam_pod_addresses `, `contiv_cni_requests_total{command="ADD",result="ok"}`, `contiv_cni_request_duration_seconds_count{command="ADD"}`,
		`contiv_build_info{`,
	} {
		if !strings.Contains(text, "\n"+series) {
			t.Errorf("no series %s", series)
		}
	}
	if problems, err := promlint.New(strings.NewReader(strings.ReplaceAll(text, "inPackets", "contiv_inPackets"))).Lint(); err != nil || len(problems) == 0 {
		t.Errorf("the linter finds nothing wrong with inPackets: %v", err)
	}
}

func counter(t *testing.T, l *lab.Lab, node, metric, labels string) float64 {
	t.Helper()
	sum := 0.0
	series := regexp.MustCompile(`(?m)^` + metric + `\{[^}]*` + regexp.QuoteMeta(labels) + `[^}]*\} (.*)$`)
	for _, m := range series.FindAllStringSubmatch(metrics(t, l, node), -1) {
		value, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	return sum
}

func metrics(t *testing.T, l *lab.Lab, node string) string {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", l.AgentSocket(node))
	}}}
	answer, err := client.Get("http://agent/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(fmt.Errorf("status %s, %w", answer.Status, err))
	}
	return string(body)
}
