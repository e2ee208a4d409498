package vpp

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
)

// VPP keeps sessions of deleted interfaces and of some that lost their lists. They must not admit
// packets for the next interface with the index: a new isolated pod with a former pod's address, or
// a pod that is isolated again.
func TestSessionsOfEarlierListsOpenNothing(t *testing.T) {
	isolated := func(name string) *contiv_filter.Subject {
		return &contiv_filter.Subject{Name: name, Interface: "b", Addresses: []string{"10.2.0.2"}, Ingress: []*contiv_filter.Subject_Stage{{Deny: true}}}
	}
	policies := map[bool]func(v *VSwitch, name string) error{
		true:  func(v *VSwitch, name string) error { return v.Filter().Set(t.Context(), isolated(name)) },
		false: func(v *VSwitch, name string) error { return v.Filter().Remove(t.Context(), isolated(name)) },
	}
	answers := &vpp_acl.ACL{Name: "answers", Rules: []*vpp_acl.ACL_Rule{{Action: vpp_acl.ACL_Rule_REFLECT, IpRule: &vpp_acl.ACL_Rule_IpRule{}}}}
	nothing := &vpp_acl.ACL{Name: "nothing", Rules: []*vpp_acl.ACL_Rule{{Action: vpp_acl.ACL_Rule_DENY, IpRule: &vpp_acl.ACL_Rule_IpRule{}}}}
	bindings := []vswitch.ACLBinding{{ACL: "answers", Interface: "b"}, {ACL: "nothing", Interface: "b", Egress: true}}
	lists := map[bool]func(v *VSwitch, _ string) error{
		true: func(v *VSwitch, _ string) error {
			err := errors.Join(v.ACLs().Create(t.Context(), answers), v.ACLs().Create(t.Context(), nothing))
			for _, b := range bindings {
				err = errors.Join(err, v.ACLs().Bind(t.Context(), b))
			}
			return err
		},
		false: func(v *VSwitch, _ string) (err error) {
			for _, b := range bindings {
				err = errors.Join(err, v.ACLs().Unbind(t.Context(), b))
			}
			return err
		},
	}
	for name, test := range map[string]struct {
		isolate map[bool]func(v *VSwitch, name string) error
		// steps are the changes between the two isolations.
		steps []string
	}{
		"policies of another pod":                 {policies, []string{"detach", "free", "isolate", "attach"}},
		"policies of another pod, isolated later": {policies, []string{"free", "detach", "attach", "isolate"}},
		"policies that come again":                {policies, []string{"free", "isolate"}},
		"lists of another interface":              {lists, []string{"detach", "attach", "isolate"}},
		"lists that come again":                   {lists, []string{"free", "isolate"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, v := newRealSite(t)
			peer := udpOn(t, s.attachPod(t, v, "a", "10.1.0.2/24", "10.1.0.1"), "10.1.0.2:6000")
			var pod *net.UDPConn
			step := map[string]func(){
				"attach": func() { pod = udpOn(t, s.attachPod(t, v, "b", "10.2.0.2/24", "10.2.0.1"), "10.2.0.2:5000") },
				"detach": func() {
					iface := afPacket("b", "v1b")
					iface.IpAddresses = []string{"10.2.0.1/24"}
					remove(t, v, iface)
					s.host.Exec(t, "ip link del dev v1b")
				},
				"free":    func() { must(t, test.isolate[false](v, "former")) },
				"isolate": func() { must(t, test.isolate[true](v, "next")) },
			}
			step["attach"]()
			must(t, test.isolate[true](v, "former"))
			for port := range 300 { // more than VPP looks at
				_, err := pod.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(10, 1, 0, 2), Port: 10000 + port})
				must(t, err)
			}
			if !reaches(t, pod, peer, pingTime) || !reaches(t, peer, pod, pingTime) {
				t.Fatal("the isolated pod gets no answer")
			}
			for _, name := range test.steps {
				step[name]()
			}
			if reaches(t, peer, pod, 300*time.Millisecond) {
				t.Error("a packet taken for a reply of an earlier session reaches the isolated pod")
			}
			must(t, test.isolate[false](v, "next"))
			if !reaches(t, peer, pod, pingTime) {
				t.Error("the pod is not reached when it is isolated no more")
			}
		})
	}
}

func udpOn(t testing.TB, h *vswitchtest.Host, addr string) *net.UDPConn {
	t.Helper()
	c := inHost(t, h, func() (*net.UDPConn, error) {
		return net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(addr)))
	})
	t.Cleanup(func() { c.Close() })
	return c
}

// reaches reports whether a packet from one socket reaches the other in time.
func reaches(t testing.TB, from, to *net.UDPConn, wait time.Duration) bool {
	t.Helper()
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		_, err := from.WriteTo([]byte("x"), to.LocalAddr())
		must(t, err, to.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
		switch _, err := to.Read(make([]byte, 10)); {
		case err == nil:
			return true
		case !errors.Is(err, os.ErrDeadlineExceeded):
			t.Fatal(err)
		}
	}
	return false
}
