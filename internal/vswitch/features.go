package vswitch

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"google.golang.org/protobuf/proto"
)

// Features are ports that some vswitches lack.
type Features interface {
	// XConnects are the cross-connects, by receiving interface: they send every frame received on
	// one existing interface out of another, and nowhere else.
	XConnects() Values[*vpp_l2.XConnectPair]
	// Spans are the mirrored interfaces: an existing interface sends a copy of every frame that
	// another one receives, sends, or both.
	Spans() Values[*vpp_interfaces.Span]
	ProxyARP() ProxyARP
	// L3XConnects forward packets received on an interface along fixed paths, whatever their
	// destination; a vswitch may keep packets for its own addresses. The usable paths of the lowest
	// preference share the packets by weight. Without a usable path, packets are dropped. Create
	// also changes the paths.
	L3XConnects() Values[*vpp_l3.L3XConnect]

	// WireGuardPeers are the peers of WireGuard interfaces, by interface and endpoint. A public key
	// is unique per interface.
	WireGuardPeers() Values[*vpp_wireguard.Peer]

	Extras
	// Lacks returns, for users, the missing feature of a descriptor without a port, and an
	// alternative.
	Lacks(descriptor string) string
}

// Values is the port of a model without further operations.
type Values[V proto.Message] interface {
	// Create creates the value, or replaces the one with the same key.
	Create(ctx context.Context, value V) error
	Delete(ctx context.Context, value V) error
	List(ctx context.Context, expected []V) ([]V, error)
}

// InterfacesOfFeature returns the interfaces that a cross-connect, a mirror or an L3 cross-connect
// needs; nil for other values.
func InterfacesOfFeature(v proto.Message) []string {
	switch v := v.(type) {
	case *vpp_l2.XConnectPair:
		return []string{v.GetReceiveInterface(), v.GetTransmitInterface()}
	case *vpp_interfaces.Span:
		return []string{v.GetInterfaceFrom(), v.GetInterfaceTo()}
	case *vpp_l3.L3XConnect:
		names := []string{v.GetInterface()}
		for _, p := range v.GetPaths() {
			names = append(names, p.GetOutgoingInterface())
		}
		return names
	}
	return nil
}
