package vpp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"go.fd.io/govpp/binapi/fib_types"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"go.fd.io/govpp/api"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	ip_api "go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/ip_neighbor"
)

// farHost is the host behind a VPP interface.
type farHost struct {
	t    testing.TB
	s    *site
	v    *VSwitch
	name string
	host *vswitchtest.Host // of a real VPP
}

// joinSilentHost connects a host without addresses.
func (s *site) joinSilentHost(t testing.TB, v *VSwitch, name string, addrs ...string) *farHost {
	t.Helper()
	h := &farHost{t: t, s: s, v: v, name: name}
	if s.server != nil {
		s.server.AddDevice(name)
	} else {
		h.host = newNamespace(t)
		s.host.Exec(t, fmt.Sprintf("ip link add name %s type veth peer name eth0 netns %s", name, nsName(h.host)))
		h.host.Exec(t, "ip link set dev eth0 up")
	}
	iface := afPacket(name, name)
	iface.IpAddresses = addrs
	create(t, v, iface)
	return h
}

func (h *farHost) index() ownership.Index {
	h.t.Helper()
	i, err := h.v.ifs.Index(h.t.Context(), h.name)
	must(h.t, err)
	return i
}

// take adds addresses to the host without announcing them.
func (h *farHost) take(addrs ...string) {
	h.t.Helper()
	for _, text := range addrs {
		addr := netip.MustParsePrefix(text)
		switch {
		case h.host == nil:
			mac, _ := convert.ParseMAC("02:00:00:00:00:77")
			h.s.server.AddHost(uint32(h.index()), addr.Addr(), mac)
		case addr.Addr().Is6():
			h.host.Exec(h.t, "ip addr add "+text+" dev eth0 nodad")
		default:
			h.host.Exec(h.t, "ip addr add "+text+" dev eth0")
		}
	}
}

// wantKnown waits until VPP knows, or does not know, the neighbours.
func (h *farHost) wantKnown(what string, known bool, addrs ...string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), 8*time.Second)
	defer cancel()
	for _, text := range addrs {
		ip := netip.MustParseAddr(text)
		for {
			all, err := session.Dump[ip_neighbor.IPNeighborDetails](ctx, h.v.vpp, session.Core, &ip_neighbor.IPNeighborDump{SwIfIndex: h.index(), Af: convert.Family(ip.Is6())})
			if err != nil {
				h.t.Fatal(err)
			}
			isThere := slices.ContainsFunc(all, func(d *ip_neighbor.IPNeighborDetails) bool { return convert.Addr(d.Neighbor.IPAddress) == ip })
			if isThere == known {
				break
			}
			if session.Sleep(ctx, 20*time.Millisecond) != nil {
				h.t.Errorf("%s: VPP knows neighbour %s: %v, want %v", what, ip, !known, known)
				break
			}
		}
	}
}

func (h *farHost) setUp(up bool) {
	h.t.Helper()
	req := &interfaces_api.SwInterfaceSetFlags{SwIfIndex: h.index()}
	if up {
		req.Flags = interface_types.IF_STATUS_API_FLAG_ADMIN_UP
	}
	must(h.t, h.v.vpp.Call(h.t.Context(), session.Core, req, &interfaces_api.SwInterfaceSetFlagsReply{}))
}

// VPP itself resolves such a neighbour only once.
func TestNeighboursThatLocalSIDsLeadToAreAskedForUntilTheyAnswer(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		far := s.joinSilentHost(t, v, "sid0", "10.52.0.9/24", "fd52::9/64")
		sids := []*vpp_srv6.LocalSID{endDX4("fc00::d4", "sid0", "10.52.0.1"), endDX6("fc00::d6", "sid0", "fd52::1"), endX("fc00::a", "sid0", "fd52::2")}
		createTwice(t, v.SRv6().LocalSIDs(), sids...)
		all := []string{"10.52.0.1", "fd52::1", "fd52::2"}
		far.wantKnown("before they are there", false, all...)
		far.take("10.52.0.1/24", "fd52::1/64", "fd52::2/64")
		far.wantKnown("when they are there", true, all...)

		far.setUp(false)
		far.wantKnown("while the interface is down", false, all...)
		far.setUp(true)
		far.wantKnown("after the interface was down", true, all...)

		// Another driver learns the SIDs when it lists them.
		must(t, v.Close())
		v = open(t, s)
		far.v = v
		wantValues(t, v.SRv6().LocalSIDs(), sids, sids...)
		for _, text := range all {
			n := ip_neighbor.IPNeighbor{SwIfIndex: far.index(), IPAddress: convert.Address(netip.MustParseAddr(text))}
			n.MacAddress, _ = convert.ParseMAC("02:00:00:00:00:77")
			must(t, v.vpp.Call(t.Context(), session.Core, &ip_neighbor.IPNeighborAddDel{Neighbor: n}, &ip_neighbor.IPNeighborAddDelReply{}))
		}
		far.wantKnown("after they were deleted", true, all...)
	})
}

// A temporary route for resolving a neighbour is not listed.
func TestRoutesForAskingAreNotListed(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		loopbacks(t, v, "a")
		on, err := v.ifs.Index(t.Context(), "a")
		must(t, err)
		for neighbour, dst := range map[string]string{"10.52.0.1": "100:0:0:1::/128", "fd52::1": "192.0.0.8/32"} {
			ip := netip.MustParseAddr(neighbour)
			must(t, v.srv6.Ask(t.Context(), on, ip))
			if err := v.vpp.Call(t.Context(), session.Core, lookup(parsed(dst)), &ip_api.IPRouteLookupV2Reply{}); !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
				t.Errorf("%s is still there after asking: %v", dst, err)
			}
			r := ip_api.IPRouteV2{Prefix: convert.Prefix(parsed(dst)), NPaths: 1, Paths: []fib_types.FibPath{convert.PathVia(ip, uint32(on))}}
			must(t, v.vpp.Call(t.Context(), session.Core, &ip_api.IPRouteAddDelV2{IsAdd: true, IsMultipath: true, Route: r}, &ip_api.IPRouteAddDelV2Reply{}))
			list, err := v.Routes().List(t.Context(), nil)
			if err != nil || len(list) != 0 {
				t.Errorf("asking for %s: listed %v, %v", ip, list, err)
			}
		}
	})
}
