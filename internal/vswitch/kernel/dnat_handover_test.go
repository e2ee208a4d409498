package kernel

import (
	"slices"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Mappings may move between values in one transaction, in either order and in both directions. A
// change that must wait succeeds when retried.
func TestMappingsChangeHands(t *testing.T) {
	n := newNode(t)
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	v := openKernel(t, n)
	check(t, descriptors.Register(s, v))
	value := func(label string, addresses ...string) *vpp_nat.DNat44 {
		v := &vpp_nat.DNat44{Label: label}
		for _, a := range addresses {
			v.StMappings = append(v.StMappings, &vpp_nat.DNat44_StaticMapping{ExternalIp: a, ExternalPort: 443, Protocol: vpp_nat.DNat44_TCP,
				LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.1.1.2", LocalPort: 8443}, {LocalIp: "10.1.1.3", LocalPort: 8443}}})
		}
		return v
	}
	commit := func(values ...proto.Message) (failed int) {
		t.Helper()
		txn := s.NewTransaction()
		for _, v := range values {
			txn.Put(models.Key(v), v)
		}
		_, _ = txn.Commit(t.Context())
		for _, v := range values {
			if s.ValueStatus(models.Key(v)).GetValue().GetState() != pb.ValueState_CONFIGURED {
				failed++
			}
		}
		return failed
	}
	if commit(&vpp_nat.Nat44Global{Forwarding: true}) > 0 {
		t.Fatal("NAT is not enabled")
	}
	for what, hold := range map[string][2][2]*vpp_nat.DNat44{
		"the first gives":  {{value("a", "10.96.0.1", "10.96.0.9"), value("b", "10.96.0.8")}, {value("a", "10.96.0.9"), value("b", "10.96.0.8", "10.96.0.1")}},
		"the second gives": {{value("c", "10.97.0.8"), value("d", "10.97.0.1", "10.97.0.9")}, {value("c", "10.97.0.8", "10.97.0.1"), value("d", "10.97.0.9")}},
		"both give":        {{value("e", "10.98.0.1"), value("f", "10.98.0.2")}, {value("e", "10.98.0.2"), value("f", "10.98.0.1")}},
	} {
		if commit(hold[0][0], hold[0][1]) > 0 {
			t.Fatalf("%s: not configured at first", what)
		}
		failed := commit(hold[1][0], hold[1][1])
		for range 2 {
			if failed > 0 {
				failed = commit(hold[1][0], hold[1][1])
			}
		}
		if failed > 0 {
			t.Errorf("%s: %d values fail for good", what, failed)
		}
		got := listDNAT(t, v, hold[1][0], hold[1][1])
		for _, want := range hold[1] {
			if !slices.ContainsFunc(got, func(have *vpp_nat.DNat44) bool { return proto.Equal(have, want) }) {
				t.Errorf("%s: no %v among %v", what, want, got)
			}
		}
	}
}
