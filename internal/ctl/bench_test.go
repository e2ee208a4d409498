package ctl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/client/clienttest"
	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/agent/northbound/ifstate"
	"github.com/contiv/contiv/internal/agent/pathexplain"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/policy/denials"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/benchmark"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// bigNode serves an agent with the given number of pods, each with an interface and a route, and
// further routes up to the given number of values. A transaction makes one pod, or 95 routes. It
// returns the flag that selects the agent.
func bigNode(b testing.TB, pods, values int) string {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	past := history.Open(history.Options{Dir: b.TempDir(), Bytes: 64 << 20, Age: time.Hour, Node: "n1", Log: log})
	b.Cleanup(past.Close)
	s := kvscheduler.New(kvscheduler.Options{Logger: log, Recorder: past.Transaction})
	b.Cleanup(func() { s.Close() })
	accept[*vpp_interfaces.Interface](b, s, "vpp-interface", models.VPPInterface.KeyPrefix())
	accept[*vpp_l3.Route](b, s, "vpp-route", models.VPPRoute.KeyPrefix())
	var report ipnet.PodsReport
	commit := func(txn *kvscheduler.Transaction) {
		b.Helper()
		seq, err := txn.Commit(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		past.Event(&controller.EventRecord{
			SeqNum: seq, Name: "Add Pod", Description: "Add Pod shop/web", Enqueued: now, ProcessingStart: now, ProcessingEnd: now,
			Handlers: []controller.HandlerRecord{{Handler: "ipnet", Change: "wire pod shop/web"}}, Txn: &controller.TxnRecord{SeqNum: seq, Operations: 2},
		})
	}
	for i := range pods {
		name := fmt.Sprintf("vpp-tap-%064x", i)
		pod := ipnet.PodReport{Namespace: "shop", Name: fmt.Sprintf("web-%d", i), IPs: []string{fmt.Sprintf("10.1.1.%d/32", i)}, VPPInterface: name}
		txn := s.NewTransaction()
		for _, value := range []proto.Message{
			&vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_TAP, Enabled: true, Mtu: 1450},
			&vpp_l3.Route{DstNetwork: pod.IPs[0], OutgoingInterface: name},
		} {
			pod.Keys = append(pod.Keys, models.Key(value))
			txn.Put(models.Key(value), value)
		}
		commit(txn)
		report.Pods = append(report.Pods, pod)
	}
	const perTxn = 95
	for i := 2 * pods; i < values; i += perTxn {
		txn := s.NewTransaction()
		for j := i; j < min(i+perTxn, values); j++ {
			route := &vpp_l3.Route{DstNetwork: fmt.Sprintf("10.%d.%d.0/24", j>>8, j&255), NextHopAddr: fmt.Sprintf("192.168.%d.%d", j>>8, j&255), OutgoingInterface: "vxlanBVI"}
			txn.Put(models.Key(route), route)
		}
		commit(txn)
	}
	mux := http.NewServeMux()
	mux.Handle("/scheduler/", inspect.Handler(s))
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, report) })
	mux.HandleFunc(nodesync.NodesURL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, nodesync.NodesReport{ThisNode: "n1", Nodes: []nodesync.NodeReport{{ID: 1, Name: "n1"}}})
	})
	mux.Handle(history.URL, past.Handler())
	serveReports(b, mux, report.Pods)
	mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, map[string]any{"Version": "1", "Verdict": "healthy"})
	})
	mux.HandleFunc(pathexplain.URL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, pathexplain.Report{Node: "n1", Source: true, Destination: true, Probes: []pathexplain.Probe{{From: "pod shop/web-7", To: "pod shop/web-8", Kind: "icmp", Answered: true, End: true}}})
	})
	return "n1=unix://" + listen(b, "n1", mux)
}

// bigClient makes an agent request 10,000 routes of a client. It returns the flag for the agent's
// gRPC API.
func bigClient(b *testing.B) string {
	b.Helper()
	agent, err := clienttest.Start(clienttest.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { agent.Close() })
	c, err := client.DialGRPC(agent.Address, client.GRPC{Name: "contivctl"})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	var values []proto.Message
	for i := range 10_000 {
		values = append(values, &vpp_l3.Route{DstNetwork: fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255), NextHopAddr: "192.168.1.1", OutgoingInterface: "vxlanBVI"})
	}
	if _, err := c.Resync(b.Context(), values...); err != nil {
		b.Fatal(err)
	}
	return agent.Address
}

// serveReports serves the plugins' reports of a node with these pods, as many services, and as many
// policies.
func serveReports(b testing.TB, mux *http.ServeMux, pods []ipnet.PodReport) {
	b.Helper()
	serve := func(path string, report any) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { rest.JSON(w, report) })
	}
	var interfaces ifstate.Report
	var services service.Report
	var policies policy.Report
	for i, pod := range pods {
		state, err := protojson.Marshal(&vpp_interfaces.InterfaceState{
			Name: pod.VPPInterface, Type: vpp_interfaces.Interface_TAP, AdminStatus: vpp_interfaces.InterfaceState_UP, OperStatus: vpp_interfaces.InterfaceState_UP,
			PhysAddress: "02:fe:f8:48:74:72", Mtu: 1450, Statistics: &vpp_interfaces.InterfaceState_Statistics{InPackets: 100, OutPackets: 200},
		})
		if err != nil {
			b.Fatal(err)
		}
		interfaces.Interfaces = append(interfaces.Interfaces, state)
		policies.Policies = append(policies.Policies, policy.PolicyReport{Namespace: "shop", Name: fmt.Sprintf("p%d", i), Tier: "NetworkPolicy", Realised: true})
		services.Services = append(services.Services, service.ServiceReport{Namespace: "shop", Name: fmt.Sprintf("s%d", i), Endpoints: 3,
			Frontends: []service.FrontendReport{{Kind: "ClusterIP", Address: fmt.Sprintf("10.96.0.%d:80", i), Protocol: "TCP", Inside: 3, Outside: 3}},
			Values:    []service.ValueReport{{Key: fmt.Sprintf("config/vpp/nat/v2/dnat44/shop/s%d", i), State: "CONFIGURED"}}})
	}
	serve(ifstate.URL, interfaces)
	mux.HandleFunc(service.URL, func(w http.ResponseWriter, r *http.Request) {
		answer := services
		if name := r.URL.Query().Get("service"); name != "" {
			answer.Services = slices.DeleteFunc(slices.Clone(services.Services), func(s service.ServiceReport) bool { return s.Namespace+"/"+s.Name != name })
		}
		if r.URL.Query().Has("verbose") {
			answer.Services = slices.Clone(services.Services)
			for i := range answer.Services {
				for e := range answer.Services[i].Endpoints {
					answer.Services[i].Details = append(answer.Services[i].Details, service.EndpointReport{
						Address: fmt.Sprintf("10.1.%d.%d:8080", e, i), Protocol: "TCP", Node: "n1", Zone: "a", Ready: true, Serving: true, Inside: true, Outside: true,
					})
				}
			}
		}
		rest.JSON(w, answer)
	})
	serve(policy.URL, policies)
	serve(denials.URL, denials.Report{})
	serve(statscollector.DropsURL, statscollector.DropsReport{})
	serve(ipnet.IPAMURL, ipnet.IPAMReport{NodeID: 1, NodeName: "n1", PodIPsUsed: uint64(len(pods)), PodIPsTotal: 252})
	serve(contivconf.URL, contivconf.Report{})
}

// listen serves a handler on a socket until the benchmark ends.
func listen(b testing.TB, name string, handler http.Handler) (socket string) {
	b.Helper()
	socket = filepath.Join(b.TempDir(), name)
	l, err := listener.Unix(socket)
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	b.Cleanup(func() {
		server.Close()
		<-done
	})
	return socket
}

// median runs a command, in this process or by a program, for each iteration and reports the median
// time. Exit code 1 is allowed.
func median(b *testing.B, program string, args ...string) {
	b.Helper()
	b.Setenv(target.ConfigVariable, "")
	var took []time.Duration
	size := 0
	before := benchmark.ProcessorTime(b)
	for b.Loop() {
		var out bytes.Buffer
		c := Command("contivctl", &out, io.Discard)
		c.SetArgs(args)
		run := func() error { return c.ExecuteContext(b.Context()) }
		if program != "" {
			process := exec.CommandContext(b.Context(), program, args...)
			process.Stdout = &out
			run = process.Run
		}
		begin := time.Now()
		var exit *exec.ExitError
		if err := run(); err != nil && !errors.Is(err, ErrReported) && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
			b.Fatal(args, err)
		}
		took, size = append(took, time.Since(begin)), out.Len()
	}
	slices.Sort(took)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64((benchmark.ProcessorTime(b)-before).Microseconds())/1000/float64(len(took)), "processor-ms") // of the agent and, if in-process, the command
	b.ReportMetric(float64(size)/1000, "kB-shown")
}

// BenchmarkCommands measures commands at a node with 10,000 values, in one process: the agent's
// answer and contivctl's processing.
func BenchmarkCommands(b *testing.B) { benchmarkCommands(b, "") }

// BenchmarkPrograms measures the same from the start to the end of contivctl.
func BenchmarkPrograms(b *testing.B) {
	program := filepath.Join(b.TempDir(), "contivctl")
	build := exec.CommandContext(b.Context(), "go", "build", "-ldflags", "-s -w", "-o", program, "../../cmd/contivctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	b.Run("version", func(b *testing.B) { median(b, program, "version") })
	benchmarkCommands(b, program)
}

// commandLines are the measured commands. KEY is a pod interface's key, and FILE has values.
var commandLines = []string{
	"status", "nodes", "pods", "ipam", "nodeconfig", "interfaces", "drops", "services", "policies", "denials",
	"values", "values -o json", "values --state FAILED", "values web-7", "values 10.20.3.0/24",
	"dump", "dump --view cached", "dump --view cached -o json", "dump --view cached " + models.VPPInterface.KeyPrefix(), "dump --view NB 10.20.3.0/24",
	"explain web-7", "explain 10.20.3.0/24", "explain KEY", "timeline web-7", "timeline 10.20.3.0/24", "timeline KEY",
	"events", "events --last 0", "events --seq 1.17", "txns", "txns 17", "txns --last 0", "diff --from txn:300", "diff --from txn:340",
	"graph", "graph web-7", "graph 10.20.3.0/24", "config get --all web-7", "config get --all 10.20.3.0/24", "config get --all", "config get --all -o yaml",
	"why web-7 web-8 80", "plan -f FILE", "resync", "models", "check-config FILE", "report --file REPORT",
}

// withAgent adds an agent to a command line that asks one.
func withAgent(agent, line string) []string {
	args := strings.Fields(line)
	if args[0] == "models" || args[0] == "check-config" {
		return args
	}
	return append([]string{"--agent", agent}, args...)
}

func benchmarkCommands(b *testing.B, program string) {
	agent := bigNode(b, 250, 10_000)
	key := models.VPPInterfaceKey(fmt.Sprintf("vpp-tap-%064x", 7))
	values := filepath.Join(b.TempDir(), "values.yaml")
	if err := os.WriteFile(values, []byte("model: vpp.route\nvalue: {dst_network: 10.8.0.0/16, outgoing_interface: uplink}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	report := filepath.Join(b.TempDir(), "report.tgz")
	lines := commandLines
	if program != "" && testing.Short() {
		lines = lines[:1] // BenchmarkCommands runs all
	}
	for _, line := range lines {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) {
			median(b, program, withAgent(agent, strings.NewReplacer(" FILE", " "+values, "REPORT", report, "KEY", key).Replace(line))...)
		})
	}
	b.Run("config_diff", func(b *testing.B) { median(b, program, "config", "diff", "--grpc", bigClient(b), "-f", values) })
}

// BenchmarkStatusOf100Nodes measures status in a cluster whose agents take 200 ms each for their
// checks.
func BenchmarkStatusOf100Nodes(b *testing.B) {
	const nodes, look = 100, 200 * time.Millisecond
	var args []string
	for i := range nodes {
		mux := http.NewServeMux()
		mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(look)
			rest.JSON(w, map[string]any{"Version": "1", "Verdict": "healthy"})
		})
		name := fmt.Sprintf("n%d", i)
		args = append(args, "--agent", name+"=unix://"+listen(b, name, mux))
	}
	median(b, "", append(args, "status")...)
}
