package vswitch

import (
	"context"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"google.golang.org/protobuf/proto"
)

// Features are the parts of a vswitch that not every one has.
type Features interface {
	// XConnects are the cross-connects, by receiving interface: every frame that it receives is
	// sent out of the other one, and nowhere else. Both interfaces exist.
	XConnects() Values[*vpp_l2.XConnectPair]
	// Spans are the mirrored interfaces: the other one sends a copy of every frame
	// that the first one receives, sends, or both. Both exist.
	Spans() Values[*vpp_interfaces.Span]
	ProxyARP() ProxyARP
	// L3XConnects forward packets that an interface receives by paths of its own, whatever their
	// destination; a vswitch may keep packets for its own addresses. The usable paths of the lowest
	// preference share the packets by weight. Without a usable path, packets are dropped. Create
	// also changes the paths.
	L3XConnects() Values[*vpp_l3.L3XConnect]

	// WireGuardPeers are the peers of WireGuard interfaces, by interface and endpoint. A
	// public key is that of one peer of its interface.
	WireGuardPeers() Values[*vpp_wireguard.Peer]

	Extras
	// Lacks describes, for users, what is missing for the values of a descriptor without a port,
	// and what to use instead.
	Lacks(descriptor string) string
}

// Values are the values of a model that is asked for nothing but to exist.
type Values[V proto.Message] interface {
	// Create makes the value exist; one of the same key is replaced.
	Create(ctx context.Context, value V) error
	Delete(ctx context.Context, value V) error
	List(ctx context.Context, expected []V) ([]V, error)
}

// InterfacesOfFeature returns the interfaces that a cross-connect, a mirror or an L3
// cross-connect needs; nil for other values.
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
