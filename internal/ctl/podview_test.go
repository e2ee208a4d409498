package ctl

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
)

// The explanation of a pod starts with its worst value, and its timeline includes all its values.
func TestPodsAreExplained(t *testing.T) {
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { s.Close() })
	err := kvscheduler.Register(s, kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
		Name: "vpp-interface", NB: true, Keys: kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()},
		Create: func(_ context.Context, _ string, v *vpp_interfaces.Interface) (m kvscheduler.NoMetadata, err error) {
			if v.GetName() == "tap-b" {
				return m, errors.New("no such device")
			}
			return m, nil
		},
		Delete: func(context.Context, string, *vpp_interfaces.Interface, kvscheduler.NoMetadata) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, name := range []string{"tap-a", "tap-b", "tap-gone"} {
		keys = append(keys, models.VPPInterfaceKey(name))
	}
	for _, name := range []string{"tap-a", "tap-b"} {
		txn := s.NewTransaction()
		txn.Put(models.VPPInterfaceKey(name), &vpp_interfaces.Interface{Name: name})
		_, _ = txn.Commit(t.Context())
	}
	mux := http.NewServeMux()
	mux.Handle("/scheduler/", inspect.Handler(s))
	mux.HandleFunc(ipnet.PodsURL, func(w http.ResponseWriter, _ *http.Request) {
		pod := func(namespace, name string, keys ...string) ipnet.PodReport {
			return ipnet.PodReport{Namespace: namespace, Name: name, IPs: []string{"10.1.1.2/32"}, Gateway: "10.1.1.1", Interface: "eth0", MTU: 1450, Keys: keys}
		}
		web := pod("shop", "web", keys...)
		web.CustomInterfaces = []ipnet.CustomIfReport{
			{Name: "net1", Network: "default", IPs: []string{"10.1.1.3"}, MAC: "02:fe:00:00:00:01", VPPInterface: "tap-net1", ServiceEndpoint: true},
			{Name: "bare", Network: "stub", MAC: "02:fe:00:00:00:02", VPPInterface: "tap-bare", Problem: "the subnet is full"},
		}
		web.Refused = []string{`"x/memif": use tap or veth`}
		rest.JSON(w, ipnet.PodsReport{Node: "n", Pods: []ipnet.PodReport{web, pod("default", "twice", keys[0]), pod("other", "twice", keys[1])}})
	})
	mux.HandleFunc(service.URL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, service.Report{HostPorts: []service.HostPortReport{{Port: "8080/TCP", PodPort: 80, Open: []netip.AddrPort{netip.MustParseAddrPort("192.168.16.1:8080")}, Problems: []string{"another one is a port of service default/web"}}}})
	})
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, mux)
	for _, c := range []struct {
		args string
		want []string // in this order
	}{
		{"explain web", []string{"n: pod shop/web\n", "state       FAILED", "10.1.1.2  gateway 10.1.1.1  MTU 1450",
			"further     net1 (02:fe:00:00:00:01)  10.1.1.3  network default  for services  tap-net1 of the vswitch", "bare (02:fe:00:00:00:02)  no address  network stub  not made: the subnet is full",
			`refused     "x/memif": use tap or veth`, "host ports  8080/TCP to port 80  at 192.168.16.1:8080  not open: another one is a port of service default/web", "FAILED      CREATE", "tap-b", "MISSING", "tap-gone", "CONFIGURED  CREATE", "tap-a", "n: config/vpp/v2/interfaces/tap-b", "no such device"}},
		{"pods -o wide", []string{"10.1.1.2", "10.1.1.3", "tap-net1", "10.1.1.1  net1", "shop       web    -         1450", "bare is not made: contivctl explain says why  -         bare"}},
		{"explain twice -n default", []string{"n: pod default/twice", "CONFIGURED", "tap-a"}},
		{"explain web -n shop -o json", []string{`"state": "FAILED"`}},
		{"timeline shop/web", []string{"0    CONFIGURED  config/vpp/v2/interfaces/tap-a", "CREATE  name=tap-a", "1    FAILED      config/vpp/v2/interfaces/tap-b", "error: no such device"}},
		{"timeline web -o json", []string{`"key": "config/vpp/v2/interfaces/tap-a"`}},
	} {
		requireInOrder(t, socket, c.args, c.want)
	}
	for args, want := range map[string]string{
		"explain twice":      `"twice" matches several pods: default/twice, other/twice`,
		"timeline web -n no": `unknown pod "web" in namespace "no"`,
	} {
		if _, _, err := run(t, append([]string{"--agent", "n=unix://" + socket}, strings.Fields(args)...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// requireInOrder checks that a command, sent to the agent at the socket, succeeds and prints the
// texts in this order.
func requireInOrder(t *testing.T, socket, args string, wanted []string) {
	t.Helper()
	out, errOut, err := run(t, append([]string{"--agent", "n=unix://" + socket}, strings.Fields(args)...)...)
	if err != nil {
		t.Errorf("%s: %v %s", args, err, errOut)
	}
	rest := out
	for _, want := range wanted {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("%s: %q is missing, or not where it should be, in\n%s", args, want, out)
			break
		}
		rest = after
	}
}

// A dual-stack service is listed once, with all its cluster IPs and protocols.
func TestServicesOfPods(t *testing.T) {
	report := service.ServiceReport{Namespace: "default", Name: "z", Details: []service.EndpointReport{{Address: "10.1.1.2:80", Protocol: "TCP", Why: "not ready"}}}
	for _, address := range []string{"10.96.0.100:80", "[fd96::100]:80"} {
		for _, protocol := range []processor.Protocol{"SCTP", "TCP", "UDP"} {
			report.Frontends = append(report.Frontends, service.FrontendReport{Kind: processor.ClusterIP, Address: address, Protocol: protocol})
		}
	}
	report.Frontends = append(report.Frontends, service.FrontendReport{Kind: processor.NodePort, Address: "192.168.16.1:30080", Protocol: "TCP"})
	second := report
	second.Details = []service.EndpointReport{{Address: "[fd10::2]:80", Protocol: "TCP", Inside: true}}
	list := addServices(addServices(nil, []service.ServiceReport{report}), []service.ServiceReport{second})
	if len(list) != 1 || len(list[0].Details) != 2 {
		t.Fatalf("%+v", list)
	}
	const want = "default/z  10.96.0.100:80 SCTP,TCP,UDP  [fd96::100]:80 SCTP,TCP,UDP  its endpoint 10.1.1.2:80"
	if got := serviceText(list[0]); !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
}
