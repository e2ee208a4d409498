package cnat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch/vpp/session"

	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/urpf"
)

// Where VPP and the host share an address, VPP takes its own ICMP messages to the host for forged: what it receives at an
// address of its own must not come from another one (ip4_local_check_src). Of the source it looks at what the FIB has there,
// and a translation comes before VPP itself:
//
//	ICMP from 172.30.1.1 ──> 172.30.1.1 in the FIB: VPP itself          ──> forged
//	                         172.30.1.1 in the FIB: cnat, and then VPP  ──> received
//
// So there is a record for such a source, see translation, of port 0 and without marks: nothing is translated there. What the FIB
// has for the source must also pass the check of the reverse path, which the command "set urpf-accept" is for. It counts when the
// translation comes.

// Vouch makes VPP receive what it sends from an IPv4 address of its own to another one, or no longer.
func (v *Translations) Vouch(ctx context.Context, addr netip.Addr, on bool) error {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	k, err := v.know(ctx, v4)
	if errors.Is(err, kvscheduler.ErrUnsupported) { // nor would VPP refuse anything in the name of services
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

// urpfModule has the command "set urpf-accept".
var urpfModule = session.NewModule("urpf_plugin.so", "services and DNat66", &urpf.UrpfUpdate{}, &urpf.UrpfUpdateReply{})

// acceptReverse has what comes from these addresses pass the check of the reverse path, or with "del" no longer. VPP counts.
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

// Vouches reports whether VPP receives what it sends from an IPv4 address of its own.
func (v *Translations) Vouches(ctx context.Context, addr netip.Addr) (bool, error) {
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
