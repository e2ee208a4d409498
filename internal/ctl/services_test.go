package ctl

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/service"
)

func TestServicesAreShownWithWhatTheNodeDoes(t *testing.T) {
	dir := t.TempDir()
	txn := uint64(7)
	web := service.ServiceReport{
		Namespace: "default", Name: "web", Endpoints: 1, Affinity: 60, InternalTrafficPolicy: "Cluster", ExternalTrafficPolicy: "Local", HealthCheckNodePort: 30099, Limits: []string{"sessionAffinity has no time-out"},
		Frontends: []service.FrontendReport{
			{Kind: "ClusterIP", Address: "10.96.0.10:80", Protocol: "TCP", Port: "http", Inside: 1, Outside: 1},
			{Kind: "NodePort", Address: "192.168.16.1:30080", Protocol: "TCP", Port: "http", Inside: 1, NoneOutside: "none is on this node (externalTrafficPolicy: Local), but on node2"},
			{Kind: "ClusterIP", Address: "10.96.0.10:81", Protocol: "TCP", Port: "m", NoneInside: "no container", NoneOutside: "no container"},
			{Kind: "LoadBalancer", Address: "203.0.113.1:80", Protocol: "TCP", Port: "http", Inside: 1, Restricted: true},
		},
		Values: []service.ValueReport{{Key: "config/vpp/nat/v2/dnat44/default/web", State: "FAILED", Error: "no such table", Txn: &txn}},
		Details: []service.EndpointReport{
			{Address: "10.1.1.2:8080", Protocol: "TCP", Port: "http", Node: "node1", Zone: "a", Ready: true, Serving: true, Inside: true, Outside: true},
			{Address: "10.1.1.9:8080", Interface: "net1", Listed: "10.1.1.3", Pod: "default/b", Protocol: "TCP", Port: "http", Node: "node1", Ready: true, Serving: true, Inside: true, Outside: true},
			{Address: "10.1.2.2:8080", Protocol: "TCP", Port: "http", Node: "node2", Serving: true, Terminating: true, Why: "terminating, and others are ready"},
		},
	}
	answers := func(socket string, report service.Report) string {
		serve(t, filepath.Join(dir, socket), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != service.URL {
				t.Errorf("asked for %s", r.URL)
			}
			if name := r.URL.Query().Get("service"); name != "" && name != "default/web" {
				t.Errorf("asked for the service %q", name)
			}
			rest.JSON(w, report)
		}))
		return "unix://" + filepath.Join(dir, socket)
	}
	agents := []string{
		"--agent", "node1=" + answers("1", service.Report{Translator: service.Translator{VSwitch: true}, Services: []service.ServiceReport{web}}),
		"--agent", "node2=" + answers("2", service.Report{Translator: service.Translator{OtherProxy: "nftables table kube-proxy"}}),
	}
	shows := func(wants []string, args ...string) {
		t.Helper()
		out, errOut, err := run(t, append(agents, args...)...)
		if err != nil {
			t.Fatalf("%v: %s", err, errOut)
		}
		for _, want := range wants {
			found := false
			for line := range strings.Lines(out) {
				found = found || strings.HasPrefix(strings.Join(strings.Fields(line), " "), want)
			}
			if !found {
				t.Errorf("%v: no line %q in\n%s", args, want, out)
			}
		}
	}
	shows([]string{
		"node1 default web 10.96.0.10:80 TCP +3 1 FAILED: no such table",
		"node2 - - - - not translated: found nftables table kube-proxy",
	}, "services")
	for namespace, want := range map[string]bool{"default": true, "other": false} {
		for _, format := range []string{"wide", "json", "name"} {
			out, errOut, err := run(t, append(agents, "services", "-n", namespace, "-o", format)...)
			if err != nil || strings.Contains(out, "web") != want {
				t.Errorf("services -n %s -o %s: %v%s\n%s", namespace, format, err, errOut, out)
			}
		}
		shows([]string{"node2 - - - - not translated: found nftables table kube-proxy"}, "services", "-n", namespace)
	}
	shows([]string{
		"node1 LoadBalancer 203.0.113.1:80 TCP http 1 0 nobody",
		"node1 10.1.1.2:8080 TCP http node1 a ready,serving yes",
		"node1 10.1.1.9:8080 at net1 TCP http node1 - ready,serving yes",
		"node1 10.1.2.2:8080 TCP http node2 - serving,terminating no terminating, and others are",
		"node1 config/vpp/nat/v2/dnat44/default/web FAILED: no such table 7",
		"node1: sessionAffinity has no time-out",
		"sessionAffinity ClientIP for 60 s, internalTrafficPolicy Cluster, externalTrafficPolicy Local, healthCheckNodePort 30099",
		"node1: 192.168.16.1:30080 TCP has no endpoint for other clients: none is on this node (externalTrafficPolicy: Local), but on node2",
		"node1: 10.96.0.10:81 TCP has no endpoint: no container",
	}, "services", "default/web")
	agents = []string{"--agent", "node1=" + answers("5", service.Report{Stale: "etcd: connection refused", Translator: service.Translator{VSwitch: true}, Services: []service.ServiceReport{web}})}
	shows([]string{"Without etcd (connection refused), later changes are unknown on node1."}, "services")
	shows([]string{"Without etcd (connection refused), later changes are unknown on node1."}, "services", "default/web")
	left := service.ServiceReport{Namespace: "default", Name: "web", Frontends: web.Frontends[:1], Details: web.Details[:1]}
	agents = []string{"--agent", "node1=" + answers("3", service.Report{Translator: service.Translator{OtherProxy: "nftables table kube-proxy"}, Services: []service.ServiceReport{left}})}
	out, errOut, err := run(t, append(agents, "services", "default/web")...)
	if err != nil || !strings.HasPrefix(out, "node1: not translated by the vswitch: found nftables table kube-proxy\n\nsessionAffinity None\n\nNODE") || strings.Contains(out, "(none)") {
		t.Errorf("left to kube-proxy: %v%s\n%s", err, errOut, out)
	}
	left.Details, left.Unserved = nil, "its EndpointSlices list none"
	agents = []string{"--agent", "node1=" + answers("4", service.Report{Translator: service.Translator{VSwitch: true}, Services: []service.ServiceReport{left}})}
	shows([]string{"The service has no endpoints: its EndpointSlices list none"}, "services", "default/web")
}
