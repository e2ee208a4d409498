package nat

import (
	"fmt"
	"testing"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/lib/delta"
	"github.com/contiv/contiv/internal/netlink/nft"
	"google.golang.org/protobuf/proto"
)

// A local backend that opens connections from another address is recognised as itself with this
// address, too.
func TestBackendWithAnotherAddress(t *testing.T) {
	self := func(client string, elsewhere bool) (n int) {
		rendered, err := nat4.render(&vpp_nat.DNat44{Label: "default/service", StMappings: []*vpp_nat.DNat44_StaticMapping{{
			ExternalIp: "10.96.0.1", ExternalPort: 80, TwiceNat: vpp_nat.DNat44_StaticMapping_SELF,
			LocalIps: []*vpp_nat.DNat44_StaticMapping_LocalIP{{LocalIp: "10.1.0.9", LocalPort: 8080, ClientIp: client, Elsewhere: elsewhere}},
		}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range content(rendered) {
			if e.Set == setSelf {
				n++
			}
		}
		return n
	}
	if one, two, none := self("", false), self("10.1.0.2", false), self("10.1.0.2", true); one != 1 || two != 2 || none != 0 {
		t.Errorf("%d members of the self set, %d with another address, %d elsewhere", one, two, none)
	}
}

// Removing one backend of a service changes few elements.
func TestChangeOfOneBackendIsSmall(t *testing.T) {
	value := &vpp_nat.DNat44{Label: "default/service", StMappings: []*vpp_nat.DNat44_StaticMapping{{
		ExternalIp: "10.96.0.1", ExternalPort: 80, TwiceNat: vpp_nat.DNat44_StaticMapping_SELF,
	}}}
	for n := range 10 {
		value.StMappings[0].LocalIps = append(value.StMappings[0].LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{
			LocalIp: fmt.Sprintf("10.1.0.%d", n+1), LocalPort: 8080, Probability: 1,
		})
	}
	changed := proto.CloneOf(value)
	changed.StMappings[0].LocalIps[9].LocalIp = "10.1.9.9"
	before, err := nat4.render(value, nil)
	if err != nil {
		t.Fatal(err)
	}
	after, err := nat4.render(changed, nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, new := delta.Sorted(content(before), content(after), nft.Compare)
	if len(gone) != 2 || len(new) != 2 { // a slot and an element of the self set
		t.Errorf("gone %v, new %v", gone, new)
	}
}
