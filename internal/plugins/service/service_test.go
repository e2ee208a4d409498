package service_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
)

type fake struct {
	resolved contivconf.Resolved
	nat      bool
	ip       string
	bvi      string
	ownStack bool
	ip6      string
	more     *string // an interface of the pod default/web
	hostIPs  *[]netip.Addr
}

func (f fake) Resolved() contivconf.Resolved {
	f.resolved.Main.Name = "eth0"
	return f.resolved
}
func (f fake) Routing() contivconf.RoutingConfig {
	if f.ownStack && (!f.nat || f.hostIPs != nil) { // services are translated in VRF 0
		return contivconf.RoutingConfig{PodVRFID: 4, NodeToNodeTransport: contivconf.VXLANTransport}
	}
	return contivconf.RoutingConfig{MainVRFID: 3, PodVRFID: 4, NodeToNodeTransport: contivconf.VXLANTransport}
}
func (f fake) NatExternalTraffic() bool   { return f.nat }
func (fake) NatExternalTrafficIPv6() bool { return false }
func (f fake) GetNodeIPOf(ipv6 bool) netip.Prefix {
	for _, text := range []string{f.ip, f.ip6} {
		if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is6() == ipv6 {
			return p
		}
	}
	return netip.Prefix{}
}
func (f fake) GetMainInterface() string  { return "eth0" }
func (f fake) GetVxlanBVIIfName() string { return f.bvi }
func (f fake) GetHostInterconnectIfName() string {
	if f.ownStack {
		return "tap-vpp2"
	}
	return ""
}
func (f fake) GetHostIPs() []netip.Addr {
	if f.hostIPs == nil {
		return nil
	}
	return *f.hostIPs
}
func (f fake) PodInterfaces() map[string]podmanager.PodID {
	all := map[string]podmanager.PodID{"tap-web": {Namespace: "default", Name: "web"}, "tap-other": {Namespace: "default", Name: "other"}}
	if f.more != nil && *f.more != "" {
		all[*f.more] = podmanager.PodID{Namespace: "default", Name: "web"}
	}
	return all
}

// Timeouts in service.conf apply only to a vswitch with its own stack.
func TestTimeoutsOfSessions(t *testing.T) {
	node := fake{ownStack: true, resolved: contivconf.Resolved{Main: contivconf.Interface{UseDHCP: true}}, nat: true, ip: "192.168.16.1/24", bvi: "vxlanBVI"}
	settings := config.Config{Services: config.KubeProxy, TCPNATSessionTimeout: 7200, OtherNATSessionTimeout: 60}
	for shared, want := range map[bool]string{true: `{"forwarding":true}`, false: `{"forwarding":true,"other_session_timeout":60,"tcp_session_timeout":7200}`} {
		s, err := service.New(service.Capabilities{HostStackShared: shared}, node, node, service.Roles{Proxy: &service.Proxy{Settings: settings}}, plugintest.Logger())
		if err != nil {
			t.Fatal(err)
		}
		txn := plugintest.Txn{}
		if err := s.Resync(t.Context(), &controller.DBResync{}, nil, 1, txn); err != nil {
			t.Fatal(err)
		}
		if got := plugintest.Render(txn); !strings.Contains(got, "nat44-global\n    "+want) {
			t.Errorf("host's stack shared: %v: got\n%s\nwant %s", shared, got, want)
		}
	}
}
