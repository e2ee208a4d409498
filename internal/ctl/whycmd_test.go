package ctl

import (
	"fmt"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service"
)

// serveWhy serves an agent of a node with one pod.
func serveWhy(t *testing.T, node string, pods []ipnet.PodReport, report pathexplain.Report) (flag string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	mux := http.NewServeMux()
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, ipnet.PodsReport{Node: node, Pods: pods}) })
	mux.HandleFunc(nodesync.NodesURL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, nodesync.NodesReport{ThisNode: node, Nodes: []nodesync.NodeReport{{Name: "node1", VPPIPs: []string{"192.168.16.1/24"}}, {Name: "node2", VPPIPs: []string{"192.168.16.2/24"}}}})
	})
	mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("from") != "10.1.1.2" || q.Get("to") != "10.1.2.2" || q.Get("port") != "80" || q.Get("protocol") != "tcp" {
			t.Errorf("asked for %v", q)
		}
		report.Node = node
		rest.JSON(w, report)
	})
	serve(t, socket, mux)
	return node + "=unix://" + socket
}

func TestWhyComparesBothEnds(t *testing.T) {
	one := serveWhy(t, "node1", []ipnet.PodReport{{Namespace: "shop", Name: "web", IPs: []string{"10.1.1.2/32", "fd00::2/128"}}}, pathexplain.Report{Source: true,
		Findings:   []pathexplain.Finding{{Where: "node node1", Text: "something is in the way"}},
		Neighbours: []pathexplain.Neighbour{{Address: "192.168.16.2", Device: "eth0", MAC: "02:00:00:00:00:99", Permanent: true}},
		Probes: []pathexplain.Probe{{From: "pod shop/web", To: "its gateway", Kind: "icmp", Answered: true, RoundTripSeconds: 0.001, Size: 1450, Wanted: 1450},
			{From: "pod shop/web", To: "pod db", Kind: "icmp", Error: "no answer", End: true}},
	})
	two := serveWhy(t, "node2", []ipnet.PodReport{{Namespace: "default", Name: "db", IPs: []string{"10.1.2.2/32"}}}, pathexplain.Report{Destination: true, Stale: "etcd: connection refused",
		Links: []pathexplain.Link{{Address: "192.168.16.2", Device: "eth0", MAC: "02:00:00:00:00:02"}}})
	out, _, err := run(t, "--agent", one, "--agent", two, "why", "web", "10.1.2.2", "80")
	for _, want := range []string{
		"pod shop/web (10.1.1.2 on node1) → pod default/db (10.1.2.2 on node2), port 80/tcp: not reached; the last that answers is its gateway\n",
		"Without etcd (connection refused), later changes are unknown on node2.",
		"node node1  something is in the way",
		"its neighbour entry for 192.168.16.2 of node node2 is 02:00:00:00:00:99 (a permanent neighbour, added manually on eth0), but the node has 02:00:00:00:00:02",
		"pod shop/web  icmp  1ms         1450 of 1450  its gateway",
		"pod shop/web  icmp  no answer   -             pod db",
	} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if ExitCode(err) != 1 {
		t.Errorf("exit code %d", ExitCode(err))
	}

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"wob", "db"}, `unknown pod, node or service "wob"`},
		{[]string{"web", "db", "0"}, `"0" is not a port: use 80, 80/tcp, 53/udp or 3868/sctp`},
		{[]string{"web", "db", "-n", "shop"}, `unknown pod, node or service "db"`},
		{[]string{"fd00::2", "db"}, "have no IP version in common"},
		{[]string{"web"}, "usage: contivctl why FROM TO"},
	} {
		if _, _, err := run(t, append([]string{"--agent", one, "--agent", two, "why"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// Problems of an external client at a node port appear when it asks for the service. It is advised
// to try an open one.
func TestWhyFromOutsideToAService(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, ipnet.PodsReport{Node: "node1"}) })
	mux.HandleFunc(nodesync.NodesURL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, nodesync.NodesReport{ThisNode: "node1", Nodes: []nodesync.NodeReport{{Name: "node1", VPPIPs: []string{"192.168.16.1/24"}}, {Name: "node2", VPPIPs: []string{"192.168.16.2/24"}}}})
	})
	mux.HandleFunc(service.URL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, service.Report{Services: []service.ServiceReport{{Namespace: "default", Name: "db", Frontends: []service.FrontendReport{{Address: "10.96.0.1:80", Protocol: "TCP", Kind: "ClusterIP"}}}}})
	})
	endpoint, entrances := netip.MustParseAddrPort("10.1.2.2:8080"), []netip.AddrPort{netip.MustParseAddrPort("192.168.16.1:30080"), netip.MustParseAddrPort("192.168.16.2:30080")}
	mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, r *http.Request) {
		report := pathexplain.Report{Node: "node1"}
		switch r.URL.Query().Get("to") {
		case "10.96.0.1":
			report.Entrances, report.Endpoints = entrances, []netip.AddrPort{endpoint}
		case "192.168.16.1":
			report.Destination = true
			report.Findings = []pathexplain.Finding{{Where: "node node1", Text: "packets from 203.0.113.77 to 192.168.16.1 are dropped"}}
		}
		rest.JSON(w, report)
	})
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, mux)
	out, _, err := run(t, "--agent", "node1=unix://"+socket, "why", "203.0.113.77", "svc/db")
	if ExitCode(err) != 1 || !strings.Contains(out, "packets from 203.0.113.77 to 192.168.16.1 are dropped") || !strings.Contains(out, "try it there: `nc -vz 192.168.16.2 30080`") {
		t.Errorf("exit code %d\n%s", ExitCode(err), out)
	}
}

// The sandbox of a former pod is not taken for the pod that has the name now.
func TestWhyOfAPodThatWasMadeAgain(t *testing.T) {
	one := serveWhy(t, "node1", []ipnet.PodReport{{Namespace: "shop", Name: "web", IPs: []string{"10.1.1.2/32"}}}, pathexplain.Report{Source: true})
	two := serveWhy(t, "node2", []ipnet.PodReport{{Namespace: "shop", Name: "db", IPs: []string{"10.1.2.2/32"}},
		{Namespace: "shop", Name: "web", IPs: []string{"10.1.2.9/32"}, Former: true}}, pathexplain.Report{Destination: true})
	out, _, err := run(t, "--agent", one, "--agent", two, "why", "web", "db", "80")
	if want := "pod shop/web (10.1.1.2 on node1) → pod shop/db (10.1.2.2 on node2)"; !strings.Contains(out, want) {
		t.Errorf("%q is missing in\n%s%v", want, out, err)
	}
}

// A service that rejects a pod is not reached, whether its protocol can be probed or not.
func TestWhyAServiceWithoutEndpoints(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, ipnet.PodsReport{Node: "node1", Pods: []ipnet.PodReport{{Namespace: "default", Name: "web", IPs: []string{"10.1.1.2/32"}}}})
	})
	mux.HandleFunc(nodesync.NodesURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, nodesync.NodesReport{ThisNode: "node1"}) })
	mux.HandleFunc(service.URL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, service.Report{Services: []service.ServiceReport{{Namespace: "default", Name: "ss7", Frontends: []service.FrontendReport{{Address: "10.96.0.1:2905", Protocol: "SCTP", Kind: "ClusterIP"}}}}})
	})
	mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("protocol") != "sctp" {
			t.Errorf("asked for %s", r.URL)
		}
		rest.JSON(w, pathexplain.Report{Node: "node1", Source: true, Findings: []pathexplain.Finding{{Where: "node node1", Text: "has no endpoint"}},
			Probes: []pathexplain.Probe{{From: "pod default/web", To: "its gateway", Kind: "icmp", Answered: true}}})
	})
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, mux)
	out, _, err := run(t, "--agent", "node1=unix://"+socket, "why", "web", "svc/ss7")
	if ExitCode(err) != 1 || !strings.Contains(out, "port 2905/sctp: not reached") || !strings.Contains(out, "has no endpoint") || strings.Contains(out, "try it") {
		t.Errorf("exit code %d\n%s", ExitCode(err), out)
	}
}

// A hanging agent does not delay the others. It is named, their answers count, and Kubernetes
// provides its pods. A name that may be one of its pods is not taken for a service.
func TestWhyWithAnAgentThatHangs(t *testing.T) {
	hanging := func(node string) string {
		socket := filepath.Join(t.TempDir(), "s")
		l, err := listener.Unix(socket) // without accepting connections
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return node + "=unix://" + socket
	}
	healthy := func(kubernetes http.HandlerFunc) string {
		mux := http.NewServeMux()
		mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) {
			rest.JSON(w, ipnet.PodsReport{Node: "node1", Pods: []ipnet.PodReport{{Namespace: "default", Name: "web", IPs: []string{"10.1.1.2/32"}}}})
		})
		mux.HandleFunc(nodesync.NodesURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, nodesync.NodesReport{ThisNode: "node1"}) })
		mux.HandleFunc(service.URL, func(w http.ResponseWriter, _ *http.Request) {
			rest.JSON(w, service.Report{Services: []service.ServiceReport{{Namespace: "default", Name: "db", Frontends: []service.FrontendReport{{Address: "10.96.0.1:80", Protocol: "TCP", Kind: "ClusterIP"}}}}})
		})
		mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, r *http.Request) {
			rest.JSON(w, pathexplain.Report{Node: "node1", Source: true, Probes: []pathexplain.Probe{{From: "pod default/web", Kind: "icmp", To: "to " + r.URL.Query().Get("to"), Answered: true, End: true}}})
		})
		if kubernetes != nil {
			mux.HandleFunc(podmanager.URL, kubernetes)
		}
		socket := filepath.Join(t.TempDir(), "s")
		serve(t, socket, mux)
		return "node1=unix://" + socket
	}
	pods := func(list ...podmanager.PodReport) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, podmanager.Report{Pods: list}) }
	}
	web := podmanager.PodReport{Namespace: "default", Name: "web", Node: "node1", IPs: []string{"10.1.1.2"}}
	for name, c := range map[string]struct {
		kubernetes http.HandlerFunc
		to         string
		want, not  string
	}{
		"another pod of the name":      {pods(web, podmanager.PodReport{Namespace: "shop", Name: "web", Node: "node2", IPs: []string{"10.1.2.3"}}), "web", `"web" matches several pods: default/web, shop/web`, "→"},
		"no other pod of the name":     {pods(web), "web", "pod default/web (10.1.1.2 on node1) → pod default/web (10.1.1.2 on node1): reached", "could be"},
		"perhaps another of the name":  {nil, "web", `"web" is pod default/web of node1, and may also be a pod of node2, where no agent answers: use default/web`, "→"},
		"with its namespace, no doubt": {nil, "default/web", "→ pod default/web (10.1.1.2 on node1): reached", "could be"},
		"its pod": {pods(podmanager.PodReport{Namespace: "default", Name: "db", Node: "node2", IPs: []string{"10.1.2.2"}}), "db",
			"pod default/web (10.1.1.2 on node1) → pod default/db (10.1.2.2 on node2): reached WHERE FINDING node node2 its agent does not answer", "node node1 its agent"},
		"a pod on the host network": {pods(podmanager.PodReport{Namespace: "default", Name: "db", Node: "node1", IPs: []string{"192.168.16.1"}, HostNetwork: true}), "db",
			"pod default/db uses the network of node node1 (hostNetwork): network policies match it by its address 192.168.16.1 (ipBlock), not by its labels", "no pod"},
		"no pod of the name":    {pods(), "db", "service default/db (10.96.0.1), port 80/tcp", "may be a pod"},
		"a pod without address": {pods(podmanager.PodReport{Namespace: "default", Name: "db", Node: "node2"}), "db", "pod default/db of node node2 has no network yet, as far as Kubernetes knows; for the service, use svc/db", "→"},
		"pods are not known":    {nil, "db", `"db" is a service and may also be a pod of node2, where no agent answers: use svc/db`, "→"},
		"the service":           {nil, "svc/db", "service default/db (10.96.0.1), port 80/tcp", "may be a pod"},
		"nothing of the name":   {pods(), "pod/none", `unknown pod "none"`, "not known"},
		"perhaps its pod":       {nil, "pod/none", `unknown pod "none": use one of default/web (no answer from node2: for pods there, use the address of the pod`, "service"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errOut, err := run(t, "--agent", healthy(c.kubernetes), "--agent", hanging("node2"), "--timeout", "1s", "why", "default/web", c.to)
			if words := strings.Join(strings.Fields(fmt.Sprint(out, errOut, err)), " "); !strings.Contains(words, c.want) || strings.Contains(words, c.not) {
				t.Errorf("%s\nwant %s", words, c.want)
			}
		})
	}
}

// An agent without Kubernetes answers, but knows no pods, nodes or paths.
func TestWhyOfAStandaloneAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, http.NewServeMux())
	ask := func(from, to string) string {
		out, errOut, err := run(t, "--agent", "n1=unix://"+socket, "why", from, to)
		if err == nil {
			t.Errorf("%s to %s: no error", from, to)
			return out
		}
		return out + errOut + err.Error()
	}
	for want, got := range map[string]string{
		`unknown pod, node or service "n1" (agents without Kubernetes, such as n1, have no names: use addresses)`: ask("n1", "10.0.0.1"),
		"its agent does not report pods and paths: it runs without Kubernetes (--standalone)":                     ask("10.0.0.2", "10.0.0.1"),
	} {
		if !strings.Contains(got, want) || strings.Contains(got, "no answer from") || strings.Contains(got, "does not answer") {
			t.Errorf("expected %s, got %s", want, got)
		}
	}
}

// A hop that answered is not the cause, and pings prove nothing about a UDP port.
func TestWhyKnowsWhatItAsked(t *testing.T) {
	icmp := pathexplain.Probe{From: "pod shop/web", To: "pod db", Kind: "icmp", Answered: true, End: true}
	gateway := pathexplain.Probe{From: "pod shop/web", To: "its gateway", Kind: "icmp", Answered: true}
	for _, c := range []struct {
		protocol string
		probes   []pathexplain.Probe
		want     string
		code     int
	}{
		{"tcp", []pathexplain.Probe{gateway, icmp, {Kind: "tcp", End: true, Error: pathexplain.Refused}}, "not reached; the connection is refused\n\nNo problem was found on the nodes: no process listens on the port", 1},
		{"tcp", []pathexplain.Probe{gateway, icmp, {Kind: "tcp", End: true, Error: "no answer"}}, "not reached; the last that answers is its gateway", 1},
		{"tcp", []pathexplain.Probe{{Kind: "icmp", Overlay: true}, {Kind: "icmp", End: true}, {Kind: "tcp", End: true, Answered: true}}, "port 80/tcp: reached", 0},
		{"", []pathexplain.Probe{{From: "node n1", To: "node n2 over the overlay", Kind: "udp", Overlay: true, Answered: true}, {From: "pod shop/web", To: "pod db", Kind: "udp", End: true, Answered: true}},
			"node n1       udp   0s          -        node n2 over the overlay, which answers no pings\n", 0},
		{"", []pathexplain.Probe{{Kind: "udp", End: true, Answered: true, Size: 64, Wanted: 1450}}, "packets of 1450 bytes are lost, but pods send such packets: raise", 1},
		{"udp", []pathexplain.Probe{gateway, icmp}, "the destination answers pings; the port is not probed", 0},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, _ *http.Request) {
			rest.JSON(w, pathexplain.Report{Source: true, Probes: c.probes})
		})
		socket := filepath.Join(t.TempDir(), "s")
		serve(t, socket, mux)
		args := []string{"--agent", "n1=unix://" + socket, "why", "10.1.1.2", "10.1.2.2"}
		if c.protocol != "" {
			args = append(args, "80/"+c.protocol)
		}
		out, _, err := run(t, args...)
		if !strings.Contains(out, c.want) || ExitCode(err) != c.code {
			t.Errorf("%s: exit code %d\n%s", c.protocol, ExitCode(err), out)
		}
	}
}

// Rules with an unknown effect are listed if packets do not arrive, instead of "nothing wrong". A
// missing listener is not reported if a connection succeeded.
func TestWhyNamesWhatIsNotJudged(t *testing.T) {
	doubt := []pathexplain.Finding{{Where: "node n1", Text: "packets may be dropped by a rule"}}
	unheard := &pathexplain.Finding{Where: "pod shop/db", Text: "no process listens on port 80/tcp"}
	end := func(kind string, answered bool) []pathexplain.Probe {
		return []pathexplain.Probe{{Kind: kind, End: true, Answered: answered}}
	}
	for name, c := range map[string]struct {
		report    pathexplain.Report
		want, not string
		code      int
	}{
		"not reached":      {pathexplain.Report{Source: true, Unjudged: doubt, Probes: end("tcp", false)}, "but these may stop the packets: WHERE POSSIBLE CAUSE node n1 packets may be dropped by a rule", "No problem was found", 1},
		"reached":          {pathexplain.Report{Source: true, Unjudged: doubt, Probes: end("tcp", true)}, "node n1: packets may be dropped by a rule", "POSSIBLE CAUSE", 0},
		"nobody listens":   {pathexplain.Report{Source: true, Unheard: unheard, Probes: end("tcp", false)}, "pod shop/db no process listens on port 80/tcp", "No problem was found", 1},
		"somebody answers": {pathexplain.Report{Source: true, Unheard: unheard, Probes: end("tcp", true)}, "port 80/tcp: reached", "nobody listens", 0},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, c.report) })
			socket := filepath.Join(t.TempDir(), "s")
			serve(t, socket, mux)
			out, _, err := run(t, "--agent", "n1=unix://"+socket, "why", "10.1.1.2", "10.1.2.2", "80")
			if words := strings.Join(strings.Fields(out), " "); !strings.Contains(words, c.want) || strings.Contains(words, c.not) || ExitCode(err) != c.code {
				t.Errorf("exit code %d\n%s", ExitCode(err), out)
			}
		})
	}
}

// Answers of a node that has the pod's address do not count as the pod's. If policies refuse pings,
// nothing is known of UDP, although packets were sent.
func TestWhyDoesNotBelieveTheWrongAnswers(t *testing.T) {
	answered := pathexplain.Probe{From: "pod shop/web", To: "pod db", Kind: "icmp", Answered: true, End: true}
	for want, c := range map[string]struct {
		report pathexplain.Report
		port   string
		code   int
	}{
		": not reached: a node with the same address answers instead\n":                    {pathexplain.Report{Source: true, LocalConflict: true, Probes: []pathexplain.Probe{answered}}, "80/tcp", 1},
		"Only pings were sent, which do not test the port; try it from 10.1.1.2: `nc -vzu": {pathexplain.Report{Source: true, NoEcho: true, Probes: []pathexplain.Probe{{Kind: "icmp", End: true}}}, "53/udp", 2},
	} {
		mux := http.NewServeMux()
		mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, c.report) })
		socket := filepath.Join(t.TempDir(), "s")
		serve(t, socket, mux)
		out, _, err := run(t, "--agent", "n1=unix://"+socket, "why", "10.1.1.2", "10.1.2.2", c.port)
		if !strings.Contains(out, want) || ExitCode(err) != c.code {
			t.Errorf("exit code %d, want %q in\n%s", ExitCode(err), want, out)
		}
	}
}

// A service is reached if its endpoints are. Unreached endpoints are listed even if the service's
// address answers, because a connection meets only one endpoint.
func TestWhyOfAServiceJudgesItsEndpoints(t *testing.T) {
	const client, cluster, good, bad = "10.1.1.2", "10.96.0.10", "10.1.1.3", "10.1.2.3"
	for name, c := range map[string]struct {
		endpoints []string
		reports   map[string]pathexplain.Report // by destination
		want      []string
		code      int
	}{
		"all reached": {[]string{good}, map[string]pathexplain.Report{good: {Source: true, Probes: []pathexplain.Probe{{Kind: "icmp", Answered: true, End: true}}}}, []string{"port 80/tcp: reached"}, 0},
		"one stopped": {[]string{good, bad}, map[string]pathexplain.Report{
			good: {Source: true, Probes: []pathexplain.Probe{{Kind: "icmp", Answered: true, End: true}}},
			bad:  {Source: true, Findings: []pathexplain.Finding{{Where: "node n1", Text: "dropped there"}}, Probes: []pathexplain.Probe{{Kind: "icmp", End: true}}},
		}, []string{"port 80/tcp: not all endpoints are reached", "node n1 dropped there", "endpoint 10.1.2.3:8080 10.1.2.3: not reached"}, 1},
		"all stopped": {[]string{bad}, map[string]pathexplain.Report{bad: {Source: true, Probes: []pathexplain.Probe{{Kind: "icmp", End: true}}}}, []string{"port 80/tcp: not reached", "endpoint 10.1.2.3:8080"}, 1},
		"overlay": {[]string{good}, map[string]pathexplain.Report{good: {Source: true, Probes: []pathexplain.Probe{
			{Kind: "icmp", Overlay: true}, {Kind: "icmp", Answered: true, End: true},
		}}}, []string{"port 80/tcp: not reached", "endpoint 10.1.1.3:8080 10.1.1.3: the destination is reached, but the overlay between the nodes does not answer"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, r *http.Request) {
				q := r.URL.Query()
				if q.Get("to") != cluster {
					if q.Get("port") != "8080" {
						t.Errorf("asked for %v", q)
					}
					rest.JSON(w, c.reports[q.Get("to")])
					return
				}
				report := pathexplain.Report{Source: true, Probes: []pathexplain.Probe{{Kind: "tcp", Answered: true, End: true}}}
				for _, e := range c.endpoints {
					report.Endpoints = append(report.Endpoints, netip.AddrPortFrom(netip.MustParseAddr(e), 8080))
				}
				rest.JSON(w, report)
			})
			socket := filepath.Join(t.TempDir(), "s")
			serve(t, socket, mux)
			out, _, err := run(t, "--agent", "n1=unix://"+socket, "why", client, cluster, "80")
			words := strings.Join(strings.Fields(out), " ")
			for _, want := range c.want {
				if !strings.Contains(words, want) {
					t.Errorf("%q is missing in\n%s", want, out)
				}
			}
			if ExitCode(err) != c.code {
				t.Errorf("exit code %d\n%s", ExitCode(err), out)
			}
		})
	}
}

// If nodes hide the client's address, the endpoint's policies are asked about the address that they
// see.
func TestWhyAsksForTheAddressThatPoliciesSee(t *testing.T) {
	endpoint := netip.MustParseAddrPort("10.1.2.3:80")
	var asked []string
	mux := http.NewServeMux()
	mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("to") == "10.1.2.3" {
			asked = q["seen"]
			rest.JSON(w, pathexplain.Report{Node: "n1", Destination: true})
			return
		}
		rest.JSON(w, pathexplain.Report{Node: "n1", Endpoints: []netip.AddrPort{endpoint}, Sightings: []pathexplain.Sighting{
			{Endpoint: endpoint, Source: netip.MustParseAddr("203.0.113.7")}, {Endpoint: endpoint, Source: netip.MustParseAddr("192.168.30.1")},
			{Endpoint: endpoint, Source: netip.MustParseAddr("192.168.30.1")}}})
	})
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, mux)
	_, _, _ = run(t, "--agent", "n1=unix://"+socket, "why", "203.0.113.7", "192.168.16.1", "30080")
	if strings.Join(asked, " ") != "192.168.30.1 203.0.113.7" {
		t.Errorf("asked for %v", asked)
	}
}

// If no agent can send the packets, the result is no success. It explains how to try, and describes
// the entrances.
func TestWhyFromOutside(t *testing.T) {
	agent := func(name string, report pathexplain.Report) string {
		mux := http.NewServeMux()
		mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, r *http.Request) {
			answer := pathexplain.Report{Node: name}
			if r.URL.Query().Get("to") == "10.96.0.10" {
				answer = report
			}
			rest.JSON(w, answer)
		})
		socket := filepath.Join(t.TempDir(), "s")
		serve(t, socket, mux)
		return name + "=unix://" + socket
	}
	one := agent("n1", pathexplain.Report{Node: "n1", Way: []string{"node n1: NodePort"}, Entrances: []netip.AddrPort{netip.MustParseAddrPort("192.168.16.1:30080")}, Endpoints: []netip.AddrPort{netip.MustParseAddrPort("10.1.1.3:80")}})
	two := agent("n2", pathexplain.Report{Node: "n2", Findings: []pathexplain.Finding{{Where: "node n2", Text: "no endpoint here"}}})
	out, _, err := run(t, "--agent", one, "--agent", two, "why", "203.0.113.7", "10.96.0.10", "80")
	for _, want := range []string{"not probed", "try it there: `nc -vz 192.168.16.1 30080`", "node n1: NodePort", "node n2: no endpoint here"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if ExitCode(err) != 2 {
		t.Errorf("exit code %d\n%s", ExitCode(err), out)
	}
	if out, _, err := run(t, "--agent", two, "why", "203.0.113.7", "10.96.0.10", "80"); ExitCode(err) != 1 || !strings.Contains(out, "node n2  no endpoint here") {
		t.Errorf("no node lets it in: exit code %d\n%s", ExitCode(err), out)
	}
}

// An endpoint on a pod interface other than eth0 is recognised as the pod, and its path is judged.
func TestWhyKnowsEndpointsAtOtherInterfaces(t *testing.T) {
	endpoint := netip.MustParseAddrPort("10.1.1.9:80")
	mux := http.NewServeMux()
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, ipnet.PodsReport{Node: "n1", Pods: []ipnet.PodReport{{Namespace: "default", Name: "web", IPs: []string{"10.1.1.3"}}}})
	})
	mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("to") == endpoint.Addr().String() {
			rest.JSON(w, pathexplain.Report{Node: "n1", Destination: true, Probes: []pathexplain.Probe{{Kind: "tcp", End: true, Error: pathexplain.Refused}}})
			return
		}
		rest.JSON(w, pathexplain.Report{Node: "n1", Source: true, Endpoints: []netip.AddrPort{endpoint},
			Interfaces: []pathexplain.PodInterface{{Address: endpoint.Addr(), Pod: "default/web", Interface: "net1"}}})
	})
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, mux)
	out, _, _ := run(t, "--agent", "n1=unix://"+socket, "why", "10.1.1.2", "10.96.0.10", "80")
	if want := "endpoint 10.1.1.9:80 pod default/web (10.1.1.9 on n1): not reached"; !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
		t.Errorf("%q is missing in\n%s", want, out)
	}
}
