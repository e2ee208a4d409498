package rtnl

import (
	"encoding/binary"
	"net/netip"

	"github.com/contiv/contiv/internal/netlink/nlattr"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Rule is a policy rule (`ip rule`). The netlink package does not read the action.
type Rule struct {
	Family int
	// Pref is the priority: the lowest is evaluated first.
	Pref   uint32
	Action uint8 // FR_ACT_…
	Table  uint32
	Target uint32 // of a goto
	Mark   uint32
	Mask   uint32
	Iif    string
	Oif    string
	Src    netip.Prefix
	Dst    netip.Prefix
	Proto  uint8
	// L3mdev: the table is the one of the packet's VRF device
	L3mdev bool
	// Odd: it has a selector or property that this type does not support
	Odd bool
}

const sizeofRuleHeader = 12

// fraL3mdev is FRA_L3MDEV.
const fraL3mdev = 19

func (r *Conn) AddRule(rule Rule) error {
	return r.changeRule(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, rule)
}

func (r *Conn) DelRule(rule Rule) error { return r.changeRule(unix.RTM_DELRULE, 0, rule) }

func (r *Conn) changeRule(typ, flags int, rule Rule) error {
	req := r.Request(typ, flags)
	msg := &nl.RtMsg{}
	msg.Family, msg.Type = uint8(rule.Family), rule.Action
	if rule.Src.IsValid() {
		msg.Src_len = uint8(rule.Src.Bits())
	}
	if rule.Dst.IsValid() {
		msg.Dst_len = uint8(rule.Dst.Bits())
	}
	req.AddData(msg)
	number := func(attr int, n uint32) { req.AddData(nl.NewRtAttr(attr, nl.Uint32Attr(n))) }
	number(nl.FRA_PRIORITY, rule.Pref)
	if rule.Table != 0 {
		number(nl.FRA_TABLE, rule.Table)
	}
	if rule.Target != 0 {
		number(nl.FRA_GOTO, rule.Target)
	}
	if rule.Mark != 0 {
		number(nl.FRA_FWMARK, rule.Mark)
		number(nl.FRA_FWMASK, rule.Mask)
	}
	if rule.Iif != "" {
		req.AddData(nl.NewRtAttr(nl.FRA_IIFNAME, nl.ZeroTerminated(rule.Iif)))
	}
	if rule.Oif != "" {
		req.AddData(nl.NewRtAttr(nl.FRA_OIFNAME, nl.ZeroTerminated(rule.Oif)))
	}
	if rule.Src.IsValid() && rule.Src.Bits() > 0 {
		req.AddData(nl.NewRtAttr(nl.FRA_SRC, rule.Src.Addr().AsSlice()))
	}
	if rule.Dst.IsValid() && rule.Dst.Bits() > 0 {
		req.AddData(nl.NewRtAttr(nl.FRA_DST, rule.Dst.Addr().AsSlice()))
	}
	if rule.L3mdev {
		req.AddData(nl.NewRtAttr(fraL3mdev, []byte{1}))
	}
	req.AddData(nl.NewRtAttr(nl.FRA_PROTOCOL, []byte{rule.Proto}))
	return r.Do(req)
}

// Rules returns all rules of a family, in order.
func (r *Conn) Rules(family int) ([]Rule, error) {
	return Dump(func() ([]Rule, error) {
		req := r.Request(unix.RTM_GETRULE, unix.NLM_F_DUMP)
		msg := &nl.RtMsg{}
		msg.Family = uint8(family)
		req.AddData(msg)
		msgs, err := r.Execute(req, unix.RTM_NEWRULE)
		var list []Rule
		for _, m := range msgs {
			if rule, ok := ParseRule(m); ok {
				list = append(list, rule)
			}
		}
		return list, err
	})
}

func ParseRule(m []byte) (r Rule, ok bool) {
	if len(m) < sizeofRuleHeader {
		return r, false
	}
	const invert = 2 // FIB_RULE_INVERT
	r.Family, r.Action = int(m[0]), m[7]
	r.Odd = m[3] != 0 || binary.NativeEndian.Uint32(m[8:12])&invert != 0
	for attr, value := range nlattr.All(m[sizeofRuleHeader:]) {
		number := func() uint32 { return binary.NativeEndian.Uint32(value) }
		switch attr {
		case nl.FRA_PRIORITY:
			r.Pref = number()
		case nl.FRA_TABLE:
			r.Table = number()
		case nl.FRA_GOTO:
			r.Target = number()
		case nl.FRA_FWMARK:
			r.Mark = number()
		case nl.FRA_FWMASK:
			r.Mask = number()
		case nl.FRA_IIFNAME:
			r.Iif = unix.ByteSliceToString(value)
		case nl.FRA_OIFNAME:
			r.Oif = unix.ByteSliceToString(value)
		case nl.FRA_SRC:
			if addr, ok := netip.AddrFromSlice(value); ok {
				r.Src = netip.PrefixFrom(addr, int(m[2]))
			}
		case nl.FRA_DST:
			if addr, ok := netip.AddrFromSlice(value); ok {
				r.Dst = netip.PrefixFrom(addr, int(m[1]))
			}
		case nl.FRA_PROTOCOL:
			r.Proto = value[0]
		case fraL3mdev:
			r.L3mdev = len(value) > 0 && value[0] != 0
		case nl.FRA_SUPPRESS_PREFIXLEN:
			r.Odd = r.Odd || number() != ^uint32(0)
		default:
			r.Odd = true
		}
	}
	return r, true
}
