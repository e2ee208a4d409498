package nat

import (
	"context"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/nat44_ed"
)

func (v *NAT) AddVRFTable(ctx context.Context, t *vpp_nat.Nat44VrfTable) error {
	err := v.vpp.Call(ctx, module, &nat44_ed.Nat44EdAddDelVrfTable{TableVrfID: t.GetSrcVrfId(), IsAdd: true}, &nat44_ed.Nat44EdAddDelVrfTableReply{})
	if err != nil && !vppapi.Refused(err, api.VALUE_EXIST) {
		return fmt.Errorf("adding the VRFs that NAT knows for VRF %d: %w", t.GetSrcVrfId(), err)
	}
	for _, dest := range t.GetDestVrfIds() {
		if err := v.addVRFRoute(ctx, t.GetSrcVrfId(), dest); err != nil {
			return err
		}
	}
	return nil
}

func (v *NAT) RemoveVRFTable(ctx context.Context, t *vpp_nat.Nat44VrfTable) error {
	err := v.vpp.Call(ctx, module, &nat44_ed.Nat44EdAddDelVrfTable{TableVrfID: t.GetSrcVrfId()}, &nat44_ed.Nat44EdAddDelVrfTableReply{})
	if err != nil && !vppapi.Refused(err, api.NO_SUCH_ENTRY) {
		return fmt.Errorf("removing the VRFs that NAT knows for VRF %d: %w", t.GetSrcVrfId(), err)
	}
	return nil
}

func (v *NAT) addVRFRoute(ctx context.Context, src, dest uint32) error {
	err := v.vpp.Call(ctx, module, &nat44_ed.Nat44EdAddDelVrfRoute{TableVrfID: src, VrfID: dest, IsAdd: true}, &nat44_ed.Nat44EdAddDelVrfRouteReply{})
	if vppapi.Refused(err, api.VALUE_EXIST) {
		return nil
	}
	return session.Wrap(fmt.Sprintf("making NAT translate from VRF %d to VRF %d", src, dest), err)
}

func (v *NAT) AddVRFRoute(ctx context.Context, r *vpp_nat.Nat44VrfRoute) error {
	return v.addVRFRoute(ctx, r.GetSrcVrfId(), r.GetDestVrfId())
}

// RemoveVRFRoute recreates the table: VPP 25.10 reports arbitrary numbers for a table after the
// removal of a route.
func (v *NAT) RemoveVRFRoute(ctx context.Context, r *vpp_nat.Nat44VrfRoute) error {
	tables, err := v.vrfTables(ctx)
	if err != nil || !slices.Contains(tables[r.GetSrcVrfId()], r.GetDestVrfId()) {
		return err
	}
	t := &vpp_nat.Nat44VrfTable{SrcVrfId: r.GetSrcVrfId()}
	for _, dest := range tables[r.GetSrcVrfId()] {
		if dest != r.GetDestVrfId() {
			t.DestVrfIds = append(t.DestVrfIds, dest)
		}
	}
	if err := v.RemoveVRFTable(ctx, t); err != nil {
		return err
	}
	return v.AddVRFTable(ctx, t)
}

// vrfTables reads the tables. VPP 25.10 answers with details of the first message version, filled
// like the second.
func (v *NAT) vrfTables(ctx context.Context) (map[uint32][]uint32, error) {
	found, err := session.Dump[nat44_ed.Nat44EdVrfTablesDetails](ctx, v.vpp, module, &nat44_ed.Nat44EdVrfTablesV2Dump{})
	if err != nil {
		return nil, fmt.Errorf("listing the VRFs that NAT knows: %w", err)
	}
	tables := map[uint32][]uint32{}
	for _, d := range found {
		tables[d.TableVrfID] = d.VrfIds
	}
	return tables, nil
}

// ListVRFTables returns surplus entries of a table as routes.
func (v *NAT) ListVRFTables(ctx context.Context, expected []*vpp_nat.Nat44VrfTable) (found []*vpp_nat.Nat44VrfTable, err error) {
	tables, err := v.vrfTables(ctx)
	wanted := map[uint32][]uint32{}
	for _, t := range expected {
		wanted[t.GetSrcVrfId()] = t.GetDestVrfIds()
	}
	v.notes.mu.Lock()
	v.notes.vrfTables = wanted
	v.notes.mu.Unlock()
	for src, dests := range tables {
		t := &vpp_nat.Nat44VrfTable{SrcVrfId: src}
		for _, dest := range dests {
			if slices.Contains(wanted[src], dest) {
				t.DestVrfIds = append(t.DestVrfIds, dest)
			}
		}
		found = append(found, t)
	}
	return found, err
}

func (v *NAT) ListVRFRoutes(ctx context.Context, _ []*vpp_nat.Nat44VrfRoute) (found []*vpp_nat.Nat44VrfRoute, err error) {
	tables, err := v.vrfTables(ctx)
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	for src, dests := range tables {
		for _, dest := range dests {
			if !slices.Contains(v.notes.vrfTables[src], dest) {
				found = append(found, &vpp_nat.Nat44VrfRoute{SrcVrfId: src, DestVrfId: dest})
			}
		}
	}
	return found, err
}
