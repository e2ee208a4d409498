package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestHowToReachEtcd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "etcd.conf")
	if err := os.WriteFile(file, []byte("endpoints: [https://a:2379]\ndial-timeout: 7s\nca-file: /file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		given options
		want  etcd.Config
	}{
		"nothing given": {options{}, etcd.Config{Endpoints: []string{"http://127.0.0.1:32379"}, InsecureTransport: true}},
		"file": {options{etcdConfig: file},
			etcd.Config{Endpoints: []string{"https://a:2379"}, DialTimeout: config.Duration(7 * time.Second), CAFile: "/file"}},
		"flags over file": {options{etcdConfig: file, etcdEndpoints: []string{"https://b:1", "http://c:1"}, etcdCA: "/flag"},
			etcd.Config{Endpoints: []string{"https://b:1", "http://c:1"}, DialTimeout: config.Duration(7 * time.Second), CAFile: "/flag"}},
	} {
		got, err := loadEtcdConfig(c.given)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	if err := os.WriteFile(file, []byte("dial-timeuot: 7s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := loadEtcdConfig(options{etcdConfig: file}); err == nil || !strings.Contains(err.Error(), "dial-timeout") {
		t.Errorf("a mistake in the file: %v", err)
	}
}

// check-config reports all mistakes in all files.
func TestFilesAreChecked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("checking values needs root: run the test as root")
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nics := plugintest.Links{plugintest.Link("lo"), plugintest.Link("eth0", "192.168.16.1/24")}
	flags := func(o options) options { // without variables that set options of the event loop
		o.register(pflag.NewFlagSet("", pflag.ContinueOnError))
		return o
	}
	good := flags(options{})
	good.contivConfig, good.configDir = file("contiv.conf", "useTAPInterfaces: true\n"), filepath.Join(dir, "values")
	file("values/a.yaml", "key: config/vpp/v2/interfaces/a\nvalue: {name: a, type: TAP}\n")
	if remarks, err := good.check(t.Context(), nics); err != nil || len(remarks) > 0 {
		t.Error(remarks, err)
	}
	file("values/empty.yaml", "# nothing yet\n")
	if remarks, err := good.check(t.Context(), nics); err != nil || len(remarks) != 1 || !strings.Contains(remarks[0], "empty.yaml is empty") {
		t.Errorf("an empty file: %q, %v", remarks, err)
	}
	elsewhere := good
	elsewhere.configDir += "x"
	if _, err := elsewhere.check(t.Context(), nics); err == nil || !strings.Contains(err.Error(), "valuesx: no such file") {
		t.Errorf("a directory that is not there: %v", err)
	}
	bad := good
	bad.contivConfig = file("bad.conf", "useTAPInterface: true\nipamConfig: {podSubnetCIDR: 10.1.0.0/33}\n")
	bad.controllerConfig = file("controller.conf", "delayRetry: 5\nmaxRetryAttempts: -1\n")
	bad.serviceConfig = file("service.conf", "servces: auto\nserviceLocalEndpointWeight: 0\nnodePortAddresses: [x]\n")
	bad.etcdConfig = file("etcd.conf", "dial-timeuot: 7s\nendpoints: [ftp://a:1]\n")
	file("values/etcd.con", "")
	file("values/README", "")
	file("values/more.yml", "")
	file("values/b.yaml", "key: config/vpp/v2/interfaces/b\nvalue: {name: b, tpe: TAP}\n---\nkey: config/linux/interfaces/v2/interface/e\nvalue: {name: e, type: VETH}\n")
	file("values/c.yaml", "# addresses that cannot be\n---\nkey: config/vpp/v2/interfaces/c\nvalue: {name: c, type: SOFTWARE_LOOPBACK, ip_addresses: [10.9.9.999/32]}\n"+
		"---\nkey: config/linux/interfaces/v2/interface/d\nvalue: {name: d, type: VETH}\n")
	_, err := bad.check(t.Context(), nics)
	for _, want := range []string{
		`"useTAPInterfaces"`, "ipamConfig.podSubnetCIDR", `"delayRetry" is 5: that is 5 nanoseconds: write the unit, such as "5s"`, "maxRetryAttempts is -1",
		`"services"`, "serviceLocalEndpointWeight", "nodePortAddresses", `"dial-timeout"`, "ftp://a:1",
		"etcd.con is ignored: did you mean etcd.conf? Set its path with --etcd-config", "more.yml is ignored", "b.yaml", "line 4: value of config/linux/interfaces/v2/interface/e", `"type"`, "c.yaml: line 3: value of config/vpp/v2/interfaces/c: ", "10.9.9.999/32", "c.yaml: line 6: value of config/linux/interfaces/v2/interface/d: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
		if err != nil && strings.Contains(err.Error(), "README") {
			t.Error(err)
		}
	}
}

// A contradiction between contiv.conf and the machine's links is a mistake if the file names this
// node, and a warning otherwise.
func TestLinksAreChecked(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	nics := plugintest.Links{plugintest.Link("eth0", "192.168.16.1/24")}
	check := func(node, conf string, more ...func(*options)) (string, error) {
		t.Helper()
		var o options
		o.register(pflag.NewFlagSet("", pflag.ContinueOnError))
		o.nodeName, o.contivConfig = node, filepath.Join(t.TempDir(), "contiv.conf")
		if err := os.WriteFile(o.contivConfig, []byte(conf), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, set := range more {
			set(&o)
		}
		remarks, err := o.check(t.Context(), nics)
		return strings.Join(remarks, "\n"), err
	}
	const missing = `main interface "eth9" does not exist: correct nodeConfig.mainVPPInterface.interfaceName`
	section := func(node string) string {
		return "nodeConfig: [{nodeName: " + node + ", mainVPPInterface: {interfaceName: eth9}}]"
	}
	if remarks, err := check(host, section(host)); err == nil || !strings.Contains(err.Error(), missing) || remarks != "" {
		t.Errorf("on the node: %q, %v", remarks, err)
	}
	if remarks, err := check("elsewhere", section("elsewhere")); err != nil || !strings.Contains(remarks, "on this machine, node elsewhere would have no network: "+missing) {
		t.Errorf("on another machine: %q, %v", remarks, err)
	}
	if remarks, err := check(host, section("elsewhere")); err != nil || remarks != "" {
		t.Errorf("of another node: %q, %v", remarks, err)
	}
	vpp := func(o *options) { o.vswitch = southbound.VPPVSwitch }
	if remarks, err := check(host, section(host), vpp); err != nil || remarks != "" {
		t.Errorf("with VPP, which names interfaces itself: %q, %v", remarks, err)
	}
	if remarks, err := check(host, "mtuSize: 1500\nipamConfig: {podSubnetCIDR: 10.1.2.3/16}"); err != nil ||
		!strings.Contains(remarks, "use 1450 or less") || !strings.Contains(remarks, "podSubnetCIDR has 10.1.2.3/16, an address in the network 10.1.0.0/16") {
		t.Errorf("MTU and host bits: %q, %v", remarks, err)
	}
}
