package nat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"github.com/contiv/contiv/models"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/nat44_ed"
	"go.fd.io/govpp/binapi/nat_types"
)

// VPP has addresses, not pools. An address exists at most once per kind (twice-NAT, and source NAT
// of leaving packets).
type poolAddress struct {
	addr  netip.Addr
	vrf   uint32
	twice bool
}

// maxPool bounds the addresses of a pool.
const maxPool = 1 << 16

func addressesOf(p *vpp_nat.Nat44AddressPool) (list []poolAddress, err error) {
	first, err := convert.ParseAddr(p.GetFirstIp())
	if err != nil {
		return nil, err
	}
	last := first
	if p.GetLastIp() != "" {
		if last, err = convert.ParseAddr(p.GetLastIp()); err != nil {
			return nil, err
		}
	}
	for addr := first; addr.Compare(last) <= 0; addr = addr.Next() {
		if len(list) == maxPool {
			return nil, fmt.Errorf("%s to %s are more than %d addresses", first, last, maxPool)
		}
		list = append(list, poolAddress{addr, p.GetVrfId(), p.GetTwiceNat()})
	}
	return list, nil
}

func (v *NAT) AddPool(ctx context.Context, p *vpp_nat.Nat44AddressPool) error {
	addrs, err := addressesOf(p)
	if err == nil {
		err = v.changeAddresses(ctx, true, addrs)
	}
	return session.Wrap(fmt.Sprintf("adding NAT addresses %s to %s", p.GetFirstIp(), p.GetLastIp()), err)
}

func (v *NAT) RemovePool(ctx context.Context, p *vpp_nat.Nat44AddressPool) error {
	addrs, err := addressesOf(p)
	if err == nil {
		err = v.changeAddresses(ctx, false, addrs)
	}
	return session.Wrap(fmt.Sprintf("removing NAT addresses %s to %s", p.GetFirstIp(), p.GetLastIp()), err)
}

func globalAddress(a *vpp_nat.Nat44Global_Address) ([]poolAddress, error) {
	addr, err := convert.ParseAddr(a.GetAddress())
	return []poolAddress{{addr, a.GetVrfId(), a.GetTwiceNat()}}, err
}

func (v *NAT) AddGlobalAddress(ctx context.Context, a *vpp_nat.Nat44Global_Address) error {
	v.notes.mu.Lock()
	v.notes.globalAddrs[models.NAT44GlobalAddressKey(a.GetAddress(), a.GetTwiceNat())] = a
	v.notes.mu.Unlock()
	addrs, err := globalAddress(a)
	if err == nil {
		err = v.changeAddresses(ctx, true, addrs)
	}
	return session.Wrap("adding NAT address "+a.GetAddress(), err)
}

func (v *NAT) RemoveGlobalAddress(ctx context.Context, a *vpp_nat.Nat44Global_Address) error {
	v.notes.mu.Lock()
	delete(v.notes.globalAddrs, models.NAT44GlobalAddressKey(a.GetAddress(), a.GetTwiceNat()))
	v.notes.mu.Unlock()
	addrs, err := globalAddress(a)
	if err == nil {
		err = v.changeAddresses(ctx, false, addrs)
	}
	return session.Wrap("removing NAT address "+a.GetAddress(), err)
}

// changeAddresses adds missing addresses, or removes existing ones.
func (v *NAT) changeAddresses(ctx context.Context, add bool, addrs []poolAddress) error {
	if on, err := v.isOn(ctx); err != nil || !on {
		if err == nil && add {
			err = errors.New("NAT is off")
		}
		return err
	}
	now, err := v.poolAddresses(ctx)
	if err != nil {
		return err
	}
	var reqs []api.Message
	for _, a := range addrs {
		vrf, exists := now[poolAddress{addr: a.addr, twice: a.twice}]
		switch {
		case add && exists && vrf != a.vrf:
			return fmt.Errorf("%s is an address of VRF %d already", a.addr, int32(vrf))
		case add == exists || !add && vrf != a.vrf:
			continue
		}
		req := &nat44_ed.Nat44AddDelAddressRange{FirstIPAddress: ip_types.IP4Address(a.addr.As4()), VrfID: a.vrf, IsAdd: add}
		req.LastIPAddress = req.FirstIPAddress
		if a.twice {
			req.Flags = nat_types.NAT_IS_TWICE_NAT
		}
		reqs = append(reqs, req)
	}
	_, errs := session.CallAll[nat44_ed.Nat44AddDelAddressRangeReply](ctx, v.vpp, module, reqs)
	for i, err := range errs {
		if vppapi.Refused(err, api.VALUE_EXIST, api.NO_SUCH_ENTRY) {
			errs[i] = nil
		}
	}
	return errors.Join(errs...)
}

// poolAddresses returns the VRFs of addresses; the keys have none.
func (v *NAT) poolAddresses(ctx context.Context) (map[poolAddress]uint32, error) {
	found, err := session.Dump[nat44_ed.Nat44AddressDetails](ctx, v.vpp, module, &nat44_ed.Nat44AddressDump{})
	if err != nil {
		return nil, fmt.Errorf("listing addresses of NAT: %w", err)
	}
	all := map[poolAddress]uint32{}
	for _, d := range found {
		all[poolAddress{addr: netip.AddrFrom4(d.IPAddress), twice: d.Flags&nat_types.NAT_IS_TWICE_NAT != 0}] = d.VrfID
	}
	return all, nil
}

func hasPoolAddress(all map[poolAddress]uint32, a poolAddress) bool {
	vrf, ok := all[poolAddress{addr: a.addr, twice: a.twice}]
	return ok && vrf == a.vrf
}

// ListPools returns the expected pools with all addresses present, and each other address as a
// pool.
func (v *NAT) ListPools(ctx context.Context, expected []*vpp_nat.Nat44AddressPool) ([]*vpp_nat.Nat44AddressPool, error) {
	all, err := v.poolAddresses(ctx)
	if err != nil {
		return nil, err
	}
	rest := map[poolAddress]bool{}
	for a, vrf := range all {
		a.vrf = vrf
		rest[a] = true
	}
	v.notes.mu.Lock()
	for _, g := range v.notes.globalAddrs {
		if addrs, err := globalAddress(g); err == nil {
			delete(rest, addrs[0])
		}
	}
	v.notes.mu.Unlock()
	var found []*vpp_nat.Nat44AddressPool
	for _, p := range expected {
		addrs, err := addressesOf(p)
		complete := err == nil
		for _, a := range addrs {
			complete = complete && hasPoolAddress(all, a)
		}
		if !complete {
			continue
		}
		found = append(found, p)
		for _, a := range addrs {
			delete(rest, a)
		}
	}
	for a := range rest {
		found = append(found, &vpp_nat.Nat44AddressPool{FirstIp: a.addr.String(), VrfId: a.vrf, TwiceNat: a.twice})
	}
	return found, nil
}
