package teib

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/teib"
)

var module = session.NewModule("", "ends of multipoint tunnels",
	&teib.TeibEntryAddDel{}, &teib.TeibEntryAddDelReply{}, &teib.TeibDump{}, &teib.TeibDetails{},
)

// Entries are ours if their tunnels are.
type Entries struct {
	subsystem.Base
	vpp *session.Session
	ifs *ownership.Registry
}

func New(vpp *session.Session, ifs *ownership.Registry) *Entries {
	return &Entries{Base: subsystem.Base{Uses: []*session.Module{module}}, vpp: vpp, ifs: ifs}
}

func (v *Entries) entryOf(ctx context.Context, e *vpp_l3.TeibEntry) (entry teib.TeibEntry, err error) {
	if entry.SwIfIndex, err = v.ifs.Index(ctx, e.GetInterface()); err != nil {
		return entry, err
	}
	peer, err := convert.ParseAddr(e.GetPeerAddr())
	if err != nil {
		return entry, err
	}
	nextHop, err := convert.ParseAddr(e.GetNextHopAddr())
	if err != nil {
		return entry, err
	}
	entry.Peer, entry.Nh, entry.NhTableID = convert.Address(peer), convert.Address(nextHop), e.GetVrfId()
	return entry, nil
}

func (v *Entries) set(ctx context.Context, entry teib.TeibEntry, exists bool) error {
	req := &teib.TeibEntryAddDel{Entry: entry}
	if exists {
		req.IsAdd = 1
	}
	return v.vpp.Call(ctx, module, req, &teib.TeibEntryAddDelReply{})
}

func (v *Entries) Create(ctx context.Context, e *vpp_l3.TeibEntry) error {
	entry, err := v.entryOf(ctx, e)
	if err == nil {
		err = v.add(ctx, entry)
	}
	if err != nil {
		return fmt.Errorf("noting where peer %s of tunnel %q is: %w", e.GetPeerAddr(), e.GetInterface(), err)
	}
	return nil
}

// add replaces the peer's entry if its address differs.
func (v *Entries) add(ctx context.Context, entry teib.TeibEntry) error {
	err := v.set(ctx, entry, true)
	if !vppapi.Refused(err, api.ENTRY_ALREADY_EXISTS) {
		return err
	}
	all, err := session.Dump[teib.TeibDetails](ctx, v.vpp, module, &teib.TeibDump{})
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Entry == entry {
			return nil
		}
	}
	if err := v.set(ctx, entry, false); err != nil {
		return err
	}
	return v.set(ctx, entry, true)
}

func (v *Entries) Delete(ctx context.Context, e *vpp_l3.TeibEntry) error {
	entry, err := v.entryOf(ctx, e)
	if err == nil {
		err = v.set(ctx, entry, false)
	}
	if err != nil && !ownership.IsNoInterface(err) && !vppapi.Refused(err, api.NO_SUCH_ENTRY, api.INVALID_SW_IF_INDEX) {
		return fmt.Errorf("forgetting where peer %s of tunnel %q is: %w", e.GetPeerAddr(), e.GetInterface(), err)
	}
	return nil
}

func (v *Entries) List(ctx context.Context, expected []*vpp_l3.TeibEntry) ([]*vpp_l3.TeibEntry, error) {
	all, err := session.Dump[teib.TeibDetails](ctx, v.vpp, module, &teib.TeibDump{})
	if err != nil {
		return nil, fmt.Errorf("listing ends of multipoint tunnels: %w", err)
	}
	type peer struct {
		iface string
		addr  netip.Addr
	}
	texts := map[peer]string{}
	for _, e := range expected {
		if addr, err := convert.ParseAddr(e.GetPeerAddr()); err == nil {
			texts[peer{e.GetInterface(), addr}] = e.GetPeerAddr()
		}
	}
	var list []*vpp_l3.TeibEntry
	for _, d := range all {
		name, err := v.ifs.Name(ctx, d.Entry.SwIfIndex)
		if err != nil {
			return nil, fmt.Errorf("listing ends of multipoint tunnels: %w", err)
		}
		if name == "" {
			continue
		}
		addr := convert.Addr(d.Entry.Peer)
		e := &vpp_l3.TeibEntry{Interface: name, PeerAddr: addr.String(), NextHopAddr: convert.Addr(d.Entry.Nh).String(), VrfId: d.Entry.NhTableID}
		if text := texts[peer{name, addr}]; text != "" {
			e.PeerAddr = text
		}
		list = append(list, e)
	}
	return list, nil
}
