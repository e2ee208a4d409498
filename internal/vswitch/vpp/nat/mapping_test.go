package nat

import (
	"errors"
	"fmt"
	"testing"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/kvscheduler"
)

type localIP = vpp_nat.DNat44_StaticMapping_LocalIP

func TestWeightsOfLocalAddresses(t *testing.T) {
	for _, test := range []struct {
		probabilities []uint32
		want          []uint8
	}{
		{[]uint32{0}, []uint8{1}}, {[]uint32{0, 0}, []uint8{1, 1}}, {[]uint32{1, 3, 0}, []uint8{1, 3, 0}}, {[]uint32{100, 200}, []uint8{1, 2}},
		{[]uint32{1, 1 << 31}, []uint8{1, 254}}, {[]uint32{500, 501}, []uint8{127, 127}},
	} {
		var locals []*localIP
		for _, p := range test.probabilities {
			locals = append(locals, &vpp_nat.DNat44_StaticMapping_LocalIP{Probability: p})
		}
		if got, err := natWeights(locals); err != nil || fmt.Sprint(got) != fmt.Sprint(test.want) {
			t.Errorf("%v: got %v (%v), want %v", test.probabilities, got, err, test.want)
		}
	}
	if _, err := natWeights(make([]*localIP, 255)); !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("255 local addresses: got %v", err)
	}
	if got, err := natWeights(make([]*localIP, 254)); err != nil || got[253] != 1 {
		t.Errorf("254 local addresses: got %v, %v", got, err)
	}
}
