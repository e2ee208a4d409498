package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/contiv/contiv/api/contiv/cni"
	contivcni "github.com/contiv/contiv/internal/cni"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager/cniserver"
	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "contiv-cni-test")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "contiv-cni")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		panic(fmt.Sprintf("build contiv-cni: %v\n%s", err, out))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// agent is a fake agent behind a unix socket.
type agent struct {
	cni.UnimplementedRemoteCNIServer
	mu       sync.Mutex
	requests []string
	last     *cni.CNIRequest
	reply    *cni.CNIReply
	status   *cni.StatusReply
	garbage  *cni.GarbageReply
	// collect is the last request for garbage collection.
	collect *cni.GarbageRequest
	err     error
}

func (a *agent) serve(command string, r *cni.CNIRequest) (*cni.CNIReply, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests, a.last = append(a.requests, command), r
	return a.reply, a.err
}

func (a *agent) Add(_ context.Context, r *cni.CNIRequest) (*cni.CNIReply, error) {
	return a.serve("Add", r)
}
func (a *agent) Delete(_ context.Context, r *cni.CNIRequest) (*cni.CNIReply, error) {
	return a.serve("Delete", r)
}
func (a *agent) Check(_ context.Context, r *cni.CNIRequest) (*cni.CNIReply, error) {
	return a.serve("Check", r)
}

func (a *agent) Status(context.Context, *cni.StatusRequest) (*cni.StatusReply, error) {
	return a.status, a.err
}
func (a *agent) CollectGarbage(_ context.Context, r *cni.GarbageRequest) (*cni.GarbageReply, error) {
	a.collect = r
	return a.garbage, a.err
}

func listen(t *testing.T, service cni.RemoteCNIServer) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "cni.sock")
	l, err := listener.Unix(socket)
	if err != nil {
		t.Fatal(err)
	}
	s := cniserver.New(service, plugintest.Logger())
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(ended)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return socket
}

type call struct {
	command string
	// config lacks the name, the type and the socket; run adds them.
	config map[string]any
	env    []string
	socket string
}

// run returns the plugin's output and, if it failed, the CNI error.
func (c call) run(t *testing.T) (stdout string, failure *types.Error) {
	t.Helper()
	config := map[string]any{"cniVersion": "1.1.0", "name": "k8s-pod-network", "type": "contiv-cni",
		"grpcServer": c.socket, "logFile": filepath.Join(t.TempDir(), "cni.log")}
	for key, value := range c.config {
		config[key] = value
	}
	stdin, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary)
	cmd.Env = append([]string{"CNI_COMMAND=" + c.command, "CNI_CONTAINERID=c1", "CNI_NETNS=/var/run/netns/no-such-namespace", "CNI_IFNAME=eth0",
		"CNI_PATH=/opt/cni/bin", "CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=web"}, c.env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		failure = &types.Error{}
		if jsonErr := json.Unmarshal(out.Bytes(), failure); jsonErr != nil {
			t.Fatalf("%s: %v, and no error JSON: %q (stderr %q)", c.command, err, out.String(), stderr.String())
		}
	}
	return out.String(), failure
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return b.String()
}

func podReply() *cni.CNIReply {
	return &cni.CNIReply{
		Interfaces: []*cni.CNIReply_Interface{{Name: "eth0", Mac: "02:fe:00:00:00:01", Sandbox: "/var/run/netns/x", Mtu: 1450,
			IpAddresses: []*cni.CNIReply_Interface_IP{{Address: "10.1.1.2/24", Gateway: "10.1.1.1"}, {Version: 1, Address: "fd00::2/64", Gateway: "fd00::1"}}}},
		Routes:               []*cni.CNIReply_Route{{Dst: "0.0.0.0/0", Gw: "10.1.1.1"}},
		AgentDurationNs:      3000,
		SouthboundDurationNs: 2000,
	}
}

const (
	eth0v11 = `{"mac":"02:fe:00:00:00:01","mtu":1450,"name":"eth0","sandbox":"/var/run/netns/x"}`
	eth0v03 = `{"name":"eth0","mac":"02:fe:00:00:00:01","sandbox":"/var/run/netns/x"}`
	routes  = `[{"dst":"0.0.0.0/0","gw":"10.1.1.1"}]`
)

// The result has the version requested in the configuration. The address keeps its host part.
func TestResultVersions(t *testing.T) {
	socket := listen(t, &agent{reply: podReply()})
	v04 := func(version string) string {
		return `{"cniVersion":"` + version + `","interfaces":[` + eth0v03 + `],"ips":[` +
			`{"version":"4","interface":0,"address":"10.1.1.2/24","gateway":"10.1.1.1"},{"version":"6","interface":0,"address":"fd00::2/64","gateway":"fd00::1"}],` +
			`"routes":` + routes + `,"dns":{}}`
	}
	v1 := func(version string) string {
		return `{"cniVersion":"` + version + `","interfaces":[` + eth0v11 + `],"ips":[` +
			`{"address":"10.1.1.2/24","gateway":"10.1.1.1","interface":0},{"address":"fd00::2/64","gateway":"fd00::1","interface":0}],"routes":` + routes + `}`
	}
	v02 := func(version string) string {
		return `{"cniVersion":"` + version + `","ip4":{"ip":"10.1.1.2/24","gateway":"10.1.1.1","routes":` + routes + `},` +
			`"ip6":{"ip":"fd00::2/64","gateway":"fd00::1"},"dns":{}}`
	}
	for version, want := range map[string]string{
		"": v02("0.1.0"), "0.1.0": v02("0.1.0"), "0.2.0": v02("0.2.0"), "0.3.0": v04("0.3.0"), "0.3.1": v04("0.3.1"), "0.4.0": v04("0.4.0"),
		"1.0.0": v1("1.0.0"), "1.1.0": v1("1.1.0"),
	} {
		t.Run(version, func(t *testing.T) {
			out, failure := call{command: "ADD", socket: socket, config: map[string]any{"cniVersion": version}}.run(t)
			if failure != nil {
				t.Fatal(failure)
			}
			var got, wanted any
			if json.Unmarshal([]byte(out), &got) != nil || json.Unmarshal([]byte(want), &wanted) != nil {
				t.Fatalf("no JSON: %s", out)
			}
			gotText, _ := json.Marshal(got)
			wantText, _ := json.Marshal(wanted)
			if string(gotText) != string(wantText) {
				t.Errorf("got  %s\nwant %s", gotText, wantText)
			}
		})
	}
}

func TestRequestIdentifiesTheContainer(t *testing.T) {
	for command, rpc := range map[string]string{"ADD": "Add", "DEL": "Delete"} {
		a := &agent{reply: podReply()}
		if _, failure := (call{command: command, socket: listen(t, a)}).run(t); failure != nil {
			t.Fatal(failure)
		}
		r := a.last
		if len(a.requests) != 1 || a.requests[0] != rpc || r.ContainerId != "c1" || r.InterfaceName != "eth0" || r.NetworkNamespace != "/var/run/netns/no-such-namespace" ||
			r.Version != "1.1.0" || !strings.Contains(r.ExtraArguments, "K8S_POD_NAME=web") || !strings.Contains(r.ExtraNwConfig, `"k8s-pod-network"`) {
			t.Errorf("%s: %v, %v", command, a.requests, r)
		}
	}
}

// Results of earlier plugins stay in the result.
func TestChaining(t *testing.T) {
	socket := listen(t, &agent{reply: podReply()})
	prev := map[string]any{"cniVersion": "1.1.0",
		"interfaces": []any{map[string]any{"name": "net1", "mac": "aa:aa:aa:aa:aa:aa"}},
		"ips":        []any{map[string]any{"address": "192.168.1.2/24", "interface": 0}},
		"dns":        map[string]any{"nameservers": []any{"10.96.0.10"}}}
	out, failure := call{command: "ADD", socket: socket, config: map[string]any{"prevResult": prev}}.run(t)
	if failure != nil {
		t.Fatal(failure)
	}
	want := `{"cniVersion":"1.1.0","dns":{"nameservers":["10.96.0.10"]},"interfaces":[{"mac":"aa:aa:aa:aa:aa:aa","name":"net1"},` + eth0v11 + `],"ips":[` +
		`{"address":"192.168.1.2/24","interface":0},{"address":"10.1.1.2/24","gateway":"10.1.1.1","interface":1},` +
		`{"address":"fd00::2/64","gateway":"fd00::1","interface":1}],"routes":` + routes + `}`
	if got := compact(t, out); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestErrors(t *testing.T) {
	dead := filepath.Join(t.TempDir(), "dead.sock") // a socket without listener
	l, err := net.Listen("unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	prev := map[string]any{"prevResult": map[string]any{"cniVersion": "1.1.0"}}
	valid := map[string]any{"cni.dev/valid-attachments": []any{}}
	for name, test := range map[string]struct {
		command string
		agent   *agent // nil: none
		socket  string
		config  map[string]any
		env     []string
		code    uint // 0: success
		want    string
	}{
		"ADD without agent":           {command: "ADD", socket: "/nonexistent/cni.sock", code: 11, want: "/nonexistent/cni.sock"},
		"ADD with a dead socket":      {command: "ADD", socket: dead, code: 11, want: "is not reachable"},
		"ADD while the agent starts":  {command: "ADD", agent: &agent{err: status.Error(codes.Unavailable, "startup resync")}, code: 11, want: "startup resync"},
		"ADD takes too long":          {command: "ADD", agent: &agent{err: status.Error(codes.DeadlineExceeded, "too long")}, code: 11, want: "too long"},
		"ADD fails":                   {command: "ADD", agent: &agent{reply: &cni.CNIReply{Result: 1, Error: "key x failed"}}, code: 100, want: "key x failed"},
		"ADD is malformed":            {command: "ADD", agent: &agent{err: status.Error(codes.InvalidArgument, "K8S_POD_NAME missing")}, code: 4, want: "K8S_POD_NAME missing"},
		"ADD panics":                  {command: "ADD", agent: &agent{err: status.Error(codes.Internal, "panic")}, code: 100, want: "panic"},
		"ADD with a strange reply":    {command: "ADD", agent: &agent{reply: &cni.CNIReply{Interfaces: []*cni.CNIReply_Interface{{IpAddresses: []*cni.CNIReply_Interface_IP{{Address: "x"}}}}}}, code: 100, want: `"x"`},
		"DEL without agent":           {command: "DEL", socket: "/nonexistent/cni.sock"},
		"DEL with a dead socket":      {command: "DEL", socket: dead},
		"DEL while the agent starts":  {command: "DEL", agent: &agent{err: status.Error(codes.Unavailable, "startup resync")}, code: 11, want: "startup resync"},
		"DEL fails":                   {command: "DEL", agent: &agent{reply: &cni.CNIReply{Result: 1, Error: "no"}}, code: 100, want: "no"},
		"CHECK without agent":         {command: "CHECK", socket: dead, config: prev, code: 11},
		"CHECK without prevResult":    {command: "CHECK", agent: &agent{}, code: 7, want: "prevResult"},
		"CHECK fails":                 {command: "CHECK", agent: &agent{reply: &cni.CNIReply{Result: 1, Error: "route missing"}}, config: prev, code: 100, want: "route missing"},
		"CHECK finds another address": {command: "CHECK", agent: &agent{reply: podReply()}, config: prev, code: 100, want: "10.1.1.2/24"},
		"STATUS without agent":        {command: "STATUS", socket: "/nonexistent/cni.sock", code: 50, want: "/nonexistent/cni.sock"},
		"STATUS with a dead socket":   {command: "STATUS", socket: dead, code: 50, want: "is not reachable"},
		"STATUS while the agent starts": {command: "STATUS", agent: &agent{status: &cni.StatusReply{Reason: "startup resync is not done"}}, code: 50,
			want: "startup resync is not done"},
		"STATUS of an older agent":     {command: "STATUS", agent: &agent{err: status.Error(codes.Unimplemented, "no Status")}, code: 50, want: "no Status"},
		"STATUS when ready":            {command: "STATUS", agent: &agent{status: &cni.StatusReply{Ready: true}}},
		"STATUS in an old version":     {command: "STATUS", agent: &agent{}, config: map[string]any{"cniVersion": "1.0.0"}, code: 1},
		"GC without agent":             {command: "GC", socket: dead, config: valid, code: 11},
		"GC without a list":            {command: "GC", agent: &agent{}, code: 7, want: "valid-attachments"},
		"GC fails":                     {command: "GC", agent: &agent{garbage: &cni.GarbageReply{Result: 1, Error: "pod x stays"}}, config: valid, code: 100, want: "pod x stays"},
		"GC while the agent starts":    {command: "GC", agent: &agent{err: status.Error(codes.Unavailable, "startup resync")}, config: valid, code: 11, want: "startup resync"},
		"GC with null":                 {command: "GC", agent: &agent{}, config: map[string]any{"cni.dev/valid-attachments": nil}, code: 7, want: "use []"},
		"GC with a strange list":       {command: "GC", agent: &agent{}, config: map[string]any{"cni.dev/valid-attachments": "all"}, code: 6},
		"GC":                           {command: "GC", agent: &agent{garbage: &cni.GarbageReply{}}, config: valid},
		"DEL without anything":         {command: "DEL", socket: dead, env: []string{"CNI_NETNS="}},
		"unknown command":              {command: "REPAIR", agent: &agent{}, code: 4},
		"empty server":                 {command: "ADD", agent: &agent{}, config: map[string]any{"grpcServer": ""}, code: 7, want: "/var/run/contiv/cni.sock"},
		"wrong type in configuration":  {command: "ADD", agent: &agent{}, config: map[string]any{"grpcServer": 7}, code: 6},
		"unknown version":              {command: "ADD", agent: &agent{}, config: map[string]any{"cniVersion": "9.9.9"}, code: 1},
		"prevResult of strange form":   {command: "ADD", agent: &agent{}, config: map[string]any{"prevResult": map[string]any{"ips": 7}}, code: 6, want: "prevResult"},
		"unwritable log does not fail": {command: "ADD", agent: &agent{reply: podReply()}, config: map[string]any{"logFile": "/nonexistent/dir/cni.log"}},
	} {
		t.Run(name, func(t *testing.T) {
			socket := test.socket
			if test.agent != nil {
				socket = listen(t, test.agent)
			}
			_, failure := call{command: test.command, socket: socket, config: test.config, env: test.env}.run(t)
			switch {
			case test.code == 0 && failure != nil:
				t.Errorf("failed: %+v", failure)
			case test.code != 0 && (failure == nil || failure.Code != test.code || !strings.Contains(failure.Msg+failure.Details, test.want)):
				t.Errorf("got %+v, want code %d with %q", failure, test.code, test.want)
			}
		})
	}
}

func TestGarbageRequestListsTheValidAttachments(t *testing.T) {
	for _, list := range []string{`[{"containerID":"c1","ifname":"eth0"},{"containerID":"c2","ifname":"net1"}]`, `[]`} {
		a := &agent{garbage: &cni.GarbageReply{}}
		if _, failure := (call{command: "GC", socket: listen(t, a), config: map[string]any{"cni.dev/valid-attachments": json.RawMessage(list)}}).run(t); failure != nil {
			t.Fatal(failure)
		}
		var got []string
		for _, v := range a.collect.GetValidAttachments() {
			got = append(got, v.ContainerId+"/"+v.InterfaceName)
		}
		want := ""
		if len(list) > 10 {
			want = "c1/eth0 c2/net1"
		}
		if strings.Join(got, " ") != want || a.collect.Network != "k8s-pod-network" {
			t.Errorf("%s: network %q, %v", list, a.collect.Network, got)
		}
	}
}

func TestVersion(t *testing.T) {
	out, failure := call{command: "VERSION"}.run(t)
	if failure != nil || !strings.Contains(compact(t, out), `"supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]`) {
		t.Errorf("%s, %v", out, failure)
	}
}

func TestLogAndTiming(t *testing.T) {
	dir := t.TempDir()
	log, timing := filepath.Join(dir, "cni.log"), filepath.Join(dir, "timing.json")
	socket := listen(t, &agent{reply: podReply()})
	for _, command := range []string{"ADD", "DEL"} {
		if _, failure := (call{command: command, socket: socket, config: map[string]any{"logFile": log}, env: []string{contivcni.TimingEnv + "=" + timing}}).run(t); failure != nil {
			t.Fatal(failure)
		}
	}
	if info, err := os.Stat(log); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("log: %v, %v", info, err)
	}
	data, err := os.ReadFile(timing)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 2 {
		t.Fatalf("timing: %q", lines)
	}
	for i, command := range []string{"ADD", "DEL"} {
		var got contivcni.Timing
		if err := json.Unmarshal([]byte(lines[i]), &got); err != nil {
			t.Fatal(err)
		}
		if got.Command != command || got.Container != "c1" || got.Agent != 3000 || got.Southbound != 2000 || got.RPC <= 0 || got.Total < got.RPC {
			t.Errorf("timing: %+v", got)
		}
	}
}

// Tests the plugin with the agent's server and all handlers behind it.
func TestWithAgent(t *testing.T) {
	n := plugintest.StartNode(t, plugintest.NodeOptions{})
	socket := listen(t, n.Server)
	out, failure := call{command: "ADD", socket: socket}.run(t)
	if failure != nil {
		t.Fatal(failure)
	}
	if !strings.Contains(compact(t, out), `"ips":[{"address":"10.1.1.2/32","gateway":"10.1.1.1","interface":0}]`) {
		t.Errorf("result: %s", out)
	}
	var prev map[string]any
	if err := json.Unmarshal([]byte(out), &prev); err != nil {
		t.Fatal(err)
	}
	if again, failure := (call{command: "ADD", socket: socket}).run(t); failure != nil || again != out {
		t.Errorf("ADD again: %v, %s", failure, again)
	}
	if _, failure := (call{command: "CHECK", socket: socket, config: map[string]any{"prevResult": prev}}).run(t); failure != nil {
		t.Errorf("CHECK: %v", failure)
	}
	for range 2 {
		if _, failure := (call{command: "DEL", socket: socket, config: map[string]any{"prevResult": prev}}).run(t); failure != nil {
			t.Errorf("DEL: %v", failure)
		}
	}
	if _, failure := (call{command: "CHECK", socket: socket, config: map[string]any{"prevResult": prev}}).run(t); failure == nil {
		t.Error("CHECK of a removed container succeeds")
	}
	if used, _ := n.IPAM.Usage(); used != 0 {
		t.Errorf("%d addresses in use", used)
	}
}
