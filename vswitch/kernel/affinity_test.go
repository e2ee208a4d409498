package kernel

import (
	"fmt"
	"net/netip"
	"testing"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/test/await"
	"golang.org/x/sys/unix"
)

// The kernel forgets the clients of a removed endpoint in the background. The change does not wait,
// and the vswitch can be closed meanwhile.
func TestClientsOfAnEndpointThatGoes(t *testing.T) {
	v := openKernel(t, newNode(t))
	check(t, v.nat.NAT44().Enable(t.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
	value := func(backends ...string) *vpp_nat.DNat44 {
		m := &vpp_nat.DNat44_StaticMapping{ExternalIp: "10.96.0.1", ExternalPort: 80, Protocol: vpp_nat.DNat44_TCP, SessionAffinity: 10800}
		for _, ip := range backends {
			m.LocalIps = append(m.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: ip, LocalPort: 8080, Probability: 1})
		}
		return &vpp_nat.DNat44{Label: "default/web", StMappings: []*vpp_nat.DNat44_StaticMapping{m}}
	}
	elements := func(set string) []nft.Element {
		t.Helper()
		list, err := v.NFT.Elements(unix.NFPROTO_IPV4, "contiv", set)
		check(t, err)
		return list
	}
	for _, closing := range []bool{false, true} {
		check(t, v.nat.NAT44().SetDNAT(t.Context(), value("10.1.1.2", "10.1.1.3")))
		port := elements("nat-port")[0].Data[4:]
		usable := elements("nat-usable")
		const clients = 50_000
		client := netip.MustParseAddr("11.0.0.0")
		for n := 0; n < clients; {
			b := &nft.Batch{Table: "contiv", Family: unix.NFPROTO_IPV4}
			var list []nft.Element
			for range 1000 {
				client = client.Next()
				backend := usable[n%2].Key
				list = append(list, nft.Element{Set: "nat-clients", Key: port + string(client.AsSlice()), Data: "\x00\x00\x00\x00" + backend[len(backend)-8:]})
				n++
			}
			b.AddElements(list)
			check(t, v.NFT.Locked(func() error { return v.NFT.Commit(b) }))
		}
		check(t, v.nat.NAT44().SetDNAT(t.Context(), value("10.1.1.2")))
		if closing {
			check(t, v.Close())
			break
		}
		await.That(t, "clients of the endpoint are forgotten", func() error {
			if n := len(elements("nat-clients")); n != clients/2 {
				return fmt.Errorf("there are %d clients, want %d", n, clients/2)
			}
			return nil
		})
	}
}
