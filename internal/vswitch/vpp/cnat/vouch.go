package cnat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/kvscheduler"

	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/urpf"
)

// If VPP and the host share an address, VPP drops its own ICMP messages to the host as spoofed:
// packets to an address of VPP must not come from another one (ip4_local_check_src). VPP looks up
// the source in the FIB, where a translation precedes VPP's own entry:
//
//	ICMP from 172.30.1.1 ──> 172.30.1.1 in the FIB: VPP itself          ──> dropped
//	                         172.30.1.1 in the FIB: cnat, and then VPP  ──> received
//
// So the source gets a record (see translation) of port 0 without marks, which translates nothing.
// The source's FIB entry must also pass the reverse path check, which the command "set urpf-accept"
// allows. It takes effect when the translation is created.

// AcceptOwn makes VPP receive packets from its own IPv4 address at another of its addresses, or
// stops that.
func (v *Translations) AcceptOwn(ctx context.Context, addr netip.Addr, on bool) error {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	k, err := v.know(ctx, v4)
	if errors.Is(err, kvscheduler.ErrUnsupported) { // without cnat, VPP refuses nothing for services either
		return nil
	}
	if err != nil {
		return err
	}
	at := netip.AddrPortFrom(addr, 0)
	id, there := k.records[at]
	switch {
	case there == on:
		return nil
	case !on:
		delete(k.records, at)
		err := v.vpp.Call(ctx, module, &cnat.CnatTranslationDel{ID: id}, &cnat.CnatTranslationDelReply{})
		return session.Wrap(fmt.Sprintf("no longer vouching for %s", addr), errors.Join(err, v.acceptReverse(ctx, "del", addr)))
	}
	if err := v.acceptReverse(ctx, "add", addr); err != nil {
		return fmt.Errorf("vouching for %s: %w", addr, err)
	}
	reply := &cnat.CnatTranslationUpdateReply{}
	req := &cnat.CnatTranslationUpdate{Translation: cnat.CnatTranslation{Vip: endpoint(at), IPProto: recordProto, IsRealIP: 1, Paths: []cnat.CnatEndpointTuple{nowhere(v4)}}}
	if err := v.vpp.Call(ctx, module, req, reply); err != nil {
		return fmt.Errorf("vouching for %s: %w", addr, err)
	}
	k.records[at] = reply.ID
	return nil
}

// urpfModule provides the command "set urpf-accept".
var urpfModule = session.NewModule("urpf_plugin.so", "services and DNat66", &urpf.UrpfUpdate{}, &urpf.UrpfUpdateReply{})

// acceptReverse exempts the addresses from the reverse path check, or with "del" ends that. VPP
// counts references.
func (v *Translations) acceptReverse(ctx context.Context, what string, addrs ...netip.Addr) error {
	if len(addrs) == 0 {
		return nil
	}
	if _, err := v.vpp.Use(urpfModule); err != nil {
		return err
	}
	for part := range slices.Chunk(addrs, 256) {
		var commands strings.Builder
		for _, addr := range part {
			fmt.Fprintf(&commands, "set urpf-accept %s %s\n", what, netip.PrefixFrom(addr, addr.BitLen()))
		}
		if _, err := v.vpp.CLI(ctx, commands.String()); err != nil {
			return fmt.Errorf("the check of the reverse path: %w", err)
		}
	}
	return nil
}

// AcceptsOwn reports whether AcceptOwn is in effect for an address.
func (v *Translations) AcceptsOwn(ctx context.Context, addr netip.Addr) (bool, error) {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	k, err := v.know(ctx, v4)
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	_, there := k.records[netip.AddrPortFrom(addr, 0)]
	return there, nil
}
