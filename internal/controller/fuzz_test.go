package controller

import (
	"encoding/json"
	"testing"

	mergepb "github.com/contiv/contiv/api/contiv/merge"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"google.golang.org/protobuf/proto"
)

// Merge directives are refused, or can be applied to any value of the kind, and applying them twice
// gives the same result.
func FuzzDirectives(f *testing.F) {
	f.Add("mtu", "ip_addresses", "ip_addresses", `"10.0.0.1/24"`)
	f.Add("tap.version", "rx_modes", "rx_modes", `{"queue":1}`)
	f.Add("", "..", "ip_addresses", `1], "rx_modes": [{}`)
	f.Fuzz(func(t *testing.T, unset, replace, list, item string) {
		const key = "config/vpp/v2/interfaces/a"
		d := &mergepb.Directives{Key: key, Unset: []string{unset}, Replace: []string{replace}, Remove: []*mergepb.Removal{{List: list, Item: item}}}
		if validateDirective(directivesKey(key), d) != nil {
			return
		}
		if !json.Valid([]byte(item)) {
			t.Errorf("item %q is no JSON", item)
		}
		once := &vpp_interfaces.Interface{
			Name: "a", Mtu: 1400, IpAddresses: []string{"10.0.0.1/24", "10.0.0.2/24"}, RxModes: []*vpp_interfaces.Interface_RxMode{{Queue: 1}},
			Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}},
		}
		if err := applyDirectives(once, d); err != nil {
			t.Fatal(err)
		}
		twice := proto.CloneOf(once)
		if err := applyDirectives(twice, d); err != nil || !proto.Equal(once, twice) {
			t.Errorf("the second time: %v, %v after %v", err, twice, once)
		}
	})
}
