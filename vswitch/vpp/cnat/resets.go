package cnat

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/netlink/sockets"
	"github.com/contiv/contiv/vswitch/vpp/hostdev"
	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/subsystem"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
)

// Nothing in VPP sends a reset. A connection of TCP that has to leave its backend is ended by the kernel that has its socket: that of
// the client, if it is a pod of this node or a process of the host, else that of the backend. Its reset passes VPP to the other
// end, and makes VPP forget the session in 5 s:
//
//	session ──> client 10.1.1.2:40000 to 10.96.0.10:80   ──> network namespace with 10.1.1.2 ──> SOCK_DESTROY
//	       └──> backend 10.1.1.3:8080 to its client       ──> network namespace with 10.1.1.3 ──┘
//
// Addresses and ports of a socket are exactly those of the session, and its namespace is one that the source belongs to: what pods send or
// have in their namespaces ends no connection of others.

// Namespaces calls do with each network namespace of a pod that is to have an address. One that is gone is no error.
type Namespaces func(addr netip.Addr, do func(ns netns.NsHandle) error) error

// noteSources adds what backends see as the source of connections, which the session of answers says: the one with the
// backend's address that leads to the client. VPP does not say of which service that is, so none is added if the client has several.
func noteSources(list []lost, sessions []*cnat.CnatSessionDetails) {
	type answer struct{ backend, client netip.AddrPort }
	seen := map[answer][]netip.AddrPort{}
	for _, d := range sessions {
		if s := d.Session; s.IPProto == ip_types.IP_API_PROTO_TCP {
			a := answer{addrPortOf(s.Src), addrPortOf(s.New)}
			seen[a] = append(seen[a], addrPortOf(s.Dst))
		}
	}
	for i, l := range list {
		if sources := seen[answer{l.backend, l.From}]; l.TCP && len(sources) == 1 {
			list[i].source = sources[0]
		}
	}
}

// reset ends connections of TCP. It returns the flows that have to be silent: those of UDP, and connections that were ended, but not by
// the client's socket just now, whose reset has to pass VPP. Also, how many were ended now: a connection that comes before its
// flow is silent ends, too, but one that is silent waits for VPP to forget the session.
func (v *Translations) reset(w *waiting, list []lost) (silent []lost, now int, err error) {
	before := w.ended
	w.ended = map[subsystem.Flow]bool{}
	going := slices.DeleteFunc(slices.Clone(list), func(l lost) bool { return !l.TCP })
	byClient, err := v.endSockets(going, before, lost.ofClient)
	going = slices.DeleteFunc(going, func(l lost) bool { return byClient[l.Flow] })
	byBackend, err2 := v.endSockets(going, before, lost.ofBackend)
	for _, l := range list {
		w.ended[l.Flow] = byClient[l.Flow] || byBackend[l.Flow] || before[l.Flow]
		if !l.TCP || w.ended[l.Flow] && !byClient[l.Flow] {
			silent = append(silent, l)
		}
	}
	if now = len(byClient) + len(byBackend); now > 0 {
		v.log.Info("Connections to endpoints that are gone were reset", "connections", now)
	}
	err = errors.Join(err, err2)
	if errors.Is(err, sockets.ErrUnsupported) {
		v.notes.noResets.Do(func() {
			v.log.Warn("Connections to endpoints that are gone are not reset", "reason", sockets.ErrUnsupported)
		})
		err = nil
	}
	return silent, now, session.Wrap("resetting connections", err)
}

// ofClient and ofBackend are the connection as the sockets at its ends know it.
func (l lost) ofClient() sockets.Connection { return sockets.Connection{Local: l.From, Remote: l.To} }
func (l lost) ofBackend() sockets.Connection {
	return sockets.Connection{Local: l.backend, Remote: l.source}
}

// endSockets ends connections by the sockets of one of their ends, which it looks for on this node where the addresses are, and returns
// the flows that ended. Connections that are being opened end unless they were ended before.
func (v *Translations) endSockets(list []lost, before map[subsystem.Flow]bool, end func(lost) sockets.Connection) (map[subsystem.Flow]bool, error) {
	ended := map[subsystem.Flow]bool{}
	wanted, flows := map[netip.Addr]map[sockets.Connection]bool{}, map[sockets.Connection]subsystem.Flow{}
	for _, l := range list {
		c := end(l)
		if !c.Remote.IsValid() {
			continue
		}
		addr := c.Local.Addr()
		if wanted[addr] == nil {
			wanted[addr] = map[sockets.Connection]bool{}
		}
		wanted[addr][c], flows[c] = !before[l.Flow], l.Flow
	}
	if len(wanted) == 0 {
		return ended, nil
	}
	host, own, err := v.hostAddresses()
	if err != nil {
		return ended, err
	}
	defer host.Close()
	var errs []error
	for addr, connections := range wanted {
		destroy := func(ns netns.NsHandle) error {
			list, err := sockets.Destroy(ns, connections)
			for _, c := range list {
				ended[flows[c]] = true
			}
			return err
		}
		switch {
		case own[addr]:
			errs = append(errs, destroy(host.NS()))
		case v.namespaces != nil:
			errs = append(errs, v.namespaces(addr, destroy))
		}
	}
	return ended, errors.Join(errs...)
}

// hostAddresses are those of the host, whose namespace the caller closes.
func (v *Translations) hostAddresses() (*hostdev.Namespace, map[netip.Addr]bool, error) {
	h, err := hostdev.Of(v.vpp)
	if err != nil || h == nil {
		return nil, nil, err
	}
	own, err := addressesOf(h, netlink.FAMILY_ALL)
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	return h, own, nil
}
