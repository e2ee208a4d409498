package ctl

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/client/clienttest"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/listener/listenertest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// startVSwitch starts an agent and returns the flags that select it.
func startVSwitch(t *testing.T) []string {
	t.Helper()
	agent, err := clienttest.Start(clienttest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { agent.Close() })
	return []string{"config", "--grpc", agent.Address}
}

func execute(t *testing.T, ctx context.Context, out io.Writer, args ...string) error {
	t.Helper()
	cmd := Command("contivctl", out, io.Discard)
	cmd.SetArgs(args)
	return cmd.ExecuteContext(ctx)
}

// until is a writer that calls seen when the text was written.
type until struct {
	text    string
	written strings.Builder
	seen    func()
}

func (u *until) Write(p []byte) (int, error) {
	u.written.Write(p)
	if strings.Contains(u.written.String(), u.text) {
		u.seen()
	}
	return len(p), nil
}

func TestConfigWatchGoesOnUntilItIsInterrupted(t *testing.T) {
	agent := startVSwitch(t)
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("{model: vpp.interfaces, value: {name: a}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	applied := make(chan error, 1)
	present := &until{text: "interfaces/a  NONEXISTENT", seen: sync.OnceFunc(func() {
		go func() { applied <- execute(t, t.Context(), io.Discard, append(agent, "apply", "-f", file)...) }()
	})}
	changed := &until{text: "interfaces/a  CONFIGURED", seen: interrupt}
	err := execute(t, ctx, io.MultiWriter(present, changed), append(agent, "watch", "config/vpp/v2/interfaces/a")...)
	if err != nil {
		t.Errorf("after %q: %v", changed.written.String(), err)
	}
	if err := <-applied; err != nil {
		t.Error(err)
	}
}

// A value that the node's vswitch does not support is an error, although the transaction succeeds.
func TestUnimplementedValuesAreNoSuccess(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte("{model: vpp.arp, value: {interface: a, ip_address: 10.0.0.1, phys_address: 02:00:00:00:00:01}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := execute(t, t.Context(), &out, append(startVSwitch(t), "apply", "-f", file)...)
	if err == nil || !strings.Contains(err.Error(), "1 value not configured") || !strings.Contains(out.String(), "UNIMPLEMENTED") {
		t.Errorf("%v, after %q", err, out.String())
	}
}

// A watch survives a restart of the agent and shows the new agent's values. It does not start
// without an agent.
func TestConfigWatchOutlivesTheAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "grpc.sock")
	start := func() *clienttest.Agent {
		l, err := listener.Unix(socket)
		if err != nil {
			t.Fatal(err)
		}
		agent, err := clienttest.Start(clienttest.Options{Listener: l})
		if err != nil {
			t.Fatal(err)
		}
		return agent
	}
	agent := start()
	defer func() { agent.Close() }()
	args := []string{"config", "--grpc", "unix://" + socket, "watch", "config/vpp/v2/interfaces/a"}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	const line = "interfaces/a  NONEXISTENT"
	restarted := make(chan struct{})
	first := &until{text: line, seen: sync.OnceFunc(func() {
		go func() {
			defer close(restarted)
			agent.Close()
			agent = start()
		}()
	})}
	var seen strings.Builder
	second := writerFunc(func(p []byte) (int, error) {
		if seen.Write(p); strings.Count(seen.String(), line) == 2 {
			interrupt()
		}
		return len(p), nil
	})
	if err := execute(t, ctx, io.MultiWriter(first, second), args...); err != nil || strings.Count(seen.String(), line) != 2 {
		t.Errorf("after %q: %v", seen.String(), err)
	}
	<-restarted
	agent.Close()
	if err := execute(t, t.Context(), io.Discard, args...); err == nil || !strings.Contains(err.Error(), socket) || strings.Contains(err.Error(), "desc =") {
		t.Errorf("without an agent: %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Invalid values are not stored; the node is asked first.
func TestInvalidValuesAreRefused(t *testing.T) {
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { s.Close() })
	err := kvscheduler.Register(s, kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
		Name: "vpp-interface", NB: true, Keys: kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()},
		Validate: func(_ string, v *vpp_interfaces.Interface) error {
			if v.GetName() == "bad" {
				return kvscheduler.NewInvalidValueError(errors.New("no such type"), "type")
			}
			return nil
		},
		Create: func(context.Context, string, *vpp_interfaces.Interface) (m kvscheduler.NoMetadata, err error) {
			return m, nil
		},
		Delete: func(context.Context, string, *vpp_interfaces.Interface, kvscheduler.NoMetadata) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, inspect.Handler(s))
	g := &configuring{cli: &cli{targets: target.Options{Agents: []string{"n=unix://" + socket}, Timeout: time.Minute}}}
	for text, want := range map[string]string{
		"{model: vpp.interfaces, value: {name: good}}":                                                   "",
		"{model: vpp.interfaces, value: {name: good}}\n---\n{model: vpp.interfaces, value: {name: bad}}": "line 3, config/vpp/v2/interfaces/bad: no such type",
	} {
		file := filepath.Join(t.TempDir(), "values.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		values, err := files{file}.read(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.refuseInvalid(t.Context(), values); (err == nil) != (want == "") || err != nil && (!strings.HasPrefix(err.Error(), "nothing is stored: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestSchemaOfFiles(t *testing.T) {
	var out strings.Builder
	if err := execute(t, t.Context(), &out, "config", "schema"); err != nil {
		t.Fatal(err)
	}
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	schema, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	for text, valid := range map[string]bool{
		"{model: vpp.interfaces, value: {name: a, type: TAP, ip_addresses: [10.0.0.1/24]}}": true,
		"{key: config/vpp/v2/interfaces/a, value: {name: a, ipAddresses: [10.0.0.1/24]}}":   true,
		"{key: config/vpp/nat/v2/nat44-global, value: {forwarding: true}}":                  true,
		"{model: ligato.vpp.l3.Route, value: {dst_network: 10.0.0.0/8}}":                    true,
		"{model: vpp.interfaces, value: {name: a, type: TAPP}}":                             false,
		"{key: config/vpp/v2/interfaces/a, value: {nam: a}}":                                false,
		"{model: vpp.interfaces, value: {dst_network: 10.0.0.0/8}}":                         false,
		"{model: vpp.rout, value: {}}":                                                      false,
		"{value: {name: a}}":                                                                false,
		"{model: vpp.interfaces}":                                                           false,
		"{model: vpp.interfaces, name: a, value: {name: a}}":                                false,
	} {
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(data, &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestWhereAgentsServeGRPC(t *testing.T) {
	for url, want := range map[string]string{
		"unix:///var/run/contiv/agent.sock": "unix:///var/run/contiv/grpc.sock",
		"http://192.168.16.2:9999":          "192.168.16.2:9111",
		"https://[fd00::2]:9999/":           "[fd00::2]:9111 with TLS",
	} {
		a, err := target.New("node1", url)
		if err != nil {
			t.Fatal(err)
		}
		got, secure, err := a.GRPCAddress()
		if secure {
			got += " with TLS"
		}
		if err != nil || got != want {
			t.Errorf("%s: %s, %v", url, got, err)
		}
	}
}

func TestConfigWithCertificates(t *testing.T) {
	authority := listenertest.NewAuthority(t)
	cert, key := authority.Issue("server")
	options := listener.Options{CertFile: cert, KeyFile: key, ClientCAFile: authority.CAFile()}
	l, err := options.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := clienttest.Start(clienttest.Options{Listener: l, Clients: options.Client})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	get := []string{"config", "get", "--grpc", agent.Address}
	clientCert, clientKey := authority.Issue("operator", "contiv:read")
	with := append(get, "--tls-ca-file", authority.CAFile(), "--tls-cert-file", clientCert, "--tls-key-file", clientKey)
	if err := execute(t, t.Context(), io.Discard, with...); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	for _, without := range [][]string{get, append(get[:4:4], "--tls-ca-file", authority.CAFile())} {
		if err := execute(t, t.Context(), io.Discard, without...); err == nil || !strings.Contains(err.Error(), agent.Address) {
			t.Errorf("%v: %v", without, err)
		}
	}
}

// Host bits of networks are dropped with a warning.
func TestHostBitsInConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "contiv.conf")
	if err := os.WriteFile(file, []byte("ipamConfig: {podSubnetCIDR: 10.1.2.3/16}"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := run(t, "check-config", file)
	if words := strings.Join(strings.Fields(out), " "); err != nil || !strings.Contains(words, "contiv.conf: warning: option ipamConfig.podSubnetCIDR has 10.1.2.3/16, an address in the network 10.1.0.0/16") {
		t.Errorf("%s, %v", out, err)
	}
	if err := os.WriteFile(file, []byte("nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth1, ip: 10.1.9.9/24}}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errOut, err := run(t, "check-config", file); err == nil || !strings.Contains(errOut, "node node1: address 10.1.9.9/24 of an interface in nodeConfig overlaps with ipamConfig.podSubnetCIDR") {
		t.Errorf("%s, %v", errOut, err)
	}
}

// The check finds mistakes in vpp.conf that contiv-init would refuse.
func TestOptionsOfVPPAreChecked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "vpp.conf")
	for text, want := range map[string]string{
		"heapMiB: 1024\nbuffers: 8192":                       "vpp.conf: options of VPP, no errors found",
		"heapMB: 1024":                                       `vpp.conf: line 1: unknown key "heapMB": did you mean "heapMiB"?`,
		"buffers: 4\nplugins: {acl: false}":                  "vpp.conf: buffers is 4: use 4096 to",
		"heapMiB: 512\nbuffers: 8192\nplugins: {acl: false}": "vpp.conf: plugins: without acl, abf makes VPP end",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, errOut, err := run(t, "check-config", file)
		if !strings.Contains(out+errOut, want) || (err == nil) != strings.HasSuffix(want, "no errors found") {
			t.Errorf("%s: %s%s, %v; want %s", text, out, errOut, err, want)
		}
	}
}
