package cnat

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch/vpp/convert"
	"github.com/contiv/contiv/vswitch/vpp/session"
	"github.com/contiv/contiv/vswitch/vpp/subsystem"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/ip_types"
)

// A packet that belongs to a session goes where the session says, and makes the session live longer. So a
// flow of UDP that never pauses would go to an endpoint that its service has no longer, for ever: VPP has
// no request that ends one session. Such a flow is therefore silenced until VPP has forgotten its session:
//
//	a backend leaves a translation,   ──> sessions of UDP to backends that their translations do not have
//	or an address gets a new one          │ pods, outside, host    ▲
//	                                      ▼                        │ until there are none
//	   Guards, interfaces outside or the host drop their packets ──┘
//
// Its next packet gets a session to a backend that there is. Nothing is remembered: an agent that starts
// finds the flows, too. Connections of TCP go on, unless they are to be reset (resets.go): then they are silent from when their end has
// passed VPP, so that the next connection from the same port comes to a backend that there is.

// Guards know where pods enter VPP.
type Guards interface {
	// Silence makes these the flows whose packets are dropped before they are translated, as far as it can, and
	// returns how many they are.
	Silence(ctx context.Context, flows []subsystem.Flow) (int, error)
}

const (
	// settle is how long endpoints may change before VPP is asked for sessions, and how long it has peace afterwards: a
	// flow whose session has ended meanwhile is silent for so long in vain.
	settle = time.Second
	// VPP forwards nothing while it lists its sessions, which takes 3 µs for each connection: with this, a hundredth of
	// its time. Where it has more than maxListed, flows are not moved.
	peace     = 300 * time.Microsecond
	maxListed = 20_000
	// retry is after errors.
	retry = 30 * time.Second
	// patience is how long flows are silent while none of them moves: what the endpoint sends makes the session live longer,
	// too, and a server need not wait for its clients.
	patience = 5 * time.Minute

	// Where a session translates.
	atFeature, atFIB = 0, 0xff
)

// backendsLeft notes that flows may go to backends that their service has no longer.
func (v *Translations) backendsLeft() {
	select {
	case v.notes.left <- struct{}{}:
	default:
	}
}

// losesFlows reports whether flows may go to a backend that they have to leave after a change: to one that it takes away, or to one
// of an earlier translation of the same address.
func (c changed) losesFlows() bool {
	if c.after == nil || !c.after.movesFlows(c.key.proto) {
		return false
	}
	return c.before == nil || slices.ContainsFunc(c.before.backends, func(b netip.AddrPort) bool { return !slices.Contains(c.after.backends, b) })
}

// movesFlows reports whether flows of a protocol leave backends that the translation has not.
func (t *translation) movesFlows(proto ip_types.IPProto) bool {
	return proto == ip_types.IP_API_PROTO_UDP || proto == ip_types.IP_API_PROTO_TCP && t.reset
}

// Follow moves flows of UDP whose backend leaves, and resets connections of TCP, until ctx ends.
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
	for wait := settle; session.Sleep(ctx, wait) == nil; {
		n, connections, err := v.silenceFlows(ctx, &w)
		wait = max(settle, time.Duration(connections)*peace)
		switch _, gone := v.vpp.Link(); {
		case gone != nil: // or not there yet: this may be what Opened asked for
			wait = settle
		case errors.Is(err, kvscheduler.ErrUnsupported):
			return
		case err != nil:
			v.log.Warn("Some UDP flows and connections to endpoints that are gone cannot be moved or reset yet", "error", err)
			wait = retry
		case n == 0:
			return
		}
	}
}

// waiting knows which flows have to move, since when none has, and which of them are connections that were ended.
type waiting struct {
	flows map[subsystem.Flow]bool
	since time.Time
	ended map[subsystem.Flow]bool
}

// tooLong notes which flows have to move now, and reports whether none of them is going to.
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
	return len(flows) > 0 && now.Sub(w.since) > patience
}

// silenceFlows silences the flows that have to move, and no others; it returns how many, and how many connections VPP has.
func (v *Translations) silenceFlows(ctx context.Context, w *waiting) (n int, connections uint64, err error) {
	if connections, err = v.Sessions(ctx); err != nil {
		return 0, 0, err
	}
	var inside, outside []subsystem.Flow
	var ended int
	var notEnded error
	if connections > maxListed {
		v.log.Warn("UDP flows and connections to endpoints that are gone are not moved or reset: VPP has too many connections to list them", "connections", connections, "at most", maxListed)
	} else if connections > 0 {
		all, err := v.lostFlows(ctx)
		if err != nil {
			return 0, connections, err
		}
		all, ended, notEnded = v.reset(w, all)
		if w.tooLong(all, time.Now()) {
			v.log.Warn("UDP flows stay with endpoints that are gone, which go on sending to the clients", "flows", len(all), "silent", patience)
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

// lost is a flow to a backend that its translation does not have.
type lost struct {
	subsystem.Flow
	outside bool           // the FIB translates it, not the features
	backend netip.AddrPort // where it goes
	source  netip.AddrPort // what the backend sees as its source, if that is known
}

// lostFlows are those that have to leave their backends. Sessions are read first: what they were made from may have changed
// since, but what they are compared with is newer.
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
