package srv6

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/contiv/contiv/internal/netlink/rtnl"

	vpp_srv6 "github.com/contiv/contiv/api/ligato/vpp/srv6"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// srGlobals is the global source of encapsulated packets (`ip sr tunsrc`). A route to it, in a
// table without rules, marks it as ours.
type srGlobals srv6

const srMarkTable = 124000

const (
	seg6GenlName      = "SEG6"
	seg6GenlVersion   = 1
	seg6CmdSetTunsrc  = 3
	seg6CmdGetTunsrc  = 4
	seg6AttrDst       = 1
	genlmsgHeaderSize = 4
)

func (v srGlobals) Create(_ context.Context, g *vpp_srv6.SRv6Global) error {
	v.srMu.Lock()
	defer v.srMu.Unlock()
	if err := v.set(vswitch.EncapSource(g)); err != nil {
		return fmt.Errorf("setting the source of encapsulated packets to %s: %w", vswitch.EncapSource(g), srError(err))
	}
	v.Reg.Put(g)
	return nil
}

func (v srGlobals) set(source netip.Addr) error {
	marks, err := v.ownMarks()
	if err != nil {
		return err
	}
	mark := srRoute{dst: own.HostPrefix(source), table: srMarkTable, metric: own.DefaultMetric6}
	if err := replaceSRRoute(v.Net, mark); err != nil {
		return err
	}
	for _, old := range marks {
		if old.dst != mark.dst {
			if err := rtnl.IgnoreGone(delSRRoute(v.Net, old)); err != nil {
				return err
			}
		}
	}
	return v.setTunnelSource(source)
}

func (v srGlobals) ownMarks() (marks []srRoute, err error) {
	state, err := v.readSR()
	if err != nil {
		return nil, err
	}
	for _, r := range state.routes {
		if r.table == srMarkTable {
			marks = append(marks, r)
		}
	}
	return marks, nil
}

func (v srGlobals) Delete(_ context.Context, g *vpp_srv6.SRv6Global) error {
	err := v.Reg.During(g, func() error {
		v.srMu.Lock()
		defer v.srMu.Unlock()
		marks, err := v.ownMarks()
		if err != nil || len(marks) == 0 {
			return ignoreNoSegments(err)
		}
		if err := v.setTunnelSource(netip.IPv6Unspecified()); err != nil {
			return err
		}
		for _, mark := range marks {
			err = errors.Join(err, rtnl.IgnoreGone(delSRRoute(v.Net, mark)))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("leaving the source of encapsulated packets to the kernel: %w", err)
	}
	return nil
}

func (v srGlobals) List(_ context.Context, expected []*vpp_srv6.SRv6Global) (list []*vpp_srv6.SRv6Global, err error) {
	marks, err := v.ownMarks()
	if err != nil {
		return nil, ignoreNoSegments(err)
	}
	if len(marks) > 0 {
		source, err := v.tunnelSource()
		if err != nil {
			return nil, fmt.Errorf("reading the source of encapsulated packets: %w", err)
		}
		list = append(list, &vpp_srv6.SRv6Global{EncapSourceAddress: source.String()})
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func (v srGlobals) setTunnelSource(source netip.Addr) error {
	_, err := v.seg6(seg6CmdSetTunsrc, unix.NLM_F_ACK, nl.NewRtAttr(seg6AttrDst, source.AsSlice()))
	return err
}

func (v srGlobals) tunnelSource() (source netip.Addr, err error) {
	msgs, err := v.seg6(seg6CmdGetTunsrc, 0)
	for _, m := range msgs {
		for attr, value := range nlattr.All(m[min(genlmsgHeaderSize, len(m)):]) {
			if attr == seg6AttrDst {
				source, _ = netip.AddrFromSlice(value)
			}
		}
	}
	return source, err
}

func (v srGlobals) seg6(command uint8, flags int, attrs ...*nl.RtAttr) ([][]byte, error) {
	h, err := netlink.NewHandleAt(v.NS.Handle, unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	fam, err := h.GenlFamilyGet(seg6GenlName)
	if errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("no generic netlink family %s: %w", seg6GenlName, unix.EOPNOTSUPP)
	}
	if err != nil {
		return nil, err
	}
	s, err := nl.GetNetlinkSocketAt(v.NS.Handle, netns.None(), unix.NETLINK_GENERIC)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	req := &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{Len: unix.SizeofNlMsghdr, Type: fam.ID, Flags: uint16(unix.NLM_F_REQUEST | flags)},
		Sockets:  map[int]*nl.SocketHandle{unix.NETLINK_GENERIC: {Socket: s}},
	}
	req.AddData(&nl.Genlmsg{Command: command, Version: seg6GenlVersion})
	for _, attr := range attrs {
		req.AddData(attr)
	}
	return req.Execute(unix.NETLINK_GENERIC, 0)
}
