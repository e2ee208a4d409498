package netalloc

import (
	"errors"
	"strings"
	"testing"

	kvs "github.com/contiv/contiv/api/ligato/kvscheduler"
	pb "github.com/contiv/contiv/api/ligato/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

func TestParseRef(t *testing.T) {
	for _, test := range []struct {
		text, iface string
		want        Ref
		err         string
	}{
		{"alloc:net", "eth0", Ref{"net", "eth0", false}, ""},
		{"alloc:net/eth0", "eth0", Ref{"net", "eth0", false}, ""},
		{"alloc:net/GW", "eth0", Ref{"net", "eth0", true}, ""},
		{"alloc:net/Gig0/8/0/GW", "", Ref{"net", "Gig0/8/0", true}, ""},
		{"alloc:net", "", Ref{}, "has no interface"},
		{"alloc:net/GW", "", Ref{}, "has no interface"},
		{"alloc:", "eth0", Ref{}, "has no network"},
		{"alloc:net/eth1", "eth0", Ref{}, "of interface eth1, not of eth0"},
		{"10.0.0.1", "eth0", Ref{}, "no reference"},
	} {
		got, err := ParseRef(test.text, test.iface)
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v, want %q", test.text, err, test.err)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%s: %+v %v, want %+v", test.text, got, err, test.want)
		}
		if again, err := ParseRef(got.String(), ""); err != nil || again != got {
			t.Errorf("%s in full is %s: %+v %v", test.text, got, again, err)
		}
	}
}

func TestAllocationsResolve(t *testing.T) {
	for _, test := range []struct {
		addr, gw                       string
		mask, network, single, gateway string
		neighbour                      bool
		invalid                        string
	}{
		{addr: "10.1.2.3/24", gw: "10.1.2.1", mask: "10.1.2.3/24", network: "10.1.2.0/24", single: "10.1.2.3", gateway: "10.1.2.1/24", neighbour: true},
		{addr: "10.1.2.3", gw: "10.1.2.1", mask: "10.1.2.3/32", network: "10.1.2.3/32", single: "10.1.2.3", gateway: "10.1.2.1/32"},
		{addr: "10.1.2.3/24", gw: "10.1.2.1/16", mask: "10.1.2.3/24", network: "10.1.2.0/24", single: "10.1.2.3", gateway: "10.1.2.1/16", neighbour: true},
		{addr: "fd00::3/64", gw: "fd00::1", mask: "fd00::3/64", network: "fd00::/64", single: "fd00::3", gateway: "fd00::1/64", neighbour: true},
		{addr: "10.1.2.3/24", mask: "10.1.2.3/24", network: "10.1.2.0/24", single: "10.1.2.3"},
		{addr: "10.1.2", invalid: "address"},
		{addr: "10.1.2.3/24", gw: "x", invalid: "gw"},
		{addr: "10.1.2.3/24", gw: "fd00::1", invalid: "gw"},
	} {
		v := &pb.IPAllocation{NetworkName: "net", InterfaceName: "eth0", Address: test.addr, Gw: test.gw}
		s := kvscheduler.New(kvscheduler.Options{})
		if err := Register(s); err != nil {
			t.Fatal(err)
		}
		txn := s.NewTransaction()
		txn.Put(models.Key(v), v)
		_, err := txn.Commit(t.Context())
		status := s.ValueStatus(models.Key(v))
		if test.invalid != "" {
			if status.GetValue().GetState() != kvs.ValueState_INVALID || status.GetValue().GetDetails()[0] != test.invalid {
				t.Errorf("%s %s: %v", test.addr, test.gw, status)
			}
			s.Close()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := len(status.GetDerivedValues()) == 1; got != test.neighbour {
			t.Errorf("%s %s: the gateway is a neighbour: %v", test.addr, test.gw, got)
		}
		r := NewResolver(s)
		for what, got := range map[string]func() (string, error){
			test.mask:    func() (string, error) { return r.WithMask("alloc:net", "eth0") },
			test.network: func() (string, error) { return r.Network("alloc:net/eth0", "") },
			test.single:  func() (string, error) { return r.Addr("alloc:net", "eth0") },
		} {
			if text, err := got(); err != nil || text != what {
				t.Errorf("%q %v, want %q", text, err, what)
			}
		}
		if text, err := r.WithMask("alloc:net/GW", "eth0"); text != test.gateway || (err != nil) != (test.gateway == "") {
			t.Errorf("gateway %q %v, want %q", text, err, test.gateway)
		}
		if _, err := r.Addr("alloc:net", "eth1"); !errors.Is(err, ErrNotAllocated) {
			t.Errorf("of another interface: %v", err)
		}
		if text, err := r.Addr("192.0.2.1", "eth0"); text != "192.0.2.1" || err != nil {
			t.Errorf("%q %v", text, err)
		}
		s.Close()
	}
}
