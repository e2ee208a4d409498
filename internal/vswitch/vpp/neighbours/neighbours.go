package neighbours

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
)

var module = session.NewModule("", "neighbours",
	&ip_neighbor.IPNeighborAddDel{}, &ip_neighbor.IPNeighborAddDelReply{}, &ip_neighbor.IPNeighborDump{}, &ip_neighbor.IPNeighborDetails{},
)

// Static neighbours on our interfaces are ours. All entries are static, because VPP overwrites
// others by learned ones. The static flag of a found entry comes from the expected value.
type Neighbours struct {
	subsystem.Base
	vpp   *session.Session
	ifs   *ownership.Registry
	hub   *subsystem.Hub
	notes notes
}

var (
	_ vswitch.Neighbours             = (*Neighbours)(nil)
	_ vswitch.Bulk[*vpp_l3.ARPEntry] = (*Neighbours)(nil)
)

func New(vpp *session.Session, ifs *ownership.Registry, hub *subsystem.Hub) *Neighbours {
	return &Neighbours{Base: subsystem.Base{Uses: []*session.Module{module, eventsModule}}, vpp: vpp, ifs: ifs, hub: hub}
}

func (v *Neighbours) Create(ctx context.Context, e *vpp_l3.ARPEntry) error {
	return v.CreateAll(ctx, []*vpp_l3.ARPEntry{e})[0]
}

func (v *Neighbours) Delete(ctx context.Context, e *vpp_l3.ARPEntry) error {
	return v.DeleteAll(ctx, []*vpp_l3.ARPEntry{e})[0]
}

func (v *Neighbours) CreateAll(ctx context.Context, all []*vpp_l3.ARPEntry) []error {
	for _, e := range all {
		v.notes.put(e)
	}
	errs := v.setAll(ctx, all, true)
	for i, e := range all {
		if errs[i] != nil {
			v.notes.drop(e)
			errs[i] = fmt.Errorf("adding neighbour %s of interface %q: %w", e.GetIpAddress(), e.GetInterface(), errs[i])
		}
	}
	return errs
}

// DeleteAll ignores missing interfaces, which take their neighbours along.
func (v *Neighbours) DeleteAll(ctx context.Context, all []*vpp_l3.ARPEntry) []error {
	for _, e := range all {
		v.notes.drop(e)
	}
	errs := v.setAll(ctx, all, false)
	for i, e := range all {
		var none *ownership.NoInterfaceError
		switch err := errs[i]; {
		case errors.As(err, &none), vppapi.Refused(err, api.NO_SUCH_ENTRY), vppapi.Refused(err, api.INVALID_SW_IF_INDEX):
			errs[i] = nil
		case err != nil:
			errs[i] = fmt.Errorf("deleting neighbour %s of interface %q: %w", e.GetIpAddress(), e.GetInterface(), err)
		}
	}
	return errs
}

func (v *Neighbours) setAll(ctx context.Context, all []*vpp_l3.ARPEntry, add bool) []error {
	errs := make([]error, len(all))
	var reqs []api.Message
	var of []int
	for i, e := range all {
		n, err := v.neighbourOf(ctx, e)
		if errs[i] = err; err == nil {
			reqs, of = append(reqs, &ip_neighbor.IPNeighborAddDel{IsAdd: add, Neighbor: n}), append(of, i)
		}
	}
	_, sent := session.CallAll[ip_neighbor.IPNeighborAddDelReply](ctx, v.vpp, module, reqs)
	for j, err := range sent {
		errs[of[j]] = err
		if vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
			v.ifs.Forget()
		}
	}
	return errs
}

func (v *Neighbours) neighbourOf(ctx context.Context, e *vpp_l3.ARPEntry) (n ip_neighbor.IPNeighbor, err error) {
	addr, err := convert.ParseAddr(e.GetIpAddress())
	if err != nil {
		return n, err
	}
	mac, err := convert.ParseMAC(e.GetPhysAddress())
	if err != nil {
		return n, err
	}
	i, err := v.ifs.Resolve(ctx, e.GetInterface())
	return ip_neighbor.IPNeighbor{SwIfIndex: i, Flags: ip_neighbor.IP_API_NEIGHBOR_FLAG_STATIC, MacAddress: mac, IPAddress: convert.Address(addr)}, err
}

func (v *Neighbours) List(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	return v.list(ctx, expected, ownership.NoIndex)
}

// Find reads the neighbours of the expected entries' interfaces.
func (v *Neighbours) Find(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	wanted, on := map[string]bool{}, map[ownership.Index]bool{}
	for _, e := range expected {
		i, err := v.ifs.Resolve(ctx, e.GetInterface())
		var none *ownership.NoInterfaceError
		switch {
		case errors.As(err, &none):
			continue
		case err != nil:
			return nil, err
		}
		wanted[models.Key(e)], on[i] = true, true
	}
	if len(on) == 0 {
		return nil, nil
	}
	from := make([]ownership.Index, 0, len(on))
	for i := range on {
		from = append(from, i)
	}
	all, err := v.list(ctx, expected, from...)
	var found []*vpp_l3.ARPEntry
	for _, e := range all {
		if wanted[models.Key(e)] {
			found = append(found, e)
		}
	}
	return found, err
}

// list reads the entries of interfaces; noIndex: all interfaces.
func (v *Neighbours) list(ctx context.Context, expected []*vpp_l3.ARPEntry, on ...ownership.Index) (list []*vpp_l3.ARPEntry, err error) {
	pending := v.ifs.Start(ctx)
	var dumps []*session.Pending[ip_neighbor.IPNeighborDetails, *ip_neighbor.IPNeighborDetails]
	for _, i := range on {
		for _, af := range []ip_types.AddressFamily{ip_types.ADDRESS_IP4, ip_types.ADDRESS_IP6} {
			dumps = append(dumps, session.StartDump[ip_neighbor.IPNeighborDetails](ctx, v.vpp, module, &ip_neighbor.IPNeighborDump{SwIfIndex: i, Af: af}))
		}
	}
	names, err := ownership.WaitNames(ctx, pending)
	type id struct {
		iface string
		ip    netip.Addr
	}
	wanted := make(map[id]*vpp_l3.ARPEntry, len(expected))
	for _, e := range expected {
		ip, _ := convert.ParseAddr(e.GetIpAddress())
		wanted[id{e.GetInterface(), ip}] = e
	}
	for _, dump := range dumps {
		all, dumpErr := dump.Wait(ctx)
		if err == nil && dumpErr != nil {
			err = fmt.Errorf("reading neighbours: %w", dumpErr)
		}
		for _, d := range all {
			name, ours := names.Of(d.Neighbor.SwIfIndex)
			if !ours || d.Neighbor.Flags&ip_neighbor.IP_API_NEIGHBOR_FLAG_STATIC == 0 {
				continue
			}
			ip := convert.Addr(d.Neighbor.IPAddress)
			e := &vpp_l3.ARPEntry{Interface: name, IpAddress: ip.String(), PhysAddress: d.Neighbor.MacAddress.String(), Static: true}
			if want := wanted[id{name, ip}]; want != nil {
				e.IpAddress, e.Static = want.GetIpAddress(), want.GetStatic()
				v.notes.put(want)
			}
			list = append(list, e)
		}
	}
	return list, err
}
