package ctl

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
)

// The explanation names frontends without endpoints and the failed value. A deleted service keeps its
// timeline.
func TestServicesAreExplained(t *testing.T) {
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { s.Close() })
	err := kvscheduler.Register(s, kvscheduler.Descriptor[*vpp_nat.DNat44, kvscheduler.NoMetadata]{
		Name: "dnat44", NB: true, Keys: kvscheduler.KeySpace{Prefix: models.DNAT44.KeyPrefix()},
		Create: func(_ context.Context, _ string, v *vpp_nat.DNat44) (m kvscheduler.NoMetadata, err error) {
			if v.GetLabel() == "default/web" {
				err = errors.New("no such table")
			}
			return m, err
		},
		Delete: func(context.Context, string, *vpp_nat.DNat44, kvscheduler.NoMetadata) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	key := models.Key(&vpp_nat.DNat44{Label: "default/web"})
	gone := models.Key(&vpp_nat.DNat44{Label: "shop/gone"})
	put := func(key, label string) {
		txn := s.NewTransaction()
		if txn.Delete(key); label != "" {
			txn.Put(key, &vpp_nat.DNat44{Label: label})
		}
		_, _ = txn.Commit(t.Context())
	}
	put(key, "default/web")
	put(gone, "shop/gone")
	put(gone, "")
	mux := http.NewServeMux()
	mux.Handle("/scheduler/", inspect.Handler(s))
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, ipnet.PodsReport{}) })
	mux.HandleFunc(nodesync.NodesURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, nodesync.NodesReport{}) })
	mux.HandleFunc(service.URL, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("service") != "default/web" {
			rest.Error(w, http.StatusNotFound, errors.New("no such service"))
			return
		}
		rest.JSON(w, service.Report{Translator: service.Translator{VSwitch: true}, Services: []service.ServiceReport{{
			Namespace: "default", Name: "web", Values: []service.ValueReport{{Key: key, State: "FAILED"}},
			Frontends: []service.FrontendReport{
				{Kind: "ClusterIP", Address: "10.96.0.10:80", Protocol: "TCP", Port: "http", Inside: 1, Outside: 1}, {Kind: "NodePort", Address: "192.168.16.1:30080", Protocol: "TCP", Inside: 1},
			},
			Details: []service.EndpointReport{{Address: "10.1.2.2:80", Protocol: "TCP", Node: "node2", Inside: true, Why: "not on this node: not for clients outside"}},
		}}})
	})
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, mux)
	for _, c := range []struct {
		args string
		want []string // in this order
	}{
		{"explain svc/default/web", []string{"n: service default/web is FAILED\n", "  192.168.16.1:30080 TCP has no endpoint for other clients\n", "ClusterIP", "10.1.2.2:80", "not on this node", "n: " + key, "no such table"}},
		{"explain svc/web -o json", []string{`"name": "web"`, `"state": "FAILED"`}},
		{"timeline svc/web", []string{key, "error: no such table"}},
		{"timeline svc/gone -n shop", []string{gone, "label=shop/gone", "gone", gone}},
	} {
		requireInOrder(t, socket, c.args, c.want)
	}
	if out, _, _ := run(t, "--agent", "n=unix://"+socket, "explain", "svc/web"); strings.Contains(out, "not translated") {
		t.Errorf("the vswitch translates the service: %s", out)
	}
	// "svc/" may be left out where nothing else has the name. Ports have names, too.
	for _, args := range []string{"web 80", "svc/web", "svc/web:80", "svc/web:80/tcp", "svc/web:http", "svc/default/web:http", "svc/web http", "web http"} {
		if out, errOut, _ := run(t, append([]string{"--agent", "n=unix://" + socket, "why", "10.1.1.2"}, strings.Fields(args)...)...); !strings.Contains(out, "→ service default/web (10.96.0.10), port 80/tcp") {
			t.Errorf("why 10.1.1.2 %s: %s%s", args, out, errOut)
		}
	}
	for args, want := range map[string]string{
		"explain svc/no":               "no such service",
		"explain svc/a/b/c":            "use svc/NAMESPACE/NAME",
		"timeline svc/x/never":         "no node has, or had in its history, values of service x/never",
		"why 10.1.1.2 svc/no":          "no such service",
		"why 10.1.1.2 svc/web:htp":     `service default/web (10.96.0.10) has no port "htp": did you mean "http"?`,
		"why 10.1.1.2 svc/web:http 80": `"svc/web:http" already has a port: drop "80"`,
		"why 10.1.1.2 svc/web:":        "missing port",
		"why svc/web 10.1.1.2":         "a service default/web sends no packets: use one of its pods as FROM",
		"why svc/web:http 10.1.1.2":    "is the source and cannot have a port",
		"why 10.1.1.2 10.1.1.3 http":   `"http" is not a port: use 80, 80/tcp, 53/udp or 3868/sctp`,
		"why 10.1.1.2 svc/web 0":       `"0" is not a port`,
		"why 10.1.1.2 wbe":             `unknown pod, node or service "wbe"`,
	} {
		if _, errOut, err := run(t, append([]string{"--agent", "n=unix://" + socket}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error()+errOut, want) {
			t.Errorf("%s: %v %s", args, err, errOut)
		}
	}
	// One of several nodes is drawn if it alone has values.
	empty := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { empty.Close() })
	other := http.NewServeMux()
	other.Handle("/scheduler/", inspect.Handler(empty))
	without := filepath.Join(t.TempDir(), "s")
	serve(t, without, other)
	if out, errOut, err := run(t, "--agent", "n=unix://"+socket, "--agent", "n2=unix://"+without, "graph", "svc/default/web"); err != nil || !strings.Contains(out, key) {
		t.Errorf("graph of the only node with values: %v %s", err, errOut)
	}
	if _, _, err := run(t, "--agent", "n=unix://"+socket, "--agent", "n2=unix://"+socket, "graph", "svc/default/web"); err == nil || !strings.Contains(err.Error(), "several nodes have values of service default/web") {
		t.Errorf("graph of several nodes: %v", err)
	}
}
