package cnat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/internal/vswitch/vpp/subsystem"
	"github.com/contiv/contiv/kvscheduler"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
)

// Packets follow their session's backend and extend the session's lifetime. So a UDP flow without
// pauses would forever go to an endpoint that has left its service, because VPP cannot delete a
// single session. Such a flow is silenced until VPP has forgotten its session:
//
//	a backend leaves a translation,   ──> sessions of UDP to backends that their translations do not have
//	or an address gets a new one          │ pods, outside, host    ▲
//	                                      ▼                        │ until there are none
//	   Guards, interfaces outside or the host drop their packets ──┘
//
// Its next packet gets a session to an existing backend. No state is kept: a restarted agent finds
// the flows too. TCP connections continue unless they are to be reset (resets.go). Those are
// silenced after their end has passed VPP, so that the next connection from the same port gets an
// existing backend.

// Guards know where pods enter VPP.
type Guards interface {
	// Silence sets the flows whose packets are dropped before translation, as many as possible, and
	// returns their number.
	Silence(ctx context.Context, flows []subsystem.Flow) (int, error)
	// SetNetwork sets the interfaces by which no packet of a pod comes, the networks of this node's
	// pods, and those whose packets come by tunnels.
	SetNetwork(ctx context.Context, uplinks []string, inside, overlay []netip.Prefix) error
}

const (
	// moveDelay is how long endpoints may change before VPP's sessions are listed, and the pause
	// afterwards. A flow whose session ends in that time stays silenced until then.
	moveDelay = time.Second
	// VPP forwards nothing while it lists sessions, which takes 3 µs per connection. listPause
	// limits that to a hundredth of its time. With more than maxListed connections, flows are not
	// moved.
	listPause = 300 * time.Microsecond
	maxListed = 20_000
	// retry is after errors.
	retry = 30 * time.Second
	// maxSilence is how long flows are silenced while none of them moves, because the endpoint's
	// packets also extend the session, and a server need not wait for its clients.
	maxSilence = 5 * time.Minute

	// Where a session translates.
	atFeature, atFIB = 0, 0xff
)

// backendsLeft records that flows may go to backends that have left their service.
func (v *Translations) backendsLeft() {
	select {
	case v.notes.left <- struct{}{}:
	default:
	}
}

// losesFlows reports whether a change may leave flows at a removed backend, or at one of an earlier
// translation of the same address.
func (c changed) losesFlows() bool {
	if c.after == nil || !c.after.movesFlows(c.key.proto) {
		return false
	}
	return c.before == nil || slices.ContainsFunc(c.before.backends, func(b netip.AddrPort) bool { return !slices.Contains(c.after.backends, b) })
}

// movesFlows reports whether flows of a protocol leave backends that the translation lacks.
func (t *translation) movesFlows(proto ip_types.IPProto) bool {
	return proto == ip_types.IP_API_PROTO_UDP || proto == ip_types.IP_API_PROTO_TCP && t.reset
}

// Follow moves UDP flows whose backend has left, and resets TCP connections, until ctx ends.
func (v *Translations) Follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-v.notes.left:
			v.moveFlows(ctx)
		}
	}
}

func (v *Translations) moveFlows(ctx context.Context) {
	var w waiting
	for wait := moveDelay; session.Sleep(ctx, wait) == nil; {
		n, connections, err := v.silenceFlows(ctx, &w)
		wait = max(moveDelay, time.Duration(connections)*listPause)
		switch _, gone := v.vpp.Link(); {
		case gone != nil: // or not yet there: Opened may have requested it
			wait = moveDelay
		case errors.Is(err, kvscheduler.ErrUnsupported):
			return
		case err != nil:
			v.log.Warn("Moving UDP flows and resetting connections of removed endpoints failed, retrying", "error", err)
			wait = retry
		case n == 0:
			return
		}
	}
}

// waiting records the flows to move, the time of the last move, and which are ended connections.
type waiting struct {
	flows map[subsystem.Flow]bool
	since time.Time
	ended map[subsystem.Flow]bool
}

// tooLong updates the flows to move and reports whether to give up on them.
func (w *waiting) tooLong(flows []lost, now time.Time) bool {
	before := w.flows
	w.flows = map[subsystem.Flow]bool{}
	for _, f := range flows {
		w.flows[f.Flow] = true
	}
	moved := before == nil
	for f := range before {
		moved = moved || !w.flows[f]
	}
	if moved {
		w.since = now
	}
	return len(flows) > 0 && now.Sub(w.since) > maxSilence
}

// silenceFlows silences exactly the flows to move. It returns their number and the number of VPP's
// connections.
func (v *Translations) silenceFlows(ctx context.Context, w *waiting) (n int, connections uint64, err error) {
	if connections, err = v.Sessions(ctx); err != nil {
		return 0, 0, err
	}
	var inside, outside []subsystem.Flow
	var ended int
	var notEnded error
	if connections > maxListed {
		v.log.Warn("Too many connections in VPP to move UDP flows and reset connections of removed endpoints", "connections", connections, "at most", maxListed)
	} else if connections > 0 {
		all, err := v.lostFlows(ctx)
		if err != nil {
			return 0, connections, err
		}
		all, ended, notEnded = v.reset(w, all)
		if w.tooLong(all, time.Now()) {
			v.log.Warn("UDP flows stay with removed endpoints that still send to clients", "flows", len(all), "silent", maxSilence)
			all = nil
		}
		for _, f := range all {
			if f.outside {
				outside = append(outside, f.Flow)
			} else {
				inside = append(inside, f.Flow)
			}
		}
	}
	pods, err := v.guards.Silence(ctx, inside)
	outsiders, err2 := v.silenceOutside(ctx, outside)
	ofHost, err3 := v.silenceHost(inside)
	return pods + outsiders + ofHost + ended, connections, errors.Join(notEnded, err, err2, err3)
}

// lost is a flow to a backend that its translation lacks.
type lost struct {
	subsystem.Flow
	outside bool           // translated by the FIB, not by the features
	backend netip.AddrPort // where it goes
	source  netip.AddrPort // the source seen by the backend, if known
}

// lostFlows returns the flows that must leave their backends. Sessions are read before the
// translations that they are compared with, so that no new session looks lost.
func (v *Translations) lostFlows(ctx context.Context) (list []lost, err error) {
	sessions, err := session.Dump[cnat.CnatSessionDetails](ctx, v.vpp, module, &cnat.CnatSessionDump{})
	if err != nil {
		return nil, fmt.Errorf("listing connections: %w", err)
	}
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	var now [2]*known
	for _, f := range []family{v4, v6} {
		if now[f], err = v.know(ctx, f); err != nil {
			return nil, err
		}
	}
	for _, d := range sessions {
		s := d.Session
		to, backend := addrPortOf(s.Dst), addrPortOf(s.New)
		t := now[familyOf(to.Addr())].all[natKey{to, s.IPProto}]
		if t == nil || !t.ours || !t.movesFlows(s.IPProto) || slices.Contains(t.backends, backend) || s.Location != atFeature && s.Location != atFIB {
			continue
		}
		list = append(list, lost{
			Flow:    subsystem.Flow{From: addrPortOf(s.Src), To: to, TCP: s.IPProto == ip_types.IP_API_PROTO_TCP},
			outside: s.Location == atFIB, backend: backend,
		})
	}
	noteSources(list, sessions)
	return list, nil
}

func addrPortOf(e cnat.CnatEndpoint) netip.AddrPort {
	return netip.AddrPortFrom(convert.Addr(e.Addr), e.Port)
}
