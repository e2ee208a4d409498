package ctl

import (
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/contivconf"
)

func TestNodeConfigOfTheNodes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	prefix := netip.MustParsePrefix
	const refused = `NodeConfig of node n: nodeConfig.gateway is "x"`
	mux := noValues()
	mux.HandleFunc(contivconf.URL, func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, contivconf.Report{
			NodeName: "n", Source: contivconf.FromNodeConfig, Refused: refused,
			MainInterface: contivconf.InterfaceReport{Name: "eth0", LinkIPs: []netip.Prefix{prefix("192.168.1.5/24"), prefix("fd00::5/64")}},
			OtherInterfaces: []contivconf.InterfaceReport{
				{Name: "eth1", IPs: []netip.Prefix{prefix("10.50.0.1/24")}}, {Name: "eth2", UseDHCP: true}},
			Gateways: []netip.Addr{netip.MustParseAddr("10.50.0.254")}, NatExternalTraffic: true,
		})
	})
	mux.HandleFunc("/readiness", func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, map[string]string{"Version": "v1", "Database": "gone", "NodeConfig": refused})
	})
	serve(t, socket, mux)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"nodeconfig"}, []string{"n     NodeConfig  eth0 192.168.1.5/24,fd00::5/64  eth1 10.50.0.1/24, eth2 (DHCP)  10.50.0.254  on", "refused: NodeConfig of node n"}},
		{[]string{"nodeconfig", "n", "-o", "json"}, []string{`"source": "NodeConfig"`, `"refused": "NodeConfig of node n`, `"10.50.0.1/24"`}},
		{[]string{"status"}, []string{"n     degraded  ready  v1       etcd unreachable: gone\n                                NodeConfig invalid: NodeConfig of node n"}},
		{[]string{"status", "-o", "json"}, []string{`"nodeConfig": "NodeConfig of node n`}},
	} {
		out, errOut, err := run(t, append([]string{"--agent", "n=unix://" + socket}, c.args...)...)
		if code := ExitCode(err); code != 0 && c.args[0] != "status" || code != 1 && c.args[0] == "status" {
			t.Errorf("%v: %v %s", c.args, err, errOut)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%v: %q is missing in\n%s", c.args, want, out)
			}
		}
	}
}
