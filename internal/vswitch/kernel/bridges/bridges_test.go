package bridges

import (
	"errors"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
)

func TestSubInterfacesThatKeepTheirTagsAreNotBridged(t *testing.T) {
	untagged := &vpp_interfaces.Interface{Type: vpp_interfaces.Interface_SUB_INTERFACE, Link: &vpp_interfaces.Interface_Sub{Sub: &vpp_interfaces.SubInterface{SubId: 1}}}
	if err := bridgeable(untagged); !errors.Is(err, kvscheduler.ErrUnsupported) {
		t.Errorf("frames that are to keep their tags: %v", err)
	}
}
