package vpp

import (
	"testing"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/feature"
	"google.golang.org/protobuf/proto"
)

// aheadSite is a VPP with a service of each IP version, and a restarted agent.
func aheadSite(t *testing.T, s *site) (v *VSwitch, v4 *vpp_nat.DNat44, v6 *contiv_nat.DNat66) {
	t.Helper()
	v = open(t, s)
	must(t, v.NAT().Enable(t.Context(), &vpp_nat.Nat44Global{Forwarding: true}))
	create(t, v, loopback("one"))
	v4, v6 = service44("web", serviceMapping(tcp, "10.1.1.2", "10.1.1.3")), dnat66Value("web", service66("fd96::1", 80, 1, 1))
	must(t, v.NAT().SetDNAT(t.Context(), v4))
	set66(t, v, v6)
	v.Close()
	return open(t, s), v4, v6
}

// listBoth lists like a resync and reports whether the services are as expected.
func listBoth(t *testing.T, v *VSwitch, v4 *vpp_nat.DNat44, v6 *contiv_nat.DNat66) (ok4, ok6 bool) {
	t.Helper()
	found6, err := v.DNAT66().List(t.Context(), []*contiv_nat.DNat66{v6})
	must(t, err)
	found4, err := v.NAT().ListDNAT(t.Context(), []*vpp_nat.DNat44{v4})
	must(t, err)
	return len(found4) == 1 && proto.Equal(found4[0], v4), len(found6) == 1 && proto.Equal(found6[0], v6)
}

func wantBoth(t *testing.T, v *VSwitch, v4 *vpp_nat.DNat44, v6 *contiv_nat.DNat66) {
	t.Helper()
	if ok4, ok6 := listBoth(t, v, v4, v6); !ok4 || !ok6 {
		t.Errorf("found as expected: IPv4 %v, IPv6 %v", ok4, ok6)
	}
}

// countTranslationDumps returns how often do lists the translations, which holds up packets.
func countTranslationDumps(s *site, do func()) (n int) {
	s.server.Inject(func(_ int, req api.Message) vpptest.Fault {
		if _, dump := req.(*cnat.CnatTranslationDump); dump {
			n++
		}
		return vpptest.NoFault
	})
	defer s.server.Inject(nil)
	do()
	return n
}

func withoutTranslations(t *testing.T, v *VSwitch) {
	t.Helper()
	for id := range uint32(16) {
		if err := v.vpp.Call(t.Context(), session.Core, &cnat.CnatTranslationDel{ID: id}, &cnat.CnatTranslationDelReply{}); err != nil && !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
			t.Fatal(err)
		}
	}
}

// One listing serves both IP versions. The next resync still finds foreign changes.
func TestAResyncListsTranslationsOnce(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v, v4, v6 := aheadSite(t, s)
		if s.server != nil {
			for range 2 {
				if n := countTranslationDumps(s, func() { wantBoth(t, v, v4, v6) }); n != 1 {
					t.Errorf("a resync listed the translations %d times", n)
				}
			}
		}
		wantBoth(t, v, v4, v6)
		withoutTranslations(t, v)
		if ok4, ok6 := listBoth(t, v, v4, v6); ok4 || ok6 {
			t.Errorf("found translations that another client has removed: IPv4 %v, IPv6 %v", ok4, ok6)
		}
	})
}

func TestTranslationsReadAheadAreNotReadAgain(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v, v4, v6 := aheadSite(t, s)
		v.ReadAhead()
		v.ahead.Wait()
		if s.server != nil {
			if n := countTranslationDumps(s, func() { wantBoth(t, v, v4, v6) }); n != 0 {
				t.Errorf("translations read ahead were read again %d times", n)
			}
		}
		wantBoth(t, v, v4, v6)
	})
}

// Interfaces are checked when values are listed, and the agent's own changes are respected.
func TestWhatIsReadAheadAndIsNotTrueAnyMore(t *testing.T) {
	for what, makeUntrue := range map[string]func(t *testing.T, v *VSwitch, v4 *vpp_nat.DNat44, v6 *contiv_nat.DNat66){
		"the agent removes services": func(t *testing.T, v *VSwitch, v4 *vpp_nat.DNat44, v6 *contiv_nat.DNat66) {
			must(t, v.NAT().RemoveDNAT(t.Context(), v4))
			must(t, v.DNAT66().Remove(t.Context(), v6))
		},
		"interfaces do not translate": func(t *testing.T, v *VSwitch, _ *vpp_nat.DNat44, _ *contiv_nat.DNat66) {
			i, err := v.ifs.Index(t.Context(), "one")
			must(t, err)
			must(t, change(t, v, &feature.FeatureEnableDisable{SwIfIndex: i, ArcName: "ip6-output", FeatureName: "cnat-output-ip6"}))
			must(t, change(t, v, &feature.FeatureEnableDisable{SwIfIndex: i, ArcName: "ip4-output", FeatureName: "cnat-output-ip4"}))
		},
	} {
		t.Run(what, func(t *testing.T) {
			onEachVPP(t, func(t *testing.T, s *site) {
				v, v4, v6 := aheadSite(t, s)
				v.ReadAhead()
				v.ahead.Wait()
				makeUntrue(t, v, v4, v6)
				if ok4, ok6 := listBoth(t, v, v4, v6); ok4 || ok6 {
					t.Errorf("found as expected: IPv4 %v, IPv6 %v", ok4, ok6)
				}
			})
		})
	}
}

// A VSwitch can be closed while it waits for VPP or reads.
func TestCloseWhileReadingAhead(t *testing.T) {
	v := Open(Options{Socket: t.TempDir() + "/none"})
	v.ReadAhead()
	must(t, v.Close())
	onEachVPP(t, func(t *testing.T, s *site) {
		v, _, _ := aheadSite(t, s)
		v.ReadAhead()
		must(t, v.Close())
	})
}
