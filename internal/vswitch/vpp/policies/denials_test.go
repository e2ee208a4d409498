package policies

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"go.fd.io/govpp/binapi/acl_types"
	"google.golang.org/protobuf/proto"
)

// counting implements lists that count like VPP, from zero after each change of rules.
type counting struct {
	rules   map[string][]acl_types.ACLRule
	packets map[string][]uint64
	err     error
}

func (c *counting) PutPolicy(_ context.Context, name string, rules []acl_types.ACLRule) error {
	if c.err != nil {
		return c.err
	}
	c.rules[name], c.packets[name] = rules, make([]uint64, len(rules)+1)
	return nil
}

func (c *counting) DeletePolicy(context.Context, string) error { return nil }
func (c *counting) BindPolicies(context.Context, ownership.Index, []string, []string) error {
	return nil
}
func (c *counting) PolicyMatches(context.Context) (map[string][]uint64, error) { return c.packets, nil }

func (c *counting) Policies(context.Context) (map[string][]acl_types.ACLRule, map[ownership.Index][2][]string, error) {
	return c.rules, nil, nil
}

func (c *counting) send(list string, conn policyrules.Connection, packets uint64) {
	for i, r := range c.rules[list] {
		if permitted(rulesOf(r), conn) || r.IsPermit == acl_types.ACL_ACTION_API_DENY && matches(r, conn) {
			c.packets[list][i] += packets
			return
		}
	}
}

func rulesOf(r ...acl_types.ACLRule) list { return list{rules: r} }

func matches(r acl_types.ACLRule, c policyrules.Connection) bool {
	r.IsPermit = acl_types.ACL_ACTION_API_PERMIT
	return permitted(rulesOf(r), c)
}

// captured is a capture filled by the test.
type captured struct {
	on     bool
	frames [][]byte
}

func (c *captured) Start(context.Context) error { c.on = true; return nil }

func (c *captured) Stop(context.Context) (frames [][]byte, err error) {
	if c.on {
		frames = c.frames
	}
	c.on, c.frames = false, nil
	return frames, nil
}

func denyingDriver(t *testing.T, values ...proto.Message) (*Driver, *counting, *captured) {
	t.Helper()
	lists, capture := &counting{rules: map[string][]acl_types.ACLRule{}, packets: map[string][]uint64{}}, &captured{}
	d := New(lists, nil, capture)
	put(t, d, values...)
	return d, lists, capture
}

func put(t *testing.T, d *Driver, values ...proto.Message) {
	t.Helper()
	for _, v := range values {
		d.want.set(v)
	}
	for _, s := range d.want.subjects {
		if err := d.program(t.Context(), s, d.matched(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

const ingress, egress = contiv_filter.AccessList_INGRESS, contiv_filter.AccessList_EGRESS

var (
	web, db = netip.MustParseAddr("10.1.1.2"), netip.MustParseAddr("10.1.1.3")
	web6    = netip.MustParseAddr("fd10::2")
)

func udpPort(port uint32) []*contiv_filter.AccessList_Ports {
	return []*contiv_filter.AccessList_Ports{{Protocol: contiv_filter.Protocol_UDP, First: port, Last: port}}
}

// guarded is denied UDP port 99 by a rule, and isolated except for one port.
func guarded(open uint32) []proto.Message {
	return []proto.Message{
		&contiv_filter.AccessList{Name: "guard", Rules: []*contiv_filter.AccessList_Rule{{Action: contiv_filter.AccessList_DENY, Ports: udpPort(99)}}},
		&contiv_filter.AccessList{Name: "open", Rules: []*contiv_filter.AccessList_Rule{{Ports: udpPort(open)}}},
		&contiv_filter.AccessList{Name: "out", Direction: egress},
		&contiv_filter.Subject{Name: "shop/web", Interface: "tap", Addresses: []string{web.String(), web6.String()},
			Ingress: []*contiv_filter.Subject_Stage{{Lists: []string{"guard"}}, {Lists: []string{"open"}, Deny: true}},
			Egress:  []*contiv_filter.Subject_Stage{{Lists: []string{"out"}, Deny: true}}},
	}
}

func wantSubjects(t *testing.T, d *Driver, what string, want ...policyrules.DeniedSubject) {
	t.Helper()
	r, err := d.Denials(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	order := func(a, b policyrules.DeniedSubject) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.Packets, b.Packets))
	}
	slices.SortFunc(r.Subjects, order)
	slices.SortFunc(want, order)
	if !slices.Equal(r.Subjects, want) {
		t.Errorf("%s: %+v, want %+v", what, r.Subjects, want)
	}
}

// Counts are by address, direction and cause, and survive the replacement of lists.
func TestDenialsByAddressDirectionAndCause(t *testing.T) {
	d, lists, _ := denyingDriver(t, guarded(80)...)
	wantSubjects(t, d, "at first")
	in, out := outList+id("shop/web"), inList+id("shop/web") // packets leaving VPP enter the pod
	to := func(addr netip.Addr, port uint16) policyrules.Connection {
		return policyrules.Connection{Src: db, Dst: addr, Protocol: policyrules.UDP, Port: port}
	}
	lists.send(in, to(web, 80), 100) // passes
	lists.send(in, to(web, 99), 2)
	lists.send(in, to(web, 53), 3)
	lists.send(in, policyrules.Connection{Src: netip.MustParseAddr("fd10::3"), Dst: web6, Protocol: policyrules.UDP, Port: 53}, 4)
	lists.send(out, policyrules.Connection{Src: web, Dst: db, Protocol: policyrules.TCP, Port: 80}, 5)
	byRule, isolated := policyrules.DeniedSubject{Address: web, Direction: ingress, ByRule: true, Packets: 2}, policyrules.DeniedSubject{Address: web, Direction: ingress, Packets: 3}
	rest := []policyrules.DeniedSubject{{Address: web6, Direction: ingress, Packets: 4}, {Address: web, Direction: egress, Packets: 5}}
	wantSubjects(t, d, "denied", append(rest, byRule, isolated)...)

	put(t, d, guarded(81)...) // a new ingress list, which counts from zero
	wantSubjects(t, d, "replaced", append(rest, byRule, isolated)...)
	lists.send(in, to(web, 80), 1)
	lists.send(in, to(web, 81), 1)
	isolated.Packets++
	wantSubjects(t, d, "denied since then", append(rest, byRule, isolated)...)

	lists.err = errors.New("refused") // the old list keeps counting
	d.want.set(guarded(82)[1])
	if err := d.program(t.Context(), d.want.subjects["shop/web"], d.matched(t.Context())); err == nil {
		t.Error("no error")
	}
	wantSubjects(t, d, "not replaced", append(rest, byRule, isolated)...)

	d.want.remove(d.want.subjects["shop/web"])
	d.denied.forget(d.want, []string{in, out})
	if len(d.denied.before)+len(d.denied.denials) > 0 {
		t.Errorf("left of a subject that is gone: %+v", d.denied)
	}
}

// frame returns a packet as captured by VPP, with the drop reason.
func frame(src, dst netip.Addr, protocol uint8, payload []byte, why string) []byte {
	f := make([]byte, 12)
	if src.Is4() {
		f = append(f, 8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0)
	} else {
		f = append(f, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 64)
	}
	f = append(append(f, src.AsSlice()...), dst.AsSlice()...)
	return append(append(f, payload...), why...)
}

// On request, denied flows are reported for half a minute after their last packet.
func TestDeniedFlowsWhileSomebodyLooks(t *testing.T) {
	d, lists, capture := denyingDriver(t, guarded(80)...)
	look := func(live bool) []policyrules.DeniedFlow {
		t.Helper()
		r, err := d.Denials(t.Context(), live)
		if err != nil {
			t.Fatal(err)
		}
		if capture.on != live {
			t.Fatalf("the capture is on: %v, want %v", capture.on, live)
		}
		return r.Flows
	}
	if flows := look(true); len(flows) > 0 {
		t.Fatalf("%+v", flows)
	}
	const leaves, enters = "acl-plugin-out-ip4-fa: ACL deny packets", "acl-plugin-in-ip4-fa: ACL deny packets"
	dns := []byte{0x30, 0, 0, 53, 0, 8, 0, 0}
	tcp := func(flags byte) []byte {
		return []byte{0x30, 0, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0}
	}
	capture.frames = [][]byte{
		frame(db, web, policyrules.UDP, dns, leaves), frame(db, web, policyrules.UDP, dns, leaves),
		frame(web, db, policyrules.TCP, tcp(flagSYN), enters),
		frame(netip.MustParseAddr("fd10::3"), web6, policyrules.ICMPv6, []byte{128, 0, 0, 0}, "acl-plugin-out-ip6-fa: ACL deny packets"),
		// Ignored: a packet in the middle of a connection, another node's, unknown addresses,
		// another drop reason, truncated.
		frame(web, db, policyrules.TCP, tcp(flagSYN|flagACK), enters), frame(db, web, policyrules.UDP, dns, enters),
		frame(web, db, policyrules.UDP, dns, leaves), frame(db, web, policyrules.UDP, dns, "ip4-input: ip4 ttl <= 1"), {1, 2, 3}, nil,
		append(make([]byte, 20), leaves...), frame(db, web, policyrules.TCP, tcp(flagSYN)[:10], leaves),
	}
	lists.packets[outList+id("shop/web")][len(lists.rules[outList+id("shop/web")])-1] += 3
	want := map[policyrules.DeniedFlow]bool{
		{Src: db, Dst: web, Protocol: policyrules.UDP, Port: 53, Packets: 2}:                       true,
		{Src: web, Dst: db, Protocol: policyrules.TCP, Port: 80, Packets: 1}:                       true,
		{Src: netip.MustParseAddr("fd10::3"), Dst: web6, Protocol: policyrules.ICMPv6, Packets: 1}: true,
	}
	for range 2 { // repeated while recent
		flows := look(true)
		for _, f := range flows {
			if !want[f] || len(flows) != len(want) {
				t.Errorf("%+v, want %+v", flows, want)
			}
		}
	}
	if flows := look(false); len(flows) != len(want) {
		t.Errorf("%+v after the last request", flows)
	}
	if left := d.recent.list(time.Now().Add(2 * flowKept)); len(left) > 0 || len(d.recent) > 0 {
		t.Errorf("%+v after a while", left)
	}
}

func TestWhoDropped(t *testing.T) {
	packet, ok := droppedBy([]byte("data of a packetnode2: full"), "full", "node1", "node2")
	if !ok || string(packet) != "data of a packet" {
		t.Errorf("%s, %v", packet, ok)
	}
	if _, ok := droppedBy([]byte("node3: full"), "full", "node1", "node2"); ok {
		t.Error("by another node")
	}
}

// All interfaces of a pod have its lists.
func TestListsOfFurtherInterfaces(t *testing.T) {
	values := guarded(80)
	values[len(values)-1].(*contiv_filter.Subject).MoreInterfaces = []string{"tap-net1"}
	d, _, _ := denyingDriver(t, values...)
	in, out := d.sequence("tap")
	moreIn, moreOut := d.sequence("tap-net1")
	if len(in) != 3 || len(out) != 3 || !slices.Equal(in, moreIn) || !slices.Equal(out, moreOut) {
		t.Errorf("tap has %q and %q, tap-net1 %q and %q", in, out, moreIn, moreOut)
	}
	if in, out := d.sequence("tap-net2"); in != nil || out != nil {
		t.Errorf("another interface has %q and %q", in, out)
	}
}
