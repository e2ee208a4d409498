package ctl

import (
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/policy"
)

func TestPoliciesAreShownWithWhereTheyAreNotRealised(t *testing.T) {
	dir := t.TempDir()
	txn, since := uint64(7), time.Date(2026, 11, 23, 12, 0, 0, 0, time.Local)
	web := policy.PolicyReport{Namespace: "shop", Name: "web", Tier: "NetworkPolicy", Realised: true, Txn: &txn, Since: &since, Pods: []string{"shop/web-1", "shop/web-2"}}
	broken := web
	broken.Realised, broken.Pods, broken.Reasons = false, []string{"shop/web-3"}, []string{"pod shop/web-3 is not connected yet"}
	base := policy.PolicyReport{Name: "base", Tier: "Baseline", Priority: 10, Realised: true, Pods: []string{}}
	agent := func(name string, policies ...policy.PolicyReport) string {
		socket := filepath.Join(dir, name)
		serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			report := policy.Report{}
			for _, p := range policies {
				if only := r.URL.Query().Get("policy"); r.URL.Path == policy.URL && (only == "" || only == p.ID()) {
					report.Policies = append(report.Policies, p)
				}
			}
			rest.JSON(w, report)
		}))
		return name + "=unix://" + socket
	}
	node1, node2 := agent("node1", base, web), agent("node2", base, broken)
	for _, c := range []struct {
		args, lines []string
		fine        bool
		not         string
	}{
		{[]string{"--agent", node1, "--agent", node2, "policies"}, []string{
			"base Baseline 10 0 2/2", "shop/web NetworkPolicy - 3 1/2 node2: pod shop/web-3 is not connected yet"}, false, ""},
		{[]string{"--agent", node1, "--agent", node2, "policies", "shop/web"}, []string{
			"node1 shop/web-1,shop/web-2 yes 7 2026-11-23 12:00:00", "node2 shop/web-3 no 7 2026-11-23 12:00:00 pod shop/web-3 is not connected yet"}, false, ""},
		{[]string{"--agent", node1, "policies"}, []string{"shop/web NetworkPolicy - 2 1/1"}, true, ""},
		{[]string{"--agent", node1, "--agent", node2, "policies", "base"}, []string{"node2 - yes"}, true, ""},
		{[]string{"--agent", node2, "policies", "-o", "json"}, []string{`"realised": false,`}, false, ""},
		{[]string{"--agent", node1, "--agent", node2, "policies", "-n", "shop"}, []string{"shop/web NetworkPolicy - 3 1/2"}, false, "base"},
		{[]string{"--agent", node1, "--agent", node2, "policies", "-n", "other", "-o", "json"}, []string{`"policies": []`}, true, "web"},
	} {
		out, errOut, err := run(t, c.args...)
		if c.fine != (err == nil) || err != nil && !errors.Is(err, ErrReported) {
			t.Errorf("%v: %v: %s", c.args, err, errOut)
		}
		if c.not != "" && strings.Contains(out, c.not) {
			t.Errorf("%v: %s in\n%s", c.args, c.not, out)
		}
		for _, want := range c.lines {
			found := false
			for line := range strings.Lines(out) {
				found = found || strings.HasPrefix(strings.Join(strings.Fields(line), " "), want)
			}
			if !found {
				t.Errorf("%v: no line %q in\n%s", c.args, want, out)
			}
		}
	}
}
