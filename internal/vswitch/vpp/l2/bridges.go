package l2

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/lib/delta"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/l2"
)

var module = session.NewModule("", "bridge domains",
	&l2.BridgeDomainAddDelV2{}, &l2.BridgeDomainAddDelV2Reply{}, &l2.BridgeDomainDump{}, &l2.BridgeDomainDetails{},
	&l2.BridgeFlags{}, &l2.BridgeFlagsReply{}, &l2.BridgeDomainSetMacAge{}, &l2.BridgeDomainSetMacAgeReply{},
	&l2.BdIPMacAddDel{}, &l2.BdIPMacAddDelReply{}, &l2.BdIPMacDump{}, &l2.BdIPMacDetails{},
	&l2.SwInterfaceSetL2Bridge{}, &l2.SwInterfaceSetL2BridgeReply{}, &l2.SwInterfaceSetL2Xconnect{}, &l2.SwInterfaceSetL2XconnectReply{},
	&l2.L2XconnectDump{}, &l2.L2XconnectDetails{},
	&l2.L2fibAddDel{}, &l2.L2fibAddDelReply{}, &l2.L2FibTableDump{}, &l2.L2FibTableDetails{},
)

const (
	everyBridge = ^uint32(0) // in dumps, and in requests that let VPP select a number
	// maximum age of learned addresses, in minutes
	maxMACAge = math.MaxUint8
)

// L2 drives VPP's layer 2: bridge domains, their FIBs, cross-connects.
type L2 struct {
	subsystem.Base
	vpp    *session.Session
	ifs    *ownership.Registry
	guards Guards
}

// Guards checks the packets received by some interfaces.
type Guards interface {
	// Bridged is called when an interface enters layer 2 or changes its bridge domain.
	Bridged(ctx context.Context, i ownership.Index) error
	// Unbridge moves a guarded interface to layer 3, and reports whether it is guarded.
	Unbridge(ctx context.Context, i ownership.Index) (guarded bool, err error)
}

func New(vpp *session.Session, ifs *ownership.Registry, guards Guards) *L2 {
	return &L2{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs, guards: guards}
}

// InterfaceLeaving removes an interface from its bridge domain before it is deleted.
func (v *L2) InterfaceLeaving(ctx context.Context, i ownership.Index) error {
	return bridges{v}.leave(ctx, i)
}

// bridges are ours if they have a tag, which is their name.
type bridges struct{ *L2 }

func (v *L2) Bridges() vswitch.Bridges { return bridges{v} }

// bridge returns a bridge domain by name; nil if none.
func (v bridges) bridge(ctx context.Context, name string) (*l2.BridgeDomainDetails, error) {
	all, err := v.dumpBridges(ctx)
	for _, d := range all {
		if bridgeName(d) == name {
			return d, nil
		}
	}
	return nil, err
}

func (v *L2) dumpBridges(ctx context.Context) ([]*l2.BridgeDomainDetails, error) {
	all, err := session.Dump[l2.BridgeDomainDetails](ctx, v.vpp, module, &l2.BridgeDomainDump{BdID: everyBridge, SwIfIndex: ownership.NoIndex})
	if err != nil {
		return nil, fmt.Errorf("reading bridge domains: %w", err)
	}
	return all, nil
}

func bridgeName(d *l2.BridgeDomainDetails) string { return strings.TrimRight(d.BdTag, "\x00") }

// bridgeID returns the number of a bridge domain.
func (v *L2) bridgeID(ctx context.Context, name string) (uint32, error) {
	d, err := bridges{v}.bridge(ctx, name)
	if err == nil && d == nil {
		err = fmt.Errorf("bridge domain %q does not exist", name)
	}
	if err != nil {
		return 0, err
	}
	return d.BdID, nil
}

func (v bridges) Create(ctx context.Context, bd *vpp_l2.BridgeDomain) error {
	if err := v.create(ctx, bd); err != nil {
		return fmt.Errorf("creating bridge domain %q: %w", bd.GetName(), err)
	}
	return nil
}

func (v bridges) create(ctx context.Context, bd *vpp_l2.BridgeDomain) error {
	if bd.GetMacAge() > maxMACAge {
		return vswitch.Unsupported("mac_age of %d minutes: use at most %d", bd.GetMacAge(), maxMACAge)
	}
	have, err := v.bridge(ctx, bd.GetName())
	if err != nil {
		return err
	}
	if have != nil {
		return errors.Join(v.adjust(ctx, have, bd), v.setARPTable(ctx, have.BdID, bd))
	}
	var reply l2.BridgeDomainAddDelV2Reply
	err = v.vpp.Call(ctx, module, &l2.BridgeDomainAddDelV2{
		IsAdd: true, BdID: everyBridge, BdTag: bd.GetName(), MacAge: uint8(bd.GetMacAge()), ArpTerm: bd.GetArpTermination(),
		Flood: bd.GetFlood(), UuFlood: bd.GetUnknownUnicastFlood(), Forward: bd.GetForward(), Learn: bd.GetLearn(),
	}, &reply)
	if err != nil {
		return err
	}
	return v.setARPTable(ctx, reply.BdID, bd)
}

// adjust sets the parameters of an existing bridge domain.
func (v bridges) adjust(ctx context.Context, have *l2.BridgeDomainDetails, bd *vpp_l2.BridgeDomain) error {
	var set, clear l2.BdFlags
	for _, f := range []struct {
		flag       l2.BdFlags
		have, want bool
	}{
		{l2.BRIDGE_API_FLAG_FLOOD, have.Flood, bd.GetFlood()},
		{l2.BRIDGE_API_FLAG_UU_FLOOD, have.UuFlood, bd.GetUnknownUnicastFlood()},
		{l2.BRIDGE_API_FLAG_FWD, have.Forward, bd.GetForward()},
		{l2.BRIDGE_API_FLAG_LEARN, have.Learn, bd.GetLearn()},
		{l2.BRIDGE_API_FLAG_ARP_TERM, have.ArpTerm, bd.GetArpTermination()},
	} {
		switch {
		case f.want && !f.have:
			set |= f.flag
		case f.have && !f.want:
			clear |= f.flag
		}
	}
	var errs []error
	if set != 0 {
		errs = append(errs, v.vpp.Call(ctx, module, &l2.BridgeFlags{BdID: have.BdID, IsSet: true, Flags: set}, &l2.BridgeFlagsReply{}))
	}
	if clear != 0 {
		errs = append(errs, v.vpp.Call(ctx, module, &l2.BridgeFlags{BdID: have.BdID, Flags: clear}, &l2.BridgeFlagsReply{}))
	}
	if age := uint8(bd.GetMacAge()); age != have.MacAge {
		errs = append(errs, v.vpp.Call(ctx, module, &l2.BridgeDomainSetMacAge{BdID: have.BdID, MacAge: age}, &l2.BridgeDomainSetMacAgeReply{}))
	}
	return errors.Join(errs...)
}

func (v bridges) Update(ctx context.Context, _, bd *vpp_l2.BridgeDomain) error {
	id, err := v.bridgeID(ctx, bd.GetName())
	if err == nil {
		err = v.setARPTable(ctx, id, bd)
	}
	if err != nil {
		return fmt.Errorf("changing bridge domain %q: %w", bd.GetName(), err)
	}
	return nil
}

// setARPTable applies the value's ARP termination table.
func (v bridges) setARPTable(ctx context.Context, id uint32, bd *vpp_l2.BridgeDomain) error {
	have, err := session.Dump[l2.BdIPMacDetails](ctx, v.vpp, module, &l2.BdIPMacDump{BdID: id})
	if err != nil {
		return fmt.Errorf("reading its ARP termination table: %w", err)
	}
	exists := map[l2.BdIPMac]bool{}
	for _, d := range have {
		exists[d.Entry] = true
	}
	wanted := map[l2.BdIPMac]bool{}
	var reqs []api.Message
	for _, e := range bd.GetArpTerminationTable() {
		addr, err := convert.ParseAddr(e.GetIpAddress())
		if err != nil {
			return err
		}
		mac, err := convert.ParseMAC(e.GetPhysAddress())
		if err != nil {
			return err
		}
		wanted[l2.BdIPMac{BdID: id, IP: convert.Address(addr), Mac: mac}] = true
	}
	plan := delta.BetweenSets(exists, wanted)
	plan.Sort(delta.Order[l2.BdIPMac]{RemoveFirst: true}) // VPP has one entry per address
	for _, step := range plan {
		reqs = append(reqs, &l2.BdIPMacAddDel{IsAdd: step.Kind == delta.Add, Entry: step.Key})
	}
	if _, errs := session.CallAll[l2.BdIPMacAddDelReply](ctx, v.vpp, module, reqs); errors.Join(errs...) != nil {
		return fmt.Errorf("setting its ARP termination table: %w", errors.Join(errs...))
	}
	return nil
}

// Delete: VPP refuses to delete a domain with interfaces, and would keep its static L2 FIB entries
// for the next domain in its place.
func (v bridges) Delete(ctx context.Context, bd *vpp_l2.BridgeDomain) error {
	d, err := v.bridge(ctx, bd.GetName())
	if err == nil && d != nil {
		err = v.remove(ctx, d)
	}
	if err != nil {
		return fmt.Errorf("deleting bridge domain %q: %w", bd.GetName(), err)
	}
	return nil
}

func (v bridges) remove(ctx context.Context, d *l2.BridgeDomainDetails) error {
	var errs []error
	for _, port := range d.SwIfDetails {
		errs = append(errs, v.leave(ctx, port.SwIfIndex))
	}
	entries, err := v.dumpFIB(ctx, d.BdID)
	errs = append(errs, err)
	var reqs []api.Message
	for _, e := range entries {
		reqs = append(reqs, &l2.L2fibAddDel{BdID: d.BdID, Mac: e.Mac, SwIfIndex: e.SwIfIndex})
	}
	_, deleted := session.CallAll[l2.L2fibAddDelReply](ctx, v.vpp, module, reqs)
	for _, err := range deleted {
		if !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	err = v.vpp.Call(ctx, module, &l2.BridgeDomainAddDelV2{BdID: d.BdID}, &l2.BridgeDomainAddDelV2Reply{})
	if vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return nil
	}
	return err
}

// leave moves an interface to layer 3.
func (v bridges) leave(ctx context.Context, i ownership.Index) error {
	if guarded, err := v.guards.Unbridge(ctx, i); guarded || err != nil {
		return err
	}
	err := v.vpp.Call(ctx, module, &l2.SwInterfaceSetL2Bridge{RxSwIfIndex: i}, &l2.SwInterfaceSetL2BridgeReply{})
	if vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
		return nil
	}
	return err
}

// Bind: another virtual interface of the bridge domain must be removed first.
func (v bridges) Bind(ctx context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	if err := v.bind(ctx, bd, iface); err != nil {
		return fmt.Errorf("binding interface %q to bridge domain %q: %w", iface.GetName(), bd, err)
	}
	return nil
}

func (v bridges) bind(ctx context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	if iface.GetSplitHorizonGroup() > math.MaxUint8 {
		return vswitch.Unsupported("split horizon group %d: use at most %d", iface.GetSplitHorizonGroup(), math.MaxUint8)
	}
	d, err := v.bridge(ctx, bd)
	if err != nil {
		return err
	}
	if d == nil {
		return errors.New("the bridge domain does not exist")
	}
	i, err := v.ifs.Index(ctx, iface.GetName())
	if err != nil {
		return err
	}
	req := &l2.SwInterfaceSetL2Bridge{RxSwIfIndex: i, BdID: d.BdID, Enable: true, Shg: uint8(iface.GetSplitHorizonGroup())}
	if iface.GetBridgedVirtualInterface() {
		req.PortType, req.Shg = l2.L2_API_PORT_TYPE_BVI, 0
	}
	for _, port := range d.SwIfDetails {
		if port.SwIfIndex == i && port.Shg == req.Shg && (d.BviSwIfIndex == i) == iface.GetBridgedVirtualInterface() {
			return nil // moving it again would briefly delete its L2 FIB entries
		}
	}
	if req.PortType == l2.L2_API_PORT_TYPE_BVI {
		frames, err := v.ifs.CarriesFrames(ctx, i)
		if err == nil && !frames { // VPP 25.10 ends
			err = vswitch.Unsupported("bridged_virtual_interface: the interface carries no Ethernet frames: use one of type SOFTWARE_LOOPBACK")
		}
		if err != nil {
			return err
		}
	}
	err = v.vpp.Call(ctx, module, req, &l2.SwInterfaceSetL2BridgeReply{})
	switch {
	case vppapi.Refused(err, api.BD_ALREADY_HAS_BVI):
		return errors.Join(fmt.Errorf("the domain has another virtual interface: %w", err), v.leave(ctx, i))
	case err != nil:
		return err
	}
	return v.guards.Bridged(ctx, i)
}

func (v bridges) Unbind(ctx context.Context, bd string, iface *vpp_l2.BridgeDomain_Interface) error {
	d, err := v.bridge(ctx, bd)
	if err == nil && d != nil {
		err = v.unbind(ctx, d, iface.GetName())
	}
	if err != nil {
		return fmt.Errorf("taking interface %q out of bridge domain %q: %w", iface.GetName(), bd, err)
	}
	return nil
}

func (v bridges) unbind(ctx context.Context, d *l2.BridgeDomainDetails, name string) error {
	i, err := v.ifs.Resolve(ctx, name)
	var none *ownership.NoInterfaceError
	if errors.As(err, &none) {
		return nil
	}
	if err != nil || !slices.ContainsFunc(d.SwIfDetails, func(port l2.BridgeDomainSwIf) bool { return port.SwIfIndex == i }) {
		return err
	}
	return v.leave(ctx, i)
}

func (v bridges) List(ctx context.Context, expected []*vpp_l2.BridgeDomain) ([]*vpp_l2.BridgeDomain, error) {
	pending := v.ifs.Start(ctx)
	tables := session.StartDump[l2.BdIPMacDetails](ctx, v.vpp, module, &l2.BdIPMacDump{BdID: everyBridge})
	all, err := v.dumpBridges(ctx)
	names, namesErr := ownership.WaitNames(ctx, pending)
	entries, tablesErr := tables.Wait(ctx)
	if err := errors.Join(err, namesErr, tablesErr); err != nil {
		return nil, err
	}
	written := map[l2.BdIPMac]string{} // how expected values write the address
	for _, bd := range expected {
		for _, e := range bd.GetArpTerminationTable() {
			if addr, err := convert.ParseAddr(e.GetIpAddress()); err == nil {
				written[l2.BdIPMac{IP: convert.Address(addr)}] = e.GetIpAddress()
			}
		}
	}
	var list []*vpp_l2.BridgeDomain
	for _, d := range all {
		if bridgeName(d) == "" {
			continue
		}
		bd := &vpp_l2.BridgeDomain{
			Name: bridgeName(d), Flood: d.Flood, UnknownUnicastFlood: d.UuFlood, Forward: d.Forward, Learn: d.Learn,
			ArpTermination: d.ArpTerm, MacAge: uint32(d.MacAge),
		}
		for _, port := range d.SwIfDetails {
			name, ours := names.Of(port.SwIfIndex)
			if !ours {
				continue
			}
			bd.Interfaces = append(bd.Interfaces, &vpp_l2.BridgeDomain_Interface{
				Name: name, BridgedVirtualInterface: port.SwIfIndex == d.BviSwIfIndex, SplitHorizonGroup: uint32(port.Shg),
			})
		}
		for _, e := range entries {
			if e.Entry.BdID != d.BdID {
				continue
			}
			text := convert.Addr(e.Entry.IP).String()
			if w := written[l2.BdIPMac{IP: e.Entry.IP}]; w != "" {
				text = w
			}
			bd.ArpTerminationTable = append(bd.ArpTerminationTable, &vpp_l2.BridgeDomain_ArpTerminationEntry{IpAddress: text, PhysAddress: e.Entry.Mac.String()})
		}
		list = append(list, bd)
	}
	return list, nil
}
