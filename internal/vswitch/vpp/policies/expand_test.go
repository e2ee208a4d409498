package policies

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"go.fd.io/govpp/binapi/acl_types"
	"google.golang.org/protobuf/proto"
)

var hosts = []string{"10.1.1.2", "10.1.1.3", "10.1.2.2", "192.168.16.9", "fd10::2", "fd10::3", "fd20::9"}

func randomValues(r *rand.Rand) (all []proto.Message) {
	some := func(list []string) (out []string) {
		for _, e := range list {
			if r.IntN(3) == 0 {
				out = append(out, e)
			}
		}
		return out
	}
	protocol := func() contiv_filter.Protocol { return contiv_filter.Protocol(r.IntN(2)) }
	sets, endpoints := []string{"a", "b", "missing"}, []string{"e", "f", "missing"}
	for _, name := range sets[:2] {
		all = append(all, &contiv_filter.AddressSet{Name: name, Addresses: some(hosts)})
	}
	for _, name := range endpoints[:2] {
		set := &contiv_filter.EndpointSet{Name: name}
		for _, addr := range some(hosts) {
			set.Endpoints = append(set.Endpoints, &contiv_filter.EndpointSet_Endpoint{Address: addr, Protocol: protocol(), Port: uint32(80 + r.IntN(2))})
		}
		all = append(all, set)
	}
	stages := func(direction contiv_filter.AccessList_Direction) (stages []*contiv_filter.Subject_Stage) {
		for range r.IntN(4) {
			stage := &contiv_filter.Subject_Stage{Deny: r.IntN(3) == 0}
			for range r.IntN(3) {
				list := &contiv_filter.AccessList{Name: fmt.Sprint("list", len(all)), Direction: direction}
				if r.IntN(10) == 0 {
					list.Direction = 1 - direction
				}
				for range r.IntN(4) {
					rule := &contiv_filter.AccessList_Rule{Action: contiv_filter.AccessList_Action(r.IntN(3)), AddressSets: some(sets), EndpointSets: some(endpoints),
						Networks: some([]string{"10.1.0.0/16", "10.1.1.0/24", "0.0.0.0/0", "fd10::/64", "::/0"})}
					for range r.IntN(3) {
						p := &contiv_filter.AccessList_Ports{Protocol: protocol()}
						if r.IntN(3) > 0 {
							p.First = uint32(79 + r.IntN(3))
							p.Last = p.First + uint32(r.IntN(3))
						}
						rule.Ports = append(rule.Ports, p)
					}
					list.Rules = append(list.Rules, rule)
				}
				all = append(all, list)
				stage.Lists = append(stage.Lists, list.GetName())
			}
			stages = append(stages, stage)
		}
		return stages
	}
	return append(all, &contiv_filter.Subject{Name: "prod/web", Addresses: []string{"10.1.1.2", "fd10::2"}, Interface: "tap",
		Ingress: stages(contiv_filter.AccessList_INGRESS), Egress: stages(contiv_filter.AccessList_EGRESS)})
}

// permitted evaluates like VPP: the first match decides.
func permitted(l list, c policyrules.Connection) bool {
	for _, r := range l.rules {
		ports := r.Proto == 0 || uint8(r.Proto) == c.Protocol && r.DstportOrIcmpcodeFirst <= c.Port && c.Port <= r.DstportOrIcmpcodeLast
		syn := r.TCPFlagsMask == 0 || r.TCPFlagsMask == flagSYN|flagACK && r.TCPFlagsValue == flagSYN // c is the first packet
		if ports && syn && convert.NetipPrefix(r.SrcPrefix).Contains(c.Src) && convert.NetipPrefix(r.DstPrefix).Contains(c.Dst) {
			return r.IsPermit != acl_types.ACL_ACTION_API_DENY
		}
	}
	return false
}

// The expanded rules have the meaning of the values.
func TestRulesAgreeWithValues(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 3))
		all := randomValues(r)
		state, w := policyrules.NewState(), newValues()
		for _, v := range all {
			state.Put(v)
			w.set(v)
		}
		subject := w.subjects["prod/web"]
		for _, direction := range []contiv_filter.AccessList_Direction{contiv_filter.AccessList_INGRESS, contiv_filter.AccessList_EGRESS} {
			rules, err := expand(w, subject, direction)
			if err != nil {
				t.Fatal(err)
			}
			for _, own := range subject.GetAddresses() {
				for _, peer := range hosts {
					for _, protocol := range []uint8{policyrules.TCP, policyrules.UDP, 1} {
						for _, port := range []uint16{0, 78, 79, 80, 81, 82, 83, 84} {
							c := policyrules.Connection{Src: netip.MustParseAddr(peer), Dst: netip.MustParseAddr(own), Protocol: protocol, Port: port}
							if direction == contiv_filter.AccessList_EGRESS {
								c.Src, c.Dst = c.Dst, c.Src
							}
							if (protocol == 1) != (port == 0) || c.Src.Is4() != c.Dst.Is4() {
								continue
							}
							if got, want := permitted(rules, c), state.Judge(c).Allowed; got != want {
								t.Fatalf("seed %d: %v %v: %v, want %v\n%v\n%v", seed, direction, c, got, want, all, rules)
							}
						}
					}
				}
			}
		}
	}
}

// VPP does not match SCTP ports: rules deny more, never less.
func TestPortsOfSCTPFailClosed(t *testing.T) {
	w := newValues()
	for name, action := range map[string]contiv_filter.AccessList_Action{"allow": contiv_filter.AccessList_ALLOW, "deny": contiv_filter.AccessList_DENY} {
		w.set(&contiv_filter.AccessList{Name: name, Rules: []*contiv_filter.AccessList_Rule{{Action: action, Ports: []*contiv_filter.AccessList_Ports{{Protocol: contiv_filter.Protocol_SCTP, First: 9, Last: 9}}}}})
	}
	for name, denies := range map[string]bool{"allow": true, "deny": false} {
		rules, err := expand(w, &contiv_filter.Subject{Addresses: []string{"10.1.1.2"}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{name}, Deny: denies}}}, contiv_filter.AccessList_INGRESS)
		if err != nil {
			t.Fatal(err)
		}
		if permitted(rules, policyrules.Connection{Src: netip.MustParseAddr("10.1.1.3"), Dst: netip.MustParseAddr("10.1.1.2"), Protocol: policyrules.SCTP}) {
			t.Errorf("%s: %v", name, rules)
		}
	}
}

func TestTooManyRules(t *testing.T) {
	w := newValues()
	set := &contiv_filter.AddressSet{Name: "all"}
	for i := range maxRules + 1 {
		set.Addresses = append(set.Addresses, fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	w.set(set)
	w.set(&contiv_filter.AccessList{Name: "l", Rules: []*contiv_filter.AccessList_Rule{{AddressSets: []string{"all"}}}})
	if _, err := expand(w, &contiv_filter.Subject{Addresses: []string{"10.1.1.2"}, Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"l"}, Deny: true}}}, contiv_filter.AccessList_INGRESS); err == nil {
		t.Error("there should be an error")
	}
}
