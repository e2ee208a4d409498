package policies

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/mdlayher/netlink"
	"google.golang.org/protobuf/proto"
)

func olderValues() []proto.Message {
	type rule = contiv_filter.AccessList_Rule
	type ports = contiv_filter.AccessList_Ports
	const in, out = contiv_filter.AccessList_INGRESS, contiv_filter.AccessList_EGRESS
	long := "pods of a name that is too long for most people " + strings.Repeat("x", 40)
	set := func(name string, addrs ...string) proto.Message {
		return &contiv_filter.AddressSet{Name: name, Addresses: addrs}
	}
	list := func(name string, direction contiv_filter.AccessList_Direction, rules ...*rule) proto.Message {
		return &contiv_filter.AccessList{Name: name, Direction: direction, Rules: rules}
	}
	tcp := func(first, last uint32) *ports { return &ports{First: first, Last: last} }
	return []proto.Message{
		set("clients", "10.21.0.2", "fd21::2"), set("a b/c", "10.21.0.3", "fd21::3"), set(long, "10.21.0.4", "fd21::4"), set("nobody"),
		set("servers", "10.22.0.2", "10.22.0.3", "fd22::2", "fd22::3"),
		&contiv_filter.EndpointSet{Name: "web", Endpoints: []*contiv_filter.EndpointSet_Endpoint{{Address: "10.22.0.3", Port: 83}, {Address: "fd22::3", Port: 83}}},
		list("np/prod/one/ingress", in, &rule{AddressSets: []string{"clients", "nobody"}, Ports: []*ports{tcp(80, 80), tcp(82, 90)}}),
		list("np/prod/two/ingress", in, &rule{AddressSets: []string{"a b/c"}, EndpointSets: []string{"web"}}, &rule{Networks: []string{"10.21.0.5/32"}}),
		list("np/prod/three/ingress", in, &rule{AddressSets: []string{long}, Ports: []*ports{{Protocol: contiv_filter.Protocol_UDP}}}),
		list("np/prod/one/egress", out, &rule{AddressSets: []string{"servers"}}),
		list("cnp/admin/deny", in, &rule{Action: contiv_filter.AccessList_DENY, AddressSets: []string{"clients"}, Ports: []*ports{tcp(84, 84)}},
			&rule{Action: contiv_filter.AccessList_PASS, AddressSets: []string{long}}),
		&contiv_filter.Subject{Name: "prod/server", Addresses: []string{"10.22.0.3", "fd22::3"}, Ingress: []*contiv_filter.Subject_Stage{
			{Lists: []string{"cnp/admin/deny"}}, {Lists: []string{"np/prod/one/ingress", "np/prod/two/ingress", "np/prod/three/ingress"}, Deny: true}}},
		&contiv_filter.Subject{Name: "prod/other", Addresses: []string{"10.22.0.2", "fd22::2"}, Ingress: []*contiv_filter.Subject_Stage{
			{Lists: []string{"np/prod/one/ingress"}, Deny: true}}},
		&contiv_filter.Subject{Name: "prod/client", Addresses: []string{"10.21.0.2", "fd21::2"}, Egress: []*contiv_filter.Subject_Stage{
			{Lists: []string{"np/prod/one/egress"}, Deny: true}}},
	}
}

// older is a kernel with a table of an older version, which checks packets after each transaction.
type older struct {
	nft.Kernel
	after func()
}

func (o *older) Commit(messages []netlink.Message) error {
	err := o.Kernel.Commit(messages)
	if o.after != nil {
		o.after()
	}
	return err
}

// recorded reads netlink messages from a file of testdata: the type, flags and data of each.
func recorded(t *testing.T, file string) (messages []netlink.Message) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var typ, flags uint16
		var data string
		if _, err := fmt.Sscan(line, &typ, &flags, &data); err != nil {
			t.Fatal(err)
		}
		m := netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(typ), Flags: netlink.HeaderFlags(flags)}}
		if m.Data, err = base64.StdEncoding.DecodeString(data); err != nil {
			t.Fatal(err)
		}
		messages = append(messages, m)
	}
	return messages
}

// A table of an older version applies until the values are set again, and no verdict changes
// meanwhile. Afterwards none of its objects remains: chains per list, and sets with hashed names.
func TestTablesOfOlderVersionsAreReplaced(t *testing.T) {
	for file, oldName := range map[string]string{"hashed-names.txt": "a4-clients-8f4d9088121acfab", "short-names.txt": "a4-clients"} {
		t.Run(file, func(t *testing.T) {
			s := newSite()
			kernel := &older{Kernel: s.Kernel}
			if err := kernel.Commit(recorded(t, file)); err != nil {
				t.Fatal(err)
			}
			s.driver = New(nft.New(kernel), s.ClearMarks, slog.New(slog.DiscardHandler))
			values, reference := olderValues(), policyrules.NewState()
			for _, v := range values {
				reference.Put(v)
			}
			passes := 0
			kernel.after = func() {
				for from := 2; from < 8; from++ {
					for to := 2; to < 4; to++ {
						for port := uint16(80); port < 86; port++ {
							for _, network := range []string{"tcp", "udp"} {
								for _, format := range [][2]string{{"10.21.0.%d", "10.22.0.%d"}, {"fd21::%d", "fd22::%d"}} {
									p := vswitchtest.FilterProbe{Src: netip.MustParseAddr(fmt.Sprintf(format[0], from)), Dst: netip.MustParseAddr(fmt.Sprintf(format[1], to)), Network: network, Port: port}
									s.Forget()
									packet := opening(p)
									want := reference.Judge(policyrules.Connection{Src: p.Src, Dst: p.Dst, Protocol: packet.Protocol, Port: port})
									if o := s.send(t, packet); o.Passed != want.Allowed {
										t.Fatalf("%s from %v to %v, port %d: passed %v by %q, want %+v", network, p.Src, p.Dst, port, o.Passed, o.By, want)
									} else if o.Passed {
										passes++
									}
								}
							}
						}
					}
				}
			}
			kernel.after()
			if passes == 0 {
				t.Fatal("nothing passes")
			}
			found, err := s.driver.List(t.Context(), values)
			if err != nil {
				t.Fatal(err)
			}
			if s.driver.have.sets[oldName] == nil {
				t.Fatalf("set %s is missing", oldName)
			}
			missing := slices.DeleteFunc(slices.Clone(values), func(v proto.Message) bool { return slices.Contains(found, v) })
			if err := s.driver.Change(t.Context(), missing, without(found, values)); err != nil {
				t.Fatal(err)
			}
			if left := newEdit(s.driver).unneeded(); len(left) > 0 || len(s.driver.stale) > 0 {
				t.Errorf("left are %q, not known %v", left, s.driver.stale)
			}
			found, err = s.driver.List(t.Context(), values)
			if err != nil || len(without(values, found)) > 0 || len(found) != len(values) {
				t.Errorf("found are %v, %v", found, err)
			}
		})
	}
}
