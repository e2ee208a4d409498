package verdict

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// southbound is a fake vswitch.
type southbound map[string]proto.Message

func descriptor[V proto.Message](s southbound, name, prefix string) kvscheduler.Descriptor[V, kvscheduler.NoMetadata] {
	return kvscheduler.Descriptor[V, kvscheduler.NoMetadata]{
		Name: name, Keys: kvscheduler.KeySpace{Prefix: prefix}, NB: true,
		Create: func(_ context.Context, key string, v V) (none kvscheduler.NoMetadata, err error) {
			s[key] = v
			return none, nil
		},
		Delete: func(_ context.Context, key string, _ V, _ kvscheduler.NoMetadata) error {
			delete(s, key)
			return nil
		},
		Retrieve: func(context.Context, []kvscheduler.Item[V, kvscheduler.NoMetadata]) (found []kvscheduler.Item[V, kvscheduler.NoMetadata], err error) {
			for key, v := range s {
				if v, ok := v.(V); ok {
					found = append(found, kvscheduler.Item[V, kvscheduler.NoMetadata]{Key: key, Value: v})
				}
			}
			return found, nil
		},
	}
}

func programmed(t *testing.T, values ...proto.Message) (*kvscheduler.Scheduler, southbound) {
	t.Helper()
	sb := southbound{}
	s := kvscheduler.New(kvscheduler.Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { s.Close() })
	for _, err := range []error{
		kvscheduler.Register(s, descriptor[*contiv_filter.AddressSet](sb, "sets", models.AddressSet.KeyPrefix())),
		kvscheduler.Register(s, descriptor[*contiv_filter.EndpointSet](sb, "endpoints", models.EndpointSet.KeyPrefix())),
		kvscheduler.Register(s, descriptor[*contiv_filter.AccessList](sb, "lists", models.AccessList.KeyPrefix())),
		kvscheduler.Register(s, descriptor[*contiv_filter.Subject](sb, "subjects", models.Subject.KeyPrefix())),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	txn := s.NewTransaction()
	for _, v := range values {
		txn.Put(models.Key(v), v)
	}
	if _, err := txn.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, sb
}

func node() []proto.Message {
	list := func(description, name string, direction contiv_filter.AccessList_Direction, rules ...*contiv_filter.AccessList_Rule) *contiv_filter.AccessList {
		return &contiv_filter.AccessList{Name: name, Description: description, Direction: direction, Rules: rules}
	}
	tcp := func(first, last uint32) []*contiv_filter.AccessList_Ports {
		return []*contiv_filter.AccessList_Ports{{First: first, Last: last}}
	}
	const (
		in  = contiv_filter.AccessList_INGRESS
		out = contiv_filter.AccessList_EGRESS
	)
	stage := func(deny bool, lists ...string) *contiv_filter.Subject_Stage {
		return &contiv_filter.Subject_Stage{Lists: lists, Deny: deny}
	}
	return []proto.Message{
		&contiv_filter.AddressSet{Name: "pods-1", Description: "pods app=web in namespace x", Addresses: []string{"10.1.1.2", "10.1.2.2"}},
		&contiv_filter.EndpointSet{Name: "port-tcp-sql", Description: "ports named sql", Endpoints: []*contiv_filter.EndpointSet_Endpoint{{Address: "10.1.1.3", Port: 5432}}},
		list("ClusterNetworkPolicy guard (tier Admin, priority 3)", "cnp/guard/ingress", in,
			&contiv_filter.AccessList_Rule{Name: "no-outside", Action: contiv_filter.AccessList_DENY, Networks: []string{"203.0.113.0/24"}},
			&contiv_filter.AccessList_Rule{Name: "ingress[1]", Action: contiv_filter.AccessList_PASS}),
		list("NetworkPolicy x/db", "np/x/db/ingress", in,
			&contiv_filter.AccessList_Rule{Name: "ingress[0]", AddressSets: []string{"pods-1"}, EndpointSets: []string{"port-tcp-sql"}},
			&contiv_filter.AccessList_Rule{Name: "ingress[1]", Networks: []string{"192.0.2.0/24"}, Ports: tcp(8000, 8010)}),
		list("NetworkPolicy x/out", "np/x/out/egress", out,
			&contiv_filter.AccessList_Rule{Name: "egress[0]", Networks: []string{"10.0.0.0/8"}}),
		&contiv_filter.Subject{Name: "x/db", Addresses: []string{"10.1.1.3"}, Ingress: []*contiv_filter.Subject_Stage{stage(false, "cnp/guard/ingress"), stage(true, "np/x/db/ingress")}},
		&contiv_filter.Subject{Name: "x/web", Addresses: []string{"10.1.1.2"}, Egress: []*contiv_filter.Subject_Stage{stage(true, "np/x/out/egress")}},
		&contiv_filter.Subject{Name: "x/new", Addresses: []string{"10.1.1.4"}, Ingress: []*contiv_filter.Subject_Stage{stage(true)}},
		&contiv_filter.Subject{Name: "x/open", Addresses: []string{"10.1.1.5"}, Ingress: []*contiv_filter.Subject_Stage{stage(false, "cnp/guard/ingress")}},
	}
}

func TestWhoDecides(t *testing.T) {
	values, _ := programmed(t, node()...)
	for name, c := range map[string]struct {
		from, to, protocol string
		port               uint16
		wrong, way         []string
	}{
		"set and named port": {"10.1.2.2", "10.1.1.3", "tcp", 5432, nil,
			[]string{`ingress of pod x/db: rule ingress[0] of NetworkPolicy x/db allows it: 10.1.2.2 is in "pods app=web in namespace x" (set pods-1), port in "ports named sql" (set port-tcp-sql)`}},
		"both ends": {"10.1.1.2", "10.1.1.3", "tcp", 5432, nil,
			[]string{"egress of pod x/web: rule egress[0] of NetworkPolicy x/out allows it: 10.1.1.3 is in 10.0.0.0/8", "ingress of pod x/db: rule ingress[0]"}},
		"another port": {"10.1.2.2", "10.1.1.3", "tcp", 80,
			[]string{`ingress of pod x/db is isolated by NetworkPolicy x/db, and no rule allows port 80/tcp with 10.1.2.2; rule ingress[0] of NetworkPolicy x/db allows this peer, but only at "ports named sql"`}, nil},
		"another peer": {"10.1.2.9", "10.1.1.3", "tcp", 8005,
			[]string{"rule ingress[1] of NetworkPolicy x/db allows this port, but only for 192.0.2.0/24"}, nil},
		"ICMP":            {"10.1.2.2", "10.1.1.3", "", 0, []string{"no rule allows ICMP with 10.1.2.2"}, nil},
		"tier":            {"203.0.113.9", "10.1.1.3", "tcp", 5432, []string{"rule no-outside of ClusterNetworkPolicy guard (tier Admin, priority 3) denies ingress of pod x/db: 203.0.113.9 is in 203.0.113.0/24"}, nil},
		"egress":          {"10.1.1.2", "203.0.113.9", "udp", 53, []string{"egress of pod x/web is isolated by NetworkPolicy x/out, and no rule allows port 53/udp with 203.0.113.9"}, nil},
		"both refuse":     {"203.0.113.9", "10.1.1.4", "tcp", 1, []string{"ingress of pod x/new is denied until the pod and its namespace are known"}, nil},
		"passed and free": {"10.1.2.2", "10.1.1.5", "tcp", 1, nil, []string{"ingress of pod x/open: no rule of ClusterNetworkPolicy guard (tier Admin, priority 3) denies it"}},
		"nobody's":        {"10.1.2.2", "10.1.2.3", "tcp", 1, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			wrong, way := Explain(t.Context(), values, Connection(netip.MustParseAddr(c.from), netip.MustParseAddr(c.to), c.protocol, c.port))
			requireTexts(t, wrong, c.wrong)
			requireTexts(t, way, c.way)
		})
	}
}

func requireTexts(t *testing.T, got, want []string) {
	t.Helper()
	for i := range want {
		if len(got) != len(want) || !strings.Contains(got[i], want[i]) {
			t.Errorf("got %q, want %q", got, want)
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Missing values are reported, for each kind of value that a verdict uses.
func TestWhatTheVSwitchDoesNotHold(t *testing.T) {
	c := Connection(netip.MustParseAddr("10.1.2.2"), netip.MustParseAddr("10.1.1.3"), "tcp", 5432)
	for _, key := range []string{
		models.Key(&contiv_filter.AddressSet{Name: "pods-1"}), models.Key(&contiv_filter.EndpointSet{Name: "port-tcp-sql"}),
		models.Key(&contiv_filter.AccessList{Name: configurator.ListName("x", "db", contiv_filter.AccessList_INGRESS)}), models.Key(&contiv_filter.Subject{Name: "x/db"}),
	} {
		values, sb := programmed(t, node()...)
		delete(sb, key)
		wrong, _ := Explain(t.Context(), values, c)
		requireTexts(t, wrong, []string{"the vswitch lacks values of policies and may decide otherwise: " + key})
	}
	values, sb := programmed(t, node()...)
	delete(sb, models.Key(&contiv_filter.Subject{Name: "x/web"}))
	if wrong, _ := Explain(t.Context(), values, c); len(wrong) > 0 {
		t.Errorf("text unrelated to the connection: %q", wrong)
	}
}
