package cnat

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/netlink/sockets"
	"github.com/contiv/contiv/internal/vswitch/vpp/hostdev"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
)

// VPP cannot send resets. A TCP connection that has to leave its backend is ended by the kernel
// with its socket: the client's, if it is a local pod or host process, or else the backend's. The
// reset passes VPP to the other end, and VPP then forgets the session in 5 s:
//
//	session ──> client 10.1.1.2:40000 to 10.96.0.10:80   ──> network namespace with 10.1.1.2 ──> SOCK_DESTROY
//	       └──> backend 10.1.1.3:8080 to its client       ──> network namespace with 10.1.1.3 ──┘
//
// The socket's addresses and ports must equal the session's, and its namespace must own the source.
// So a pod cannot end others' connections with spoofed packets or addresses in its namespace.

// Namespaces calls do with each pod network namespace that should have an address. It ignores one
// that is gone.
type Namespaces func(addr netip.Addr, do func(ns netns.NsHandle) error) error

// noteSources adds the sources that backends see, from the reply session with the backend's address
// that leads to the client. VPP does not record the service, so nothing is added if the client has
// several.
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

// reset ends TCP connections. It returns the flows that must be silenced: UDP flows, and ended
// connections except those just ended by the client's socket, whose reset must pass VPP. It also
// returns how many were ended. A connection that opens before its flow is silenced is ended too,
// but a silenced one waits until VPP forgets the session.
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
		v.log.Info("Reset connections to removed endpoints", "connections", now)
	}
	err = errors.Join(err, err2)
	if errors.Is(err, sockets.ErrUnsupported) {
		v.notes.noResets.Do(func() {
			v.log.Warn("Connections to removed endpoints are not reset", "reason", sockets.ErrUnsupported)
		})
		err = nil
	}
	return silent, now, session.Wrap("resetting connections", err)
}

// ofClient and ofBackend return the connection as seen by the sockets at its ends.
func (l lost) ofClient() sockets.Connection { return sockets.Connection{Local: l.From, Remote: l.To} }
func (l lost) ofBackend() sockets.Connection {
	return sockets.Connection{Local: l.backend, Remote: l.source}
}

// endSockets ends connections by the socket of one end, on this node, and returns the ended flows.
// Connections that are opening end unless they were ended before.
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

// hostAddresses returns the host's addresses and namespace, which the caller closes.
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
