package kernel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Watch:
//
//	rtnetlink ─┐ notice (watch_route.go): which values does the event concern?
//	           ├──────────────────────────> collect ──quiet for a moment──> report
//	nftables ──┘
//
// An event that can also be an echo of what the driver did itself is a suspicion;
// the kernel is asked when things are quiet, and only what is wrong then is
// reported. When events are lost, everything is reported.

// coalesce is how long changes are collected before they are reported.
const coalesce = 30 * time.Millisecond

// receiveBuffer holds the events of a burst, such as a node with hundreds of pods
// being cleared.
const receiveBuffer = 8 << 20

// notice is what an event tells.
type notice struct {
	reason string
	keys   []string

	// Suspicions, to be checked later:
	link       int    // device by index
	addresses  int    // of the device by index
	ports      bool   // bridge ports
	generation uint32 // of the nftables ruleset
	external   string // interface whose addresses NAT may stand for
	rules      bool   // policy rules
	confine    int    // device by index whose addresses the kernel may have given to VRF 0
}

func (v *VSwitch) Watch(ctx context.Context, report func(reason string, keys ...string)) error {
	route, err := v.subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_NEIGH, unix.RTNLGRP_TC,
		unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return fmt.Errorf("subscribing to netlink events: %w", err)
	}
	nft, err := v.subscribe(unix.NETLINK_NETFILTER, nfnlGroupNFTables)
	if err != nil {
		route.Close()
		return fmt.Errorf("subscribing to nftables events: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	notices := make(chan notice, 64)
	send := func(n notice) {
		select {
		case notices <- n:
		case <-ctx.Done():
		}
	}
	v.watchers.Go(func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-v.closing:
		}
		route.Close()
		nft.Close()
	})
	v.watchers.Go(func() { v.receive(ctx, route, send, v.noticeRoute) })
	v.watchers.Go(func() { v.receive(ctx, nft, send, (&nftEvents{}).notice) })
	v.watchers.Go(func() { v.collect(ctx, notices, report) })
	return nil
}

func (v *VSwitch) subscribe(protocol int, groups ...uint) (*nl.NetlinkSocket, error) {
	s, err := nl.SubscribeAt(v.ns.handle, netns.None(), protocol, groups...)
	if err != nil {
		return nil, err
	}
	// With less, events may be lost; that is handled.
	if err := s.SetReceiveBufferSize(v.receiveBuffer, true); err != nil {
		_ = s.SetReceiveBufferSize(v.receiveBuffer, false)
	}
	return s, nil
}

// receive ends when the socket is closed.
func (v *VSwitch) receive(ctx context.Context, s *nl.NetlinkSocket, send func(notice), decode func(syscall.NetlinkMessage, func(notice))) {
	for {
		msgs, from, err := s.Receive()
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, unix.ENOBUFS):
			send(notice{reason: "kernel events were lost", keys: v.reg.keys()})
			v.reportAll(ctx)
			continue
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			select {
			case <-v.closing:
			default:
				v.log.Error("watching kernel events ended: changes behind our back will be found by resyncs only", "error", err)
			}
			return
		case from.Pid != nl.PidKernel:
			continue
		}
		for _, m := range msgs {
			decode(m, send)
		}
	}
}

// batch is what has been noticed and not yet reported.
type batch struct {
	reasons     []string
	keys        map[string]struct{}
	links       map[int]struct{}
	addresses   map[int]struct{}
	ports       bool
	generations []uint32
	externals   map[string]struct{}
	rules       bool
	confine     map[int]struct{}
}

func (b *batch) add(n notice) {
	if len(n.keys) > 0 {
		b.report(n.reason, n.keys)
	}
	if n.link != 0 {
		b.links[n.link] = struct{}{}
	}
	if n.addresses != 0 {
		b.addresses[n.addresses] = struct{}{}
	}
	b.ports = b.ports || n.ports
	b.rules = b.rules || n.rules
	if n.confine != 0 {
		b.confine[n.confine] = struct{}{}
	}
	if n.generation != 0 {
		b.generations = append(b.generations, n.generation)
	}
	if n.external != "" {
		b.externals[n.external] = struct{}{}
	}
}

func (b *batch) report(reason string, keys []string) {
	if !slices.Contains(b.reasons, reason) {
		b.reasons = append(b.reasons, reason)
	}
	for _, key := range keys {
		b.keys[key] = struct{}{}
	}
}

// text joins the first reasons.
func (b *batch) text() string {
	const most = 3
	if len(b.reasons) <= most {
		return strings.Join(b.reasons, "; ")
	}
	return fmt.Sprintf("%s; and %d more changes", strings.Join(b.reasons[:most], "; "), len(b.reasons)-most)
}

func newBatch() *batch {
	return &batch{keys: map[string]struct{}{}, links: map[int]struct{}{}, addresses: map[int]struct{}{}, externals: map[string]struct{}{},
		confine: map[int]struct{}{}}
}

func (v *VSwitch) collect(ctx context.Context, notices <-chan notice, report func(reason string, keys ...string)) {
	damp := damper{}
	for {
		b := newBatch()
		select {
		case <-ctx.Done():
			return
		case n := <-notices:
			b.add(n)
		}
		quiet := time.NewTimer(coalesce)
		for collecting := true; collecting; {
			select {
			case <-ctx.Done():
				quiet.Stop()
				return
			case n := <-notices:
				b.add(n)
			case <-quiet.C:
				collecting = false
			}
		}
		v.checkSuspicions(b)
		v.reportDevices(slices.Collect(maps.Keys(b.links))...)
		if len(b.keys) == 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(damp.delay(b.keys, time.Now())):
			report(b.text(), slices.Sorted(maps.Keys(b.keys))...)
		}
	}
}

// damper slows down reports about keys that are reported again and again: what
// cannot be repaired, or what two repair in different ways.
type damper map[string][]time.Time

// Reports of the same keys, and the pause after so many within the period.
const (
	dampAfter  = 5
	dampPeriod = time.Minute
	dampPause  = 5 * time.Second
)

// delay notes a report and returns how long to wait before making it: not at all
// if any of its keys is reported rarely.
func (d damper) delay(keys map[string]struct{}, now time.Time) time.Duration {
	maps.DeleteFunc(d, func(_ string, times []time.Time) bool { return now.Sub(times[len(times)-1]) > dampPeriod })
	pause := dampPause
	for key := range keys {
		recent := slices.DeleteFunc(d[key], func(at time.Time) bool { return now.Sub(at) > dampPeriod })
		if len(recent) < dampAfter {
			pause = 0
		}
		d[key] = append(recent, now)
	}
	return pause
}
