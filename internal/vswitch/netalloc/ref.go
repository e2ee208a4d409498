package netalloc

import (
	"fmt"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
)

const (
	refPrefix = "alloc:"
	gwSuffix  = "/GW"
	example   = "alloc:<network>/<interface>, with /GW for the gateway"
)

// Ref is a reference to an allocated address, or to the gateway allocated with it.
type Ref struct {
	Network   string
	Interface string
	GW        bool
}

// IsRef reports whether the text is a reference instead of an address.
func IsRef(text string) bool { return strings.HasPrefix(text, refPrefix) }

// ParseRef parses a reference. iface is the interface that the address belongs to, or "". The
// reference may omit it but not contradict it.
func ParseRef(text, iface string) (Ref, error) {
	rest, ok := strings.CutPrefix(text, refPrefix)
	if !ok {
		return Ref{}, fmt.Errorf("%q is no reference to an allocated address: write %s", text, example)
	}
	rest, gw := strings.CutSuffix(rest, gwSuffix)
	network, named, _ := strings.Cut(rest, "/")
	switch {
	case network == "":
		return Ref{}, fmt.Errorf("reference %q has no network: write %s", text, example)
	case named == "" && iface == "":
		return Ref{}, fmt.Errorf("reference %q has no interface: write %s", text, example)
	case named != "" && iface != "" && named != iface:
		return Ref{}, fmt.Errorf("reference %q is to an address of interface %s, not of %s", text, named, iface)
	case named == "":
		named = iface
	}
	return Ref{Network: network, Interface: named, GW: gw}, nil
}

// Key returns the key of the allocation.
func (r Ref) Key() string {
	return models.Key(&pb.IPAllocation{NetworkName: r.Network, InterfaceName: r.Interface})
}

// String returns the complete reference.
func (r Ref) String() string {
	text := refPrefix + r.Network + "/" + r.Interface
	if r.GW {
		text += gwSuffix
	}
	return text
}

// Forms returns all forms of a reference to an interface's address in a value of that interface.
func (r Ref) Forms() []string {
	return []string{refPrefix + r.Network, refPrefix + r.Network + "/" + r.Interface}
}

// NeighbourGatewayKey is derived from allocations with a gateway in the network of the address.
func NeighbourGatewayKey(network, iface string) string {
	return "netalloc/neigh-gw/network/" + network + "/interface/" + iface
}

// Dependency returns the dependency of a value with the text in a field; none if the text is not a
// reference. iface is as for ParseRef.
func Dependency(field, text, iface string) []kvscheduler.Dependency {
	ref, err := ParseRef(text, iface)
	if err != nil {
		return nil
	}
	return []kvscheduler.Dependency{{Label: field + "-" + text, Key: ref.Key()}}
}
