package vpp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_neighbor"
	"go.fd.io/govpp/binapi/ip_types"
)

var neighbourModule = newModule("", "neighbours",
	&ip_neighbor.IPNeighborAddDel{}, &ip_neighbor.IPNeighborAddDelReply{}, &ip_neighbor.IPNeighborDump{}, &ip_neighbor.IPNeighborDetails{},
)

// neighbours are ours if they are static and on our interfaces. All entries are made
// static: VPP would overwrite others by what it learns. What an entry says about being
// static is taken from the expected value.
type neighbours struct{ *VSwitch }

func (v *VSwitch) Neighbours() vswitch.Neighbours { return neighbours{v} }

var _ vswitch.Bulk[*vpp_l3.ARPEntry] = neighbours{}

func (v neighbours) Create(ctx context.Context, e *vpp_l3.ARPEntry) error {
	return v.CreateAll(ctx, []*vpp_l3.ARPEntry{e})[0]
}

func (v neighbours) Delete(ctx context.Context, e *vpp_l3.ARPEntry) error {
	return v.DeleteAll(ctx, []*vpp_l3.ARPEntry{e})[0]
}

func (v neighbours) CreateAll(ctx context.Context, all []*vpp_l3.ARPEntry) []error {
	for _, e := range all {
		v.neighbours.put(e)
	}
	errs := v.setAll(ctx, all, true)
	for i, e := range all {
		if errs[i] != nil {
			v.neighbours.drop(e)
			errs[i] = fmt.Errorf("adding neighbour %s of interface %q: %w", e.GetIpAddress(), e.GetInterface(), errs[i])
		}
	}
	return errs
}

// DeleteAll: neighbours are gone with their interface.
func (v neighbours) DeleteAll(ctx context.Context, all []*vpp_l3.ARPEntry) []error {
	for _, e := range all {
		v.neighbours.drop(e)
	}
	errs := v.setAll(ctx, all, false)
	for i, e := range all {
		var none *noInterfaceError
		switch err := errs[i]; {
		case errors.As(err, &none), vppapi.Refused(err, api.NO_SUCH_ENTRY), vppapi.Refused(err, api.INVALID_SW_IF_INDEX):
			errs[i] = nil
		case err != nil:
			errs[i] = fmt.Errorf("deleting neighbour %s of interface %q: %w", e.GetIpAddress(), e.GetInterface(), err)
		}
	}
	return errs
}

func (v neighbours) setAll(ctx context.Context, all []*vpp_l3.ARPEntry, add bool) []error {
	errs := make([]error, len(all))
	var reqs []api.Message
	var of []int
	for i, e := range all {
		n, err := v.neighbourOf(ctx, e)
		if errs[i] = err; err == nil {
			reqs, of = append(reqs, &ip_neighbor.IPNeighborAddDel{IsAdd: add, Neighbor: n}), append(of, i)
		}
	}
	_, sent := callAll[ip_neighbor.IPNeighborAddDelReply](ctx, v.VSwitch, neighbourModule, reqs)
	for j, err := range sent {
		errs[of[j]] = err
		if vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
			v.ifs.forget()
		}
	}
	return errs
}

func (v neighbours) neighbourOf(ctx context.Context, e *vpp_l3.ARPEntry) (n ip_neighbor.IPNeighbor, err error) {
	addr, err := parseAddr(e.GetIpAddress())
	if err != nil {
		return n, err
	}
	mac, err := parseMAC(e.GetPhysAddress())
	if err != nil {
		return n, err
	}
	i, err := v.indexOf(ctx, e.GetInterface())
	return ip_neighbor.IPNeighbor{SwIfIndex: i, Flags: ip_neighbor.IP_API_NEIGHBOR_FLAG_STATIC, MacAddress: mac, IPAddress: addressOf(addr)}, err
}

func (v neighbours) List(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	return v.list(ctx, expected, noIndex)
}

// Find reads those of the interfaces of the expected entries.
func (v neighbours) Find(ctx context.Context, expected []*vpp_l3.ARPEntry) ([]*vpp_l3.ARPEntry, error) {
	wanted, on := map[string]bool{}, map[index]bool{}
	for _, e := range expected {
		i, err := v.indexOf(ctx, e.GetInterface())
		var none *noInterfaceError
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
	from := make([]index, 0, len(on))
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

// list reads the entries of interfaces; noIndex: of all.
func (v neighbours) list(ctx context.Context, expected []*vpp_l3.ARPEntry, on ...index) (list []*vpp_l3.ARPEntry, err error) {
	pending := v.startInterfaces(ctx)
	var dumps []*pendingDump[ip_neighbor.IPNeighborDetails, *ip_neighbor.IPNeighborDetails]
	for _, i := range on {
		for _, af := range []ip_types.AddressFamily{ip_types.ADDRESS_IP4, ip_types.ADDRESS_IP6} {
			dumps = append(dumps, startDump[ip_neighbor.IPNeighborDetails](ctx, v.VSwitch, neighbourModule, &ip_neighbor.IPNeighborDump{SwIfIndex: i, Af: af}))
		}
	}
	names, err := waitNames(ctx, pending)
	type id struct {
		iface string
		ip    netip.Addr
	}
	wanted := make(map[id]*vpp_l3.ARPEntry, len(expected))
	for _, e := range expected {
		ip, _ := parseAddr(e.GetIpAddress())
		wanted[id{e.GetInterface(), ip}] = e
	}
	for _, dump := range dumps {
		all, dumpErr := dump.wait(ctx)
		if err == nil && dumpErr != nil {
			err = fmt.Errorf("reading neighbours: %w", dumpErr)
		}
		for _, d := range all {
			name, ours := names.of(d.Neighbor.SwIfIndex)
			if !ours || d.Neighbor.Flags&ip_neighbor.IP_API_NEIGHBOR_FLAG_STATIC == 0 {
				continue
			}
			ip := addrOf(d.Neighbor.IPAddress)
			e := &vpp_l3.ARPEntry{Interface: name, IpAddress: ip.String(), PhysAddress: d.Neighbor.MacAddress.String(), Static: true}
			if want := wanted[id{name, ip}]; want != nil {
				e.IpAddress, e.Static = want.GetIpAddress(), want.GetStatic()
				v.neighbours.put(want)
			}
			list = append(list, e)
		}
	}
	return list, err
}
