package kernel

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/guard"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/netlink/nft"
	"golang.org/x/sys/unix"
)

// BenchmarkClients starts a vswitch, and changes endpoints or the time-out and back, while the kernel
// remembers clients of a service with session affinity. "guard-ms" is the longest time that a source
// guard, which an ADD creates, takes meanwhile.
func BenchmarkClients(b *testing.B) {
	for _, clients := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			site := newNode(b)
			first := site.Open(b).(*VSwitch)
			check(b, first.NAT().Enable(b.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
			value := func(endpoints int, timeout uint32) *vpp_nat.DNat44 {
				m := &vpp_nat.DNat44_StaticMapping{ExternalIp: "10.96.0.1", ExternalPort: 80, SessionAffinity: timeout}
				for n := range endpoints {
					m.LocalIps = append(m.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: fmt.Sprintf("10.1.1.%d", n+2), LocalPort: 8080, Probability: 1})
				}
				return &vpp_nat.DNat44{Label: "default/web", StMappings: []*vpp_nat.DNat44_StaticMapping{m}}
			}
			check(b, first.NAT().SetDNAT(b.Context(), value(3, 10800)))
			fillClients(b, first, clients)
			check(b, first.Close())
			b.Run("start", func(b *testing.B) {
				var slowest time.Duration
				for b.Loop() {
					v := site.Open(b).(*VSwitch)
					v.ReadAhead()
					started := make(chan error, 1)
					go func() {
						_, err := v.NAT().ListDNAT(b.Context(), []*vpp_nat.DNat44{value(3, 10800)})
						started <- err
					}()
					for starts := true; starts; {
						begin := time.Now()
						g := &guard.SourceGuard{Interface: "pod", MacAddress: "02:fe:00:00:00:01", IpAddresses: []string{"10.1.1.2"}}
						check(b, v.SourceGuards().Create(b.Context(), g))
						slowest = max(slowest, time.Since(begin))
						check(b, v.SourceGuards().Delete(b.Context(), g))
						select {
						case err := <-started:
							check(b, err)
							starts = false
						default:
						}
					}
					check(b, v.Close())
				}
				b.ReportMetric(float64(slowest.Milliseconds()), "guard-ms")
			})
			v := site.Open(b).(*VSwitch)
			defer v.Close()
			_, err := v.NAT().ListDNAT(b.Context(), []*vpp_nat.DNat44{value(3, 10800)})
			check(b, err)
			for what, other := range map[string]*vpp_nat.DNat44{"endpoint": value(2, 10800), "timeout": value(3, 60)} {
				b.Run(what, func(b *testing.B) {
					for b.Loop() {
						check(b, v.NAT().SetDNAT(b.Context(), other))
						check(b, v.NAT().SetDNAT(b.Context(), value(3, 10800)))
					}
				})
			}
		})
	}
}

// fillClients makes the kernel remember clients of the only service.
func fillClients(b *testing.B, v *VSwitch, clients int) {
	b.Helper()
	elements := func(set string) []nft.Element {
		list, err := v.NFT.Elements(unix.NFPROTO_IPV4, "contiv", set)
		check(b, err)
		return list
	}
	const seconds, service = 4, 12 // bytes
	port, usable := elements("nat-port")[0].Data[seconds:], elements("nat-usable")
	client := netip.MustParseAddr("11.0.0.0")
	for n := 0; n < clients; {
		batch := &nft.Batch{Table: "contiv", Family: unix.NFPROTO_IPV4}
		var list []nft.Element
		for range 1000 {
			client = client.Next()
			backend := usable[n%len(usable)].Key[service:]
			list = append(list, nft.Element{Set: "nat-clients", Key: port + string(client.AsSlice()), Data: "\x00\x00\x00\x00" + backend})
			n++
		}
		batch.AddElements(list)
		check(b, v.NFT.Locked(func() error { return v.NFT.Commit(batch) }))
	}
}
