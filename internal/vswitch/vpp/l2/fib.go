package l2

import (
	"context"
	"errors"
	"fmt"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_l2 "github.com/contiv/contiv/api/ligato/vpp/l2"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/l2"
)

// l2fib: static entries of our bridge domains are ours, except that of the domain's virtual
// interface. Other entries are ours if expected, because they look like learned ones.
type l2fib struct{ *L2 }

func (v *L2) FIB() vswitch.FIB { return l2fib{v} }

var _ vswitch.Bulk[*vpp_l2.FIBEntry] = l2fib{}

func (v l2fib) Create(ctx context.Context, e *vpp_l2.FIBEntry) error {
	return v.CreateAll(ctx, []*vpp_l2.FIBEntry{e})[0]
}

func (v l2fib) Delete(ctx context.Context, e *vpp_l2.FIBEntry) error {
	return v.DeleteAll(ctx, []*vpp_l2.FIBEntry{e})[0]
}

func (v l2fib) CreateAll(ctx context.Context, all []*vpp_l2.FIBEntry) []error {
	return v.setAll(ctx, all, "adding", func(e *vpp_l2.FIBEntry, req *l2.L2fibAddDel, bd *l2.BridgeDomainDetails) (err error) {
		if bd == nil {
			return errors.New("the bridge domain does not exist")
		}
		req.IsAdd = true
		if e.GetAction() == vpp_l2.FIBEntry_DROP {
			req.FilterMac, req.StaticMac, req.SwIfIndex = true, true, ownership.NoIndex
			return nil
		}
		req.StaticMac, req.BviMac = e.GetStaticConfig(), e.GetBridgedVirtualInterface()
		if req.SwIfIndex, err = v.ifs.Index(ctx, e.GetOutgoingInterface()); err != nil {
			return err
		}
		for _, port := range bd.SwIfDetails {
			if port.SwIfIndex == req.SwIfIndex {
				return nil
			}
		}
		return fmt.Errorf("interface %q is not in the bridge domain", e.GetOutgoingInterface())
	})
}

// DeleteAll removes VPP's entries of the addresses. With interface 0, VPP does not check their
// interface.
func (v l2fib) DeleteAll(ctx context.Context, all []*vpp_l2.FIBEntry) []error {
	return v.setAll(ctx, all, "deleting", func(_ *vpp_l2.FIBEntry, _ *l2.L2fibAddDel, bd *l2.BridgeDomainDetails) error {
		if bd == nil {
			return errNothingToDo
		}
		return nil
	})
}

// errNothingToDo reports that no request is needed.
var errNothingToDo = errors.New("nothing to do")

// setAll sends a request for each entry, completed by fill.
func (v l2fib) setAll(ctx context.Context, all []*vpp_l2.FIBEntry, doing string, fill func(*vpp_l2.FIBEntry, *l2.L2fibAddDel, *l2.BridgeDomainDetails) error) []error {
	errs := make([]error, len(all))
	domains, err := v.dumpBridges(ctx)
	byName := map[string]*l2.BridgeDomainDetails{}
	for _, d := range domains {
		byName[bridgeName(d)] = d
	}
	var reqs []api.Message
	var of []int
	for i, e := range all {
		req := &l2.L2fibAddDel{}
		if errs[i] = err; err != nil {
			continue
		}
		bd := byName[e.GetBridgeDomain()]
		if req.Mac, errs[i] = convert.ParseMAC(e.GetPhysAddress()); errs[i] == nil {
			errs[i] = fill(e, req, bd)
		}
		if errs[i] == nil {
			req.BdID = bd.BdID
			reqs, of = append(reqs, req), append(of, i)
		}
	}
	_, sent := session.CallAll[l2.L2fibAddDelReply](ctx, v.vpp, module, reqs)
	for j, err := range sent {
		if reqs[j].(*l2.L2fibAddDel).IsAdd || !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
			errs[of[j]] = err
		}
	}
	for i, e := range all {
		switch err := errs[i]; {
		case errors.Is(err, errNothingToDo):
			errs[i] = nil
		case err != nil:
			errs[i] = fmt.Errorf("%s the L2 FIB entry of %s in bridge domain %q: %w", doing, e.GetPhysAddress(), e.GetBridgeDomain(), err)
		}
	}
	return errs
}

func (v *L2) dumpFIB(ctx context.Context, bd uint32) ([]*l2.L2FibTableDetails, error) {
	all, err := session.Dump[l2.L2FibTableDetails](ctx, v.vpp, module, &l2.L2FibTableDump{BdID: bd})
	if err != nil {
		return nil, fmt.Errorf("reading the L2 FIB: %w", err)
	}
	return all, nil
}

func (v l2fib) List(ctx context.Context, expected []*vpp_l2.FIBEntry) ([]*vpp_l2.FIBEntry, error) {
	pending := v.ifs.Start(ctx)
	domains, err := v.dumpBridges(ctx)
	entries, fibErr := v.dumpFIB(ctx, everyBridge)
	names, namesErr := ownership.WaitNames(ctx, pending)
	if err := errors.Join(err, fibErr, namesErr); err != nil {
		return nil, err
	}
	type id struct {
		bd  string
		mac ethernet_types.MacAddress
	}
	wanted := make(map[id]*vpp_l2.FIBEntry, len(expected))
	for _, e := range expected {
		mac, _ := convert.ParseMAC(e.GetPhysAddress())
		wanted[id{e.GetBridgeDomain(), mac}] = e
	}
	byID := map[uint32]string{}
	for _, d := range domains {
		byID[d.BdID] = bridgeName(d)
	}
	var list []*vpp_l2.FIBEntry
	for _, d := range entries {
		bd := byID[d.BdID]
		want := wanted[id{bd, d.Mac}]
		if bd == "" || want == nil && (!d.StaticMac || d.BviMac) {
			continue
		}
		e := &vpp_l2.FIBEntry{BridgeDomain: bd, PhysAddress: d.Mac.String(), StaticConfig: d.StaticMac, BridgedVirtualInterface: d.BviMac}
		switch {
		case d.FilterMac:
			e.Action = vpp_l2.FIBEntry_DROP
		default:
			name, ours := names.Of(d.SwIfIndex)
			if !ours {
				continue
			}
			e.OutgoingInterface = name
		}
		if want != nil {
			e.PhysAddress = want.GetPhysAddress()
			if d.FilterMac && want.GetAction() == vpp_l2.FIBEntry_DROP {
				e.OutgoingInterface, e.StaticConfig, e.BridgedVirtualInterface = want.GetOutgoingInterface(), want.GetStaticConfig(), want.GetBridgedVirtualInterface()
			}
		}
		list = append(list, e)
	}
	return list, nil
}
