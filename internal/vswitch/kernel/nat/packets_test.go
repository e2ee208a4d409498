package nat

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/netlink/conntrack"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/nft/nfttest"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

var networks = map[string][]netip.Prefix{
	"pod1": prefixes("10.31.1.1/24", "fd31:0:0:1::1/64"), "pod2": prefixes("10.31.2.1/24", "fd31:0:0:2::1/64"), "pod3": prefixes("10.31.3.1/24", "fd31:0:0:3::1/64"),
	"world": prefixes("10.32.0.1/24", "fd32::1/64"),
}

func prefixes(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func addressAt(device string, like netip.Addr) netip.Addr {
	for _, p := range networks[device] {
		if p.Addr().Is6() == like.Is6() {
			return p.Addr()
		}
	}
	return netip.Addr{}
}

func newSite(t *testing.T) (*Driver, *nfttest.Host) {
	t.Helper()
	h := nfttest.NewHost()
	h.Local = func(a netip.Addr) bool {
		for device := range networks {
			if addressAt(device, a) == a {
				return true
			}
		}
		return false
	}
	h.Route = func(to netip.Addr) string {
		for device, list := range networks {
			if slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(to) }) {
				return device
			}
		}
		return "world"
	}
	h.Source = addressAt
	v := New(&own.Host{Log: slog.New(slog.DiscardHandler), NFT: nft.New(h.Kernel), Reg: own.NewRegistry(), Dev: own.NewDeviceCache()})
	v.forget = func(conntrack.Stale) error { h.Forget(); return nil }
	v.judge = func(_ *natFamily, flows judgedFlows) error {
		if len(flows) > 0 {
			h.Forget()
		}
		return nil
	}
	must(t, v.NAT44().Enable(t.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
	first, last := vswitchtest.TwiceNATPool()
	must(t, v.NAT44().AddPool(t.Context(), &vpp_nat.Nat44AddressPool{Name: "twice", FirstIp: first, LastIp: last, TwiceNat: true}))
	return v, h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func setService(t *testing.T, v *Driver, service proto.Message) {
	t.Helper()
	switch s := service.(type) {
	case *vpp_nat.DNat44:
		must(t, v.NAT44().SetDNAT(t.Context(), s))
	case *contiv_nat.DNat66:
		must(t, v.dnat6().set(s)) // Set enables forwarding, too
	}
}

func packetOf(p vswitchtest.ServiceProbe, port uint16) nfttest.Packet {
	src := p.Src
	packet := nfttest.Packet{In: p.From, Protocol: unix.IPPROTO_TCP, Dst: p.Dst}
	if p.Network == "udp" {
		packet.Protocol = unix.IPPROTO_UDP
	}
	if !src.IsValid() {
		src = addressAt(p.From, p.Dst.Addr()).Next()
	}
	if p.From == "node" { // the route to services leads to the world
		packet.In, src = "", addressAt("world", p.Dst.Addr())
	}
	packet.Src = netip.AddrPortFrom(src, port)
	return packet
}

// The service cases of the conformance suite give the same results on the simulated host: endpoint
// and source of the first packet, and the source of the reply.
func TestServiceCasesInMemory(t *testing.T) {
	for version, ipv6 := range map[string]bool{"IPv4": false, "IPv6": true} {
		t.Run(version, func(t *testing.T) {
			v, h := newSite(t)
			for _, c := range vswitchtest.ServiceCases(ipv6) {
				t.Run(c.Name, func(t *testing.T) {
					must(t, v.ServiceNetworks().Create(t.Context(), c.Network))
					setService(t, v, c.Service)
					for i, p := range c.Probes {
						h.Forget()
						if err := probe(h, p, uint16(40000+i)); err != nil {
							t.Errorf("%s by %s to %v: %v", p.From, p.Network, p.Dst, err)
						}
					}
				})
			}
		})
	}
}

func probe(h *nfttest.Host, p vswitchtest.ServiceProbe, port uint16) error {
	sent := packetOf(p, port)
	o, err := h.Send(sent)
	if err != nil {
		return err
	}
	if p.Answers == "" {
		if o.Passed || o.Refused != p.Refused {
			return fmt.Errorf("passed %v, refused %v, as %v to %v by %s; want refused %v; after %q", o.Passed, o.Refused, o.Src, o.Dst, o.Out, p.Refused, o.Trace)
		}
		return nil
	}
	if !o.Passed || o.Out != p.Answers || o.Dst.Port() != 8080 || !slices.Contains(p.Seen, o.Src.Addr()) {
		return fmt.Errorf("passed %v as %v to %v by %s (%s); want %s to see one of %v; after %q", o.Passed, o.Src, o.Dst, o.Out, o.By, p.Answers, p.Seen, o.Trace)
	}
	back, err := h.Send(o.Answer(sent))
	if err != nil {
		return err
	}
	if !back.Passed || back.Src != sent.Dst || back.Dst != sent.Src {
		return fmt.Errorf("the answer passes %v from %v to %v (%s), want from %v to %v", back.Passed, back.Src, back.Dst, back.By, sent.Dst, sent.Src)
	}
	return nil
}

func TestEndpointsInMemory(t *testing.T) {
	v, h := newSite(t)
	service := func(affinity uint32) *vpp_nat.DNat44 {
		mapping := &vpp_nat.DNat44_StaticMapping{ExternalIp: "10.96.0.1", ExternalPort: 80, SessionAffinity: affinity}
		for n := 1; n <= 3; n++ {
			mapping.LocalIps = append(mapping.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{LocalIp: fmt.Sprintf("10.31.%d.2", n), LocalPort: 8080, Probability: 1})
		}
		return &vpp_nat.DNat44{Label: "web", StMappings: []*vpp_nat.DNat44_StaticMapping{mapping}}
	}
	must(t, v.ServiceNetworks().Create(t.Context(), &contiv_nat.ServiceNetwork{Inside: []string{"10.31.0.0/16"}, ServiceSubnets: []string{"10.96.0.0/16"}}))
	draw := func(n uint32) string {
		t.Helper()
		h.Random = func(modulus uint32) uint32 { return n % modulus }
		h.Forget()
		o, err := h.Send(packetOf(vswitchtest.ServiceProbe{From: "world", Network: "tcp", Dst: netip.MustParseAddrPort("10.96.0.1:80")}, uint16(1000+n)))
		must(t, err)
		return o.Out
	}
	for _, affinity := range []uint32{0, 600} {
		setService(t, v, service(affinity))
		drawn := map[string]bool{}
		for n := range uint32(64) {
			drawn[draw(n)] = true
		}
		want := map[uint32]int{0: 3, 600: 1}[affinity]
		if len(drawn) != want {
			t.Errorf("with an affinity of %d s, one client comes to %v, want %d endpoints", affinity, drawn, want)
		}
	}
}

// Ports take precedence over addresses: identities of addresses do not affect mapped ports, and
// identities of ports precede mappings.
func TestIdentitiesInMemory(t *testing.T) {
	v, h := newSite(t)
	must(t, v.ServiceNetworks().Create(t.Context(), &contiv_nat.ServiceNetwork{Inside: []string{"10.31.0.0/16"}}))
	to := func(address string, port uint32) *vpp_nat.DNat44_StaticMapping {
		return &vpp_nat.DNat44_StaticMapping{ExternalIp: address, ExternalPort: port, LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.31.1.2", LocalPort: 8080}}}
	}
	setService(t, v, &vpp_nat.DNat44{Label: "web", StMappings: []*vpp_nat.DNat44_StaticMapping{to("10.32.0.7", 80), to("10.32.0.8", 80)}})
	setService(t, v, &vpp_nat.DNat44{Label: "stays", IdMappings: []*vpp_nat.DNat44_IdentityMapping{{IpAddress: "10.32.0.7"}, {IpAddress: "10.32.0.8", Port: 80}}})
	for dst, out := range map[string]string{"10.32.0.7:80": "pod1", "10.32.0.7:81": "world", "10.32.0.8:80": "world", "10.32.0.8:81": "world"} {
		h.Forget()
		o, err := h.Send(packetOf(vswitchtest.ServiceProbe{From: "pod2", Network: "tcp", Dst: netip.MustParseAddrPort(dst)}, 1000))
		if err != nil || !o.Passed || o.Out != out {
			t.Errorf("to %s: leaves by %q (%v), want %q; after %q", dst, o.Out, err, out, o.Trace)
		}
	}
}

// An agent takes over the table of another version, whose rules have another text: it replaces the
// rules in one transaction and keeps the elements, so no service disappears meanwhile.
func TestRulesOfAnotherVersionAreReplaced(t *testing.T) {
	v, h := newSite(t)
	network := &contiv_nat.ServiceNetwork{Inside: []string{"10.31.0.0/16"}, ServiceSubnets: []string{"10.96.0.0/16"}}
	must(t, v.ServiceNetworks().Create(t.Context(), network))
	service := &vpp_nat.DNat44{Label: "web", StMappings: []*vpp_nat.DNat44_StaticMapping{{
		ExternalIp: "10.96.0.1", ExternalPort: 80, LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.31.1.2", LocalPort: 8080}},
	}}}
	setService(t, v, service)
	b := nat4.batch()
	b.FlushChain(chainRefuse)
	for _, r := range (&natState{family: nat4}).rules() {
		if r.chain == chainRefuse {
			r.text = "drop"
			r.addTo(b)
		}
	}
	must(t, v.NFT.Locked(func() error { return v.NFT.Commit(b) }))
	global := &vpp_nat.Nat44Global{Forwarding: true}
	found, err := v.NAT44().Global(t.Context(), global)
	must(t, err)
	if proto.Equal(found, global) {
		t.Fatal("the rules of another version are not noticed")
	}
	b = nat4.batch()
	b.FlushChain(chainIn)
	b.DeleteSet(setInside)
	b.AddSet(newSet(setInside, nftables.SetDatatype{Name: "without description", Bytes: nftables.TypeIFName.Bytes}))
	must(t, v.NFT.Locked(func() error { return v.NFT.Commit(b) }))
	must(t, v.NAT44().Enable(t.Context(), global))
	table, err := v.NFT.Layout(unix.NFPROTO_IPV4, natTable)
	if must(t, err); !table.Sets[setInside].Described {
		t.Errorf("nft cannot list set %q", setInside)
	}
	o, err := h.Send(packetOf(vswitchtest.ServiceProbe{From: "pod2", Network: "tcp", Dst: netip.MustParseAddrPort("10.96.0.1:80")}, 1000))
	if must(t, err); o.Out != "pod1" {
		t.Errorf("after the change of rules, a connection leaves by %q; want %q; after %q", o.Out, "pod1", o.Trace)
	}
	found, err = v.NAT44().Global(t.Context(), global)
	if must(t, err); !proto.Equal(found, global) {
		t.Errorf("global value %v, want %v", found, global)
	}
	values, err := v.NAT44().ListDNAT(t.Context(), []*vpp_nat.DNat44{service})
	if must(t, err); len(values) != 1 || values[0] != service {
		t.Errorf("values %v, want %v", values, service)
	}
	networks, err := v.ServiceNetworks().List(t.Context(), []*contiv_nat.ServiceNetwork{network})
	if must(t, err); len(networks) != 1 || networks[0] != network {
		t.Errorf("networks %v, want %v", networks, network)
	}
}
