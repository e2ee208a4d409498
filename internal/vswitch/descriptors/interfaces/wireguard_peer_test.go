package interfaces

import (
	"testing"

	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
)

func TestWireGuardPeerValidation(t *testing.T) {
	for name, err := range map[string]error{
		"peer with short key": validateWireGuardPeer(&vpp_wireguard.Peer{PublicKey: "AAAA", WgIfName: "a", Endpoint: "1.0.0.1"}),
	} {
		descriptortest.WantField(t, name, err)
	}
}
