package ctl

import (
	"context"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// accept registers a model whose values succeed, except those with "broken" in the key.
func accept[V proto.Message](t testing.TB, s *kvscheduler.Scheduler, name, prefix string) {
	t.Helper()
	err := kvscheduler.Register(s, kvscheduler.Descriptor[V, kvscheduler.NoMetadata]{
		Name: name, NB: true, Keys: kvscheduler.KeySpace{Prefix: prefix},
		Create: func(_ context.Context, key string, _ V) (m kvscheduler.NoMetadata, err error) {
			if strings.Contains(key, "broken") {
				err = errors.New("no such device")
			}
			return m, err
		},
		Delete: func(context.Context, string, V, kvscheduler.NoMetadata) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
}

// twoNodes serves the agents of n1, with the pod shop/web and values that lead to n2, and of n2,
// without values. It returns the flags that select them.
func twoNodes(t *testing.T) (flags []string) {
	t.Helper()
	const n1, n2 = 1, 2
	for _, this := range []string{"n1", "n2"} {
		s := kvscheduler.New(kvscheduler.Options{})
		t.Cleanup(func() { s.Close() })
		accept[*vpp_interfaces.Interface](t, s, "vpp-interface", models.VPPInterface.KeyPrefix())
		accept[*vpp_l2.FIBEntry](t, s, "vpp-fib", models.L2FIB.KeyPrefix())
		accept[*vpp_l3.Route](t, s, "vpp-route", models.VPPRoute.KeyPrefix())
		var pods []ipnet.PodReport
		if this == "n1" {
			txn := s.NewTransaction()
			for _, value := range []proto.Message{
				&vpp_interfaces.Interface{Name: "vxlan-default-2"}, &vpp_interfaces.Interface{Name: "vxlan-default-12"}, &vpp_interfaces.Interface{Name: "tap-broken"},
				&vpp_l2.FIBEntry{BridgeDomain: "vxlanBD", PhysAddress: ipnet.OverlayMAC(n2)}, &vpp_l2.FIBEntry{BridgeDomain: "vxlanBD", PhysAddress: ipnet.OverlayMAC(n1)},
				&vpp_l3.Route{DstNetwork: "10.1.2.0/24", NextHopAddr: "192.168.30.2"}, &vpp_l3.Route{DstNetwork: "10.1.0.0/16", NextHopAddr: "192.168.30.3"},
			} {
				txn.Put(models.Key(value), value)
			}
			_, _ = txn.Commit(t.Context())
			pods = []ipnet.PodReport{{Namespace: "shop", Name: "web", IPs: []string{"10.1.1.2/32"}, Keys: []string{models.VPPInterfaceKey("tap-broken")}}}
		}
		mux := http.NewServeMux()
		mux.Handle("/scheduler/", inspect.Handler(s))
		answer := func(path string, value any) {
			mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, value) })
		}
		answer(ipnet.PodsURL, ipnet.PodsReport{Node: this, Pods: pods})
		answer(ipnet.IPAMURL, ipnet.IPAMReport{NodeName: this, PodSubnetThisNode: "10.1." + this[1:] + ".0/24", VxlanIP: "192.168.30." + this[1:] + "/24"})
		answer(nodesync.NodesURL, nodesync.NodesReport{ThisNode: this, Nodes: []nodesync.NodeReport{
			{ID: n1, Name: "n1", VPPIPs: []string{"192.168.16.1/24"}}, {ID: n2, Name: "n2", VPPIPs: []string{"192.168.16.2/24"}},
		}})
		answer("/readiness", map[string]any{"Version": "1", "Verdict": "degraded", "Problems": []health.Problem{{Check: "disk", Text: "full"}}, "Notes": []string{"sessions do not end"}})
		answer(policy.URL, policy.Report{Policies: []policy.PolicyReport{
			{Namespace: "shop", Name: "isolate", Tier: "NetworkPolicy", Realised: true, Pods: []string{"shop/web"}}, {Namespace: "shop", Name: "other", Pods: []string{"shop/db"}},
			{Name: "ban", Tier: "Admin", Reasons: []string{"a set is missing"}, Pods: []string{"shop/web"}},
		}})
		mux.HandleFunc(service.URL, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("endpoint") != "10.1.1.2" {
				t.Errorf("asked for the services of %v", r.URL)
			}
			rest.JSON(w, service.Report{Services: []service.ServiceReport{{Namespace: "shop", Name: "cart", Frontends: []service.FrontendReport{{Kind: "ClusterIP", Address: "10.96.0.1:80", Protocol: "TCP"}},
				Details: []service.EndpointReport{{Address: "10.1.1.2:8080", Why: "it is not ready"}}}}})
		})
		socket := filepath.Join(t.TempDir(), "s")
		serve(t, socket, mux)
		flags = append(flags, "--agent", this+"=unix://"+socket)
	}
	return flags
}

// Pods and nodes stand for their values on all agents.
func TestObjects(t *testing.T) {
	flags := twoNodes(t)
	const tunnel, fib, route = "config/vpp/v2/interfaces/vxlan-default-2", "config/vpp/l2/v2/fib/vxlanBD/mac/12:2b:00:00:00:02", "/dst/10.1.2.0/24/gw/192.168.30.2"
	for args, c := range map[string]struct{ want, not []string }{
		"explain web": {[]string{"n1: pod shop/web", "state      FAILED", "policies   shop/isolate", "ban (Admin)  not realised: a set is missing",
			"services   shop/cart  10.96.0.1:80 TCP  its endpoint 10.1.1.2:8080 is not used: it is not ready", "tap-broken", "no such device"}, []string{"shop/other", "vxlan"}},
		"explain pod/shop/web":    {[]string{"n1: pod shop/web"}, nil},
		"explain pod/web -n shop": {[]string{"n1: pod shop/web"}, nil},
		"explain n2": {[]string{"node n2: degraded\n   because    full\n   notes      sessions do not end\n", "192.168.16.2,192.168.30.2", "10.1.2.0/24", "n1: values that lead to node n2: CONFIGURED", fib, tunnel, route},
			[]string{"vxlan-default-12", "12:2b:00:00:00:01", "10.1.0.0", "tap-broken"}},
		"explain node/n1":      {[]string{"node n1: degraded", "n2: values that lead to node n1: CONFIGURED"}, []string{"vxlan"}},
		"explain n2 -o json":   {[]string{`"verdict": "degraded"`, `"remarks"`, `"state": "CONFIGURED"`}, nil},
		"values web":           {[]string{"n1", "FAILED", "tap-broken"}, []string{"vxlan"}},
		"values n2":            {[]string{tunnel, fib, route}, []string{"vxlan-default-12", "tap-broken"}},
		"timeline web":         {[]string{"FAILED", "tap-broken", "error: no such device"}, []string{"vxlan"}},
		"timeline node/n2":     {[]string{tunnel, fib, route}, []string{"vxlan-default-12", "tap-broken"}},
		"graph web":            {[]string{"digraph", "tap-broken"}, []string{"vxlan"}},
		"graph n2":             {[]string{"digraph", tunnel, fib, route}, []string{"vxlan-default-12", "tap-broken"}},
		"config get --all web": {[]string{"tap-broken"}, []string{"vxlan"}},
		"config get --all n2":  {[]string{tunnel, fib, route}, []string{"vxlan-default-12", "tap-broken"}},
	} {
		t.Run(args, func(t *testing.T) {
			out, errOut, err := run(t, append(flags, strings.Fields(args)...)...)
			if err != nil {
				t.Fatal(err, errOut)
			}
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in\n%s", want, out)
				}
			}
			for _, not := range c.not {
				if strings.Contains(out, not) {
					t.Errorf("%q is in\n%s", not, out)
				}
			}
		})
	}
	for args, want := range map[string]string{
		"explain node/n3":                `unknown node "n3": did you mean`,
		"explain pod/wob":                `unknown pod "wob"`,
		"explain pod/":                   "use pod/NAMESPACE/NAME",
		"explain pod/a/b/c":              "use pod/NAMESPACE/NAME",
		"explain wab":                    `no value or pod is named "wab": did you mean "web"?`,
		"explain web -n no":              `unknown pod "web" in namespace "no"`,
		"values svc/":                    "use svc/NAMESPACE/NAME",
		"values node/n1":                 "no node has values of node n1",
		"values n2 --state FAILED":       "node n2 has 3 values, but none in that state",
		"timeline node/n1":               "",
		"graph node/n1":                  "node n2 has no value of node n1",
		"graph svc/shop/cart":            "no node has values of service shop/cart",
		"graph web --node n2":            "pod shop/web is on node n1, not on n2: drop --node, or use the node of the pod",
		"explain web --node n2":          "pod shop/web is on node n1, not on n2",
		"values pod/shop/web --node n2":  "pod shop/web is on node n1, not on n2",
		"timeline web -n shop --node n2": "pod shop/web is on node n1, not on n2",
		"config get --all web --node n2": "pod shop/web is on node n1, not on n2",
		"values nix --node n2":           "no key contains",
		"config get web":                 "the values of pod shop/web come from Contiv itself: add --all",
		"config get --all web n1":        "are on different nodes",
		"config get --all nothing":       "",
		"config get --all node/n12":      `unknown node "n12"`,
	} {
		if _, errOut, err := run(t, append(flags, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error()+errOut, want) {
			t.Errorf("%s: %v, %s, want %q", args, err, errOut, want)
		}
	}
}

// A pod on its node's network has no values, but is not reported as unknown.
func TestPodOnHostNetwork(t *testing.T) {
	dir := t.TempDir()
	mux := http.NewServeMux()
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, ipnet.PodsReport{Node: "n1"}) })
	mux.HandleFunc(inspect.KeysURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, []string{}) })
	mux.HandleFunc(podmanager.URL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, podmanager.Report{Pods: []podmanager.PodReport{{Namespace: "shop", Name: "proxy", Node: "n1", IPs: []string{"192.168.16.1"}, HostNetwork: true}}})
	})
	serve(t, filepath.Join(dir, "n1.sock"), mux)
	for _, word := range []string{"proxy", "shop/proxy", "pod/shop/proxy"} {
		_, _, err := run(t, "--agent", "n1=unix://"+dir+"/n1.sock", "explain", word)
		if err == nil || !strings.Contains(err.Error(), "pod shop/proxy uses the network of node n1") || ExitCode(err) != 3 {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// Only the hanging agent is reported as silent: the others are asked in the remaining time.
func TestOneAgentHangs(t *testing.T) {
	dir := t.TempDir()
	mux := http.NewServeMux()
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, ipnet.PodsReport{Node: "n1", Pods: []ipnet.PodReport{{Namespace: "shop", Name: "web"}}})
	})
	mux.HandleFunc(explainKey, func(w http.ResponseWriter, r *http.Request) {
		rest.JSON(w, inspect.Explanation{Key: r.URL.Query().Get("key")})
	})
	mux.HandleFunc(inspect.KeysURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, []string{}) })
	mux.HandleFunc(podmanager.URL, func(w http.ResponseWriter, r *http.Request) {
		report := podmanager.Report{Pods: []podmanager.PodReport{}}
		if r.URL.Query().Get("name") == "db" {
			report.Pods = append(report.Pods, podmanager.PodReport{Namespace: "shop", Name: "db", Node: "n2", IPs: []string{"10.1.2.2"}})
		}
		rest.JSON(w, report)
	})
	serve(t, filepath.Join(dir, "n1.sock"), mux)
	hangs, err := listener.Unix(filepath.Join(dir, "n2.sock")) // without accepting connections
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangs.Close() })
	agents := []string{"--agent", "n1=unix://" + dir + "/n1.sock", "--agent", "n2=unix://" + dir + "/n2.sock", "--timeout", "2s"}
	_, errOut, err := run(t, append(agents, "explain", "nothing")...)
	if strings.Contains(errOut, "n1: unreachable") || !strings.Contains(errOut, "n2: unreachable") ||
		err == nil || !strings.Contains(err.Error(), "the agent of n2 does not answer, so its values are unknown") {
		t.Errorf("an unknown word: %v\n%s", err, errOut)
	}
	if _, _, err := run(t, append(agents, "explain", "db")...); err == nil || !strings.Contains(err.Error(), "pod shop/db is on n2, and its agent does not answer") {
		t.Errorf("a pod of the node: %v", err)
	}
	if out, errOut, err := run(t, append(agents, "explain", "web")...); err != nil || !strings.Contains(out, "n1: pod shop/web") {
		t.Errorf("a pod of the other node: %v\n%s%s", err, out, errOut)
	}
}
