package nat

import (
	"errors"
	"net"
	"testing"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func dnsService(backends ...string) *vpp_nat.DNat44 {
	st := &vpp_nat.DNat44_StaticMapping{ExternalIp: "10.96.0.10", ExternalPort: 53, Protocol: vpp_nat.DNat44_UDP}
	for _, b := range backends {
		st.LocalIps = append(st.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: b, LocalPort: 53})
	}
	return &vpp_nat.DNat44{Label: "dns", StMappings: []*vpp_nat.DNat44_StaticMapping{st}}
}

func dnsFlow(backend string) *netlink.ConntrackFlow {
	f := &netlink.ConntrackFlow{}
	f.Forward.Protocol, f.Forward.DstIP, f.Forward.DstPort = unix.IPPROTO_UDP, net.ParseIP("10.96.0.10"), 53
	f.Reverse.SrcIP, f.Reverse.SrcPort = net.ParseIP(backend), 53
	return f
}

// If the connections of a removed backend cannot be deleted, the next change deletes them. The
// retry has no other difference to apply.
func TestConnectionsEndOnceTheKernelForgets(t *testing.T) {
	for name, again := range map[string]func(*Driver) error{
		"set again": func(v *Driver) error { return v.NAT44().SetDNAT(t.Context(), dnsService("10.1.1.2")) },
		"removed":   func(v *Driver) error { return v.NAT44().RemoveDNAT(t.Context(), dnsService("10.1.1.2")) },
		"listed and set again": func(v *Driver) error {
			value := dnsService("10.1.1.2")
			if _, err := v.NAT44().ListDNAT(t.Context(), []*vpp_nat.DNat44{value}); err != nil {
				return err
			}
			return v.NAT44().SetDNAT(t.Context(), value)
		},
		"back again": func(v *Driver) error { return v.NAT44().SetDNAT(t.Context(), dnsService("10.1.1.2", "10.1.1.3")) },
	} {
		t.Run(name, func(t *testing.T) {
			v, _ := newSite(t)
			must(t, v.NAT44().SetDNAT(t.Context(), dnsService("10.1.1.2", "10.1.1.3")))
			refusal := errors.New("no memory")
			v.forget = func(conntrack.Stale) error { return refusal }
			if err := v.NAT44().SetDNAT(t.Context(), dnsService("10.1.1.2")); !errors.Is(err, refusal) {
				t.Fatalf("the change returned %v, want %v", err, refusal)
			}
			ended := map[string]bool{}
			v.forget = func(stale conntrack.Stale) error {
				for _, backend := range []string{"10.1.1.2", "10.1.1.3"} {
					ended[backend] = ended[backend] || stale.MatchConntrackFlow(dnsFlow(backend))
				}
				return nil
			}
			must(t, again(v))
			if want := name != "back again"; ended["10.1.1.3"] != want {
				t.Errorf("connections to the backend that is gone ended: %v, want %v", ended["10.1.1.3"], want)
			}
			if want := name == "removed"; ended["10.1.1.2"] != want {
				t.Errorf("connections to the other backend ended: %v, want %v", ended["10.1.1.2"], want)
			}
			clear(ended)
			must(t, v.NAT44().SetDNAT(t.Context(), dnsService("10.1.1.2", "10.1.1.3")))
			if ended["10.1.1.3"] {
				t.Error("connections that have ended are ended again")
			}
		})
	}
}
