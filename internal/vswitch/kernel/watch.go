package kernel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"

	"github.com/contiv/contiv/internal/netlink/events"
	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/rtnl"

	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"golang.org/x/sys/unix"
)

func (v *VSwitch) Watch(ctx context.Context, report func(reason string, keys ...string)) error {
	route, err := v.subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_NEIGH, unix.RTNLGRP_TC,
		unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE, rtnl.GroupIPv4Netconf, rtnl.GroupIPv6Netconf)
	if err != nil {
		return fmt.Errorf("subscribing to netlink events: %w", err)
	}
	nft, err := v.subscribe(unix.NETLINK_NETFILTER, nft.NfnlGroupNFTables)
	if err != nil {
		route.Close()
		return fmt.Errorf("subscribing to nftables events: %w", err)
	}

	ctx, cancel := context.WithCancel(ctx)
	collector := drift.NewCollector(v.check, report)
	send := func(n drift.Notice) { collector.Send(ctx, n) }
	v.watchers.Go(func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-v.closing:
		}
		route.Close()
		nft.Close()
	})
	v.watchers.Go(func() { v.receive(ctx, route, send, v.notice) })
	v.watchers.Go(func() { v.receive(ctx, nft, send, noticeRuleset()) })
	v.watchers.Go(func() { collector.Run(ctx) })
	return nil
}

func (v *VSwitch) subscribe(protocol int, groups ...uint) (*events.Subscription, error) {
	return events.Subscribe(v.NS.Handle, protocol, events.Options{Groups: groups, Buffer: v.receiveBuffer, Fault: v.eventFault})
}

func (v *VSwitch) receive(ctx context.Context, s *events.Subscription, send func(drift.Notice), decode func(syscall.NetlinkMessage, func(drift.Notice))) {
	for {
		d, err := s.Receive(time.Time{})
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, events.ErrLost):
			send(drift.Notice{Reason: "kernel events were lost", Keys: v.Reg.Keys()})
			v.links.ReportAll(ctx)
			continue
		case err != nil:
			select {
			case <-v.closing:
			default:
				v.Log.Error("Watching kernel events ended; only resyncs detect changes by other programs", "error", err)
			}
			return
		}
		for _, m := range d.Messages {
			decode(m, send)
		}
	}
}

func (v *VSwitch) notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	for _, s := range v.subsystems() {
		s.Notice(m, send)
	}
}

func (v *VSwitch) check(b *drift.Batch) {
	for _, s := range v.subsystems() {
		s.Check(b)
	}
}

func noticeRuleset() func(syscall.NetlinkMessage, func(drift.Notice)) {
	var events nft.Events
	return func(m syscall.NetlinkMessage, send func(drift.Notice)) {
		for _, change := range events.Next(m) {
			if _, name, _ := strings.Cut(change.Table, " "); strings.HasPrefix(name, "contiv") {
				send(drift.Notice{Suspect: change})
			}
		}
	}
}
