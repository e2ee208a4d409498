package descriptors

import (
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/guard"
	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	vpp_punt "github.com/contiv/contiv/api/ligato/vpp/punt"
	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	vpp_stn "github.com/contiv/contiv/api/ligato/vpp/stn"
	vpp_wireguard "github.com/contiv/contiv/api/ligato/vpp/wireguard"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/kvscheduler"
	"google.golang.org/protobuf/proto"
)

// Registration checks key spaces and dependency labels.
func TestRegister(t *testing.T) {
	s := kvscheduler.New(kvscheduler.Options{})
	defer s.Close()
	if err := Register(s, noVSwitch{}); err != nil {
		t.Fatal(err)
	}
	if err := Register(s, noVSwitch{}); err == nil || !strings.Contains(err.Error(), vswitch.InterfaceDescriptor) {
		t.Errorf("registering twice: got %v", err)
	}
}

// noVSwitch has ports that are never called.
type noVSwitch struct{ vswitch.VSwitch }

type (
	noInterfaces struct{ vswitch.Interfaces }
	noBridges    struct{ vswitch.Bridges }
	noFIB        struct{ vswitch.FIB }
	noRoutes     struct{ vswitch.Routes }
	noNeighbours struct{ vswitch.Neighbours }
	noVRFs       struct{ vswitch.VRFs }
	noNAT        struct{ vswitch.NAT }
	noNAT66      struct{ vswitch.NAT66 }
	noDNAT66     struct{ vswitch.DNAT66 }
	noACLs       struct{ vswitch.ACLs }
	noFilter     struct{ vswitch.Filter }
)

func (noVSwitch) Capabilities() vswitch.Capabilities { return vswitch.Capabilities{} }

func (noVSwitch) Interfaces() vswitch.Interfaces { return noInterfaces{} }
func (noVSwitch) Bridges() vswitch.Bridges       { return noBridges{} }
func (noVSwitch) FIB() vswitch.FIB               { return noFIB{} }
func (noVSwitch) Routes() vswitch.Routes         { return noRoutes{} }
func (noVSwitch) Neighbours() vswitch.Neighbours { return noNeighbours{} }
func (noVSwitch) VRFs() vswitch.VRFs             { return noVRFs{} }
func (noVSwitch) NAT() vswitch.NAT               { return noNAT{} }
func (noVSwitch) NAT66() vswitch.NAT66           { return noNAT66{} }
func (noVSwitch) DNAT66() vswitch.DNAT66         { return noDNAT66{} }
func (noVSwitch) ACLs() vswitch.ACLs             { return noACLs{} }
func (noVSwitch) Filter() vswitch.Filter         { return noFilter{} }

type noServiceNetworks struct {
	vswitch.Values[*contiv_nat.ServiceNetwork]
}

func (noVSwitch) ServiceNetworks() vswitch.Values[*contiv_nat.ServiceNetwork] {
	return noServiceNetworks{}
}

type noStates struct{ vswitch.States }

func (noStates) Watch(func(...*vpp_interfaces.InterfaceState)) {}
func (noVSwitch) States() vswitch.States                       { return noStates{} }

func (noVSwitch) WatchLeases(func(string, *vpp_interfaces.DHCPLease)) {}

func (noVSwitch) SRv6() vswitch.SRv6 { return noSRv6{} }

type noSRv6 struct{ vswitch.SRv6 }

func (noSRv6) LocalSIDs() vswitch.Values[*vpp_srv6.LocalSID] { return noValues[*vpp_srv6.LocalSID]{} }
func (noSRv6) Policies() vswitch.Values[*vpp_srv6.Policy]    { return noValues[*vpp_srv6.Policy]{} }
func (noSRv6) Steerings() vswitch.Values[*vpp_srv6.Steering] { return noValues[*vpp_srv6.Steering]{} }
func (noSRv6) Globals() vswitch.Values[*vpp_srv6.SRv6Global] { return noValues[*vpp_srv6.SRv6Global]{} }

type noABFs struct{ vswitch.ABFs }

type (
	noRxQueues     struct{ vswitch.RxQueues }
	noSourceGuards struct{ vswitch.SourceGuards }
)

func (noVSwitch) RxQueues() vswitch.RxQueues         { return noRxQueues{} }
func (noVSwitch) SourceGuards() vswitch.SourceGuards { return noSourceGuards{} }
func (noVSwitch) SourceRanges() vswitch.Values[*guard.SourceRanges] {
	return noValues[*guard.SourceRanges]{}
}
func (noVSwitch) ABFs() vswitch.ABFs                            { return noABFs{} }
func (noVSwitch) STNRules() vswitch.Values[*vpp_stn.Rule]       { return noValues[*vpp_stn.Rule]{} }
func (noVSwitch) PuntsToHost() vswitch.Values[*vpp_punt.ToHost] { return noValues[*vpp_punt.ToHost]{} }
func (noVSwitch) IPRedirects() vswitch.Values[*vpp_punt.IPRedirect] {
	return noValues[*vpp_punt.IPRedirect]{}
}
func (noVSwitch) DHCPProxies() vswitch.Values[*vpp_l3.DHCPProxy] {
	return noValues[*vpp_l3.DHCPProxy]{}
}
func (noVSwitch) TEIBs() vswitch.Values[*vpp_l3.TeibEntry] { return noValues[*vpp_l3.TeibEntry]{} }

func (noVSwitch) PuntExceptions() vswitch.Values[*vpp_punt.Exception] {
	return noValues[*vpp_punt.Exception]{}
}

func (noVSwitch) IPScanNeighbors() vswitch.Values[*vpp_l3.IPScanNeighbor] {
	return noValues[*vpp_l3.IPScanNeighbor]{}
}

func (noVSwitch) XConnects() vswitch.Values[*vpp_l2.XConnectPair] {
	return noValues[*vpp_l2.XConnectPair]{}
}
func (noVSwitch) Spans() vswitch.Values[*vpp_interfaces.Span] {
	return noValues[*vpp_interfaces.Span]{}
}

type noValues[V proto.Message] struct{ vswitch.Values[V] }

func (noVSwitch) L3XConnects() vswitch.Values[*vpp_l3.L3XConnect] {
	return noValues[*vpp_l3.L3XConnect]{}
}

func (noVSwitch) WireGuardPeers() vswitch.Values[*vpp_wireguard.Peer] {
	return noValues[*vpp_wireguard.Peer]{}
}

func (noVSwitch) ProxyARP() vswitch.ProxyARP { return noProxyARP{} }

func (noVSwitch) Lacks(string) string { return "" }

type noProxyARP struct{ vswitch.ProxyARP }
