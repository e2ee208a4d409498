package kernel

import (
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rule is a policy rule (`ip rule`). The netlink package does not tell the action of
// those that it reads.
type rule struct {
	family int
	// pref is its preference: the lowest is asked first.
	pref   uint32
	action uint8 // FR_ACT_…
	table  uint32
	target uint32 // of a goto
	mark   uint32 // with the mask vrfMarkMask
	iif    string
	oif    string
	dst    netip.Prefix
	proto  uint8
	// odd: it has a selector that ours never have.
	odd bool
}

const sizeofRuleHeader = 12

func (r *rtnl) addRule(rule rule) error {
	return r.changeRule(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, rule)
}

func (r *rtnl) delRule(rule rule) error { return r.changeRule(unix.RTM_DELRULE, 0, rule) }

func (r *rtnl) changeRule(typ, flags int, rule rule) error {
	req := r.request(typ, flags)
	msg := &nl.RtMsg{}
	msg.Family, msg.Type = uint8(rule.family), rule.action
	if rule.dst.IsValid() {
		msg.Dst_len = uint8(rule.dst.Bits())
	}
	req.AddData(msg)
	number := func(attr int, n uint32) { req.AddData(nl.NewRtAttr(attr, nl.Uint32Attr(n))) }
	number(nl.FRA_PRIORITY, rule.pref)
	if rule.table != 0 {
		number(nl.FRA_TABLE, rule.table)
	}
	if rule.target != 0 {
		number(nl.FRA_GOTO, rule.target)
	}
	if rule.mark != 0 {
		number(nl.FRA_FWMARK, rule.mark)
		number(nl.FRA_FWMASK, vrfMarkMask)
	}
	if rule.iif != "" {
		req.AddData(nl.NewRtAttr(nl.FRA_IIFNAME, nl.ZeroTerminated(rule.iif)))
	}
	if rule.oif != "" {
		req.AddData(nl.NewRtAttr(nl.FRA_OIFNAME, nl.ZeroTerminated(rule.oif)))
	}
	if rule.dst.IsValid() && rule.dst.Bits() > 0 {
		req.AddData(nl.NewRtAttr(nl.FRA_DST, rule.dst.Addr().AsSlice()))
	}
	req.AddData(nl.NewRtAttr(nl.FRA_PROTOCOL, []byte{rule.proto}))
	return do(req)
}

// rules returns all rules of a family, in their order.
func (r *rtnl) rules(family int) ([]rule, error) {
	return dump(func() ([]rule, error) {
		req := r.request(unix.RTM_GETRULE, unix.NLM_F_DUMP)
		msg := &nl.RtMsg{}
		msg.Family = uint8(family)
		req.AddData(msg)
		msgs, err := req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWRULE)
		var list []rule
		for _, m := range msgs {
			if rule, ok := parseRule(m); ok {
				list = append(list, rule)
			}
		}
		return list, err
	})
}

func parseRule(m []byte) (r rule, ok bool) {
	if len(m) < sizeofRuleHeader {
		return r, false
	}
	const invert = 2 // FIB_RULE_INVERT
	r.family, r.action = int(m[0]), m[7]
	r.odd = m[2] != 0 || m[3] != 0 || binary.NativeEndian.Uint32(m[8:12])&invert != 0
	var mask uint32
	for attr, value := range attributes(m[sizeofRuleHeader:]) {
		number := func() uint32 { return binary.NativeEndian.Uint32(value) }
		switch attr {
		case nl.FRA_PRIORITY:
			r.pref = number()
		case nl.FRA_TABLE:
			r.table = number()
		case nl.FRA_GOTO:
			r.target = number()
		case nl.FRA_FWMARK:
			r.mark = number()
		case nl.FRA_FWMASK:
			mask = number()
		case nl.FRA_IIFNAME:
			r.iif = unix.ByteSliceToString(value)
		case nl.FRA_OIFNAME:
			r.oif = unix.ByteSliceToString(value)
		case nl.FRA_DST:
			if addr, ok := netip.AddrFromSlice(value); ok {
				r.dst = netip.PrefixFrom(addr, int(m[1]))
			}
		case nl.FRA_PROTOCOL:
			r.proto = value[0]
		case nl.FRA_SUPPRESS_PREFIXLEN:
			r.odd = r.odd || number() != ^uint32(0)
		default:
			r.odd = true
		}
	}
	r.odd = r.odd || r.mark != 0 && mask != vrfMarkMask
	return r, true
}
