package nat

import (
	"context"
	"fmt"
	"sync"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip"
	"go.fd.io/govpp/binapi/nat44_ed"
	"google.golang.org/protobuf/proto"
)

var module = session.NewModule("nat44_ed_plugin.so", "NAT44",
	&nat44_ed.Nat44EdPluginEnableDisable{}, &nat44_ed.Nat44EdPluginEnableDisableReply{},
	&nat44_ed.Nat44ShowRunningConfig{}, &nat44_ed.Nat44ShowRunningConfigReply{},
	&nat44_ed.Nat44ForwardingEnableDisable{}, &nat44_ed.Nat44ForwardingEnableDisableReply{},
	&nat44_ed.NatSetTimeouts{}, &nat44_ed.NatSetTimeoutsReply{},
	&nat44_ed.Nat44InterfaceAddDelFeature{}, &nat44_ed.Nat44InterfaceAddDelFeatureReply{},
	&nat44_ed.Nat44InterfaceDump{}, &nat44_ed.Nat44InterfaceDetails{},
	&nat44_ed.Nat44EdAddDelOutputInterface{}, &nat44_ed.Nat44EdAddDelOutputInterfaceReply{},
	&nat44_ed.Nat44EdOutputInterfaceGet{}, &nat44_ed.Nat44EdOutputInterfaceGetReply{}, &nat44_ed.Nat44EdOutputInterfaceDetails{},
	&nat44_ed.Nat44AddDelAddressRange{}, &nat44_ed.Nat44AddDelAddressRangeReply{}, &nat44_ed.Nat44AddressDump{}, &nat44_ed.Nat44AddressDetails{},
	&nat44_ed.Nat44AddDelStaticMappingV2{}, &nat44_ed.Nat44AddDelStaticMappingV2Reply{},
	&nat44_ed.Nat44StaticMappingDump{}, &nat44_ed.Nat44StaticMappingDetails{},
	&nat44_ed.Nat44AddDelLbStaticMapping{}, &nat44_ed.Nat44AddDelLbStaticMappingReply{},
	&nat44_ed.Nat44LbStaticMappingAddDelLocal{}, &nat44_ed.Nat44LbStaticMappingAddDelLocalReply{},
	&nat44_ed.Nat44LbStaticMappingDump{}, &nat44_ed.Nat44LbStaticMappingDetails{},
	&nat44_ed.Nat44AddDelIdentityMapping{}, &nat44_ed.Nat44AddDelIdentityMappingReply{},
	&nat44_ed.Nat44IdentityMappingDump{}, &nat44_ed.Nat44IdentityMappingDetails{},
	&nat44_ed.Nat44UserDump{}, &nat44_ed.Nat44UserDetails{}, &nat44_ed.Nat44UserSessionV3Dump{}, &nat44_ed.Nat44UserSessionV3Details{},
	&nat44_ed.Nat44DelSession{}, &nat44_ed.Nat44DelSessionReply{},
	&nat44_ed.Nat44EdAddDelVrfTable{}, &nat44_ed.Nat44EdAddDelVrfTableReply{},
	&nat44_ed.Nat44EdAddDelVrfRoute{}, &nat44_ed.Nat44EdAddDelVrfRouteReply{},
	&nat44_ed.Nat44EdVrfTablesV2Dump{}, &nat44_ed.Nat44EdVrfTablesDetails{},
)

var natAddressModule = session.NewModule("", "addresses of interfaces", &ip.IPAddressDump{}, &ip.IPAddressDetails{})

var reassemblyModule = session.NewModule("", "reassembly",
	&ip.IPReassemblySet{}, &ip.IPReassemblySetReply{}, &ip.IPReassemblyGet{}, &ip.IPReassemblyGetReply{},
)

// NAT drives the plugin nat44-ed. Unnamed objects (interfaces, pools, VRF tables) are ours on our
// interfaces; tags identify our mappings.
type NAT struct {
	subsystem.Base
	vpp   *session.Session
	ifs   *ownership.Registry
	notes notes
}

var _ vswitch.NAT = (*NAT)(nil)

// New returns NAT over a session.
func New(vpp *session.Session, ifs *ownership.Registry) *NAT {
	return &NAT{Base: subsystem.Base{Uses: []*session.Module{module, reassemblyModule, natAddressModule}}, vpp: vpp, ifs: ifs, notes: newNotes()}
}

// notes holds request fields that VPP does not report.
type notes struct {
	// changing is held while mappings change, including the check whether an address is free.
	changing sync.Mutex

	mu sync.Mutex
	// Requests of the global value's lists, by key.
	globalIfaces map[string]*vpp_nat.Nat44Global_Interface
	globalAddrs  map[string]*vpp_nat.Nat44Global_Address
	// Labels of values with mappings for an interface's addresses, by its name.
	byInterface map[string]map[string]bool
	// vrfTables holds the expected VRFs of tables.
	vrfTables map[uint32][]uint32
}

func newNotes() notes {
	return notes{
		globalIfaces: map[string]*vpp_nat.Nat44Global_Interface{}, globalAddrs: map[string]*vpp_nat.Nat44Global_Address{},
		byInterface: map[string]map[string]bool{},
	}
}

func (v *NAT) Enable(ctx context.Context, g *vpp_nat.Nat44Global) error {
	if g.GetEndpointIndependent() {
		return vswitch.Unsupported("endpoint-independent NAT: services need NAT that is not (leave endpoint_independent out)")
	}
	err := v.vpp.Call(ctx, module, &nat44_ed.Nat44EdPluginEnableDisable{Enable: true}, &nat44_ed.Nat44EdPluginEnableDisableReply{})
	if err != nil && !vppapi.Refused(err, api.FEATURE_ALREADY_ENABLED) {
		return fmt.Errorf("turning NAT on: %w", err)
	}
	if err := v.vpp.Call(ctx, module, &nat44_ed.Nat44ForwardingEnableDisable{Enable: g.GetForwarding()}, &nat44_ed.Nat44ForwardingEnableDisableReply{}); err != nil {
		return fmt.Errorf("setting NAT's forwarding to %v: %w", g.GetForwarding(), err)
	}
	if err := v.vpp.Call(ctx, module, timeoutsOf(g), &nat44_ed.NatSetTimeoutsReply{}); err != nil {
		return fmt.Errorf("setting time-outs of sessions: %w", err)
	}
	return v.setReassembly(ctx, g.GetVirtualReassembly())
}

// Disable removes NAT from VPP. Load-balanced mappings go first: VPP would drop them without
// releasing their VRF tables.
func (v *NAT) Disable(ctx context.Context) error {
	on, err := v.isOn(ctx)
	if err == nil && on {
		err = v.removeAllBalanced(ctx)
	}
	if err == nil && on {
		err = v.vpp.Call(ctx, module, &nat44_ed.Nat44EdPluginEnableDisable{}, &nat44_ed.Nat44EdPluginEnableDisableReply{})
	}
	if err != nil && !vppapi.Refused(err, api.FEATURE_ALREADY_DISABLED) {
		return fmt.Errorf("turning NAT off: %w", err)
	}
	return v.setReassembly(ctx, nil)
}

func (v *NAT) isOn(ctx context.Context) (bool, error) {
	c, err := v.config(ctx)
	return c != nil, err
}

// config returns nil if NAT is off, when VPP reports zeros.
func (v *NAT) config(ctx context.Context) (*nat44_ed.Nat44ShowRunningConfigReply, error) {
	c := &nat44_ed.Nat44ShowRunningConfigReply{}
	err := v.vpp.Call(ctx, module, &nat44_ed.Nat44ShowRunningConfig{}, c)
	if err != nil || c.Sessions == 0 {
		return nil, err
	}
	return c, nil
}

func (v *NAT) Global(ctx context.Context, expected *vpp_nat.Nat44Global) (*vpp_nat.Nat44Global, error) {
	v.notes.noteGlobal(expected)
	config, err := v.config(ctx)
	if err != nil || config == nil {
		return nil, session.Wrap("reading the configuration of NAT", err)
	}
	g := &vpp_nat.Nat44Global{Forwarding: config.ForwardingEnabled}
	if g.VirtualReassembly, err = v.reassembly(ctx, expected.GetVirtualReassembly()); err != nil {
		return nil, err
	}
	readTimeouts(config.Timeouts, expected, g)
	state, err := v.natInterfaces(ctx)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 some still use them
	for _, i := range expected.GetNatInterfaces() {
		now := state[i.GetName()]
		ok := now.output
		if !i.GetOutputFeature() {
			ok = i.GetIsInside() && now.inside || !i.GetIsInside() && now.outside
		}
		if ok {
			//lint:ignore SA1019 some still use them
			g.NatInterfaces = append(g.NatInterfaces, proto.CloneOf(i))
		}
	}
	addrs, err := v.poolAddresses(ctx)
	if err != nil {
		return nil, err
	}
	//lint:ignore SA1019 some still use them
	for _, a := range expected.GetAddressPool() {
		if addr, err := convert.ParseAddr(a.GetAddress()); err == nil && hasPoolAddress(addrs, poolAddress{addr, a.GetVrfId(), a.GetTwiceNat()}) {
			//lint:ignore SA1019 some still use them
			g.AddressPool = append(g.AddressPool, proto.CloneOf(a))
		}
	}
	return g, nil
}

// noteGlobal records the parts of the global value.
func (n *notes) noteGlobal(g *vpp_nat.Nat44Global) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.globalIfaces)
	clear(n.globalAddrs)
	//lint:ignore SA1019 some still use them
	for _, i := range g.GetNatInterfaces() {
		n.globalIfaces[models.NAT44GlobalInterfaceKey(i.GetName(), i.GetIsInside())] = i
	}
	//lint:ignore SA1019 some still use them
	for _, a := range g.GetAddressPool() {
		n.globalAddrs[models.NAT44GlobalAddressKey(a.GetAddress(), a.GetTwiceNat())] = a
	}
}
